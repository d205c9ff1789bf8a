"""Which drafter and which K for these prompts on this device, or none: what is asked, what is advised, and why.

Pure values and the decision. A run of each drafter at a large K, along answers that plain decoding wrote, says what
every smaller K would give (an estimate, see `counterfactual`); the best two are then measured beside plain decoding,
and the measurement decides.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from specdemo.catalog import DRAFTER_LABELS, EMBEDDED_TARGET, check_drafter_name, check_precision
from specdemo.errors import SettingsError
from specdemo.points import Point
from specdemo.prompts import check_prompt
from specdemo.settings import DecodeSettings

LARGE_K = 8
NONE = "none"
_MOST_PROMPTS = 16
_SECONDS = (5, 3600)
_LEFT_OUT = ("none", "ngram:code", "ngram:hashed", "ngram:map", "eagle3:tree", "medusa:tree")
"""By default: variants that find hardly more than others of the list or are tried for twice as long, and one that shows
what a wrong field costs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceRequest:
    """Whose prompts, at which temperature. Raises SettingsError or PromptError from the constructor.

    `seconds` is what the advice may take, loading of drafters apart; fewer tokens are measured where they are short.
    """

    prompts: tuple[str, ...]
    temperature: float = 0.0
    rule: str = "auto"
    drafters: tuple[str, ...] = tuple(name for name in DRAFTER_LABELS if name not in _LEFT_OUT)
    max_new_tokens: int = 64
    seconds: float = 30.0
    target: str = EMBEDDED_TARGET
    precision: str = "auto"

    def __post_init__(self) -> None:
        for name in ("prompts", "drafters"):
            object.__setattr__(self, name, tuple(dict.fromkeys(getattr(self, name))))
        if not self.prompts or len(self.prompts) > _MOST_PROMPTS:
            raise SettingsError(f"there are {len(self.prompts)} prompts; give 1 to {_MOST_PROMPTS}.")
        if not self.drafters:
            raise SettingsError("no drafter was chosen; choose one at least.")
        if not _SECONDS[0] <= self.seconds <= _SECONDS[1]:
            raise SettingsError(f"the time is {self.seconds:g} seconds; give {_SECONDS[0]} to {_SECONDS[1]}.")
        for prompt in self.prompts:
            check_prompt(prompt)
        for drafter in self.drafters:
            check_drafter_name(drafter)
        check_precision(self.precision)
        self.settings(LARGE_K)

    def settings(self, k: int) -> DecodeSettings:
        """Of the lanes that are run."""
        return DecodeSettings(
            num_draft_tokens=k, temperature=self.temperature, rule=self.rule, max_new_tokens=self.max_new_tokens
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What one drafter would give at one K; costs are in plain rounds, `draft_cost` that of K drafts."""

    drafter: str
    k: int
    tokens_per_round: float
    draft_cost: float
    verify_cost: float
    speedup: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The recommendation: `drafter` NONE (and K 0) where speculation does not pay.

    `interval` holds the speedup 19 times of 20: over the prompts, or, of fewer than three, over stretches of 16 tokens.
    `reason` is "pays", or what stands in the way: "acceptance", "draft", "verification" or "doubt" (the two best were
    estimated to pay, and the measurement does not confirm it). `estimates` are the best K of each drafter, those that
    were tried longest first, and of these the best; `every` all of them; `measured` the two that were settled by
    measurement, better first. `verify_costs` are (width, passes of one token). `failures` are (drafter, why it could
    not be had).
    """

    drafter: str
    k: int
    speedup: float | None
    interval: tuple[float, float] | None
    reason: str
    estimates: tuple[Estimate, ...]
    every: tuple[Estimate, ...]
    measured: tuple[Point, ...]
    verify_costs: tuple[tuple[int, float], ...]
    num_tokens: int
    seconds: float
    failures: tuple[tuple[str, str], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class AdviceStep:
    """What the advisor is at, `drafter` NONE while plain decoding writes, "" while it settles; how far it is, 0..1."""

    drafter: str
    share: float


AdviceUpdate = AdviceStep | Advice


def best_of_each(estimates: Sequence[Estimate]) -> tuple[Estimate, ...]:
    """Each drafter's best K (the smallest on a tie), best first."""
    ordered = sorted(estimates, key=lambda one: (-one.speedup, one.k))
    return tuple(
        {one.drafter: one for one in reversed(ordered)}[name] for name in dict.fromkeys(o.drafter for o in ordered)
    )


def obstacle(estimates: Sequence[Estimate]) -> str:
    """Why nothing pays, by what would have to be free for the best to pay: "draft", "verification" or "acceptance"."""
    if any(one.tokens_per_round / one.verify_cost > 1 for one in estimates):
        return "draft"
    if any(one.tokens_per_round / (1 + one.draft_cost) > 1 for one in estimates):
        return "verification"
    return "acceptance"


def decide(estimates: Sequence[Estimate], measured: Sequence[Point]) -> tuple[Point | None, str]:
    """The measured point that is advised, None for plain decoding, and the reason."""
    best = max((point for point in measured if point.speedup), key=lambda point: point.speedup or 0.0, default=None)
    if best is not None and (best.speedup or 0.0) > 1:
        return best, "pays"
    if any(one.speedup > 1 for one in estimates):
        return None, "doubt"
    return None, obstacle(estimates)
