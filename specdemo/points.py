"""What a sweep measured, point by point: every figure of a drafter at one K and temperature, with its spread.

Pure folds over heats. Speeds are ratios to the plain lane of the same heat; costs are in plain rounds, which are one
target pass of one token and its loop.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import Any

from specdemo.events import Event, Finished, Round
from specdemo.metrics import Summary, drafts_trees, emitted_token_ids, first_divergence, ratio, speedup, summarize
from specdemo.prompt_set import SweepPrompt
from specdemo.settings import DecodeSettings
from specdemo.spread import Interval, geometric_interval, geometric_mean, ratio_interval
from specdemo.sweeps import PLAIN, Heat, HeatResult, SweepRequest
from specdemo.theory import expected_tokens_per_round


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One drafter at one K, temperature and rule, over the prompts that were measured.

    `speedup` is the geometric mean over the prompts, `low` and `high` its worst and best prompt; intervals are 95 %
    (see `spread`). `expected_tokens_per_round` is the formula's from `alpha`; `predicted_speedup` is that over the
    measured cost of a round. `draft_cost` and `verify_cost` are medians of full rounds, in plain rounds.
    `correlation` is that of a judged draft with the next judged one of the same text. `drafted_in_vain` and
    `target_passes` are for a hundred tokens of the answer; seconds to the first token are means over the prompts.
    """

    drafter: str
    k: int
    temperature: float
    rule: str
    num_prompts: int
    speedup: float | None
    interval: Interval | None
    low: float | None
    high: float | None
    tokens_per_round: float | None
    tokens_per_round_interval: Interval | None
    expected_tokens_per_round: float | None
    predicted_speedup: float | None
    acceptance_rate: float | None
    alpha: float | None
    alpha_interval: Interval | None
    correlation: float | None
    acceptance_by_position: tuple[float | None, ...]
    survival_by_position: tuple[float | None, ...]
    plain_tokens_per_second: float | None
    tokens_per_second: float | None
    draft_cost: float | None
    verify_cost: float | None
    draft_share: float | None
    overhead_share: float | None
    plain_overhead_share: float | None
    seconds_to_first_token: float | None
    plain_seconds_to_first_token: float | None
    drafted_in_vain: float | None
    target_passes: float | None
    num_identical: int
    speedups: tuple[float | None, ...]
    message: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        values = asdict(self)
        return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


@dataclass(frozen=True, slots=True)
class CategoryPoint:
    """A point over the prompts of one category in one language."""

    category: str
    language: str
    point: Point


def points(request: SweepRequest, results: Iterable[HeatResult]) -> tuple[Point, ...]:
    """A point for each drafter, K, temperature and rule of which a heat is done, in the order of the request."""
    grouped: dict[tuple[float, str, str], list[HeatResult]] = {}
    for result in results:
        heat = result.heat
        grouped.setdefault((heat.temperature, heat.rule, heat.drafter), []).append(result)
    return tuple(
        _point(request.settings(done[0].heat, k), done, k)
        for drafter in request.drafters
        for temperature in request.temperatures
        for rule in request.rules
        if (done := grouped.get((temperature, rule, drafter)))
        for k in request.ks
        if k in done[0].lanes
    )


def points_by_category(request: SweepRequest, results: Sequence[HeatResult]) -> tuple[CategoryPoint, ...]:
    """The same for each category and language by itself."""
    kinds = list(dict.fromkeys((prompt.category, prompt.language) for prompt in request.prompts))
    return tuple(
        CategoryPoint(category, language, point)
        for category, language in kinds
        for point in points(
            request, [result for result in results if _kind(request, result.heat) == (category, language)]
        )
    )


def _kind(request: SweepRequest, heat: Heat) -> tuple[str, str]:
    prompt: SweepPrompt = request.prompts[heat.prompt_index]
    return prompt.category, prompt.language


