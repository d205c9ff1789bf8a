"""Lanes merged by their own clocks, and the seam through which the page sees a race, live or recorded.

Pure Python and no sleep: who shows a race decides how fast it plays.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from specdemo.advice import AdviceRequest, AdviceUpdate
from specdemo.batches import BatchRequest, BatchUpdate
from specdemo.errors import SpecdemoError
from specdemo.events import Event, Finished, Round, Started
from specdemo.proofs import ProofRequest, ProofUpdate
from specdemo.settings import DecodeSettings
from specdemo.spans import Span
from specdemo.sweeps import HeatResult, SweepRequest, SweepUpdate

LANES = ("plain", "speculative")
LaneName = TypeVar("LaneName")


def race(lanes: Mapping[LaneName, Iterator[Event]]) -> Iterator[tuple[LaneName, Event]]:
    """Merge generations: always advance the lane whose own clock is lowest, the earlier one on a tie.

    A lane that raises a SpecdemoError ends as `failed` with its sentence and the others go on. Closing this iterator
    closes every lane.
    """
    clocks = dict.fromkeys(lanes, 0.0)
    with ExitStack() as closing:
        for lane in lanes.values():
            closing.callback(getattr(lane, "close", _nothing))
        while clocks:
            name = min(clocks, key=clocks.__getitem__)
            event = _advance(lanes[name])
            yield name, event
            clocks[name] += _seconds(event)
            if isinstance(event, Finished):
                del clocks[name]


def _nothing() -> None:
    """What closing means for a lane that is a plain iterator."""


def _advance(lane: Iterator[Event]) -> Event:
    try:
        return next(lane)
    except SpecdemoError as error:
        return Finished("failed", str(error))


def _seconds(event: Event) -> float:
    if isinstance(event, Started):
        return event.prefill_seconds
    return event.seconds if isinstance(event, Round) else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RaceRequest:
    """What a person asks for: a prompt for a target, a drafter, and the settings of both lanes.

    `raw` feeds the prompt as it is instead of through the chat template; `system` is the system turn ("" = the
    template's own); `thinking` turns the template's switch for it, None leaves it alone; `precision` is the target's,
    one of catalog.PRECISIONS.
    """

    prompt: str
    drafter: str
    settings: DecodeSettings
    target: str = "smollm2-135m-instruct"
    system: str = ""
    raw: bool = False
    precision: str = "auto"
    thinking: bool | None = None


@dataclass(frozen=True, slots=True)
class LaneUpdate:
    """One event of one lane with the display spans of its tokens (empty for Started).

    `texts`, (token id, text), go with evidence: Started has the prompt, token by token, and a round has how the tokens
    that its evidence names read, each once in a lane.
    """

    lane: str
    event: Event
    spans: tuple[Span, ...] = ()
    texts: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """Where the engine stands; `progress` is 0..1 or None where it is unknown, `message` one sentence."""

    state: str  # "absent" | "fetching" | "loading" | "ready" | "failed"
    message: str = ""
    progress: float | None = None


@dataclass(frozen=True, slots=True)
class DrafterInfo:
    """A drafter that can be chosen: its name, a label in plain words, and why it is not the default, if so."""

    name: str
    label: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class PassCosts:
    """(width in tokens, seconds) of one target pass, narrowest first, and where they were measured."""

    seconds: tuple[tuple[int, float], ...]
    provenance: Mapping[str, Any]


class EventSource(Protocol):
    """All that the page holds of the engine, and the name of its target."""

    target: str

    def start(self) -> None:
        """Fetch and load in the background; returns at once, idempotent."""

    def status(self) -> EngineStatus:
        """Where fetching and loading stand."""

    def drafters(self) -> tuple[DrafterInfo, ...]:
        """The drafters that fit the target, the default first."""

    def check(self, request: RaceRequest) -> None:
        """Raise the SpecdemoError that `race` would end with, as far as it can be known without running a model."""

    def race(self, request: RaceRequest) -> Iterator[LaneUpdate]:
        """Run both lanes; closing the iterator stops the work and frees what the race held."""

    def prove(self, request: ProofRequest) -> Iterator[ProofUpdate]:
        """Run a proof; closing the iterator stops the work and frees what the proof held."""

    def sweep(
        self, request: SweepRequest, done: Sequence[HeatResult] = (), seconds: float | None = None
    ) -> Iterator[SweepUpdate]:
        """Run the heats that are not done, in `seconds` at most; people who race go first, between any two rounds.

        The first update says how long it will take. Closing the iterator stops the work; a heat is whole or not there.
        """

    def advise(self, request: AdviceRequest) -> Iterator[AdviceUpdate]:
        """Find out which drafter and K pay, or that none does; the last update is the Advice."""

    def batch(self, request: BatchRequest) -> Iterator[BatchUpdate]:
        """Measure one batch size after the other; people who race go first, between any two rounds.

        Closing the iterator stops the work and frees what it held.
        """

    def provenance(self, request: RaceRequest) -> dict[str, Any]:
        """Models and revisions, device, dtype and library versions, for the page and for traces."""

    def pass_costs(self) -> PassCosts:
        """Measure what a pass costs at each width, for about a second."""
