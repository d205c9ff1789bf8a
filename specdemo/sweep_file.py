"""Sweeps on disk: a header, then one line for each finished heat, so that a cancel or a crash loses one heat at most.

Reading never executes anything and refuses what it does not understand with one sentence.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from specdemo.errors import SettingsError, SpecdemoError
from specdemo.sweeps import PLAIN, HeatResult, SweepRequest

VERSION = 1
_RESULT = TypeAdapter(HeatResult)
_REQUEST = TypeAdapter(SweepRequest)
_REMEDY = "Choose a file that a sweep of this program wrote, or one that does not exist yet."


class SweepFile:
    """The file of one sweep, found or begun."""

    def __init__(self, path: Path, request: SweepRequest, provenance: dict[str, Any]) -> None:
        """Raises SettingsError when the file is of another sweep, damaged, or cannot be written."""
        self._path = path
        self.results: list[HeatResult] = []
        try:
            if path.exists() and path.stat().st_size:
                found, self.results = read(path.read_text(encoding="utf-8"), path.name)
                if found != request:
                    raise SettingsError(
                        f"{path} holds another sweep ({_differences(found, request)}); give it the same options, or "
                        "name another file."
                    )
                _cut_unfinished_line(path)
            else:
                path.write_text(dumps(request, provenance, ()), encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"cannot keep the sweep in {path}: {error}. {_REMEDY}") from error

    def add(self, result: HeatResult) -> None:
        """Keep a finished heat."""
        self.results.append(result)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(_line(result))


def dumps(request: SweepRequest, provenance: dict[str, Any], results: Sequence[HeatResult]) -> str:
    """A sweep as text: the file's content."""
    header = {
        "specdemo_sweep": VERSION,
        "request": _REQUEST.dump_python(request, mode="json"),
        "provenance": provenance,
    }
    return json.dumps(header, ensure_ascii=False) + "\n" + "".join(map(_line, results))


def read(text: str, name: str) -> tuple[SweepRequest, list[HeatResult]]:
    """Inverse of `dumps`, but for the provenance; a last line that was cut off is left out. Raises SettingsError."""
    head, *lines = text.split("\n")
    document = _document(head, name)
    if document.get("specdemo_sweep") != VERSION:
        found = document.get("specdemo_sweep")
        raise SettingsError(f"{name} has sweep version {found!r}; this program reads version {VERSION}. {_REMEDY}")
    try:
        request = _REQUEST.validate_python(document["request"])
        results = [_RESULT.validate_json(line) for line in lines[:-1]]
    except (KeyError, ValidationError, SpecdemoError) as error:
        raise SettingsError(f"{name} is damaged: {str(error).splitlines()[0]}. {_REMEDY}") from error
    wanted, lanes = set(request.heats()), {PLAIN, *request.ks}
    if not all(result.heat in wanted and set(result.lanes) == lanes for result in results):
        raise SettingsError(f"{name} is damaged: it holds a heat that its sweep does not have. {_REMEDY}")
    return request, results


def provenance_of(text: str) -> dict[str, Any]:
    """Where a sweep that `read` accepts was measured."""
    return dict(_document(text.partition("\n")[0], "the text").get("provenance", {}))


def _cut_unfinished_line(path: Path) -> None:
    """What a crash left behind the last whole line must not stand before the next one."""
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        with path.open("r+b") as file:
            file.truncate(whole)


def _document(line: str, name: str) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{name} is not a sweep: its first line is not JSON. {_REMEDY}") from error
    if not isinstance(document, dict):
        raise SettingsError(f"{name} is not a sweep: its first line is not a JSON object. {_REMEDY}")
    return document


def _line(result: HeatResult) -> str:
    values = _RESULT.dump_python(result, mode="json", exclude_defaults=True)
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")) + "\n"


def _differences(found: SweepRequest, wanted: SweepRequest) -> str:
    values = _REQUEST.dump_python(found), _REQUEST.dump_python(wanted)
    names = [name for name in values[0] if values[0][name] != values[1][name]]
    return "other " + ", ".join(names)
