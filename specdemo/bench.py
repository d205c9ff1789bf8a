"""Measures speed as ratios, in turn, in one run: every figure of the README comes from here.

A configuration is raced against plain decoding on each prompt: the two lanes alternate round by round on the same
device, so a slow minute of the machine slows both. transformers is timed run by run between our own.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from specdemo.baselines import Baseline
from specdemo.catalog import DRAFTER_LABELS, check_drafter_name
from specdemo.engine import Engine
from specdemo.errors import SettingsError
from specdemo.events import Event
from specdemo.metrics import Summary, emitted_token_ids, first_divergence, ratio, speedup, summarize
from specdemo.prompts import ExamplePrompt, load_prompts
from specdemo.race import LANES, RaceRequest
from specdemo.settings import DecodeSettings

COLUMNS = (
    "drafter", "k", "temperature", "rule", "speedup", "low", "high", "tokens_per_round", "acceptance_rate", "alpha",
    "plain_tokens_per_second", "tokens_per_second", "draft_share", "overhead_share", "identical",
)  # fmt: skip
VERSUS_COLUMNS = ("versus_generate", "versus_assisted")
CAPTION = (
    "speedup: decode speed over our own plain lane, geometric mean over the prompts; "
    "low, high: the worst and best prompt; "
    "identical: prompts whose ids equal plain decoding's; versus: whole calls against transformers, prefill included"
)
_TRACK = Callable[[Sequence[Any], str], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class Configuration:
    """One point of the grid."""

    drafter: str
    settings: DecodeSettings


@dataclass(frozen=True, slots=True)
class Plan:
    """What a bench run measures."""

    prompts: tuple[ExamplePrompt, ...]
    configurations: tuple[Configuration, ...]
    is_against_transformers: bool


@dataclass(frozen=True, slots=True)
class _Measured:
    """One configuration on one prompt; the transformers figures are seconds per token of whole calls."""

    lanes: dict[str, list[Event]]
    assisted_seconds: float | None
    generate_seconds: float | None

    def summary(self, lane: str) -> Summary:
        return summarize(self.lanes[lane])


def make_plan(arguments: Any) -> Plan:
    """The grid that the command line asks for; raises SettingsError for a value outside it."""
    drafters = arguments.drafter or [name for name in DRAFTER_LABELS if name != "none"]
    for drafter in drafters:
        check_drafter_name(drafter)
    lengths = [_whole(text) for text in arguments.k or ()] or (range(1, 17) if arguments.sweep else (1, 2, 4, 8))
    temperatures = arguments.temperature or ([0.0, 0.5, 1.0] if arguments.sweep else [0.0])
    grid = product(drafters, temperatures, arguments.rule or ["auto"], lengths)
    configurations = tuple(
        Configuration(
            drafter,
            DecodeSettings(num_draft_tokens=k, temperature=t, rule=rule, max_new_tokens=arguments.max_new_tokens),
        )
        for drafter, t, rule, k in grid
    )
    prompts = _choose_prompts(arguments.prompt_set, is_whole=arguments.sweep)
    return Plan(prompts, configurations, arguments.against == "transformers")


def run(engine: Engine, plan: Plan, track: _TRACK) -> dict[str, Any]:
    """Measure the plan; the document is plain JSON."""
    baseline = Baseline(engine) if plan.is_against_transformers else None
    measured: dict[Configuration, list[_Measured]] = {configuration: [] for configuration in plan.configurations}
    for drafter in {configuration.drafter for configuration in plan.configurations}:
        engine.warm_up(drafter)
    # Prompts outside, configurations inside: whatever drifts, drifts over all configurations alike.
    for prompt, configuration in track(list(product(plan.prompts, plan.configurations)), "Measuring"):
        measured[configuration].append(_measure(engine, prompt, configuration, baseline))
    rows = [_row(configuration, runs) for configuration, runs in measured.items()]
    columns = COLUMNS + VERSUS_COLUMNS if plan.is_against_transformers else COLUMNS
    return {
        "title": f"{engine.target.name}, {len(plan.prompts)} prompts",
        "caption": CAPTION,
        "columns": list(columns),
        "prompts": [{"category": p.category, "prompt": p.prompt} for p in plan.prompts],
        "rows": rows,
        "provenance": engine.provenance("none"),
    }


def _measure(
    engine: Engine, prompt: ExamplePrompt, configuration: Configuration, baseline: Baseline | None
) -> _Measured:
    request = RaceRequest(prompt=prompt.prompt, drafter=configuration.drafter, settings=configuration.settings)
    lanes: dict[str, list[Event]] = {lane: [] for lane in LANES}
    for update in engine.race(request):
        lanes[update.lane].append(update.event)
    if baseline is None:
        return _Measured(lanes, None, None)
    prompt_ids = engine.encode(request)
    return _Measured(
        lanes,
        baseline.assisted_seconds_per_token(prompt_ids, configuration.drafter, configuration.settings),
        baseline.generate_seconds_per_token(prompt_ids, configuration.settings),
    )


def _row(configuration: Configuration, runs: Sequence[_Measured]) -> dict[str, Any]:
    plain, speculative = (summarize(_all_events(runs, lane)) for lane in LANES)
    ratios = [speedup(run.summary("speculative"), run.summary("plain")) for run in runs]
    known = [value for value in ratios if value is not None]
    return {
        "drafter": configuration.drafter,
        "k": configuration.settings.num_draft_tokens,
        "temperature": configuration.settings.temperature,
        "rule": configuration.settings.resolved_rule,
        "speedup": _geometric_mean(known),
        "low": min(known, default=None),
        "high": max(known, default=None),
        "speedups": ratios,
        "tokens_per_round": speculative.tokens_per_round,
        "acceptance_rate": speculative.acceptance_rate,
        "alpha": speculative.alpha,
        "plain_tokens_per_second": plain.tokens_per_second,
        "tokens_per_second": speculative.tokens_per_second,
        "draft_share": ratio(speculative.draft_seconds, speculative.decode_seconds),
        "overhead_share": ratio(speculative.overhead_seconds, speculative.decode_seconds),
        "plain_overhead_share": ratio(plain.overhead_seconds, plain.decode_seconds),
        "identical": f"{sum(_is_identical(run) for run in runs)}/{len(runs)}",
        "versus_generate": _versus(runs, "plain", [run.generate_seconds for run in runs]),
        "versus_assisted": _versus(runs, "speculative", [run.assisted_seconds for run in runs]),
    }


def _all_events(runs: Sequence[_Measured], lane: str) -> list[Event]:
    return [event for run in runs for event in run.lanes[lane]]


def _is_identical(run: _Measured) -> bool:
    return first_divergence(*(emitted_token_ids(run.lanes[lane]) for lane in LANES)) is None


def _versus(runs: Sequence[_Measured], lane: str, seconds: Sequence[float | None]) -> float | None:
    """How many times as fast our whole calls are; None where transformers has no such call."""
    ratios = []
    for measured, theirs in zip(runs, seconds, strict=True):
        ours = measured.summary(lane)
        if theirs is None or not ours.num_tokens:
            return None
        ratios.append(theirs / ((ours.prefill_seconds + ours.decode_seconds) / ours.num_tokens))
    return _geometric_mean(ratios)


def _geometric_mean(values: Sequence[float]) -> float | None:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def _choose_prompts(categories: Sequence[str] | None, *, is_whole: bool) -> tuple[ExamplePrompt, ...]:
    prompts = load_prompts()
    known = list(dict.fromkeys(prompt.category for prompt in prompts))
    unknown = [category for category in categories or () if category not in known]
    if unknown:
        raise SettingsError(f"the prompt set is {unknown[0]!r}; it must be one of {', '.join(known)}.")
    if categories or is_whole:
        return tuple(prompt for prompt in prompts if prompt.category in (categories or known))
    return tuple(next(prompt for prompt in prompts if prompt.category == category) for category in known)


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise SettingsError(f"K is {text!r}; bench takes whole numbers from 1 to 16.")
    return int(text)
