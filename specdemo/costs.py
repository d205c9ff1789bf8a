"""What one pass costs at each width, which part of it is what, and what a draft token costs: `bench --profile`.

All figures are medians of passes taken in turn in one run, so that a slow minute of the machine slows all alike.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median
from typing import Any

import torch

from specdemo.bandwidth import bound, copy_task
from specdemo.branches import Parents
from specdemo.drafters.autoregressive import AutoregressiveDrafter
from specdemo.drafters.early_exit import EarlyExitDrafter
from specdemo.engine import Engine
from specdemo.llama import LlamaLM, LlamaSession

WIDTHS = (1, 2, 3, 5, 9, 17)
_CONTEXT = 200
_TURNS = 15
_FEW_TURNS = 5
_DRAFT_TOKENS = 4
_COLUMNS = (
    "what",
    "milliseconds",
    "of_one_token_pass",
    "products",
    "head",
    "attention_and_rest",
    "gigabytes_per_second",
    "of_copy_bandwidth",
    "bound",
)
_CAPTION = (
    f"passes behind {_CONTEXT} tokens of context, medians of {_TURNS} turns; products, head, attention_and_rest: "
    "milliseconds of a pass; a draft token is a fourth of four; gigabytes_per_second: weights read over a pass's time; "
    "bound, of passes of one token: memory where that is half of what copying reaches, else launch"
)
_Track = Callable[[Sequence[Any], str], Iterable[Any]]
_Task = Callable[[], object]


class PassClock:
    """What passes of the target take, a few at a time between other work: a machine's pace changes by the minute, and
    for wide passes, which compute more, otherwise than for narrow ones.
    """

    def __init__(self, engine: Engine, longest: int) -> None:
        """Widths up to that of `longest` drafts; each once for warming, once to be counted."""
        # All of them: what a pass takes has steps, which a line between two widths misses.
        self._run = _pass_runner(engine)
        self._clock = engine.target.clock
        self._wide = list(range(2, longest + 2))
        self._ratios: dict[int, list[float]] = {width: [] for width in self._wide}
        for width in (1, *self._wide):
            self._run(width)
        for _ in self._wide:
            self.compare()

    def one(self) -> float:
        """Seconds of a pass over one token, now."""
        return self._seconds(1)

    def compare(self) -> None:
        """One wide pass more beside one over one token; every width in its turn."""
        self._wide.append(width := self._wide.pop(0))
        one = self._seconds(1)
        self._ratios[width].append(self._seconds(width) / one)

    def tree(self, parents: Parents) -> float:
        """What a pass over such a tree of drafts takes, in passes over one token, now."""
        one = self._seconds(1)
        return self._seconds(len(parents) + 1, parents) / one

    def ratios(self) -> dict[int, float]:
        """By width: what a pass takes, in passes over one token."""
        return {1: 1.0} | {width: median(found) for width, found in self._ratios.items()}

    def _seconds(self, width: int, parents: Parents = ()) -> float:
        start = self._clock()
        self._run(width, parents)
        return self._clock() - start


def pass_costs(engine: Engine) -> tuple[tuple[int, float], ...]:
    """(width, seconds) of whole passes, for a page that waits: about a second on two cores."""
    spent = _medians(engine, _whole_passes(engine), range(_FEW_TURNS))
    return tuple((width, spent[width]) for width in WIDTHS)


def profile(engine: Engine, drafters: Sequence[str], track: _Track) -> dict[str, Any]:
    """Measure; the document is plain JSON, laid out like that of `bench.run`."""
    passes: dict[Any, _Task] = {("pass", width): task for width, task in _whole_passes(engine).items()}
    copied_bytes, copy = copy_task(engine.target)
    tasks = {
        **passes,
        **_pass_parts(engine),
        **_draft_tasks(engine, drafters),
        "reading the weights": _read_task(engine),
        "copying memory": copy,
    }
    spent = _medians(engine, tasks, track(range(_TURNS), "Measuring"))
    rows = [*_pass_rows(engine, spent), *_other_rows(engine, spent, drafters)]
    bandwidth = copied_bytes / spent["copying memory"] / 1e9
    for row in rows:
        if "gigabytes_per_second" in row:
            row["of_copy_bandwidth"] = row["gigabytes_per_second"] / bandwidth
        if row["what"] == "target pass of 1" or row["what"].startswith("draft token"):
            row["bound"] = bound(row["of_copy_bandwidth"])
    copying = _row("copying memory", spent["copying memory"], spent["pass", 1]) | {"gigabytes_per_second": bandwidth}
    return {
        "title": f"{engine.target.name}: what a pass costs",
        "caption": _CAPTION,
        "columns": list(_COLUMNS),
        "rows": [*rows, copying],
        "provenance": engine.provenance("none"),
    }


def _medians(engine: Engine, tasks: Mapping[Any, _Task], turns: Iterable[int]) -> dict[Any, float]:
    """Seconds of each task, all in turn after a first one each that is not counted."""
    seconds: dict[Any, list[float]] = {name: [] for name in tasks}
    for task in tasks.values():
        task()
    for _ in turns:
        for name, task in tasks.items():
            start = engine.target.clock()
            task()
            seconds[name].append(engine.target.clock() - start)
    return {name: median(values) for name, values in seconds.items()}


def _pass_runner(engine: Engine) -> Callable[..., None]:
    """Runs a pass of a width, or over a tree of it, behind some context."""
    lm = engine.target.lm
    session = lm.open()
    ids = [index % lm.vocab_size for index in range(_CONTEXT)]
    session.forward(ids, 0)

    def run(width: int, parents: Parents = ()) -> None:
        session.forward(ids[:width], width, parents)
        session.crop(_CONTEXT)

    return run


def _whole_passes(engine: Engine) -> dict[int, _Task]:
    """By width."""
    run = _pass_runner(engine)
    return {width: lambda width=width: run(width) for width in WIDTHS}


def _pass_parts(engine: Engine) -> dict[Any, _Task]:
    """By (part, width): where the pass is the compiled one, its products and its head alone."""
    lm = engine.target.lm
    tasks: dict[Any, _Task] = {}
    if isinstance(lm, LlamaLM) and (compiled := lm.compiled) and compiled.is_float32:
        for width in WIDTHS:
            hidden = torch.ones(width, lm.embedding.shape[1])
            tasks["products", width] = lambda hidden=hidden: compiled.run_products(hidden)
            tasks["head", width] = lambda hidden=hidden: compiled.logits(hidden)
    return tasks


def _draft_tasks(engine: Engine, drafters: Sequence[str]) -> dict[Any, _Task]:
    """A round's draft tokens of each drafter that is a model: behind a target pass the first finds its weights cold."""
    made = {spec: engine.drafter(spec) for spec in drafters}
    tasks: dict[Any, _Task] = {}
    for spec, drafter in made.items():
        if isinstance(drafter, AutoregressiveDrafter):
            tasks["draft", spec] = _drafting(drafter.lm.open(), lambda session: session.forward([0], 1))
        elif isinstance(drafter, EarlyExitDrafter):
            tasks["draft", spec] = _drafting(
                engine.target.lm.open(), lambda session, drafter=drafter: drafter.draft_logits(session, 0)
            )
    return tasks


