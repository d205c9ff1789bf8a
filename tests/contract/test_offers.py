"""The menu of a page whose operator named a target and drafters: what fits, and nothing that a visitor names."""

import time
from pathlib import Path

import pytest

from specdemo.errors import SettingsError
from specdemo.events import Finished
from specdemo.live import LiveSource
from specdemo.race import RaceRequest
from specdemo.settings import DecodeSettings
from tests.published import change, write_eagle3


def request(target: str, drafter: str) -> RaceRequest:
    return RaceRequest(prompt="hello", drafter=drafter, settings=DecodeSettings(max_new_tokens=8), target=target)


def test_the_menu_has_what_fits_and_what_the_operator_named(folder: str, tmp_path: Path) -> None:
    fitting, other = write_eagle3(tmp_path / "fits"), write_eagle3(tmp_path / "other")
    change(other, vocab_size=1000)
    source = LiveSource(folder, (str(fitting), str(other)))
    source.start()
    deadline = time.monotonic() + 120
    while source.status().state not in ("ready", "failed"):
        assert time.monotonic() < deadline, source.status()
        time.sleep(0.05)
    labels = {info.name: info.label for info in source.drafters()}
    assert labels[str(fitting)] == "fits: EAGLE-3"
    assert str(other) not in labels
    updates = list(source.race(request(folder, str(fitting))))
    assert all(update.event.reason != "failed" for update in updates if isinstance(update.event, Finished))
    with pytest.raises(SettingsError, match="the page loads no model that a visitor names"):
        source.check(request(folder, str(other)))
