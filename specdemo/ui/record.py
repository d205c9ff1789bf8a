"""What one visitor's session holds: the race that was asked for and the one that is shown. Plain values, no tensors.

One object per session. The running generator and the light events of the same session share it by reference, so that a
stopped race can be saved and a newer request ends an older run.
"""

from dataclasses import dataclass, field
from typing import Any

from specdemo.events import Finished
from specdemo.race import LANES, LaneUpdate, RaceRequest
from specdemo.reports import request_document
from specdemo.traces import Trace
from specdemo.ui.moved import Moved


@dataclass(slots=True)
class RaceRecord:
    """The session's state. `wanted` waits to be run; `ticket` names the run that may still append.

    `moved` is what lessons have moved and nobody has put back.
    """

    wanted: RaceRequest | None = None
    ticket: int = 0
    shown: Trace | None = None
    updates: list[LaneUpdate] = field(default_factory=list)
    moved: Moved | None = None

    def want(self, request: RaceRequest) -> None:
        """Ask for a race; a running one ends at its next update."""
        self.ticket += 1
        self.wanted = request

    def take(self) -> RaceRequest | None:
        """The race to run now; None when another run took it or it was stopped while it waited."""
        request, self.wanted = self.wanted, None
        return request

    def stop(self) -> None:
        """End the waiting and the running race."""
        self.ticket += 1
        self.wanted = None

    def begin(self, request: RaceRequest, provenance: dict[str, Any]) -> None:
        """A live race starts to be shown."""
        title = " ".join(request.prompt.split())[:60]
        self.shown = Trace(title, "live", request_document(request), provenance, ())
        self.updates = []

    def show(self, trace: Trace) -> None:
        """A recorded or opened race is shown; a running one ends."""
        self.stop()
        self.shown = trace
        self.updates = list(trace.updates)

    def trace(self) -> Trace | None:
        """The race that is shown, its unfinished lanes closed as cancelled; None before the first."""
        if self.shown is None or not self.updates:
            return None
        finished = {update.lane for update in self.updates if isinstance(update.event, Finished)}
        ends = [LaneUpdate(lane, Finished("cancelled")) for lane in LANES if lane not in finished]
        shown = self.shown
        return Trace(shown.title, shown.category, shown.request, shown.provenance, (*self.updates, *ends))
