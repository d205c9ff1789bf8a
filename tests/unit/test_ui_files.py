"""What the page reads of its own files, and what is kept of a visitor on disk."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import gradio as gr
import pytest

from specdemo import traces
from specdemo.export import export
from specdemo.lessons import SHIPPED_TRACES
from specdemo.ui.layout import build_page
from tests.fakes_ui import ScriptedSource, Visit
from tests.unit.test_ui_handlers import finished


def test_a_saved_race_lies_where_gradio_clears_files_away_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "system").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "system"))
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "gradio"))
    handlers, record, _ = finished(ScriptedSource(), tmp_path / "none")
    saved = gr.File()
    path = handlers.save_file(record, Visit())  # type: ignore[arg-type]
    assert saved.move_resource_to_block_cache(path) == path, "Gradio makes no copy of its own"
    assert path in saved.temp_files
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == [Path(path)]


@pytest.mark.parametrize("make", [lambda _: build_page(ScriptedSource()), export], ids=["page", "site"])
def test_every_recorded_race_that_ships_is_read_once(
    make: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, num_read = traces.loads, []
    monkeypatch.setattr(traces, "loads", lambda *text: num_read.append(1) or read(*text))
    make(tmp_path / "site")
    assert len(num_read) == len(list(SHIPPED_TRACES.glob("*.json*"))) > 0
