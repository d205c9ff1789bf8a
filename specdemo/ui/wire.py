"""A race as the page's component receives it: a value that only grows, so that the wire carries each token once.

All rows are one text, a JSON document a line. Gradio copies and compares the whole value at each yield, in Python and
in the browser, object by object; a text costs it one step, and of a text that grew only the new end is sent. Rates come
from `specdemo.metrics`; the component only paints.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from specdemo.branches import ROOT
from specdemo.catalog import read_note
from specdemo.events import Finished, Known, Reading, Round, Started
from specdemo.metrics import drafts_trees, num_untimed, ratio
from specdemo.race import LANES, LaneUpdate
from specdemo.spans import Span, drafts_in_reading_order
from specdemo.theory import expected_in_race
from specdemo.traces import Trace, compare
from specdemo.ui.evidence_wire import evidence_entry
from specdemo.ui.head import race_head

STATUS_CODES = {
    "accepted": "a",
    "rejected": "r",
    "discarded": "d",
    "corrected": "c",
    "bonus": "b",
    "plain": "p",
    "unused": "u",
}


_RATES = ("acceptance_rate", "alpha", "tokens_per_round", "acceptance_by_position", "survival_by_position")


@dataclass(slots=True)
class LaneTally:
    """Running sums of one lane; the fold of `metrics.summarize`, one event at a time."""

    prefill_seconds: float = 0.0
    first_token_seconds: float | None = None
    num_tokens: int = 0
    num_rounds: int = 0
    num_accepted: int = 0
    num_judged: int = 0
    num_proposed: int = 0  # drafted - unused
    num_bytes: int = 0
    known: Known = "all"
    num_untimed: int = 0
    phase_seconds: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])

    @property
    def decode_seconds(self) -> float:
        """The lane's own clock, without prefill."""
        return sum(self.phase_seconds)

    @property
    def tokens_per_second(self) -> float | None:
        """Decode speed so far."""
        return ratio(self.num_tokens - self.num_untimed, self.decode_seconds)

    @property
    def num_passes(self) -> int | None:
        """Passes of the target; None where a server does not say which tokens came from one."""
        return None if self.known == "tokens" else self.num_rounds

    def add(self, event: Round) -> None:
        """Count one round."""
        if self.first_token_seconds is None:
            self.first_token_seconds = self.prefill_seconds + event.seconds
        self.num_tokens += len(event.emitted_token_ids)
        self.num_untimed += num_untimed(self.known, (event,))
        self.num_rounds += 1
        self.num_accepted += event.num_accepted
        self.num_judged += event.num_judged
        self.num_proposed += len(event.draft_token_ids) - event.num_unused
        self.num_bytes += event.draft_bytes + event.verify_bytes
        for phase, seconds in enumerate((event.draft_seconds, event.verify_seconds, event.overhead_seconds)):
            self.phase_seconds[phase] += seconds


