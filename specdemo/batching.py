"""Measures plain and speculative decoding at growing batch sizes: `bench --batch`, and the page's curve.

Every size answers the same requests, so that what is accepted is the same and only the cost of a pass differs. A batch
is always full: where a request has ended the next one takes its place, behind the last one the first again with another
seed, until all have been answered. The clock is the batch's own; prompts are read outside it. Plain and speculative
runs alternate.
"""

from argparse import Namespace
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import count, product
from statistics import geometric_mean
from typing import Any

from specdemo.batches import BATCH_SIZES, BatchPoint, BatchRequest, BatchUpdate, crossing, crossing_sentence
from specdemo.decoding import DecodeRequest, decode_batch
from specdemo.engine import Engine
from specdemo.errors import SettingsError
from specdemo.events import Finished, Round
from specdemo.prompt_set import SweepPrompt
from specdemo.proofs import Step
from specdemo.race import LANES, RaceRequest

DRAFTERS = ("ngram:static", "quantized", "draft-model")
"""Unless others are named: one that costs nothing and two that are models."""

_TURNS = 2
_COLUMNS = (
    *("drafter", "k", "temperature", "rule", "batch_size", "speedup", "low", "high", "plain_tokens_per_second"),
    *("tokens_per_second", "plain_seconds_per_token", "seconds_per_token", "tokens_per_round", "identical"),
)
_CAPTION = (
    f"tokens_per_second: of the whole batch, which is always full; speedup: their ratio, geometric mean of {_TURNS} "
    "turns, low and high the worst and the best; seconds_per_token: what one row waits for each of its tokens; "
    "tokens_per_round: of one row; identical: answers that equal, plain and speculative, what their request gets alone"
)


def batch_updates(engine: Engine, request: BatchRequest) -> Iterator[BatchUpdate]:
    """Measure one size after the other: a BatchPoint as each is known, and Steps on the way.

    Closing the iterator stops the work and frees all caches. Raises ModelError where the target cannot do it.
    """
    measurement = Measurement(engine, request)
    for size in request.batch_sizes:
        yield from measurement.updates(size)


@dataclass(frozen=True, slots=True)
class _Run:
    """All requests answered once by one lane; `num_rounds` counts those of each row."""

    num_tokens: int
    num_rounds: int
    seconds: float
    answers: tuple[tuple[int, ...], ...]

    @property
    def tokens_per_second(self) -> float:
        return self.num_tokens / self.seconds


class Measurement:
    """One drafter, K and rule on one engine, size by size."""

    def __init__(self, engine: Engine, request: BatchRequest) -> None:
        self._engine = engine.at(request.precision)
        self._request = request
        settings = request.settings(0)
        self._prompt_ids = [
            self._engine.encode(RaceRequest(prompt=prompt, drafter=request.drafter, settings=settings))
            for prompt in request.all_prompts()
        ]
        self._drafters = {lane: "none" if lane == "plain" else request.drafter for lane in LANES}
        self._num_rows = max(len(self._prompt_ids), *request.batch_sizes)
        self._alone: dict[str, tuple[tuple[int, ...], ...]] = {}
        self._num_done = 0
        num_alone = 0 if 1 in request.batch_sizes[:1] else 1
        self._num_all = self._num_rows * len(LANES) * (_TURNS * len(request.batch_sizes) + num_alone)
        self._engine.warm_up(request.drafter)

    def updates(self, size: int) -> Iterator[BatchUpdate]:
        """Steps, then the point."""
        turns = []
        for _ in range(_TURNS):
            turn = {}
            for lane in LANES:
                turn[lane] = yield from self._run(lane, size)
            turns.append(turn)
        for lane in LANES if not self._alone else ():
            # A batch of one is its request alone.
            run = turns[0][lane] if size == 1 else (yield from self._run(lane, 1))
            self._alone[lane] = run.answers
        yield self._point(size, turns)

    def _run(self, lane: str, size: int) -> Generator[Step, None, _Run]:
        target, drafter = self._engine.target, self._engine.drafter(self._drafters[lane])
        answers: dict[int, list[int]] = {}
        open_rows = set(range(self._num_rows))
        num_tokens, num_rounds, seconds = 0, 0, 0.0
        with closing(decode_batch(target, drafter, self._requests(), size)) as steps:
            while open_rows:
                step = next(steps)
                rounds = [(number, event) for number, event in step if isinstance(event, Round)]
                for number, event in rounds:
                    answers.setdefault(number, []).extend(event.emitted_token_ids)
                    num_tokens += len(event.emitted_token_ids)
                num_rounds += len(rounds)
                # Its seconds stand in every row's round.
                seconds += rounds[0][1].seconds if rounds else 0.0
                ended = open_rows & {number for number, event in step if isinstance(event, Finished)}
                open_rows -= ended
                self._num_done += len(ended)
                yield Step(self._num_done, self._num_all)
        kept = tuple(tuple(answers[number]) for number in range(self._num_rows))
        return _Run(num_tokens, num_rounds, seconds, kept)

    def _requests(self) -> Iterator[DecodeRequest]:
        for number in count():
            yield DecodeRequest(self._prompt_ids[number % len(self._prompt_ids)], self._request.settings(number))

    def _point(self, size: int, turns: Sequence[dict[str, _Run]]) -> BatchPoint:
        ratios = [turn["speculative"].tokens_per_second / turn["plain"].tokens_per_second for turn in turns]
        rates = {}
        for lane in LANES:
            rates[lane] = sum(turn[lane].num_tokens for turn in turns) / sum(turn[lane].seconds for turn in turns)
        return BatchPoint(
            batch_size=size,
            plain_tokens_per_second=rates["plain"],
            tokens_per_second=rates["speculative"],
            plain_seconds_per_token=size / rates["plain"],
            seconds_per_token=size / rates["speculative"],
            speedup=geometric_mean(ratios),
            low=min(ratios),
            high=max(ratios),
            tokens_per_round=sum(turn["speculative"].num_tokens for turn in turns)
            / sum(turn["speculative"].num_rounds for turn in turns),
            num_identical=sum(
                all(turn[lane].answers[number] == self._alone[lane][number] for turn in turns for lane in LANES)
                for number in range(self._num_rows)
            ),
            num_rows=self._num_rows,
        )


