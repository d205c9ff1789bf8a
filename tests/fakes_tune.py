"""Scripted sweeps and advice for tests of the page: rounds of a fixed pattern, points and estimates made of them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from specdemo.advice import Advice, AdviceRequest, AdviceStep, AdviceUpdate, Estimate
from specdemo.events import Event, Finished, Started
from specdemo.memory_use import MemoryUse
from specdemo.points import points
from specdemo.prompt_set import SweepPrompt
from specdemo.sweeps import PLAIN, Heat, HeatResult, SweepProgress, SweepRequest, SweepUpdate
from tests.fakes_rounds import scripted_rounds, words_for

SECONDS_A_HEAT = 3.0


def scripted_sweep(request: SweepRequest, done: Sequence[HeatResult], seconds: float | None) -> Iterator[SweepUpdate]:
    """The heats that are not done, as many as the seconds allow at SECONDS_A_HEAT each."""
    known = {result.heat for result in done}
    left = [heat for heat in request.heats() if heat not in known]
    num_all = len(request.heats())
    yield SweepProgress(num_all - len(left), num_all)
    yield from map(memory_use, request.drafters)
    yield SweepProgress(num_all - len(left), num_all, SECONDS_A_HEAT * len(left))
    for i, heat in enumerate(left):
        if seconds is not None and SECONDS_A_HEAT * (i + 1) > seconds:
            return
        yield heat_result(request, heat)
        yield SweepProgress(num_all - len(left) + i + 1, num_all, SECONDS_A_HEAT * (len(left) - i - 1))


def memory_use(drafter: str) -> MemoryUse:
    """What a drafter might take."""
    return MemoryUse(
        drafter=drafter,
        num_tokens=96,
        target_bytes=538_000_000,
        drafter_bytes=98_000_000,
        target_cache_bytes=4_400_000,
        target_cache_bytes_per_token=46_000,
        drafter_cache_bytes=150_000,
        drafter_cache_bytes_per_token=1_500,
        peak_bytes=1_200_000_000,
        peak_of="process",
    )


def heat_result(request: SweepRequest, heat: Heat) -> HeatResult:
    """Lanes of one heat. Later drafters draft dearer, so that some of them do not pay."""
    prompt = request.prompts[heat.prompt_index].prompt
    draft_seconds = 0.002 * (1 + 4 * request.drafters.index(heat.drafter))
    lanes = {k: tuple(_lane(request, heat, k, prompt, draft_seconds)) for k in (PLAIN, *request.ks)}
    return HeatResult(heat, lanes)


def _lane(request: SweepRequest, heat: Heat, k: int, prompt: str, draft_seconds: float) -> Iterator[Event]:
    yield Started((1, 2, 3), request.settings(heat, k).to_dict(), 0.09)
    for event, _ in scripted_rounds(words_for(prompt, 24), k, draft_seconds):
        yield event
    yield Finished("length")


def scripted_advice(request: AdviceRequest) -> Iterator[AdviceUpdate]:
    """Two drafters are tried and measured; a prompt that says `hopeless` is advised to decode plainly."""
    tried = request.drafters[:2]
    for i, drafter in enumerate(tried):
        yield AdviceStep(drafter, (i + 1) / 4)
    yield AdviceStep("", 0.75)
    yield scripted_result(request)


def scripted_result(request: AdviceRequest) -> Advice:
    """What `scripted_advice` ends with."""
    sweep = SweepRequest(
        prompts=tuple(SweepPrompt("own", "any", prompt) for prompt in request.prompts),
        drafters=request.drafters[:2],
        ks=(3,),
        temperatures=(request.temperature,),
    )
    measured = points(sweep, [heat_result(sweep, heat) for heat in sweep.heats()])
    estimates = tuple(
        Estimate(drafter=drafter, k=3 - i, tokens_per_round=2.2, draft_cost=0.2, verify_cost=1.1, speedup=1.6 - i / 2)
        for i, drafter in enumerate(sweep.drafters)
    )
    best = measured[0]
    advice = Advice(
        drafter=best.drafter,
        k=best.k,
        speedup=best.speedup,
        interval=(1.2, 1.7),
        reason="pays",
        estimates=estimates,
        every=estimates,
        measured=measured,
        verify_costs=((1, 1.0), (4, 1.1)),
        num_tokens=400,
        seconds=29.6,
        failures=(("medusa", "its <b>folder</b> is missing."),),
    )
    if any("hopeless" in prompt for prompt in request.prompts):
        return replace(advice, drafter="none", k=0, speedup=None, interval=None, reason="draft")
    return advice
