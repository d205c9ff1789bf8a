"""The view model: what is sent, how often, and that its figures are those of `metrics`."""

import json
import re
from collections.abc import Iterator

import pytest
from hypothesis import given

from specdemo.catalog import DRAFTER_NOTES, drafter_note
from specdemo.events import Evidence, Finished, Round, Started
from specdemo.metrics import summarize
from specdemo.race import LANES, LaneUpdate, RaceRequest
from specdemo.settings import DecodeSettings
from specdemo.spans import Span
from specdemo.ui.coalesce import batches
from specdemo.ui.evidence_wire import evidence_entry
from specdemo.ui.wire import LaneTally, RaceWire, verdict
from tests.fakes_ui import HOSTILE, ScriptedSource
from tests.strategies import EVIDENCE


def run(k: int = 4, **script: object) -> list[LaneUpdate]:
    """The updates of one scripted race."""
    settings = DecodeSettings(num_draft_tokens=k, max_new_tokens=40)
    return list(ScriptedSource(**script).race(RaceRequest(prompt="Why?", drafter="quantized", settings=settings)))  # type: ignore[arg-type]


def rows_of(value: dict[str, object], lane: int) -> list[dict[str, object]]:
    """The parsed rows of one lane."""
    parsed = [json.loads(text) for text in value["rows"].split("\n") if text]  # type: ignore[attr-defined]
    return [row for row in parsed if row["l"] == lane]


def test_the_value_only_grows_and_carries_each_token_once() -> None:
    wire = RaceWire({})
    values = [wire.value("waiting")]
    for update in run():
        wire.add([update])
        values.append(wire.value("running"))
    for before, after in zip(values, values[1:], strict=False):
        assert after["rows"].startswith(before["rows"]), "of a text that grew Gradio sends the end"
    num_sent = sum(len(row.get("s", ())) for lane in (0, 1) for row in rows_of(values[-1], lane))
    assert num_sent == sum(len(update.spans) for update in run())


def test_hostile_text_arrives_unchanged() -> None:
    wire = RaceWire({})
    wire.add(run(tokens=HOSTILE))
    plain = [span[1] for row in rows_of(wire.value("done"), 0) for span in row.get("s", ())]  # type: ignore[attr-defined]
    assert plain == list(HOSTILE)


@pytest.mark.parametrize("k", [1, 4, 16])
def test_running_figures_end_as_the_summary(k: int) -> None:
    updates = run(k)
    wire = RaceWire({})
    wire.add(updates)
    for lane, name in enumerate(LANES):
        last = [row for row in rows_of(wire.value("done"), lane) if row["e"] == "r"][-1]
        summary = summarize(update.event for update in updates if update.lane == name)
        assert last["n"] == summary.num_tokens
        assert last["p"] == summary.target_passes
        assert last["b"] == summary.weight_bytes_read
        assert last["c"] == pytest.approx(summary.decode_seconds, rel=1e-5)
        assert last["r"] == pytest.approx(summary.tokens_per_second, rel=1e-5)
        assert last["f"] == pytest.approx(summary.time_to_first_token_seconds, rel=1e-5)
        rates = (summary.acceptance_rate, summary.alpha, summary.tokens_per_round)
        assert last["q"] == [None if rate is None else pytest.approx(rate, rel=1e-5) for rate in rates]


def test_nothing_over_nothing_is_no_figure() -> None:
    assert LaneTally().tokens_per_second is None


def test_a_lane_that_failed_still_gives_a_verdict() -> None:
    result = verdict(run(failing_lane="speculative"))
    assert result["speedup"] is None
    assert result["finish_reason"] == ["length", "failed"]


def test_notes_message_and_tail_are_sent() -> None:
    wire = RaceWire({})
    wire.add([LaneUpdate("plain", Started((1,), {}, 0.1, notes=("x",)))])
    wire.add([LaneUpdate("plain", Finished("failed", "why"), (Span(5, "\ufffd", "plain"),))])
    started, finished = rows_of(wire.value("done"), 0)
    assert started["notes"] == ["x"]
    assert (finished["message"], finished["s"]) == ("why", [[5, "\ufffd", "p"]])


