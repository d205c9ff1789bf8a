"""A scripted engine for tests of the page: it answers with the prompt's own words and never computes anything."""

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from specdemo.advice import AdviceRequest, AdviceUpdate
from specdemo.batches import BatchRequest, BatchUpdate
from specdemo.catalog import EMBEDDED_TARGET
from specdemo.errors import ModelError, PromptError
from specdemo.events import Event, Finished, Reading, Started
from specdemo.proofs import ProofRequest, ProofUpdate
from specdemo.race import LANES, DrafterInfo, EngineStatus, LaneUpdate, PassCosts, RaceRequest, race
from specdemo.spans import Span
from specdemo.sweeps import HeatResult, SweepRequest, SweepUpdate
from tests.fakes_batches import scripted_batches
from tests.fakes_proofs import scripted_proof
from tests.fakes_rounds import DRAFT_SECONDS, scripted_rounds, words_for
from tests.fakes_tune import scripted_advice, scripted_sweep

Update = TypeVar("Update")
HOSTILE = (
    "<script>window.__pwn=1</script>",
    "<img src=x onerror=window.__pwn=2>",
    " ${window.__pwn=3}",
    " {{7*7}}",
    " &amp;",
    "\\d+ C:\\users\\",
    "\u0007",
    "\n\n",
    "\t",
    " \u05e9\u05dc\u05d5\u05dd",
    "",
    "\U0001f469\u200d\U0001f469",
    " $& $1",
    "__i18n__",
    " \u202eabc",
)


@dataclass
class ScriptedSource:
    """An EventSource whose rounds are a fixed pattern. `seconds_per_update` paces it in real time."""

    seconds_per_update: float = 0.0
    target: str = EMBEDDED_TARGET
    num_parts: int = 0  # of the prompt, told before the race starts
    num_tokens: int | None = None
    tokens: Sequence[str] | None = None
    state: str = "ready"
    failing_lane: str | None = None
    reason: str = "length"
    slow_draft: bool = False
    progress: float | None = None
    differ: bool = False
    resumed_with: tuple[HeatResult, ...] | None = None  # of the newest sweep
    kept_evidence: bool | None = None  # whether the newest race was asked to
    closed: int = 0
    started: int = 0
    running: int = 0
    most_running: int = 0
    _lock: Any = field(default_factory=threading.Lock)

    def start(self) -> None:
        self.state = "ready"

    def is_idle_within(self, seconds: float) -> bool:
        """Whether every race ends within `seconds`."""
        deadline = time.monotonic() + seconds
        while self.running and time.monotonic() < deadline:
            time.sleep(0.02)
        return not self.running

    def status(self) -> EngineStatus:
        message = "The weights are in neither place." if self.state == "failed" else ""
        return EngineStatus(self.state, message, self.progress)

    def drafters(self) -> tuple[DrafterInfo, ...]:
        return (
            DrafterInfo("quantized", "target in 4 bits"),
            DrafterInfo("ngram", "n-gram of the prompt", "no weights"),
        )

    def check(self, request: RaceRequest) -> None:
        if "forbidden" in request.prompt:
            raise PromptError("the prompt says <b>forbidden</b>; say something else.")
        if request.drafter not in {info.name for info in self.drafters()}:
            raise ModelError(f"there is no drafter {request.drafter}; choose quantized or ngram.")

    def provenance(self, request: RaceRequest) -> dict[str, Any]:
        return {"target": request.target, "device": "2 CPU cores", "dtype": "fp32"}

    def pass_costs(self) -> PassCosts:
        return PassCosts(tuple((w, 0.03 + 0.001 * w) for w in (1, 2, 3, 5, 9, 17)), {"device": "2 CPU cores"})

    def race(self, request: RaceRequest) -> Iterator[LaneUpdate]:
        self.kept_evidence = request.settings.evidence
        yield from self._counted(self._lanes(request))

    def prove(self, request: ProofRequest) -> Iterator[ProofUpdate]:
        yield from self._counted(scripted_proof(request))

    def batch(self, request: BatchRequest) -> Iterator[BatchUpdate]:
        yield from self._counted(scripted_batches(request))

    def sweep(
        self, request: SweepRequest, done: Sequence[HeatResult] = (), seconds: float | None = None
    ) -> Iterator[SweepUpdate]:
        self.resumed_with = tuple(done)
        yield from self._counted(scripted_sweep(request, done, seconds))

    def advise(self, request: AdviceRequest) -> Iterator[AdviceUpdate]:
        yield from self._counted(scripted_advice(request))

    def _counted(self, updates: Iterator[Update]) -> Iterator[Update]:
        """The same, paced, and counted while it runs."""
        with self._lock:
            self.started += 1
            self.running += 1
            self.most_running = max(self.most_running, self.running)
        try:
            for update in updates:
                time.sleep(self.seconds_per_update)
                yield update
        finally:
            with self._lock:
                self.running -= 1
                self.closed += 1

    def _lanes(self, request: RaceRequest) -> Iterator[LaneUpdate]:
        count = self.num_tokens or request.settings.max_new_tokens
        answer = list(self.tokens) if self.tokens is not None else words_for(request.prompt, count)
        spans: dict[int, tuple[Span, ...]] = {}
        lanes = {lane: self._lane(lane, request, answer, spans) for lane in LANES}
        for lane, event in race(lanes):
            yield LaneUpdate(lane, event, spans.pop(id(event), ()))

    def _lane(
        self, lane: str, request: RaceRequest, answer: list[str], spans: dict[int, tuple[Span, ...]]
    ) -> Iterator[Event]:
        if lane == self.failing_lane:
            yield Finished("failed", "This cache cannot be rolled back, so <b>this lane</b> cannot run.")
            return
        yield from (Reading(512 * (i + 1), 512 * self.num_parts + 100) for i in range(self.num_parts))
        yield Started((1, 2, 3), request.settings.to_dict(), 0.09, notes=("a note",) if lane == "speculative" else ())
        k = request.settings.num_draft_tokens if lane == "speculative" else 0
        if self.differ and lane == "speculative":
            answer = [*answer[:5], " other", *answer[6:]]
        for event, shown in scripted_rounds(answer, k, DRAFT_SECONDS * (8 if self.slow_draft else 1)):
            spans[id(event)] = shown
            yield event
        yield Finished(self.reason)  # type: ignore[arg-type]


class Visit:
    """What Gradio tells about a request."""

    def __init__(self, language: str = "en-US") -> None:
        self.headers = {"accept-language": language}
        self.session_hash = "visit"
