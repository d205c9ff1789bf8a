"""What an operator names for a page is offered where it fits; and the mode of a target stands beside its figures."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from specdemo.engine import Engine
from specdemo.errors import SettingsError
from specdemo.events import Finished
from specdemo.live import LiveSource
from specdemo.race import RaceRequest
from specdemo.settings import DecodeSettings
from tests.fakes import CHAT_TEMPLATE, make_target, make_tokenizer
from tests.published import change, write_eagle3

THINKING = CHAT_TEMPLATE + "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"


def request(target: str, drafter: str) -> RaceRequest:
    return RaceRequest(prompt="hello", drafter=drafter, settings=DecodeSettings(max_new_tokens=8), target=target)


def test_the_menu_has_what_fits_and_what_the_operator_named(folder: str, tmp_path: Path) -> None:
    fitting, other = write_eagle3(tmp_path / "fits"), write_eagle3(tmp_path / "other")
    change(other, vocab_size=1000)
    source = LiveSource(folder, offered=(str(fitting), str(other)))
    source.start()
    deadline = time.monotonic() + 280  # a busy machine compiles for minutes
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


def test_the_mode_stands_beside_every_figure() -> None:
    for template, modes in ((THINKING, ["on", "on", "off"]), (CHAT_TEMPLATE, ["", "", ""])):
        engine = Engine(replace(make_target(), tokenizer=make_tokenizer((), template)))
        asked = [replace(request("tiny", "none"), thinking=mode) for mode in (None, True, False)]
        assert [engine.provenance("none", one)["thinking"] for one in asked] == modes