def make_requests(arguments: Namespace, prompts: Sequence[SweepPrompt]) -> list[BatchRequest]:
    """What `bench --batch` asks for, nothing without it; raises SettingsError for a value outside its range.

    `prompts` are those that were named, as a set or a file; without either all examples are answered.
    """
    if not arguments.batch:
        return []
    sizes = (
        BATCH_SIZES if "all" in arguments.batch else sorted({_whole("batch size", text) for text in arguments.batch})
    )
    grid = product(
        arguments.drafter or DRAFTERS,
        arguments.temperature or [0.0],
        arguments.rule or ["auto"],
        [_whole("K", text) for text in arguments.k or ["4"]],
    )
    return [
        BatchRequest(
            drafter=drafter,
            k=k,
            temperature=temperature,
            rule=rule,
            batch_sizes=tuple(sizes),
            max_new_tokens=arguments.max_new_tokens,
            prompts=tuple(prompt.prompt for prompt in prompts) if arguments.prompt_set or arguments.prompts else (),
            target=arguments.target,
            precision=arguments.precision,
        )
        for drafter, temperature, rule, k in grid
    ]


def run(
    engine: Engine, requests: Sequence[BatchRequest], report: Callable[[str, float | None], None]
) -> dict[str, Any]:
    """Measure; the document is plain JSON, laid out like that of `bench.run`. Interrupted, it has what is done."""
    points: dict[BatchRequest, list[BatchPoint]] = {request: [] for request in requests}
    is_interrupted = False
    try:
        for index, (request, found) in enumerate(points.items()):
            for update in batch_updates(engine, request):
                if isinstance(update, BatchPoint):
                    found.append(update)
                else:
                    share = (index + update.num_done / update.num_all) / len(points)
                    report(f"{request.drafter}, K {request.k}", share)
    except KeyboardInterrupt:
        is_interrupted = True
    crossings = [
        _named(request) | {"crossing": crossing(found), "sentence": crossing_sentence(found)}
        for request, found in points.items()
    ]
    sentences = [
        f"{line['drafter']}, K {line['k']}, T {line['temperature']:g}: {line['sentence']}" for line in crossings
    ]
    return {
        "title": f"{engine.target.name}: many requests at once",
        "caption": "\n".join([_CAPTION, *sentences]),
        "columns": list(_COLUMNS),
        "rows": [
            _named(request) | asdict(point) | {"identical": f"{point.num_identical}/{point.num_rows}"}
            for request, found in points.items()
            for point in found
        ],
        "crossings": crossings,
        "prompts": list(requests[0].all_prompts()),
        "is_interrupted": is_interrupted,
        "provenance": engine.provenance("none"),
    }


def _named(request: BatchRequest) -> dict[str, Any]:
    return {
        "drafter": request.drafter,
        "k": request.k,
        "temperature": request.temperature,
        "rule": request.settings(0).resolved_rule,
    }


def _whole(label: str, text: str) -> int:
    if not text.isdecimal():
        raise SettingsError(
            f"the {label} is {text!r}; it must be a whole number" + (", or all." if label != "K" else ".")
        )
    return int(text)
