"""A scripted engine for tests of the page: it answers with the prompt's own words and never computes anything."""

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from specdemo.batches import BatchRequest, BatchUpdate
from specdemo.errors import ModelError, PromptError
from specdemo.events import Event, Finished, Reading, Round, Started
from specdemo.proofs import ProofRequest, ProofUpdate
from specdemo.race import LANES, DrafterInfo, EngineStatus, LaneUpdate, PassCosts, RaceRequest, race
from specdemo.spans import Span, Status
from tests.fakes_batches import scripted_batches
from tests.fakes_proofs import scripted_proof

Update = TypeVar("Update")

TARGET_SECONDS = 0.032
DRAFT_SECONDS = 0.006
TARGET_BYTES = 540_000_000
DRAFT_BYTES = 98_000_000
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
_WORDS = [
    "the",
    "leaves",
    "change",
    "colour",
    "because",
    "days",
    "grow",
    "shorter",
    "and",
    "trees",
    "stop",
    "making",
    "the",
    "green",
    "pigment",
]


def words_for(prompt: str, count: int) -> list[str]:
    """An answer of `count` tokens that begins with the prompt, so that two visitors' answers differ."""
    own = [f" {word}" for word in prompt.split()]
    rest = [f" {_WORDS[i % len(_WORDS)]}" for i in range(count)]
    return [*own, *rest][: count - 1] + [".\n"] if count > 1 else [own[0]]


@dataclass
class ScriptedSource:
    """An EventSource whose rounds are a fixed pattern. `seconds_per_update` paces it in real time."""

    seconds_per_update: float = 0.0
    num_parts: int = 0  # of the prompt, told before the race starts
    num_tokens: int | None = None
    tokens: Sequence[str] | None = None
    state: str = "ready"
    failing_lane: str | None = None
    reason: str = "length"
    slow_draft: bool = False
    progress: float | None = None
    differ: bool = False
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
        with self._lock:
            self.started += 1
            self.running += 1
            self.most_running = max(self.most_running, self.running)
        try:
            yield from self._paced(request)
        finally:
            with self._lock:
                self.running -= 1
                self.closed += 1

    def prove(self, request: ProofRequest) -> Iterator[ProofUpdate]:
        yield from self._counted(scripted_proof(request))

    def batch(self, request: BatchRequest) -> Iterator[BatchUpdate]:
        yield from self._counted(scripted_batches(request))

    def _counted(self, updates: Iterator[Update]) -> Iterator[Update]:
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

    def _paced(self, request: RaceRequest) -> Iterator[LaneUpdate]:
        count = self.num_tokens or request.settings.max_new_tokens
        answer = list(self.tokens) if self.tokens is not None else words_for(request.prompt, count)
        spans: dict[int, tuple[Span, ...]] = {}
        lanes = {lane: self._lane(lane, request, answer, spans) for lane in LANES}
        for lane, event in race(lanes):
            time.sleep(self.seconds_per_update)
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


def scripted_rounds(answer: Sequence[str], k: int, draft_seconds: float) -> Iterator[tuple[Round, tuple[Span, ...]]]:
    """Rounds that emit `answer`: the number accepted cycles, so that every verdict occurs."""
    position = index = 0
    while position < len(answer):
        room = len(answer) - position - 1
        drafted = min(k, room)
        accepted = min((index * 3 + 1) % (k + 1), drafted) if k else 0
        yield _round(index, answer, position, drafted, accepted, draft_seconds)
        position += accepted + 1
        index += 1


def _round(
    index: int, answer: Sequence[str], position: int, drafted: int, accepted: int, draft_seconds: float
) -> tuple[Round, tuple[Span, ...]]:
    kind: Any = "plain" if not drafted else "bonus" if accepted == drafted else "corrected"
    dropped = [(90_000 + i, f" wrong{i}") for i in range(drafted - accepted)]
    kept = [(_token_id(position + i, answer), answer[position + i]) for i in range(accepted + 1)]
    statuses: list[Status] = ["rejected" if i == 0 else "discarded" for i in range(len(dropped))]
    spans = [Span(token_id, text, "accepted") for token_id, text in kept[:-1]]
    spans += [Span(token_id, text, status) for (token_id, text), status in zip(dropped, statuses, strict=True)]
    spans.append(Span(kept[-1][0], kept[-1][1], kind))
    event = Round(
        index=index,
        draft_token_ids=tuple(token_id for token_id, _ in [*kept[:-1], *dropped]),
        num_accepted=accepted,
        next_token_id=kept[-1][0],
        next_token_kind=kind,
        draft_seconds=draft_seconds * drafted,
        verify_seconds=TARGET_SECONDS + 0.001 * drafted,
        overhead_seconds=0.0008,
        draft_bytes=DRAFT_BYTES * drafted,
        verify_bytes=TARGET_BYTES,
    )
    return event, tuple(spans)


def _token_id(position: int, answer: Sequence[str]) -> int:
    return 1000 + sum(map(ord, answer[position])) % 40_000


class Visit:
    """What Gradio tells about a request."""

    def __init__(self, language: str = "en-US") -> None:
        self.headers = {"accept-language": language}
        self.session_hash = "visit"
