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
    is_for,
    reads_a_folder,
)
from specdemo.device import DeviceThread
from specdemo.errors import ModelError, SettingsError, SpecdemoError
from specdemo.limits import Limits
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

    def __init__(
        self, target: str = EMBEDDED_TARGET, limits: Limits | None = None, offered: Sequence[str] = ()
    ) -> None:
        """`offered` are drafters, folders or repositories, that visitors may choose besides those that come along."""
        self.target, self._offered = target, tuple(offered)
        self._limits = limits or Limits()
        self._drafters = tuple(
            DrafterInfo(name, DRAFTER_LABELS[name]) for name in DRAFTER_LABELS if is_for(name, target)
        )
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
        if self._limits.drafters:
            return tuple(map(drafter_info, self._limits.drafters))
        others = [info for info in self._drafters if info.name != self._default.name]
        return (self._default, *sorted(others, key=lambda info: info.name == "none"))

    def check(self, request: RaceRequest) -> None:
        """See race.EventSource.check."""
        check_prompt(request.prompt, request.system)
        self._check_limits(request.settings.max_new_tokens, request.drafter)
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
        self._check_limits(request.max_new_tokens, *request.drafters)
        with self._turns.first():
            yield from self._device.iterate(
                lambda: import_module("specdemo.proof").prove(self._ready_engine(), request)
            )

    def sweep(
        self, request: SweepRequest, done: Sequence[HeatResult] = (), seconds: float | None = None
    ) -> Iterator[SweepUpdate]:
        """See race.EventSource.sweep."""
        self._check_limits(request.max_new_tokens, *request.drafters)
        self._check_target(request.target)
        run = import_module("specdemo.tune").run_sweep
        yield from self._turns.behind(
            self._device.iterate(lambda: run(self._ready_engine().at(request.precision), request, done, seconds))
        )

    def advise(self, request: AdviceRequest) -> Iterator[AdviceUpdate]:
        """See race.EventSource.advise."""
        self._check_limits(request.max_new_tokens, *request.drafters)
        self._check_target(request.target)
        advise = import_module("specdemo.tune").advise
        with self._turns.first():
            yield from self._device.iterate(lambda: advise(self._ready_engine().at(request.precision), request))

    def batch(self, request: BatchRequest) -> Iterator[BatchUpdate]:
        """See race.EventSource.batch."""
        self._check_limits(request.max_new_tokens, request.drafter)
        self._check_target(request.target)
        updates = import_module("specdemo.batching").batch_updates
        yield from self._turns.behind(self._device.iterate(lambda: updates(self._ready_engine(), request)))

    def provenance(self, request: RaceRequest) -> dict[str, Any]:
        """See race.EventSource.provenance."""
        return self._ready_engine().at(request.precision).provenance(request.drafter, request)

    def pass_costs(self) -> PassCosts:
        """See race.EventSource.pass_costs."""
        engine = self._ready_engine()
        measure = import_module("specdemo.costs").pass_costs
        with self._turns.first():
            return PassCosts(self._device.submit(lambda: measure(engine)).result(), engine.provenance("none"))

    def _check_target(self, target: str) -> None:
        if target != self.target:
            raise SettingsError(f"the target is {target!r}; this page runs {self.target}.")

    def _ready_engine(self) -> "Engine":
        if self._engine is None:
            raise ModelError(f"The model is not ready: {self._status.message} Recorded races play meanwhile.")
        return self._engine

    def _load(self) -> None:
        try:
            # A late import: torch and transformers take seconds that the page does not wait for.
            engine_class = import_module("specdemo.engine").Engine
            engine = engine_class.load(self.target, self._report)
            for spec in self._offered:
                import_module("specdemo.places").drafter_folder(spec, self._report)
            self._report("Preparing the drafter.", None)
            self._drafters = import_module("specdemo.offers").offers(engine.target, self._offered)
            self._prepare(engine)
        except SpecdemoError as error:
            self._status = EngineStatus("failed", str(error))
        except Exception as error:  # noqa: BLE001 - a thread must end in a state that the page can show
            _LOG.exception("loading failed")
            self._status = EngineStatus("failed", f"Loading failed unexpectedly ({type(error).__name__}); see the log.")
        else:
            self._engine = engine
            self._status = EngineStatus("ready", "Ready.", 1.0)

    def _prepare(self, engine: "Engine") -> None:
        """What the first race need not wait for."""
        offered = self._limits.drafters
        self._default = drafter_info(offered[0]) if offered else _choose_default(engine)
        engine.warm_up(self._default.name)

    def _check_limits(self, num_tokens: int, *drafters: str) -> None:
        self._limits.check_tokens(num_tokens)
        offered = {*self._limits.drafters, *(info.name for info in self._drafters)}
        for name in drafters:
            self._limits.check_drafter(name)
            check_drafter_name(name)
            if reads_a_folder(name) and name not in offered:
                # A visitor of a shared page must not make it read any folder or download any repository.
                raise SettingsError(
                    f"the drafter is {name!r}; the page loads no model that a visitor names. "
                    "Choose one from the menu, or use the command line."
                )

    def _report(self, message: str, progress: float | None) -> None:
        self._status = EngineStatus("loading" if progress is None else "fetching", message, progress)


def drafter_info(name: str) -> DrafterInfo:
    """Of a drafter with a setting, such as a folder, the label is its family's."""
    return DrafterInfo(name, DRAFTER_LABELS.get(name) or DRAFTER_LABELS.get(name.partition(":")[0], name))


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