def _draft_bytes(drafter: Any) -> int:
    """Weights that a draft token reads."""
    return int(drafter.pass_bytes if isinstance(drafter, EarlyExitDrafter) else drafter.lm.weight_bytes)


def _drafting(session: Any, draft: Callable[[LlamaSession], object]) -> _Task:
    session.forward([0] * _CONTEXT, 0)

    def run() -> None:
        for _ in range(_DRAFT_TOKENS):
            draft(session)
        session.crop(_CONTEXT)

    return run


def _read_task(engine: Engine) -> _Task:
    """Sums all weights of a pass once: what reading them costs any program."""
    parameters = list(engine.target.model.parameters())
    return lambda: [parameter.detach().sum() for parameter in parameters]


def _pass_rows(engine: Engine, spent: dict[Any, float]) -> list[dict[str, Any]]:
    one, num_bytes = spent["pass", 1], engine.target.lm.weight_bytes
    rows = []
    for width in WIDTHS:
        total = spent["pass", width]
        row: dict[str, Any] = _row(f"target pass of {width}", total, one) | {
            "gigabytes_per_second": num_bytes / total / 1e9
        }
        if ("products", width) in spent:
            products, head = spent["products", width], spent["head", width]
            row |= {
                "products": 1e3 * products,
                "head": 1e3 * head,
                "attention_and_rest": 1e3 * max(0.0, total - products - head),
            }
        rows.append(row)
    return rows


def _other_rows(engine: Engine, spent: dict[Any, float], drafters: Sequence[str]) -> list[dict[str, Any]]:
    one, reading = spent["pass", 1], spent["reading the weights"]
    rows = []
    for spec in drafters:
        if ("draft", spec) in spent:
            seconds = spent["draft", spec] / _DRAFT_TOKENS
            rate = {"gigabytes_per_second": _draft_bytes(engine.drafter(spec)) / seconds / 1e9}
            rows.append(_row(f"draft token of {spec}", seconds, one) | rate)
    num_bytes = sum(parameter.nbytes for parameter in engine.target.model.parameters())
    return [*rows, _row("reading the weights", reading, one) | {"gigabytes_per_second": num_bytes / reading / 1e9}]


def _row(what: str, seconds: float, one_token_pass: float) -> dict[str, Any]:
    return {"what": what, "milliseconds": 1e3 * seconds, "of_one_token_pass": seconds / one_token_pass}
