"""Many requests at once: what is asked for, a point of the curve, and where the curve crosses 1, as plain values.

Knows no model. Throughput of a batch is the tokens of all its rows over the batch's own clock.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from specdemo.catalog import EMBEDDED_TARGET, check_drafter_name, check_precision
from specdemo.errors import SettingsError
from specdemo.prompts import check_prompt, load_prompts
from specdemo.proofs import Step
from specdemo.settings import DecodeSettings

BATCH_SIZES = (1, 2, 4, 8, 16)
MAX_BATCH_SIZE = 16
"""The drafters' passes of one token a row stay in the compiled code, which takes 17 rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest:
    """Plain and speculative decoding at several batch sizes. Raises a SpecdemoError from the constructor.

    The requests of a batch are `prompts`, by default those that ship, in turn; `seed` and the numbers behind it tell
    them apart where there are more requests than prompts.
    """

    drafter: str
    k: int = 4
    temperature: float = 0.0
    rule: str = "auto"
    batch_sizes: tuple[int, ...] = BATCH_SIZES
    max_new_tokens: int = 64
    prompts: tuple[str, ...] = ()
    seed: int = 0
    target: str = EMBEDDED_TARGET
    precision: str = "auto"

    def __post_init__(self) -> None:
        check_drafter_name(self.drafter)
        check_precision(self.precision)
        if self.drafter == "none":
            raise SettingsError("the drafter is none, which is plain decoding itself; choose one that proposes.")
        if not self.batch_sizes:
            raise SettingsError("no batch size was chosen; choose one at least.")
        for size in self.batch_sizes:
            if not isinstance(size, int) or not 1 <= size <= MAX_BATCH_SIZE:
                raise SettingsError(
                    f"the batch size is {size!r}; it must be a whole number from 1 to {MAX_BATCH_SIZE}."
                )
        for prompt in self.prompts:
            check_prompt(prompt)
        self.settings(0)

    def settings(self, number: int) -> DecodeSettings:
        """Those of a request, counted from 0: beyond the prompts they begin again with another seed."""
        return DecodeSettings(
            num_draft_tokens=self.k,
            temperature=self.temperature,
            rule=self.rule,
            max_new_tokens=self.max_new_tokens,
            seed=self.seed + number // len(self.all_prompts()),
        )

    def all_prompts(self) -> tuple[str, ...]:
        """The prompts, or else those that ship."""
        return self.prompts or tuple(example.prompt for example in load_prompts())


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPoint:
    """What was measured at one batch size.

    Rates are tokens a second of the whole batch, and `seconds_per_token` what one row waits for a token of its own.
    `low` and `high` are the speedups of the worst and the best repetition. `num_identical` of `num_rows` answers are,
    plain and speculative, those that the same request gets alone.
    """

    batch_size: int
    plain_tokens_per_second: float
    tokens_per_second: float
    plain_seconds_per_token: float
    seconds_per_token: float
    speedup: float
    low: float
    high: float
    tokens_per_round: float
    num_identical: int
    num_rows: int


BatchUpdate = Step | BatchPoint
"""A Step only says how far the work is."""


def crossing(points: Sequence[BatchPoint]) -> float | None:
    """The batch size at which the speedup falls below 1, None where it does not between two measured sizes.

    Interpolated: between the two a straight line of the speedup over the logarithm of the batch size.
    """
    for below, above in pairwise(sorted(points, key=lambda point: point.batch_size)):
        if below.speedup >= 1.0 > above.speedup:
            share = (below.speedup - 1.0) / (below.speedup - above.speedup)
            return below.batch_size * math.exp(share * math.log(above.batch_size / below.batch_size))
    return None


def crossing_sentence(points: Sequence[BatchPoint]) -> str:
    """Where speculation stops paying, in words."""
    if not points:
        return "No batch size was measured."
    measured = sorted(points, key=lambda point: point.batch_size)
    sizes = ", ".join(str(point.batch_size) for point in measured)
    at = crossing(measured)
    if at is not None:
        low = max(point.batch_size for point in measured if point.batch_size <= at)
        high = min(point.batch_size for point in measured if point.batch_size > low)
        return f"The speedup crosses 1 at about {at:.1f} requests at once (interpolated between {low} and {high})."
    if all(point.speedup >= 1.0 for point in measured):
        return f"The speedup does not fall below 1 at any size measured ({sizes})."
    if all(point.speedup < 1.0 for point in measured):
        return f"The speedup is below 1 at every size measured ({sizes})."
    first = next(point.batch_size for point in measured if point.speedup >= 1.0)
    return f"The speedup is below 1 up to a size of {first}, where it rises above; sizes measured: {sizes}."
