"""Measures speed as ratios, in turn, in one run: every figure of the README comes from here.

A drafter is raced at every K against one plain lane on each prompt: the lanes alternate round by round on the same
device, so a slow minute of the machine slows all. transformers is timed run by run between our own.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from specdemo import bandwidth
from specdemo.baselines import Baseline
from specdemo.catalog import DRAFTER_LABELS
from specdemo.engine import Engine
from specdemo.errors import SettingsError
from specdemo.memory_use import MemoryUse
from specdemo.metrics import summarize
from specdemo.points import Point, points
from specdemo.prompt_set import SweepPrompt, load_prompt_set, read_prompt_file
from specdemo.prompts import load_prompts
from specdemo.spread import geometric_mean
from specdemo.sweep_file import SweepFile
from specdemo.sweep_report import sweep_document
from specdemo.sweeps import PLAIN, HeatResult, SweepProgress, SweepRequest
from specdemo.tune import run_sweep
from specdemo.tune.heats import lane_request

KS = (1, 2, 4, 8)
SWEPT_KS = (1, 2, 3, 4, 6, 8, 12, 16)
SWEPT_TEMPERATURES = (0.0, 0.7)
VERSUS_COLUMNS = ("versus_generate", "versus_assisted")
_VERSUS_CAPTION = "; versus: whole calls against transformers, prefill included"
_SWEPT_OF_EACH = 2
Report = Callable[[str, float | None], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a bench run measures, in `seconds` at most, kept in the file at `path` where it has one."""

    request: SweepRequest
    is_against_transformers: bool = False
    path: Path | None = None
    seconds: float | None = None


def make_plan(arguments: Any) -> Plan:
    """The grid that the command line asks for; raises SettingsError for a value outside it."""
    is_sweep = arguments.sweep
    request = SweepRequest(
        prompts=_choose_prompts(arguments),
        drafters=tuple(arguments.drafter or (name for name in DRAFTER_LABELS if name != "none")),
        ks=tuple(_whole(text) for text in arguments.k or ()) or (SWEPT_KS if is_sweep else KS),
        temperatures=tuple(arguments.temperature or (SWEPT_TEMPERATURES if is_sweep else (0.0,))),
        rules=tuple(arguments.rule or ("auto",)),
        max_new_tokens=arguments.max_new_tokens,
        target=arguments.target,
        precision=arguments.precision,
    )
    path = Path(arguments.output) if is_sweep else None
    seconds = 60 * arguments.minutes if arguments.minutes else None
    return Plan(request, arguments.against == "transformers", path, seconds)


def run(engine: Engine, plan: Plan, report: Report) -> dict[str, Any]:
    """Measure the plan; the document is plain JSON. Interrupted, it is that of the heats that are done."""
    request, provenance = plan.request, engine.provenance("none")
    kept = SweepFile(plan.path, request, provenance) if plan.path else None
    results = list(kept.results) if kept else []
    versus = _Versus(engine, request) if plan.is_against_transformers else None
    memory: list[dict[str, Any]] = []
    is_interrupted = False
    try:
        for update in run_sweep(engine, request, tuple(results), plan.seconds):
            if isinstance(update, MemoryUse):
                memory.append(update.to_dict())
                continue
            if isinstance(update, SweepProgress):
                report(_sentence(update), update.num_done / max(update.num_all, 1))
                continue
            results.append(update)
            if kept:
                kept.add(update)
            if versus:
                versus.add(update)
    except KeyboardInterrupt:
        is_interrupted = True
    document = sweep_document(request, results, provenance)
    document |= {"memory": memory, "is_interrupted": is_interrupted}
    measured = points(request, results)
    if not kept:  # what stands in a file may be of another hour, and a copy is compared with passes of the same run
        document = _with_bounds(document, engine, measured, results)
    if versus:
        document["columns"] += VERSUS_COLUMNS
        document["caption"] += _VERSUS_CAPTION
        for row, point in zip(document["rows"], measured, strict=True):
            row |= versus.row(point.drafter, point.k, point.temperature, point.rule)
    return document


