"""Figures of recorded races by reference: `{2-code.speedup}` in a text becomes what was measured, written in one way.

A reference is `RACE.FIGURE` for the speculative lane, `RACE.plain.FIGURE` for the plain one, and `passes.WIDTH` for
what a pass of that width cost in all recorded races together, in passes of one token.
"""

import re
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from specdemo.errors import LessonError
from specdemo.events import Round, Started
from specdemo.metrics import Summary, ratio, summarize
from specdemo.metrics import speedup as speedup_of
from specdemo.race import LANES
from specdemo.theory import expected_in_race
from specdemo.traces import Trace

REFERENCE = re.compile(r"\{([\w-]+)\.(?:(plain)\.)?(\w+)\}")
_FEWEST_PASSES = 5
"""A width that occurs seldomer has no median worth showing."""

_Figure = Callable[["LaneFigures"], float | int | None]


class LaneFigures:
    """One lane of a recorded race: its summary, and what a summary does not hold."""

    def __init__(self, trace: Trace, lane: str) -> None:
        events = trace.events(lane)
        self.rounds = [event for event in events if isinstance(event, Round)]
        self.started = next(event for event in events if isinstance(event, Started))
        self.summary = summarize(events)
        self.plain: Summary = summarize(trace.events("plain"))
        self._settings = trace.request["settings"]
        self.num_draft_tokens = int(self._settings["num_draft_tokens"])
        self.temperature = float(self._settings["temperature"])

    @property
    def num_discarded(self) -> int:
        """Drafts behind the one that failed, which nobody judged."""
        summary = self.summary
        return summary.num_drafted - summary.num_judged - summary.num_unused

    @property
    def expected(self) -> float | None:
        """Tokens per round by the formula, from the race's own alpha and K."""
        return expected_in_race(self.summary.alpha, self._settings)

    @property
    def megabytes_per_pass(self) -> float | None:
        """Weights that one pass of the target reads."""
        return ratio(self.summary.verify_bytes, 1e6 * self.summary.num_rounds)

    @property
    def prefill_rate(self) -> float | None:
        """Prompt tokens read in a second."""
        return ratio(len(self.started.prompt_token_ids), self.started.prefill_seconds)


def _times(value: float) -> str:
    return f"{value:.2f}\u00d7"


def _share(value: float) -> str:
    return f"{100 * value:.0f} %"


def _milliseconds(value: float) -> str:
    return f"{1000 * value:.1f}"


_FIGURES: dict[str, tuple[_Figure, Callable[[Any], str]]] = {
    "speedup": (lambda lane: speedup_of(lane.summary, lane.plain), _times),
    "acceptance_rate": (lambda lane: lane.summary.acceptance_rate, _share),
    "alpha": (lambda lane: lane.summary.alpha, _share),
    "tokens_per_round": (lambda lane: lane.summary.tokens_per_round, "{:.2f}".format),
    "expected_tokens_per_round": (lambda lane: lane.expected, "{:.2f}".format),
    "tokens_per_second": (lambda lane: lane.summary.tokens_per_second, "{:.0f}".format),
    "target_passes": (lambda lane: lane.summary.target_passes, str),
    "num_tokens": (lambda lane: lane.summary.num_tokens, str),
    "num_drafted": (lambda lane: lane.summary.num_drafted, str),
    "num_accepted": (lambda lane: lane.summary.num_accepted, str),
    "num_corrected": (lambda lane: lane.summary.num_corrected, str),
    "num_bonus": (lambda lane: lane.summary.num_bonus, str),
    "num_discarded": (lambda lane: lane.num_discarded, str),
    "gigabytes_read": (lambda lane: lane.summary.weight_bytes_read / 1e9, "{:.0f}".format),
    "megabytes_per_pass": (lambda lane: lane.megabytes_per_pass, "{:.0f}".format),
    "pass_milliseconds": (lambda lane: median(r.verify_seconds for r in lane.rounds), _milliseconds),
    "draft_share": (lambda lane: ratio(lane.summary.draft_seconds, lane.summary.decode_seconds), _share),
    "prompt_tokens": (lambda lane: len(lane.started.prompt_token_ids), str),
    "prefill_tokens_per_second": (lambda lane: lane.prefill_rate, "{:.0f}".format),
    "k": (lambda lane: lane.num_draft_tokens, str),
    "temperature": (lambda lane: lane.temperature, "{:g}".format),
}


