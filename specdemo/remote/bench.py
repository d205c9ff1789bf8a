"""`bench --engine`: what speculation is worth on a server, over prompts, in the words of the other benchmarks.

A server has one drafter and one K, so a row is a temperature. The lanes of a prompt run one after the other, plain
first in every other prompt, so that what drifts or warms up falls on both.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from specdemo.errors import ModelError
from specdemo.events import Finished, Started
from specdemo.points import points
from specdemo.race import LANES, LaneUpdate, RaceRequest
from specdemo.remote.engine import RemoteEngine
from specdemo.sweep_report import point_row
from specdemo.sweeps import PLAIN, Heat, HeatResult, SweepRequest
from specdemo.traces import answer_text

_KNOWN_OF_SERVERS = (
    "drafter", "temperature", "num_prompts", "speedup", "interval", "low", "high", "tokens_per_round",
    "acceptance_rate", "alpha", "plain_tokens_per_second", "tokens_per_second", "plain_seconds_to_first_token",
    "seconds_to_first_token", "message",
)  # fmt: skip
_COLUMNS = (
    "drafter", "temperature", "speedup", "low", "high", "tokens_per_round", "acceptance_rate", "alpha",
    "plain_tokens_per_second", "tokens_per_second", "identical",
)  # fmt: skip
_CAPTION = (
    "speedup: decode speed over the plain lane, by this machine's clock with the network in it, geometric mean over "
    "the prompts; low, high: the worst and best prompt; identical: prompts whose text equals plain decoding's; "
    "–: not reported"
)
_SPECULATIVE = 1
"""The lane beside PLAIN; a server does not say its K."""

Report = Callable[[str, float | None], None]


def run(engine: RemoteEngine, request: SweepRequest, report: Report) -> dict[str, Any]:
    """Measure; the document is plain JSON. Interrupted, it is that of the prompts that are done."""
    results: list[HeatResult] = []
    identical: dict[Heat, bool] = {}
    heats, is_interrupted = request.heats(), False
    _warm_up(engine, request, heats[0])
    try:
        for index, heat in enumerate(heats):
            report(f"Prompt {index + 1} of {len(heats)}", index / len(heats))
            updates = {lane: list(one) for lane, one in _lanes(engine, request, heat, is_plain_first=index % 2 == 0)}
            identical[heat] = answer_text(updates["plain"]) == answer_text(updates["speculative"])
            results.append(HeatResult(heat, {_number(lane): _events(one) for lane, one in updates.items()}))
    except KeyboardInterrupt:
        is_interrupted = True
    rows = []
    for point in points(request, results):
        row = {name: value for name, value in point_row(point).items() if name in _KNOWN_OF_SERVERS}
        same = sum(is_same for heat, is_same in identical.items() if heat.temperature == point.temperature)
        rows.append({**row, "identical": f"{same}/{point.num_prompts}"})
    return {
        "title": f"{engine.server.kind} {engine.server.version} at {engine.server.label}: {engine.server.model}",
        "caption": _CAPTION,
        "columns": list(_COLUMNS),
        "rows": rows,
        "provenance": engine.provenance(request.drafters[0]),
        "is_interrupted": is_interrupted,
    }


def _lanes(
    engine: RemoteEngine, request: SweepRequest, heat: Heat, *, is_plain_first: bool
) -> Iterator[tuple[str, Iterator[LaneUpdate]]]:
    asked = RaceRequest(
        prompt=request.prompts[heat.prompt_index].prompt,
        drafter=heat.drafter,
        settings=request.settings(heat, _SPECULATIVE),
    )
    for lane in LANES if is_plain_first else reversed(LANES):
        yield lane, engine.lane(lane, asked)


def _warm_up(engine: RemoteEngine, request: SweepRequest, heat: Heat) -> None:
    """A few tokens through both lanes, so that the first prompt does not pay for first touches."""
    for _, updates in _lanes(engine, replace(request, max_new_tokens=8), heat, is_plain_first=True):
        for update in updates:
            if isinstance(update.event, Finished) and update.event.reason == "failed":
                raise ModelError(update.event.message)


def _events(updates: list[LaneUpdate]) -> tuple[Any, ...]:
    events = (update.event for update in updates)
    return tuple(replace(event, provenance={}) if isinstance(event, Started) else event for event in events)


def _number(lane: str) -> int:
    return PLAIN if lane == "plain" else _SPECULATIVE
