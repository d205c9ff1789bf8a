"""What the tab "Tune" reads and writes: a sweep as its file, its points as a table, and the sweep that ships."""

import csv
import gzip
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from specdemo.points import CategoryPoint, Point, points, points_by_category
from specdemo.sweep_file import dumps, provenance_of, read
from specdemo.ui.head import machine_name
from specdemo.ui.tune_record import TuneRecord

Recorded = tuple[tuple[CategoryPoint, ...], str]
MAX_FILE_BYTES = 50_000_000
_COLUMNS = tuple(field.name for field in fields(Point))
_INTERVALS = tuple(name for name in _COLUMNS if name.endswith("interval"))


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
    """The points, over all prompts and by category, and where they were measured."""
    assert record.request is not None
    by_category = points_by_category(record.request, record.results)
    document = {
        "provenance": record.provenance,
        "points": [point.to_dict() for point in points(record.request, record.results)],
        "by_category": [
            {"category": one.category, "language": one.language, **one.point.to_dict()} for one in by_category
        ],
    }
    return json.dumps(document, ensure_ascii=False, indent=1)


def points_csv(measured: Sequence[Point]) -> str:
    """A row a point; an interval is two columns, a list of values one, with spaces between them."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column for name in _COLUMNS for column in _column_names(name)])
    for point in measured:
        values = asdict(point)
        writer.writerow([cell for name in _COLUMNS for cell in _cells(name, values[name])])
    return out.getvalue()


def _column_names(name: str) -> list[str]:
    return [f"{name}_low", f"{name}_high"] if name in _INTERVALS else [name]


def _cells(name: str, value: Any) -> list[Any]:
    if name in _INTERVALS:
        return list(value or ("", ""))
    if isinstance(value, tuple):
        return [" ".join("" if one is None else f"{one:.6g}" for one in value)]
    return ["" if value is None else value]


@lru_cache(maxsize=4)
def recorded_sweep(folder: Path) -> Recorded | None:
    """The newest sweep that ships, by name: its points by category, and the machine; None where none ships."""
    paths = sorted(folder.glob("*.jsonl.gz"))
    if not paths:
        return None
    text = gzip.decompress(paths[-1].read_bytes()).decode("utf-8")
    request, results = read(text, paths[-1].name)
    return points_by_category(request, results), machine_name(provenance_of(text))