def _with_bounds(
    document: dict[str, Any], engine: Engine, measured: Sequence[Point], results: Sequence[HeatResult]
) -> dict[str, Any]:
    """The document with what each row's passes wait for, beside a copy that is measured now."""
    reached = bandwidth.copy_bandwidth(engine.target)
    rows = [
        row | bandwidth.bound_row(point, results, reached)
        for row, point in zip(document["rows"], measured, strict=True)
    ]
    return document | {
        "columns": [*document["columns"], *bandwidth.COLUMNS],
        "caption": document["caption"] + bandwidth.CAPTION,
        "copy_gigabytes_per_second": reached / 1e9,
        "rows": rows,
    }


def _sentence(progress: SweepProgress) -> str:
    said = f"Heat {min(progress.num_done + 1, progress.num_all)} of {progress.num_all}"
    if progress.seconds_left is None:
        return f"{said}: trying out"
    minutes = progress.seconds_left / 60
    return f"{said}, about {minutes:.0f} minutes left" if minutes >= 2 else f"{said}, about {60 * minutes:.0f} s left"


class _Versus:
    """Whole calls of transformers beside ours: seconds of theirs over seconds of ours, for a token of the answer."""

    def __init__(self, engine: Engine, request: SweepRequest) -> None:
        self._engine, self._request, self._baseline = engine, request, Baseline(engine)
        self._ratios: dict[tuple[Any, ...], list[dict[str, float | None]]] = {}

    def add(self, result: HeatResult) -> None:
        """Time theirs on what was just measured."""
        heat = result.heat
        prompt_ids = self._engine.encode(lane_request(self._request, heat, PLAIN))
        for k in self._request.ks:
            settings = self._request.settings(heat, k)
            assisted = self._baseline.assisted_seconds_per_token(prompt_ids, heat.drafter, settings)
            plain = self._baseline.generate_seconds_per_token(prompt_ids, settings)
            ratios = {"versus_generate": _over(plain, result, PLAIN), "versus_assisted": _over(assisted, result, k)}
            self._ratios.setdefault((heat.drafter, k, heat.temperature, settings.resolved_rule), []).append(ratios)

    def row(self, *key: Any) -> dict[str, float | None]:
        """Geometric means over the prompts; None where transformers has no such call."""
        found: dict[str, float | None] = {}
        for name in VERSUS_COLUMNS:
            values = [ratios[name] for ratios in self._ratios.get(key, [])]
            known = [value for value in values if value is not None]
            found[name] = geometric_mean(known) if len(known) == len(values) else None
        return found


def _over(seconds: float | None, result: HeatResult, lane: int) -> float | None:
    ours = summarize(result.lanes[lane])
    if seconds is None or not ours.num_tokens:
        return None
    return seconds / ((ours.prefill_seconds + ours.decode_seconds) / ours.num_tokens)


def _choose_prompts(arguments: Any) -> tuple[SweepPrompt, ...]:
    """A person's own file; else the shipped set for a sweep, and one example of each category for a quick look."""
    if arguments.prompts:
        return read_prompt_file(arguments.prompts)
    examples = tuple(SweepPrompt(item.category, "en", item.prompt) for item in load_prompts())
    known = load_prompt_set() if arguments.sweep else examples
    wanted, languages = arguments.prompt_set, arguments.language or ["en"]
    categories = list(dict.fromkeys(prompt.category for prompt in known))
    _check_known("prompt set", wanted or (), categories)
    _check_known("language", languages, sorted({prompt.language for prompt in known}))
    of_each = None if wanted else _SWEPT_OF_EACH if arguments.sweep else 1
    return tuple(
        prompt
        for category in wanted or categories
        for language in languages
        for prompt in islice((p for p in known if (p.category, p.language) == (category, language)), of_each)
    )


def _check_known(name: str, values: Any, known: list[str]) -> None:
    unknown = [value for value in values if value not in known]
    if unknown:
        raise SettingsError(f"the {name} is {unknown[0]!r}; it must be one of {', '.join(known)}.")


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise SettingsError(f"K is {text!r}; bench takes whole numbers from 1 to 16.")
    return int(text)
