"""Lanes of any number beside each other on one device, and a heat made of them."""

from collections.abc import Generator, Hashable, Mapping
from contextlib import closing
from dataclasses import replace
from typing import TypeVar

from specdemo.engine import Engine
from specdemo.events import Event, Reading, Started
from specdemo.race import RaceRequest, race
from specdemo.sweeps import PLAIN, Heat, HeatResult, SweepRequest

Name = TypeVar("Name", bound=Hashable)
Result = TypeVar("Result")
Update = TypeVar("Update")
Lanes = dict[Name, tuple[Event, ...]]


def run_lanes(engine: Engine, requests: Mapping[Name, RaceRequest]) -> Generator[None, None, Lanes[Name]]:
    """All lanes to their ends, by turns; yields after every event, where it can be closed or left for a while."""
    lanes = {name: engine.lane(request, engine.encode(request), request.drafter) for name, request in requests.items()}
    events: dict[Name, list[Event]] = {name: [] for name in lanes}
    with closing(race(lanes)) as merged:  # type: ignore[type-var]
        for name, event in merged:
            if isinstance(event, Started):
                # The same for every lane of a sweep, whose file has it once.
                event = replace(event, provenance={})
            if not isinstance(event, Reading):
                events[name].append(event)
            yield
    return {name: tuple(kept) for name, kept in events.items()}


def ticking(running: Generator[None, None, Result], update: Update) -> Generator[Update, None, Result]:
    """`update` for every event, so that whoever runs it can stop it or let others go first; then the result."""
    try:
        while True:
            try:
                next(running)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            yield update
    finally:
        running.close()


def run_heat(engine: Engine, request: SweepRequest, heat: Heat) -> Generator[None, None, HeatResult]:
    """One heat; yields like `run_lanes`."""
    requests = {k: lane_request(request, heat, k) for k in (PLAIN, *request.ks)}
    return HeatResult(heat, (yield from run_lanes(engine, requests)))


def lane_request(request: SweepRequest, heat: Heat, k: int) -> RaceRequest:
    """What the lane of a heat is asked for."""
    return RaceRequest(
        prompt=request.prompts[heat.prompt_index].prompt,
        drafter=heat.drafter if k else "none",
        settings=request.settings(heat, k),
        target=request.target,
        precision=request.precision,
    )
