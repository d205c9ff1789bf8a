"""Tries every drafter at a large K, drops the worse half twice, and measures the best two beside plain decoding."""

import time
from collections.abc import Generator, Iterator, Sequence

from specdemo import costs
from specdemo.advice import (
    LARGE_K,
    NONE,
    Advice,
    AdviceRequest,
    AdviceStep,
    AdviceUpdate,
    Estimate,
    best_of_each,
    decide,
)
from specdemo.engine import Engine
from specdemo.errors import ModelError, SpecdemoError
from specdemo.points import Point, points
from specdemo.prompt_set import SweepPrompt
from specdemo.race import RaceRequest
from specdemo.spread import Interval
from specdemo.stretches import stretch_interval
from specdemo.sweeps import PLAIN, Heat, HeatResult, SweepRequest
from specdemo.tune.heats import run_lanes, ticking
from specdemo.tune.trials import Trial

_STAGES = ((1.0, 0.25), (0.5, 0.15), (0.25, 0.15))
"""(Share of the drafters that are tried further, share of the time it may take); the rest measures the best two."""

_FEWEST = 2


def advise(engine: Engine, request: AdviceRequest) -> Iterator[AdviceUpdate]:
    """See race.EventSource.advise."""
    prompts = [engine.encode(_race_request(request, prompt, NONE, LARGE_K)) for prompt in request.prompts]
    plain = Trial(engine, NONE, request.settings(LARGE_K), prompts)
    trials, failures = [], []
    for index, drafter in enumerate(request.drafters):
        yield AdviceStep(drafter, 0.1 * index / len(request.drafters))
        try:
            engine.drafter(drafter)
            engine.warm_up(drafter)
            trials.append(Trial(engine, drafter, request.settings(LARGE_K), prompts))
        except SpecdemoError as error:
            failures.append((drafter, str(error)))
    if not trials:
        raise ModelError(f"no drafter can be had here; the first says: {failures[0][1]}")
    start = time.perf_counter()
    passes = dict(costs.pass_costs(engine))
    yield from _try(trials, plain, passes, request.seconds)
    every = [estimate for trial in trials for estimate in trial.estimates(plain, passes)]
    estimates = best_of_each(every)
    yield AdviceStep("", 0.6)
    results = yield from _settle(engine, request, estimates[:_FEWEST], start + request.seconds)
    measured = _points(request, estimates[:_FEWEST], results)
    best, reason = decide(every, measured)
    yield Advice(
        drafter=best.drafter if best else NONE,
        k=best.k if best else 0,
        speedup=best.speedup if best else None,
        interval=_interval(best, estimates, results) if best else None,
        reason=reason,
        estimates=estimates,
        every=tuple(every),
        measured=measured,
        verify_costs=tuple((width, seconds / passes[1]) for width, seconds in passes.items()),
        num_tokens=sum(trial.num_tokens for trial in trials),
        seconds=time.perf_counter() - start,
        failures=tuple(failures),
    )


def _try(trials: list[Trial], plain: Trial, passes: dict[int, float], seconds: float) -> Iterator[AdviceStep]:
    """The stages: who is left tries on, by turns, until the stage's time is over."""
    share, left = 0.1, list(trials)
    for keep, part in _STAGES:
        num_left = max(_FEWEST, round(keep * len(trials)))
        left = sorted(left, key=lambda trial: -trial.best(plain, passes))[:num_left]
        end = time.perf_counter() + part * seconds
        while time.perf_counter() < end and any(not trial.is_over for trial in left):
            plain.turn(is_short_too=False)
            for trial in left:
                trial.turn(is_short_too=num_left < len(trials))
                yield AdviceStep(trial.drafter, share)
        share += part
    for trial in (plain, *trials):
        trial.close()


def _settle(
    engine: Engine, request: AdviceRequest, chosen: Sequence[Estimate], end: float
) -> Generator[AdviceStep, None, list[dict[int, tuple]]]:
    """The chosen beside plain decoding, prompt by prompt, at least one and as many as there is time for."""
    results: list = []
    for index, prompt in enumerate(request.prompts):
        start = time.perf_counter()
        requests = {PLAIN: _race_request(request, prompt, NONE, LARGE_K)} | {
            place: _race_request(request, prompt, one.drafter, one.k) for place, one in enumerate(chosen, 1)
        }
        running = run_lanes(engine, requests)
        results.append((yield from ticking(running, AdviceStep("", 0.6 + 0.4 * index / len(request.prompts)))))
        if time.perf_counter() + (time.perf_counter() - start) > end:
            break
    return results


def _points(
    request: AdviceRequest, chosen: Sequence[Estimate], results: Sequence[dict[int, tuple]]
) -> tuple[Point, ...]:
    """The two as points of a sweep, better first."""
    sweep = SweepRequest(
        prompts=tuple(SweepPrompt("own", "", prompt) for prompt in request.prompts),
        drafters=tuple(one.drafter for one in chosen),
        ks=tuple(one.k for one in chosen),
        temperatures=(request.temperature,),
        rules=(request.rule,),
        max_new_tokens=request.max_new_tokens,
        target=request.target,
        precision=request.precision,
    )
    heats = [
        HeatResult(
            Heat(index, request.temperature, request.rule, one.drafter), {PLAIN: lanes[PLAIN], one.k: lanes[place]}
        )
        for index, lanes in enumerate(results)
        for place, one in enumerate(chosen, 1)
    ]
    return tuple(sorted(points(sweep, heats), key=lambda point: -(point.speedup or 0.0)))


def _interval(best: Point, chosen: Sequence[Estimate], results: Sequence[dict[int, tuple]]) -> Interval | None:
    """Over the prompts, or over stretches of their answers where prompts are too few."""
    place = next(place for place, one in enumerate(chosen, 1) if one.drafter == best.drafter)
    return best.interval or stretch_interval([(lanes[PLAIN], lanes[place]) for lanes in results])


def _race_request(request: AdviceRequest, prompt: str, drafter: str, k: int) -> RaceRequest:
    return RaceRequest(
        prompt=prompt, drafter=drafter, settings=request.settings(k), target=request.target, precision=request.precision
    )
