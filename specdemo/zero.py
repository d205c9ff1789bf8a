"""The live source on ZeroGPU: weights stand ready in this process, each race borrows a GPU in another one.

A borrowed function runs in a forked process and is paid for by the visitor, by the second. Only plain values come back
from there, and what it changes there stays there. Imports no torch.
"""

import math
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from specdemo import errors
from specdemo.advice import AdviceRequest, AdviceUpdate
from specdemo.batches import BatchRequest, BatchUpdate
from specdemo.errors import SettingsError, SpecdemoError
from specdemo.events import Finished, Started
from specdemo.limits import LentGPUError, Limits, is_zero_gpu
from specdemo.live import LiveSource, drafter_info
from specdemo.proofs import ProofRequest, ProofUpdate
from specdemo.race import LANES, DrafterInfo, LaneUpdate, PassCosts, RaceRequest
from specdemo.sweeps import HeatResult, SweepRequest, SweepUpdate

if TYPE_CHECKING:
    from specdemo.engine import Engine

SECONDS_APART = 5
"""Of every loan: the weights move to the GPU before the first token, and a race ends before its loan does."""
SHORTEST_RACE = 5

_DEFAULT_DRAFTER = "ngram"
_WAIT = re.compile(r"[Tt]ry again in ([0-9][0-9a-z:, ]*[0-9a-z])")
# The first that fits what `spaces` says in the title and the text of its errors, small letters.
_REASONS = (
    ("illegal duration", "gpu_too_long"),
    ("pending credits", "gpu_pending"),
    ("no gpu was available", "gpu_none_free"),
    ("queue timeout", "gpu_none_free"),
    ("quota", "gpu_quota"),
    ("aborted", "gpu_taken_back"),
    ("expired", "gpu_stale_page"),
)


@dataclass(frozen=True, slots=True)
class _Refused:
    """A SpecdemoError as a plain value: of an exception the border lets only the class's name through."""

    kind: str
    message: str


def borrow_gpu() -> Callable[..., Any] | None:
    """`spaces.GPU` on a ZeroGPU Space, None elsewhere. Call it before torch is imported: it stands in for CUDA."""
    if not is_zero_gpu(os.environ):
        return None
    borrow: Callable[..., Any] = import_module("spaces").GPU
    return borrow


class ZeroSource(LiveSource):
    """See race.EventSource. Made and loaded on the main thread before the page is served, as ZeroGPU asks.

    `borrow` is `spaces.GPU`. Only races run here: what takes minutes would use up a visitor's day.
    """

    def __init__(self, borrow: Callable[..., Any], target: str, limits: Limits) -> None:
        super().__init__(target, limits)
        self._device_name = "ZeroGPU"
        self._load()
        engine = self._engine

        # A generator function of its own: what is lent to is seen at start-up, and yields cross the border one by one.
        def race_on_gpu(request: RaceRequest) -> Iterator[LaneUpdate | _Refused]:
            assert engine is not None, "checked before a GPU is asked for"
            try:
                yield from _in_time(engine.race(request), self.seconds(request))
            except SpecdemoError as error:
                yield _Refused(type(error).__name__, str(error))

        self._race_on_gpu = borrow(duration=self.seconds)(race_on_gpu)

    def start(self) -> None:
        """See race.EventSource.start; all is loaded already."""

    def seconds(self, request: RaceRequest) -> int:
        """How long the GPU is asked for: who has less left is refused, and shorter loans come sooner."""
        longest = self._limits.gpu_seconds
        assert longest is not None, "a Spacefile without it is refused"
        share = request.settings.max_new_tokens / self._limits.max_new_tokens
        return min(longest, SECONDS_APART + max(SHORTEST_RACE, math.ceil(share * (longest - SECONDS_APART))))

    def drafters(self) -> tuple[DrafterInfo, ...]:
        """See race.EventSource.drafters: those that were loaded at start."""
        return tuple(map(drafter_info, self._menu()))

    def check(self, request: RaceRequest) -> None:
        """See race.EventSource.check."""
        if request.precision != "auto":
            raise SettingsError(f"the precision is {request.precision!r}; on ZeroGPU it is auto alone. Choose that.")
        if request.drafter not in self._menu():
            raise SettingsError(f"the drafter is {request.drafter!r}; this page has {', '.join(self._menu())}.")
        super().check(request)

    def race(self, request: RaceRequest) -> Iterator[LaneUpdate]:
        """See race.EventSource.race. On the asker's own thread, whose context says whose quota it is."""
        self.check(request)
        with self._turns.first():
            updates = self._race_on_gpu(request)
            try:
                for update in updates:
                    if isinstance(update, _Refused):
                        raise getattr(errors, update.kind, SpecdemoError)(update.message)
                    self._note_device(update)
                    yield update
            except SpecdemoError:
                raise
            except Exception as error:
                raise translated(error) from error
            finally:
                updates.close()

    def provenance(self, request: RaceRequest) -> dict[str, Any]:
        """See race.EventSource.provenance; which GPU is lent is known after the first race."""
        return {**super().provenance(request), "device": self._device_name}

    def prove(self, request: ProofRequest) -> Iterator[ProofUpdate]:
        """Refused."""
        raise LentGPUError("gpu_race_only")

    def sweep(
        self, request: SweepRequest, done: Sequence[HeatResult] = (), seconds: float | None = None
    ) -> Iterator[SweepUpdate]:
        """Refused."""
        raise LentGPUError("gpu_race_only")

    def advise(self, request: AdviceRequest) -> Iterator[AdviceUpdate]:
        """Refused."""
        raise LentGPUError("gpu_race_only")

    def batch(self, request: BatchRequest) -> Iterator[BatchUpdate]:
        """Refused."""
        raise LentGPUError("gpu_race_only")

    def pass_costs(self) -> PassCosts:
        """Refused."""
        raise LentGPUError("gpu_race_only")

    def _menu(self) -> tuple[str, ...]:
        return self._limits.drafters or (_DEFAULT_DRAFTER, "none")

    def _prepare(self, engine: "Engine") -> None:
        """Every drafter of the menu: what is made later would not be on the GPU. No pass runs here, where none is."""
        for name in {*self._menu(), "none"}:
            engine.drafter(name)
        engine.at("auto")

    def _note_device(self, update: LaneUpdate) -> None:
        if isinstance(update.event, Started):
            self._device_name = str(update.event.provenance.get("device", self._device_name))


def translated(error: Exception) -> LentGPUError:
    """What `spaces` raised as a sentence of ours; its own may hold markup and offers."""
    said = f"{getattr(error, 'title', '')} {getattr(error, 'message', error)}"
    key = next((key for words, key in _REASONS if words in said.lower()), "gpu_failed")
    wait = _WAIT.search(said)
    return LentGPUError(key, kind=type(error).__name__, wait=wait[1] if wait else "")


def _in_time(updates: Iterator[LaneUpdate], seconds: int) -> Iterator[LaneUpdate]:
    """The updates, and each lane's end when the loan is nearly over."""
    deadline = time.monotonic() + seconds - SECONDS_APART
    open_lanes = list(LANES)
    try:
        for update in updates:
            if isinstance(update.event, Finished):
                open_lanes.remove(update.lane)
            yield update
            if open_lanes and time.monotonic() > deadline:
                message = f"the GPU was lent for {seconds} seconds, which are over; ask for fewer tokens."
                for lane in open_lanes:
                    yield LaneUpdate(lane, Finished("cancelled", message))
                return
    finally:
        getattr(updates, "close", lambda: None)()