@pytest.mark.parametrize("key", DRAFTER_NOTES)
def test_what_the_page_can_say_in_its_languages_is_sent_as_key_and_values(key: str) -> None:
    names = re.findall(r"{(\w+)}", DRAFTER_NOTES[key])
    values = dict.fromkeys(names, "<b>{x}</b> $& 4096")
    note = drafter_note(key, **values)
    events = (Started((1,), {}, 0.1, notes=(note, "x")), Finished("length", note))
    wire = RaceWire({})
    wire.add([LaneUpdate("plain", event) for event in events])
    started, finished = rows_of(wire.value("done"), 0)
    assert started["notes"] == [[key, values], "x"]
    assert finished["message"] == [key, values]


class Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def ticking(clock: Clock, count: int, seconds: float) -> Iterator[int]:
    """Items that each take `seconds`."""
    for item in range(count):
        clock.now += seconds
        yield item


def test_updates_are_gathered_by_time_and_none_is_lost() -> None:
    clock = Clock()
    gathered = list(batches(ticking(clock, 1000, 0.01), 0.1, clock))
    assert [item for batch in gathered for item in batch] == list(range(1000))
    assert gathered[0] == [0], "the first item is not held back"
    assert 90 <= len(gathered) <= 102, "about ten a second"


def test_slow_updates_are_not_held_back() -> None:
    clock = Clock()
    assert list(batches(ticking(clock, 5, 0.5), 0.1, clock)) == [[0], [1], [2], [3], [4]]


def test_closing_closes_the_source() -> None:
    source = ScriptedSource(num_tokens=50)
    request = RaceRequest(prompt="Why?", drafter="quantized", settings=DecodeSettings())
    updates = batches(source.race(request), 0.0)
    next(updates)
    updates.close()  # type: ignore[attr-defined]
    assert (source.started, source.closed, source.running) == (1, 1, 0)


def close(value: float | None) -> object:
    return None if value is None else pytest.approx(value, rel=1e-5)


@given(evidence=EVIDENCE)
def test_evidence_is_sent_with_the_figures_it_has_and_no_key_for_others(evidence: Evidence) -> None:
    event = Round(0, (5,), 0, 6, "corrected", evidence=evidence)
    wire = RaceWire({})
    wire.add([LaneUpdate("speculative", event, texts=((7, "<b>"),)), LaneUpdate("plain", Round(0, (), 0, 6, "plain"))])
    ((row,), (bare,)) = rows_of(wire.value("done"), 1), rows_of(wire.value("done"), 0)
    assert "v" not in bare
    assert "w" not in bare
    assert row["w"] == [[7, "<b>"]]
    entry = row["v"]
    assert entry == json.loads(json.dumps(evidence_entry(evidence), allow_nan=False))
    assert None not in [*entry, *entry.get("n", {}).values()]  # type: ignore[misc,attr-defined]
    for sent, position in zip(entry.get("p", []), evidence.positions, strict=True):  # type: ignore[attr-defined]
        origin = position.origin
        figures = {
            "d": position.draft_prob,
            "t": position.target_prob,
            "a": position.accept_prob,
            "u": position.uniform,
            "x": position.draft_score,
            "y": position.target_score,
            "h": position.entropy,
            "f": origin and origin.copied_from,
            "m": origin and origin.num_matched,
            "k": origin and origin.confidence,
        }
        assert {key: sent.get(key) for key in figures} == {key: close(value) for key, value in figures.items()}
        assert [one[0] for one in sent.get("q", [])] == [token_id for token_id, _ in position.draft_top]
        contenders = [
            (one.token_id, one.target_prob, one.draft_prob, one.score, one.noise) for one in position.contenders
        ]
        assert sent.get("c", []) == [[close(value) for value in one] for one in contenders]
    if evidence.next_token is not None:
        assert entry["n"].get("r") == (1 if evidence.next_token.source == "residual" else None)  # type: ignore[index]
        assert entry["n"]["p"] == close(evidence.next_token.prob)  # type: ignore[index]
