"""Runs a sweep heat by heat, and says beforehand how long it will take."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import cache

from specdemo.engine import Engine
from specdemo.events import Started
from specdemo.memory import memory_of, reset_peak
from specdemo.metrics import summarize
from specdemo.sweeps import PLAIN, Heat, HeatResult, SweepProgress, SweepRequest, SweepUpdate
from specdemo.tune.heats import lane_request, run_heat, ticking
from specdemo.tune.widths import between

_TRIED_TOKENS = 24


def run_sweep(
    engine: Engine, request: SweepRequest, done: Sequence[HeatResult] = (), seconds: float | None = None
) -> Iterator[SweepUpdate]:
    """See race.EventSource.sweep. Warm-up is apart: every drafter runs a little before anything is kept.

    Raises PromptError for a prompt that does not fit and SpecdemoError for a drafter that cannot be had, at once.
    """
    heats = request.heats()
    finished = {result.heat for result in done}
    left = [heat for heat in heats if heat not in finished]
    for heat in left[:: len(request.drafters)]:
        engine.encode(lane_request(request, heat, PLAIN))
    reset_peak(engine.target.lm.device)
    for drafter in request.drafters:
        engine.drafter(drafter)
    progress = SweepProgress(len(heats) - len(left), len(heats))
    yield progress
    forecast = yield from _tried(engine, request, progress)
    yield from (memory_of(engine, drafter, forecast.longest) for drafter in request.drafters)
    spent = 0.0
    for index, heat in enumerate(left):
        progress = SweepProgress(len(heats) - len(left) + index, len(heats), forecast.seconds(left[index:]))
        yield progress
        if seconds is not None and spent + forecast.seconds([heat]) > seconds:
            return
        running = run_heat(engine, request, heat)
        result = yield from ticking(running, progress)
        spent += forecast.learn(result)
        yield result
    yield SweepProgress(len(heats), len(heats), 0.0)


def _tried(engine: Engine, request: SweepRequest, start: SweepProgress) -> Generator[SweepUpdate, None, "_Forecast"]:
    """A short heat of every drafter with the smallest and the largest K, behind one that nobody counts."""
    lanes = {}
    ks = tuple(dict.fromkeys((min(request.ks), max(request.ks))))
    short = replace(
        request,
        prompts=request.prompts[:1],
        temperatures=request.temperatures[:1],
        rules=request.rules[:1],
        ks=ks,
        max_new_tokens=min(_TRIED_TOKENS, request.max_new_tokens),
    )
    for heat in short.heats():
        engine.warm_up(heat.drafter)
        running = run_heat(engine, short, heat)
        result = yield from ticking(running, start)
        lanes[heat.drafter] = {k: _Pace(events) for k, events in result.lanes.items()}
    return _Forecast(engine, request, lanes)


class _Pace:
    """What a lane took: seconds for a token of the prompt, and of the answer."""

    def __init__(self, events: Sequence) -> None:
        summary = summarize(events)
        num_read = sum(len(event.prompt_token_ids) for event in events if isinstance(event, Started))
        self.reading = summary.prefill_seconds / max(num_read, 1)
        self.writing = summary.decode_seconds / max(summary.num_tokens, 1)


class _Forecast:
    """Seconds of heats by short trials, corrected by what finished heats took against their own forecast."""

    def __init__(self, engine: Engine, request: SweepRequest, paces: dict[str, dict[int, _Pace]]) -> None:
        self._request, self._paces = request, paces
        self._foreseen = self._taken = 0.0
        self._engine = engine
        self._num_read = cache(self._encoded_length)

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt with a whole answer."""
        num_prompts = len(self._request.prompts)
        return max(map(self._num_read, range(num_prompts))) + self._request.max_new_tokens

    def seconds(self, heats: Sequence[Heat]) -> float:
        """Of heats to come."""
        factor = self._taken / self._foreseen if self._foreseen else 1.0
        return factor * sum(map(self._uncorrected, heats))

    def learn(self, result: HeatResult) -> float:
        """Take in what a heat took by its lanes' own clocks, and return it: pauses for other people are not in it."""
        summaries = [summarize(events) for events in result.lanes.values()]
        taken = sum(one.prefill_seconds + one.decode_seconds for one in summaries)
        self._taken += taken
        self._foreseen += self._uncorrected(result.heat)
        return taken

    def _uncorrected(self, heat: Heat) -> float:
        lengths = {"reading": self._num_read(heat.prompt_index), "writing": self._request.max_new_tokens}
        lanes = (PLAIN, *self._request.ks)
        return sum(length * self._at(heat.drafter, k, what) for k in lanes for what, length in lengths.items())

    def _encoded_length(self, prompt_index: int) -> int:
        heat = Heat(prompt_index, self._request.temperatures[0], self._request.rules[0], self._request.drafters[0])
        return len(self._engine.encode(lane_request(self._request, heat, PLAIN)))

    def _at(self, drafter: str, k: int, what: str) -> float:
        """On the line between the two K that were tried."""
        return between({tried: getattr(pace, what) for tried, pace in self._paces[drafter].items()}, k)
