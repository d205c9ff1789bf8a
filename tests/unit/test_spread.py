"""Intervals: they hold what they were made of, and cover the truth as often as they say."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdemo.spread import geometric_interval, geometric_mean, ratio_interval

VALUES = st.lists(st.floats(0.1, 10), min_size=3, max_size=20)


@given(VALUES)
def test_the_mean_lies_in_its_interval(values: list[float]) -> None:
    low, high = geometric_interval(values) or (math.nan, math.nan)
    mean = geometric_mean(values) or math.nan
    assert low <= mean * (1 + 1e-9)
    assert mean <= high * (1 + 1e-9)


@given(VALUES)
def test_equal_ratios_have_no_spread(values: list[float]) -> None:
    interval = ratio_interval([(2 * value, value) for value in values]) or (0.0, 0.0)
    assert interval == pytest.approx((2, 2))


def test_two_prompts_have_no_interval() -> None:
    assert geometric_interval([1.0, 2.0]) is None
    assert ratio_interval([(1, 2), (3, 4)]) is None
    assert geometric_mean([]) is None


@pytest.mark.parametrize("num_prompts", [4, 12])
def test_intervals_hold_the_truth_nineteen_times_of_twenty(num_prompts: int) -> None:
    draw = random.Random(2)
    geometric, ratios = 0, 0
    for _ in range(2000):
        values = [math.exp(draw.gauss(0.3, 0.4)) for _ in range(num_prompts)]
        low, high = geometric_interval(values) or (math.nan, math.nan)
        geometric += low <= math.exp(0.3) <= high
        pairs = [(weight * (1.5 + draw.gauss(0, 0.3)), weight) for weight in (draw.uniform(5, 15) for _ in values)]
        low, high = ratio_interval(pairs) or (math.nan, math.nan)
        ratios += low <= 1.5 <= high
    assert geometric / 2000 == pytest.approx(0.95, abs=0.02)
    assert ratios / 2000 == pytest.approx(0.95, abs=0.03)
