"""The page's engine where it is a server: races, and says what cannot be asked of one."""

import threading
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from specdemo.advice import AdviceRequest, AdviceUpdate
from specdemo.batches import BatchRequest, BatchUpdate
from specdemo.catalog import DRAFTER_LABELS, SERVER_DRAFTER
from specdemo.errors import ModelError, SettingsError
from specdemo.prompts import check_prompt
from specdemo.proofs import ProofRequest, ProofUpdate
from specdemo.race import DrafterInfo, EngineStatus, LaneUpdate, PassCosts, RaceRequest
from specdemo.remote.engine import RemoteEngine
from specdemo.sweeps import HeatResult, SweepRequest, SweepUpdate


class RemoteSource:
    """See race.EventSource."""

    def __init__(self, engine: RemoteEngine) -> None:
        self._engine = engine
        self.target = engine.server.model
        # One race at a time: two would share the server, and both would look slow.
        self._turn = threading.Lock()

    def start(self) -> None:
        """The server has loaded its model already."""

    def status(self) -> EngineStatus:
        """See race.EventSource.status."""
        return EngineStatus("ready", "Ready.", 1.0)

    def drafters(self) -> tuple[DrafterInfo, ...]:
        """See race.EventSource.drafters."""
        return (
            DrafterInfo(SERVER_DRAFTER, "server: the drafter that it was started with"),
            DrafterInfo("none", DRAFTER_LABELS["none"]),
        )

    def check(self, request: RaceRequest) -> None:
        """See race.EventSource.check."""
        check_prompt(request.prompt, request.system)
        if request.drafter not in (SERVER_DRAFTER, "none"):
            raise SettingsError(
                f"the drafter is {request.drafter!r}; this page races a server, which has the one that it was started "
                f"with. Choose {SERVER_DRAFTER}."
            )
        self._engine.check(request)

    def race(self, request: RaceRequest) -> Iterator[LaneUpdate]:
        """See race.EventSource.race."""
        self.check(request)
        with self._turn:
            yield from self._engine.race(request)

    def provenance(self, request: RaceRequest) -> dict[str, Any]:
        """See race.EventSource.provenance."""
        return self._engine.provenance(request.drafter)

    def prove(self, request: ProofRequest) -> Iterator[ProofUpdate]:
        """See race.EventSource.prove."""
        self._cannot("A server shows no probabilities of its drafts, so nothing can be proved about them here")

    def sweep(
        self, request: SweepRequest, done: Sequence[HeatResult] = (), seconds: float | None = None
    ) -> Iterator[SweepUpdate]:
        """See race.EventSource.sweep."""
        self._cannot("A server's drafter and K are set when it starts; `bench --engine` measures it on many prompts")

    def advise(self, request: AdviceRequest) -> Iterator[AdviceUpdate]:
        """See race.EventSource.advise."""
        self._cannot("A server's drafter and K are set when it starts; `bench --engine` says whether they pay")

    def batch(self, request: BatchRequest) -> Iterator[BatchUpdate]:
        """See race.EventSource.batch."""
        self._cannot("Many requests at once are measured on a model that is loaded here")

    def pass_costs(self) -> PassCosts:
        """See race.EventSource.pass_costs."""
        self._cannot("A server does not say what a pass costs")

    def _cannot(self, why: str) -> NoReturn:
        raise ModelError(f"{why}; start the page without --engine for it.")
