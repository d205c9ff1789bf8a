"""A race survives its file; a file that is not one gets one sentence; an interrupted write leaves nothing."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdemo.errors import TraceError
from specdemo.events import Finished, Round, Started
from specdemo.metrics import emitted_token_ids
from specdemo.race import LANES, LaneUpdate
from specdemo.spans import LaneSpans, Span
from specdemo.traces import MAX_TRACE_BYTES, VERSION, Trace, answer_text, compare, dumps, load, loads, save
from tests.strategies import TEXTS, lane_updates

JSON_VALUES = st.recursive(st.none() | st.booleans() | st.integers() | TEXTS, lambda inner: st.lists(inner, max_size=3))
JSON_OBJECTS = st.dictionaries(TEXTS, JSON_VALUES, max_size=3)
TRACES = st.builds(
    Trace, title=TEXTS, category=TEXTS, request=JSON_OBJECTS, provenance=JSON_OBJECTS, updates=lane_updates()
)


def small_trace() -> Trace:
    """Both lanes say "hi": plain in two rounds, speculative in one, which also drafts and drops an x."""
    plain = [Started((1,), {}, 0.5), Round(0, (), 0, 104, "plain"), Round(1, (), 0, 105, "plain"), Finished("length")]
    fast = [Started((1,), {}, 0.5), Round(0, (104, 120), 1, 105, "corrected", verify_seconds=0.25), Finished("length")]
    updates = []
    for lane, events in zip(LANES, (plain, fast), strict=True):
        spans = LaneSpans(lambda ids: bytes(ids).decode("utf-8", "replace"))
        updates += [LaneUpdate(lane, e, spans.add(e) if isinstance(e, Round) else ()) for e in events]
    return Trace("Greeting", "chat", {"prompt": "Say hi", "drafter": "ngram"}, {"torch": "2"}, tuple(updates))


def damaged(change: Callable[[dict[str, Any]], object]) -> str:
    """The small trace as a document in which `change` was made."""
    document = json.loads(dumps(small_trace()))
    change(document)
    return json.dumps(document)


@settings(max_examples=50)
@given(trace=TRACES)
def test_a_trace_read_back_is_the_trace_written(trace: Trace) -> None:
    assert loads(dumps(trace)) == trace


def test_a_trace_saved_and_loaded_is_the_same_and_has_one_line_an_event(tmp_path: Path) -> None:
    trace = small_trace()
    save(trace, tmp_path / "race.json")
    assert load(tmp_path / "race.json") == trace
    assert len((tmp_path / "race.json").read_text(encoding="utf-8").splitlines()) > len(trace.updates)


def test_both_lanes_say_what_their_retained_spans_say() -> None:
    trace = small_trace()
    assert [trace.text(lane) for lane in LANES] == ["hi", "hi"]
    assert emitted_token_ids(trace.events("plain")) == emitted_token_ids(trace.events("speculative")) == (104, 105)


def test_the_end_of_text_token_is_counted_but_not_part_of_the_text() -> None:
    updates = [
        LaneUpdate("plain", Round(0, (), 0, 104, "plain"), (Span(104, "h", "plain"),)),
        LaneUpdate("plain", Round(1, (), 0, 2, "plain"), (Span(2, "<|im_end|>", "plain"),)),
        LaneUpdate("plain", Finished("eos")),
    ]
    assert answer_text(updates) == "h"


@given(updates=lane_updates())
def test_comparison_says_identical_exactly_when_no_token_differs(updates: tuple[LaneUpdate, ...]) -> None:
    found = compare(updates)
    answers = [emitted_token_ids(u.event for u in updates if u.lane == lane) for lane in LANES]
    assert found["identical"] == (answers[0] == answers[1]) == (found["first_divergence"] is None)
    assert [found[lane]["num_tokens"] for lane in LANES] == [len(answer) for answer in answers]


DAMAGE: dict[str, str] = {
    "empty": "",
    "not json": "GIF89a",
    "cut": dumps(small_trace())[:-40],
    "nested beyond sense": "[" * 100_000,
    "a list": "[]",
    "no version": damaged(lambda d: d.pop("specdemo_trace")),
    "later version": damaged(lambda d: d.update(specdemo_trace=VERSION + 1)),
    "no title": damaged(lambda d: d.pop("title")),
    "no updates": damaged(lambda d: d.pop("updates")),
    "an unknown reason": damaged(lambda d: d["updates"][3]["event"].update(reason="bored")),
    "counts that contradict": damaged(lambda d: d["updates"][5]["event"].update(num_accepted=2)),
    "ids that are text": damaged(lambda d: d["updates"][5]["event"].update(draft_token_ids=["a"])),
    "a lane without end": damaged(lambda d: d["updates"].pop()),
    "a lane without start": damaged(lambda d: d["updates"].pop(0)),
    "a lane that starts twice": damaged(lambda d: d["updates"].insert(1, d["updates"][0])),
    "a lane that is missing": damaged(lambda d: d.update(updates=d["updates"][:4])),
    "a third lane": damaged(lambda d: d["updates"].append({"lane": "other", "event": {"reason": "eos"}})),
}


@pytest.mark.parametrize("text", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_trace_gets_its_name_and_what_to_do_in_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "race.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TraceError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith("race.json ")
    assert message.endswith("Choose a file that this program saved.")
    assert "\n" not in message
    assert len(message) < 300


def test_a_compressed_trace_reads_back_and_is_smaller(tmp_path: Path) -> None:
    trace = small_trace()
    for name in ("race.json", "race.json.gz"):
        save(trace, tmp_path / name)
        assert load(tmp_path / name) == trace
    assert (tmp_path / "race.json.gz").stat().st_size < (tmp_path / "race.json").stat().st_size


def test_a_damaged_or_oversized_compressed_trace_gets_a_sentence(tmp_path: Path) -> None:
    whole = gzip.compress(dumps(small_trace()).encode())
    contents = {
        "cut": whole[:-30],
        "garbled": whole[:30] + bytes(40),
        "bomb": gzip.compress(bytes(MAX_TRACE_BYTES + 1)),
    }
    for name, content in contents.items():
        (tmp_path / f"{name}.json.gz").write_bytes(content)
        with pytest.raises(TraceError, match=f"{name}.json.gz.*Choose a file that this program saved"):
            load(tmp_path / f"{name}.json.gz")


@given(data=st.data())
@settings(max_examples=50)
def test_no_single_changed_character_makes_reading_crash(data: st.DataObject) -> None:
    text = dumps(small_trace())
    at = data.draw(st.integers(0, len(text) - 1))
    changed = text[:at] + data.draw(st.characters(exclude_categories=["Cs"])) + text[at + 1 :]
    try:
        trace = loads(changed)
    except TraceError:
        return
    assert {update.lane for update in trace.updates} == set(LANES)


def test_the_version_that_is_read_and_the_one_found_are_both_named() -> None:
    with pytest.raises(TraceError, match=f"trace version {VERSION + 1}; this program reads version {VERSION}"):
        loads(DAMAGE["later version"])


def test_what_is_no_readable_text_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "picture.json").write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(TraceError, match="picture.json is not a trace: it is not UTF-8"):
        load(tmp_path / "picture.json")
    with pytest.raises(TraceError, match="cannot read absent.json"):
        load(tmp_path / "absent.json")
    with pytest.raises(TraceError, match="cannot read"):
        load(tmp_path)


def test_a_file_too_large_to_be_a_trace_is_refused_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(MAX_TRACE_BYTES + 1)
    with pytest.raises(TraceError, match="a trace has at most 20 MB"):
        load(path)


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "race.json"
    path.mkdir()
    (path / "kept").touch()
    with pytest.raises(TraceError, match="cannot write the trace"):
        save(small_trace(), path)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["kept", "race.json"]


def test_saving_into_a_folder_that_does_not_exist_says_so(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="No such file or directory. Choose a folder that can be written"):
        save(small_trace(), tmp_path / "absent" / "race.json")


def test_text_that_no_file_can_hold_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    trace = Trace("half of a pair: \ud83d", "chat", {}, {}, small_trace().updates)
    with pytest.raises(TraceError, match="cannot write the trace"):
        save(trace, tmp_path / "race.json")
    assert list(tmp_path.iterdir()) == []


def test_saving_replaces_an_older_file_whole(tmp_path: Path) -> None:
    path = tmp_path / "race.json"
    path.write_text("x" * 100_000, encoding="utf-8")
    save(small_trace(), path)
    assert load(path) == small_trace()
    assert [p.name for p in tmp_path.iterdir()] == ["race.json"]
