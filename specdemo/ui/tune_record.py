"""What one session holds of the tab "Tune": the newest advice and the sweep that is shown. Plain values, no tensors.

As with a race, the running generator and the light events share it by reference: what was measured stays when a run is
stopped, and a newer request ends an older run.
"""

from dataclasses import dataclass, field
from typing import Any

from specdemo.advice import Advice, AdviceRequest
from specdemo.batches import BatchRequest
from specdemo.memory_use import MemoryUse
from specdemo.sweeps import HeatResult, SweepRequest


@dataclass(slots=True)
class TuneRecord:
    """The session's state. `wanted_*` wait to be run; `ticket` names the sweep that may still add to `results`."""

    wanted_advice: AdviceRequest | None = None
    advised: AdviceRequest | None = None
    advice: Advice | None = None
    wanted_seconds: float | None = None
    wanted_batch: BatchRequest | None = None
    ticket: int = 0
    request: SweepRequest | None = None
    results: list[HeatResult] = field(default_factory=list)
    memory: dict[str, MemoryUse] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether every heat of the sweep was measured."""
        return self.request is not None and len(self.results) >= len(self.request.heats())

    def begin(self, request: SweepRequest, provenance: dict[str, Any]) -> None:
        """Another sweep is shown, of which nothing was measured; a running one ends."""
        self.stop()
        self.request, self.provenance = request, provenance
        self.results, self.memory = [], {}

    def stop(self) -> None:
        """End the waiting and the running sweep; what was measured stays."""
        self.ticket += 1
        self.wanted_seconds = None

    def want(self, seconds: float) -> None:
        """Ask for `seconds` of the sweep that is shown; a running one ends at its next update."""
        self.ticket += 1
        self.wanted_seconds = seconds

    def take(self) -> float | None:
        """The seconds to run now; None when another run took them or it was stopped while it waited."""
        seconds, self.wanted_seconds = self.wanted_seconds, None
        return seconds
