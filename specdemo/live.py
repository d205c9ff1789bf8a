"""The live event source: loads the engine in the background and races on it, one race at a time.

Importing this module imports neither torch nor transformers: the page must be there before they are.
"""

import logging
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from importlib import import_module
from typing import TYPE_CHECKING, Any

from specdemo.advice import AdviceRequest, AdviceUpdate
from specdemo.batches import BatchRequest, BatchUpdate
from specdemo.catalog import (
    DRAFTER_LABELS,
    EMBEDDED_TARGET,
    check_drafter_name,
    check_precision,
    drafter_note,
    reads_a_folder,
)
from specdemo.device import DeviceThread
from specdemo.errors import ModelError, SettingsError, SpecdemoError
from specdemo.prompts import check_prompt
from specdemo.proofs import ProofRequest, ProofUpdate
from specdemo.race import DrafterInfo, EngineStatus, LaneUpdate, PassCosts, RaceRequest
from specdemo.sweeps import HeatResult, SweepRequest, SweepUpdate
from specdemo.turns import Turns

if TYPE_CHECKING:
    from specdemo.engine import Engine

_LOG = logging.getLogger(__name__)
_PREFERRED = "quantized"
_FALLBACK = "ngram"
_HIGHEST_PAYING_COST = 0.7
"""A draft pass dearer than this share of a target pass cannot pay at any acceptance that is seen in practice."""


class LiveSource:
    """See race.EventSource. Weights are shared; everything of one race lives in its iterator."""

    def __init__(self, target: str = EMBEDDED_TARGET) -> None:
        self._target = target
        self._engine: Engine | None = None
        self._default = DrafterInfo(_PREFERRED, DRAFTER_LABELS[_PREFERRED])
        self._status = EngineStatus("absent", "The model is not loaded yet.")
        self._start_lock = threading.Lock()
        self._turns = Turns()
        self._device = DeviceThread()
        self._loading: Future[None] | None = None

    def start(self) -> None:
        """See race.EventSource.start."""
        with self._start_lock:
            if self._loading is None:
                self._status = EngineStatus("loading", "Starting.")
                self._loading = self._device.submit(self._load)

    def status(self) -> EngineStatus:
        """See race.EventSource.status."""
        return self._status

    def drafters(self) -> tuple[DrafterInfo, ...]:
        """See race.EventSource.drafters."""
        others = [DrafterInfo(name, DRAFTER_LABELS[name]) for name in DRAFTER_LABELS if name != self._default.name]
        return (self._default, *sorted(others, key=lambda info: info.name == "none"))

    def check(self, request: RaceRequest) -> None:
        """See race.EventSource.check."""
        check_prompt(request.prompt, request.system)
        _check_visitors_drafter(request.drafter)
        check_precision(request.precision)
        self._check_target(request.target)
        self._ready_engine().encode(request)

    def race(self, request: RaceRequest) -> Iterator[LaneUpdate]:
        """See race.EventSource.race."""
        self.check(request)
        with self._turns.first():
            yield from self._device.iterate(lambda: self._ready_engine().at(request.precision).race(request))

    def prove(self, request: ProofRequest) -> Iterator[ProofUpdate]:
        """See race.EventSource.prove."""
        for drafter in request.drafters:
            _check_visitors_drafter(drafter)
        with self._turns.first():
            yield from self._device.iterate(
                lambda: import_module("specdemo.proof").prove(self._ready_engine(), request)
            )

    def sweep(
        self, request: SweepRequest, done: Sequence[HeatResult] = (), seconds: float | None = None
    ) -> Iterator[SweepUpdate]:
        """See race.EventSource.sweep."""
        for drafter in request.drafters:
            _check_visitors_drafter(drafter)
        self._check_target(request.target)
        run = import_module("specdemo.tune").run_sweep
        yield from self._turns.behind(
            self._device.iterate(lambda: run(self._ready_engine().at(request.precision), request, done, seconds))
        )

    def advise(self, request: AdviceRequest) -> Iterator[AdviceUpdate]:
        """See race.EventSource.advise."""
        for drafter in request.drafters:
            _check_visitors_drafter(drafter)
        self._check_target(request.target)
        advise = import_module("specdemo.tune").advise
        with self._turns.first():
            yield from self._device.iterate(lambda: advise(self._ready_engine().at(request.precision), request))

    def batch(self, request: BatchRequest) -> Iterator[BatchUpdate]:
        """See race.EventSource.batch."""
        _check_visitors_drafter(request.drafter)
        self._check_target(request.target)
        updates = import_module("specdemo.batching").batch_updates
        yield from self._turns.behind(self._device.iterate(lambda: updates(self._ready_engine(), request)))

    def provenance(self, request: RaceRequest) -> dict[str, Any]:
        """See race.EventSource.provenance."""
        return self._ready_engine().at(request.precision).provenance(request.drafter)

    def pass_costs(self) -> PassCosts:
        """See race.EventSource.pass_costs."""
        engine = self._ready_engine()
        measure = import_module("specdemo.costs").pass_costs
        with self._turns.first():
            return PassCosts(self._device.submit(lambda: measure(engine)).result(), engine.provenance("none"))

    def _check_target(self, target: str) -> None:
        if target != self._target:
            raise SettingsError(f"the target is {target!r}; this page runs {self._target}.")

    def _ready_engine(self) -> "Engine":
        if self._engine is None:
            raise ModelError(f"The model is not ready: {self._status.message} Recorded races play meanwhile.")
        return self._engine

    def _load(self) -> None:
        try:
            # A late import: torch and transformers take seconds that the page does not wait for.
            engine_class = import_module("specdemo.engine").Engine
            engine = engine_class.load(self._target, self._report)
            self._report("Preparing the drafter.", None)
            self._default = _choose_default(engine)
            engine.warm_up(self._default.name)
        except SpecdemoError as error:
            self._status = EngineStatus("failed", str(error))
        except Exception as error:  # noqa: BLE001 - a thread must end in a state that the page can show
            _LOG.exception("loading failed")
            self._status = EngineStatus("failed", f"Loading failed unexpectedly ({type(error).__name__}); see the log.")
        else:
            self._engine = engine
            self._status = EngineStatus("ready", "Ready.", 1.0)

    def _report(self, message: str, progress: float | None) -> None:
        self._status = EngineStatus("loading" if progress is None else "fetching", message, progress)


def _check_visitors_drafter(name: str) -> None:
    check_drafter_name(name)
    if reads_a_folder(name):
        # A visitor of a shared page must not make it read any folder or download any repository.
        raise SettingsError(
            f"the drafter is {name!r}; the page loads no model that a visitor names. "
            "Choose one from the menu, or use the command line."
        )


def _choose_default(engine: "Engine") -> DrafterInfo:
    """`quantized` where its kernel is fast on this machine, else n-grams, with the reason."""
    try:
        cost = engine.relative_draft_cost(_PREFERRED)
    except (SpecdemoError, RuntimeError, NotImplementedError) as error:
        reason = drafter_note("note_no_four_bit", error=str(error).splitlines()[0])
        return DrafterInfo(_FALLBACK, DRAFTER_LABELS[_FALLBACK], reason)
    if cost <= _HIGHEST_PAYING_COST:
        return DrafterInfo(_PREFERRED, DRAFTER_LABELS[_PREFERRED])
    reason = drafter_note("note_too_dear", cost=f"{cost:.2f}")
    return DrafterInfo(_FALLBACK, DRAFTER_LABELS[_FALLBACK], reason)
