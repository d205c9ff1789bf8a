"""What is kept of a visitor on disk."""

import tempfile
from pathlib import Path

import gradio as gr
import pytest

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
