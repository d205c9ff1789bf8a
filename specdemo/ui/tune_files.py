"""What the tab "Tune" reads and writes: a sweep as its file, its points as a table, and the sweep that ships."""

import gzip
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from specdemo.points import CategoryPoint, points_by_category
from specdemo.sweep_file import dumps, provenance_of, read
from specdemo.sweep_report import rows_csv, sweep_document
from specdemo.ui.head import machine_name
from specdemo.ui.tune_record import TuneRecord

Recorded = tuple[tuple[CategoryPoint, ...], str]
MAX_FILE_BYTES = 50_000_000


def sweep_text(record: TuneRecord) -> str:
    """The file of the sweep that is shown."""
    assert record.request is not None
    return dumps(record.request, record.provenance, record.results)


def open_sweep(text: str, name: str, record: TuneRecord) -> None:
    """Show the sweep of a file. Raises SettingsError, and leaves the record as it was."""
    request, results = read(text, name)
    record.begin(request, provenance_of(text))
    record.results = results


def points_json(record: TuneRecord) -> str:
    """The points, over all prompts and by category, what their figures mean, and where they were measured."""
    return json.dumps(_document(record), ensure_ascii=False, indent=1)


def points_csv(record: TuneRecord) -> str:
    """The points as a table for spreadsheets."""
    return rows_csv(_document(record)["rows"])


def _document(record: TuneRecord) -> dict[str, Any]:
    assert record.request is not None
    return sweep_document(record.request, record.results, {"target": record.request.target, **record.provenance})


@lru_cache(maxsize=4)
def recorded_sweep(folder: Path) -> Recorded | None:
    """The newest sweep that ships, by name: its points by category, and the machine; None where none ships."""
    paths = sorted(folder.glob("*.jsonl.gz"))
    if not paths:
        return None
    text = gzip.decompress(paths[-1].read_bytes()).decode("utf-8")
    request, results = read(text, paths[-1].name)
    return points_by_category(request, results), machine_name(provenance_of(text))