class RecordedFigures:
    """All references that resolve, and their texts. Knows no language: units stand in the texts around them."""

    def __init__(self, races: Mapping[str, Trace]) -> None:
        self._lanes = {(name, lane): LaneFigures(trace, lane) for name, trace in races.items() for lane in LANES}
        self.pass_costs = recorded_pass_costs(races)

    def fill(self, text: str, place: str) -> str:
        """The text with every reference replaced; raises LessonError for one that does not resolve."""
        filled = REFERENCE.sub(lambda match: self._text(match, place), text)
        if "{" in filled or "}" in filled:
            raise LessonError(f"{place} holds a brace that is no reference; write {{RACE.FIGURE}} or remove it.")
        return filled

    def _text(self, match: re.Match[str], place: str) -> str:
        race, plain, figure = match.groups()
        if race == "passes":
            return self._pass_text(figure, place)
        lane = self._lanes.get((race, plain or "speculative"))
        if lane is None:
            names = ", ".join(sorted({name for name, _ in self._lanes}))
            raise LessonError(f"{place} refers to {match[0]}; there is no recorded race {race}. There are: {names}.")
        if figure not in _FIGURES:
            raise LessonError(f"{place} refers to {match[0]}; figures are {', '.join(_FIGURES)}.")
        measure, write = _FIGURES[figure]
        value = measure(lane)
        if value is None:
            raise LessonError(f"{place} refers to {match[0]}, which this race does not have. Name another race.")
        return write(value)

    def _pass_text(self, width: str, place: str) -> str:
        costs = dict(self.pass_costs)
        if not width.isdecimal() or int(width) not in costs:
            widths = ", ".join(map(str, costs))
            raise LessonError(f"{place} refers to the cost of a pass of {width}; recorded widths are {widths}.")
        return _times(costs[int(width)] / costs[1])


def recorded_pass_costs(races: Mapping[str, Trace]) -> tuple[tuple[int, float], ...]:
    """(width, seconds) of the target's pass, narrowest first: medians over the rounds of all races like the first one.

    Like it: on the same device, in the same precision, with as many threads. The width of a round's pass is its drafts
    and the token before them. Every race holds passes of one token, in its plain lane, taken by turns with the wider
    ones: a race counts by what its passes cost relative to those.
    """
    alike = [trace for trace in races.values() if _setting(trace) == _setting(next(iter(races.values())))]
    ones = [median(_pass_seconds(trace, "plain").get(1, ())) for trace in alike]
    relative: dict[int, list[float]] = {}
    for trace, one in zip(alike, ones, strict=True):
        for width, seconds in _pass_seconds(trace, "speculative").items():
            relative.setdefault(width, []).extend(each / one for each in seconds)
    typical = median(ones)
    wide = {width: typical * median(costs) for width, costs in relative.items() if len(costs) >= _FEWEST_PASSES}
    return tuple(sorted({**wide, 1: typical}.items()))


def _setting(trace: Trace) -> tuple[Any, ...]:
    return tuple(trace.provenance.get(key) for key in ("device", "dtype", "num_threads"))


def _pass_seconds(trace: Trace, lane: str) -> dict[int, list[float]]:
    """Seconds of a lane's passes by their width."""
    seconds: dict[int, list[float]] = {}
    for event in trace.events(lane):
        if isinstance(event, Round):
            seconds.setdefault(1 + len(event.draft_token_ids), []).append(event.verify_seconds)
    return seconds