def _point(settings: DecodeSettings, results: Sequence[HeatResult], k: int) -> Point:
    lanes = [(result.lanes[PLAIN], result.lanes[k]) for result in results]
    each = [(summarize(plain), summarize(speculative)) for plain, speculative in lanes]
    plain, whole = (summarize(event for pair in lanes for event in pair[side]) for side in (0, 1))
    ratios = tuple(speedup(speculative, plain) for plain, speculative in each)
    known = [value for value in ratios if value]
    is_tree = any(drafts_trees(events) for _, events in lanes)
    expected = None if whole.alpha is None or is_tree else expected_tokens_per_round(whole.alpha, k)
    costs = _Costs(lanes, k)
    ends = [event for _, events in lanes for event in events if isinstance(event, Finished)]
    failures = [end.message for end in ends if end.reason == "failed"]
    return Point(
        drafter=results[0].heat.drafter,
        k=k,
        temperature=settings.temperature,
        rule=settings.resolved_rule,
        num_prompts=len(results),
        speedup=geometric_mean(known),
        interval=geometric_interval(known),
        low=min(known, default=None),
        high=max(known, default=None),
        tokens_per_round=whole.tokens_per_round,
        tokens_per_round_interval=_spread(each, lambda one: (one.num_tokens, one.num_rounds or 0)),
        expected_tokens_per_round=expected,
        predicted_speedup=None if expected is None or costs.round is None else expected / costs.round,
        acceptance_rate=whole.acceptance_rate,
        alpha=whole.alpha,
        alpha_interval=_spread(each, lambda one: (one.num_accepted, one.num_judged)),
        correlation=correlation([events for _, events in lanes]),
        acceptance_by_position=whole.acceptance_by_position,
        survival_by_position=whole.survival_by_position,
        plain_tokens_per_second=plain.tokens_per_second,
        tokens_per_second=whole.tokens_per_second,
        draft_cost=costs.draft,
        verify_cost=costs.verify,
        draft_share=ratio(whole.draft_seconds, whole.decode_seconds),
        overhead_share=ratio(whole.overhead_seconds, whole.decode_seconds),
        plain_overhead_share=ratio(plain.overhead_seconds, plain.decode_seconds),
        seconds_to_first_token=_mean(one.time_to_first_token_seconds for _, one in each),
        plain_seconds_to_first_token=_mean(one.time_to_first_token_seconds for one, _ in each),
        drafted_in_vain=ratio(100 * (whole.num_drafted - whole.num_accepted), whole.num_tokens),
        target_passes=None if whole.target_passes is None else ratio(100 * whole.target_passes, whole.num_tokens),
        num_identical=sum(_is_identical(*pair) for pair in lanes),
        speedups=ratios,
        message=failures[0] if failures else "",
    )


def correlation(texts: Iterable[Sequence[Event]]) -> float | None:
    """Pearson's, of a judged draft (accepted or not) with the next judged one, over texts; None where one is constant.

    Independent trials, which the formula of expected tokens assumes, would give about 0.
    """
    pairs: list[tuple[bool, bool]] = []
    for events in texts:
        judged = [i < r.num_accepted for r in events if isinstance(r, Round) for i in range(r.num_judged)]
        pairs += zip(judged, judged[1:], strict=False)
    if not pairs:
        return None
    first, second = (fmean(pair[side] for pair in pairs) for side in (0, 1))
    spread = (first * (1 - first) * second * (1 - second)) ** 0.5
    both = fmean(one and other for one, other in pairs)
    return (both - first * second) / spread if spread else None


class _Costs:
    """Medians of rounds in which all K drafts were made, in medians of the plain lanes' rounds."""

    def __init__(self, lanes: Sequence[tuple[Sequence[Event], Sequence[Event]]], k: int) -> None:
        plain = [event for events, _ in lanes for event in events if isinstance(event, Round)]
        full = [
            event
            for _, events in lanes
            for event in events
            if isinstance(event, Round)
            if len(event.draft_token_ids) == k
        ]
        unit = median(one.seconds for one in plain) if plain else 0.0
        self.draft = _cost(full, unit, lambda one: one.draft_seconds)
        self.verify = _cost(full, unit, lambda one: one.verify_seconds)
        self.round = _cost(full, unit, lambda one: one.seconds)


def _cost(rounds: Sequence[Round], unit: float, seconds: Callable[[Round], float]) -> float | None:
    return ratio(median(map(seconds, rounds)), unit) if rounds else None


def _spread(
    each: Sequence[tuple[Summary, Summary]], parts: Callable[[Summary], tuple[float, float]]
) -> Interval | None:
    return ratio_interval([parts(one) for _, one in each])


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _is_identical(plain: Sequence[Event], speculative: Sequence[Event]) -> bool:
    return first_divergence(emitted_token_ids(plain), emitted_token_ids(speculative)) is None
