"""Plain decoding writes answers, every drafter is tried along them, the best two are measured beside plain decoding."""

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial

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
from specdemo.costs import PassClock
from specdemo.engine import Engine
from specdemo.errors import ModelError, SpecdemoError
from specdemo.points import Point, points
from specdemo.prompt_set import SweepPrompt
from specdemo.race import RaceRequest
from specdemo.settings import DecodeSettings
from specdemo.spread import Interval
from specdemo.stretches import stretch_interval
from specdemo.sweeps import PLAIN, Heat, HeatResult, SweepRequest
from specdemo.tune.heats import run_lanes, ticking
from specdemo.tune.known import KnownText, write_text
from specdemo.tune.trials import Costs, Trial

_WRITING = 0.18
"""Share of the time for plain decoding, which writes the answers that all drafters are tried on."""

_STAGES = ((1.0, 0.2), (0.4, 0.12), (0.25, 0.08))
"""(Share of the drafters that are tried further, share of the time it may take); the rest measures the best two."""

_TURN = 0.02
"""Share of the time that a drafter may take before the next has its turn."""

_FEWEST = 2
_FEWEST_TOKENS = 24
_KEEPS_TEXT = ("greedy", "coupled")


def advise(engine: Engine, request: AdviceRequest) -> Iterator[AdviceUpdate]:
    """See race.EventSource.advise."""
    prompts = [engine.encode(_race_request(request, prompt, NONE, LARGE_K)) for prompt in request.prompts]
    drafters, failures = yield from _made(engine, request.drafters)
    start = time.perf_counter()
    passes = PassClock(engine, LARGE_K)
    layers = sorted({layer for name in drafters for layer in engine.drafter(name).feature_layers})
    texts = yield from _write(engine, request, prompts, layers, passes.one())
    costs = Costs(passes, [r for text in texts for r in text.rounds])
    trials = [Trial(engine, name, partial(_trial_settings, request), texts, costs) for name in drafters]
    yield from _try(trials, request.seconds)
    every = [estimate for trial in trials if trial.num_tokens for estimate in trial.estimates()]
    turns = {trial.drafter: trial.num_turns for trial in trials}
    # Who was dropped was compared on less.
    estimates = tuple(sorted(best_of_each(every), key=lambda one: -turns[one.drafter]))
    chosen = estimates[:_FEWEST]
    yield AdviceStep("", 0.6)
    results = yield from _settle(engine, request, chosen, passes.one(), start + request.seconds)
    measured = _points(request, chosen, results)
    best, reason = decide(every, measured)
    yield Advice(
        drafter=best.drafter if best else NONE,
        k=best.k if best else 0,
        speedup=best.speedup if best else None,
        interval=_interval(best, chosen, results) if best else None,
        reason=reason,
        estimates=estimates,
        every=tuple(every),
        measured=measured,
        verify_costs=tuple(sorted(passes.ratios().items())),
        num_tokens=sum(len(text.answer_ids) for text in texts),
        seconds=time.perf_counter() - start,
        failures=failures,
    )


def _made(
    engine: Engine, names: Sequence[str]
) -> Generator[AdviceStep, None, tuple[list[str], tuple[tuple[str, str], ...]]]:
    """The drafters that can be had, and why the others cannot; ModelError where that is all of them."""
    made, failures = [], []
    for index, name in enumerate(names):
        yield AdviceStep(name, 0.1 * index / len(names))
        try:
            engine.drafter(name)
            engine.warm_up(name)
            made.append(name)
        except SpecdemoError as error:
            failures.append((name, str(error)))
    if not made:
        raise ModelError(f"no drafter can be had here; the first says: {failures[0][1]}")
    return made, tuple(failures)


def _write(
    engine: Engine, request: AdviceRequest, prompts: Sequence[list[int]], layers: Sequence[int], one_pass: float
) -> Generator[AdviceStep, None, list[KnownText]]:
    """The answers of plain decoding, as much of each as there is time for."""
    seconds = _WRITING * request.seconds
    end = time.perf_counter() + seconds
    num_tokens = max(_FEWEST_TOKENS, int(seconds / one_pass / len(prompts)))
    settings = _trial_settings(request, LARGE_K)
    settings = replace(settings, max_new_tokens=min(settings.max_new_tokens, num_tokens))
    texts: list[KnownText] = []
    for prompt_ids in prompts:
        if texts and time.perf_counter() > end:
            break
        running = write_text(engine.target, prompt_ids, settings, layers)
        texts.append((yield from ticking(running, AdviceStep(NONE, 0.1 + 0.1 * len(texts) / len(prompts)))))
    return texts


def _trial_settings(request: AdviceRequest, k: int) -> DecodeSettings:
    """Under a rule that writes another text for every drafter, trials go by `coupled`: the same law, one text."""
    settings = request.settings(k)
    return settings if settings.resolved_rule in _KEEPS_TEXT else replace(settings, rule="coupled")


def _try(trials: list[Trial], seconds: float) -> Iterator[AdviceStep]:
    """The stages: who is left tries on, by turns, until the stage's time is over."""
    share, left = 0.2, list(trials)
    for keep, part in _STAGES:
        num_left = max(_FEWEST, round(keep * len(trials)))
        left = sorted(left, key=lambda trial: -trial.best())[:num_left]
        end = time.perf_counter() + part * seconds
        while not all(trial.is_over for trial in left):
            for trial in left:
                if not trial.is_over:
                    trial.turn(_TURN * seconds)
                yield AdviceStep(trial.drafter, share)
            if time.perf_counter() > end:
                break
        share += part
    for trial in trials:
        trial.close()


def _settle(
    engine: Engine, request: AdviceRequest, chosen: Sequence[Estimate], one_pass: float, end: float
) -> Generator[AdviceStep, None, list[dict[int, tuple]]]:
    """The chosen beside plain decoding: as much of every answer as there is time for, and of two at least."""
    a_token = one_pass * (1 + sum(1 / one.speedup for one in chosen))
    num_tokens = int((end - time.perf_counter()) / len(request.prompts) / a_token)
    settled = replace(request, max_new_tokens=min(request.max_new_tokens, max(_FEWEST_TOKENS, num_tokens)))
    results: list = []
    for index, prompt in enumerate(request.prompts):
        if len(results) >= _FEWEST and time.perf_counter() > end:
            break
        requests = {PLAIN: _race_request(settled, prompt, NONE, LARGE_K)} | {
            place: _race_request(settled, prompt, one.drafter, one.k) for place, one in enumerate(chosen, 1)
        }
        running = run_lanes(engine, requests)
        results.append((yield from ticking(running, AdviceStep("", 0.6 + 0.4 * index / len(request.prompts)))))
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
