"""How far a figure may be off that was measured on a few prompts: 95 % intervals over the prompts. Pure arithmetic.

Prompts are what varies: another set of prompts of the same kind would give another figure, within such an interval 19
times of 20. Two prompts or fewer have none.
"""

import math
import statistics
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev

Interval = tuple[float, float]
_FEWEST = 3
_TWO_SIDED = 0.975


def geometric_mean(values: Sequence[float]) -> float | None:
    """Of positive numbers; None of none."""
    return statistics.geometric_mean(values) if values else None


def geometric_interval(values: Sequence[float]) -> Interval | None:
    """Of the geometric mean, by Student's t on the logarithms."""
    if len(values) < _FEWEST:
        return None
    logs = [math.log(value) for value in values]
    middle, reach = fmean(logs), _quantile(len(logs) - 1) * stdev(logs) / math.sqrt(len(logs))
    return math.exp(middle - reach), math.exp(middle + reach)


def ratio_interval(pairs: Sequence[tuple[float, float]]) -> Interval | None:
    """Of sum(numerators) / sum(denominators), by the residuals of the ratio.

    Source: Cochran, Sampling Techniques, section 6.4 (variance of a ratio estimate), with Student's t.
    """
    total = sum(denominator for _, denominator in pairs)
    if len(pairs) < _FEWEST or not total:
        return None
    ratio = sum(numerator for numerator, _ in pairs) / total
    residuals = [numerator - ratio * denominator for numerator, denominator in pairs]
    variance = sum(residual * residual for residual in residuals) * len(pairs) / (len(pairs) - 1)
    reach = _quantile(len(pairs) - 1) * math.sqrt(variance) / total
    return ratio - reach, ratio + reach


def _quantile(degrees: int) -> float:
    """Of Student's t at 97.5 %, from the normal's: Abramowitz and Stegun 26.7.5, within 3 % for 2 degrees and more."""
    z = NormalDist().inv_cdf(_TWO_SIDED)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return sum(term / degrees**power for power, term in enumerate(terms))