class RaceWire:
    """The growing value of one race. `head` says what was asked for and never changes."""

    def __init__(self, head: Mapping[str, Any]) -> None:
        self.run_id = secrets.token_hex(6)
        self._head = dict(head)
        self.rows: list[str] = []
        self._tallies = {lane: LaneTally() for lane in LANES}

    def add(self, updates: Sequence[LaneUpdate]) -> None:
        """Append updates in the order in which they happened."""
        self.rows += [self._row(update) for update in updates]

    def value(self, state: str, *, done: Mapping[str, Any] | None = None, message: str = "") -> dict[str, Any]:
        """The value as it stands: Gradio sends what differs from the value before.

        `state` is waiting, running, done or failed.
        """
        return {
            "run": self.run_id,
            "head": self._head,
            "state": state,
            "rows": "".join(f"{row}\n" for row in self.rows),
            "done": None if done is None else dict(done),
            "message": message,
        }

    def _row(self, update: LaneUpdate) -> str:
        tally, event = self._tallies[update.lane], update.event
        row: dict[str, Any] = {"l": LANES.index(update.lane)}
        if isinstance(event, Reading):
            row |= {"e": "p", "n": event.num_read, "of": event.num_prompt_tokens}
        elif isinstance(event, Started):
            tally.prefill_seconds, tally.known = event.prefill_seconds, event.known
            row |= {"e": "s", "notes": [_note(note) for note in event.notes]}
        elif isinstance(event, Round):
            tally.add(event)
            row |= {"e": "r", **self._round_row(tally, event)}
            if event.draft_parents:
                row["g"] = _branches(event)
            if event.evidence is not None:
                row["v"] = evidence_entry(event.evidence)
        elif isinstance(event, Finished):
            row |= {"e": "f", "reason": event.reason, "message": _note(event.message)}
        if update.spans:
            row["s"] = [_span(span) for span in update.spans]
        if update.texts:
            row["w"] = update.texts
        return json.dumps(row, ensure_ascii=False, separators=(",", ":"))

    def _round_row(self, tally: LaneTally, event: Round) -> dict[str, Any]:
        plain, speculative = (self._tallies[lane].tokens_per_second for lane in LANES)
        return {
            "i": event.index,
            "t": [_short(event.draft_seconds), _short(event.verify_seconds), _short(event.overhead_seconds)],
            "c": _short(tally.decode_seconds),
            "n": tally.num_tokens,
            "p": tally.num_passes,
            "b": tally.num_bytes,
            "f": _short(tally.first_token_seconds),
            "r": _short(tally.tokens_per_second),
            "x": _short(ratio(speculative or 0.0, plain or 0.0)) if speculative else None,
            "h": event.num_accepted if event.draft_token_ids else None,
            "q": [
                _short(ratio(tally.num_accepted, tally.num_proposed)),
                _short(ratio(tally.num_accepted, tally.num_judged)),
                _short(ratio(tally.num_tokens, tally.num_passes or 0)),
            ],
            "m": [_short(ratio(seconds, tally.num_tokens)) for seconds in tally.phase_seconds],
        }


def finished_race(trace: Trace, origin: str) -> dict[str, Any]:
    """The value of a race that is over. `origin` is recorded or file."""
    wire = RaceWire(race_head(trace, origin))
    wire.add(trace.updates)
    return wire.value("done", done=verdict(trace.updates))


def verdict(updates: Sequence[LaneUpdate]) -> dict[str, Any]:
    """What the page says when a race is over, from `traces.compare`."""
    result = compare(updates)
    plain, speculative = (result[lane] for lane in LANES)
    keys = ("target_passes", "weight_bytes_read", "time_to_first_token_seconds", "finish_reason")
    pairs = {key: [plain[key], speculative[key]] for key in keys}
    rates = {key: speculative[key] for key in _RATES}
    passes = plain["target_passes"], speculative["target_passes"]
    saved = None if None in passes else passes[0] - passes[1]
    outcome = {key: result[key] for key in ("speedup", "identical", "first_divergence")}
    expected = {"expected_tokens_per_round": _expected(updates, rates["alpha"])}
    return {**outcome, **pairs, **rates, **expected, "passes_saved": saved, "reported": speculative["reported"]}


def _expected(updates: Sequence[LaneUpdate], alpha: float | None) -> float | None:
    """Tokens per round by the formula, which speaks of chains."""
    if drafts_trees(update.event for update in updates):
        return None
    started = (u.event for u in updates if u.lane == LANES[1] and isinstance(u.event, Started))
    return expected_in_race(alpha, next((event.settings for event in started), {}))


def _branches(event: Round) -> list[list[int]]:
    """Of each draft of a tree, as its spans stand: the place of the one before it, -1 for none, and its rank."""
    order = drafts_in_reading_order(event)
    places = {index: place for place, index in enumerate(order)} | {ROOT: ROOT}
    return [[places[event.draft_parents[index]], index] for index in order]


def _note(note: str) -> str | list[Any]:
    """The key and values of a text that the page has in its languages, else the words as they are."""
    known = read_note(note)
    return note if known is None else list(known)


def _span(span: Span) -> list[Any]:
    return [span.token_id, span.text, STATUS_CODES[span.status]]


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
