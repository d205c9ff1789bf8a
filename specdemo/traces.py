"""Races as files: events and their spans, with provenance, so that a replay needs neither weights nor a tokenizer.

A trace is one JSON document. Reading never executes anything and refuses what it does not understand with one sentence.
"""

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import BufferedReader
from itertools import accumulate, dropwhile
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from specdemo.errors import TraceError
from specdemo.events import UNKNOWN_TOKEN, Event, Finished, Reading, Round, Started
from specdemo.metrics import emitted_token_ids, first_divergence, speedup, summarize
from specdemo.race import LANES, LaneUpdate
from specdemo.spans import RETAINED

VERSION = 1
MAX_TRACE_BYTES = 20_000_000


@dataclass(frozen=True, slots=True)
class Trace:
    """A finished race. `request` is what was asked for (prompt, drafter, settings), `title` a few words for a menu."""

    title: str
    category: str
    request: dict[str, Any]
    provenance: dict[str, Any]
    updates: tuple[LaneUpdate, ...]

    def events(self, lane: str) -> tuple[Event, ...]:
        """The events of one lane, in order."""
        return tuple(update.event for update in self.updates if update.lane == lane)

    def text(self, lane: str) -> str:
        """The answer of one lane; a final end-of-text token is counted but not part of the text."""
        return answer_text(update for update in self.updates if update.lane == lane)


def answer_text(updates: Iterable[LaneUpdate]) -> str:
    """The text of one lane's updates: the retained spans, joined, without a final end-of-text token."""
    pieces: list[str] = []
    for update in updates:
        if isinstance(update.event, Finished) and update.event.reason == "eos" and pieces:
            pieces.pop()
        is_tail = isinstance(update.event, Finished)
        pieces += [span.text for span in update.spans if is_tail or span.status in RETAINED]
    return "".join(pieces)


def compare(updates: Sequence[LaneUpdate]) -> dict[str, Any]:
    """Both lanes' summaries, the speedup, and whether the two answers are the same ids."""
    lanes = {lane: [u.event for u in updates if u.lane == lane] for lane in LANES}
    plain, speculative = (summarize(lanes[lane]) for lane in LANES)
    divergence = _first_divergence(updates, *(emitted_token_ids(lanes[lane]) for lane in LANES))
    return {
        "plain": plain.to_dict(),
        "speculative": speculative.to_dict(),
        "speedup": speedup(speculative, plain),
        "identical": divergence is None,
        "first_divergence": divergence,
    }


def _first_divergence(updates: Sequence[LaneUpdate], left: Sequence[int], right: Sequence[int]) -> int | None:
    """By ids; by the text where a server did not name them all: the plain lane's first token that reads differently."""
    if UNKNOWN_TOKEN not in left and UNKNOWN_TOKEN not in right:
        return first_divergence(left, right)
    texts = [answer_text(update for update in updates if update.lane == lane) for lane in LANES]
    if texts[0] == texts[1]:
        return None
    shared = len(os.path.commonprefix(texts))
    pieces = [span.text for u in updates if u.lane == LANES[0] for span in u.spans if span.status in RETAINED]
    ends = accumulate(map(len, pieces))
    return next((index for index, end in enumerate(ends) if end > shared), len(pieces))


def dumps(trace: Trace) -> str:
    """The trace as a JSON document of one line per event; values that are their type's default are left out."""
    values = _ADAPTER.dump_python(trace, mode="json", exclude_defaults=True)
    updates = values.pop("updates")
    lines = ",\n".join(json.dumps(update, ensure_ascii=False, separators=(",", ":")) for update in updates)
    head = json.dumps({"specdemo_trace": VERSION, **values}, ensure_ascii=False, indent=1)
    return head[:-2] + ',\n "updates": [\n' + lines + "\n]}\n"


def save(trace: Trace, path: Path) -> None:
    """Write to a temporary name beside `path`, then rename: an interrupted write leaves nothing half done.

    A name that ends in `.gz` is compressed: a few KB instead of some fifty.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        content = dumps(trace).encode()
        temporary.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        reason = error.strerror or str(error)
        raise TraceError(f"cannot write the trace to {path}: {reason}. Choose a folder that can be written.") from error
    except UnicodeEncodeError as error:
        raise TraceError(f"cannot write the trace to {path}: {_HALF_CHARACTER}") from error


def load(path: Path) -> Trace:
    """Read a trace file. Raises TraceError, in a line, when it is missing, too large, damaged or of another version."""
    try:
        with _open(path) as file:
            content = file.read(MAX_TRACE_BYTES + 1)
        if len(content) > MAX_TRACE_BYTES:
            limit = MAX_TRACE_BYTES // 1_000_000
            raise TraceError(f"{path.name} is too large; a trace has at most {limit} MB. {_REMEDY}")
        return loads(content.decode("utf-8"), path.name)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise TraceError(f"cannot read {path.name}: {reason}. {_REMEDY}") from error
    except UnicodeDecodeError as error:
        raise TraceError(f"{path.name} is not a trace: it is not UTF-8 text. {_REMEDY}") from error


def _open(path: Path) -> gzip.GzipFile | BufferedReader:
    with path.open("rb") as file:
        is_compressed = file.read(2) == b"\x1f\x8b"
    return gzip.open(path) if is_compressed else path.open("rb")


def loads(text: str, name: str = "the text") -> Trace:
    """Inverse of `dumps`; raises TraceError as `load` does."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{name} is not a trace: it is not JSON. {_REMEDY}") from error
    version = document.get("specdemo_trace") if isinstance(document, dict) else None
    if version != VERSION:
        raise TraceError(f"{name} has trace version {version!r}; this program reads version {VERSION}. {_REMEDY}")
    try:
        trace = _ADAPTER.validate_python(document)
    except ValidationError as error:
        problems = error.errors()
        first = next((p for p in problems if p["type"] != "missing"), problems[0])
        place = ".".join(str(part) for part in first["loc"])
        raise TraceError(f"{name} is damaged at {place}: {first['msg']}. {_REMEDY}") from error
    _check_grammar(trace, name)
    return trace


def _check_grammar(trace: Trace, name: str) -> None:
    """A race is, for each lane, Reading*, Started, Round*, Finished; a lane that never started has no rounds."""
    for lane in LANES:
        kinds = [type(event) for event in trace.events(lane)]
        kinds = list(dropwhile(lambda kind: kind is Reading, kinds))
        is_whole = kinds[:1] == [Started] and kinds[-1:] == [Finished] and not set(kinds[1:-1]) - {Round}
        if not is_whole and kinds != [Finished]:
            raise TraceError(f"{name} is damaged: lane {lane} is not started, rounds, finished. {_REMEDY}")
    if any(update.lane not in LANES for update in trace.updates):
        raise TraceError(f"{name} is damaged: a lane has an unknown name; lanes are {' and '.join(LANES)}. {_REMEDY}")


_HALF_CHARACTER = "its text holds half of a character (an unpaired surrogate). Remove it from the prompt."
_REMEDY = "Choose a file that this program saved."
_ADAPTER = TypeAdapter(Trace)
