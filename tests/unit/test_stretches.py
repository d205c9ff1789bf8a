"""Stretches hold all of the time of their tokens, and equal speed has no spread."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdemo.events import Round
from specdemo.stretches import TOKENS, stretch_interval

LENGTHS = st.lists(st.integers(1, 9), min_size=3 * TOKENS, max_size=80)


def lane(lengths: list[int], seconds_per_token: float) -> list[Round]:
    """Rounds of so many tokens each."""
    return [
        Round(i, (5,) * (n - 1), n - 1, 5, "bonus" if n > 1 else "plain", verify_seconds=n * seconds_per_token)
        for i, n in enumerate(lengths)
    ]


@given(lengths=LENGTHS)
def test_lanes_of_constant_speed_differ_by_their_ratio_in_every_stretch(lengths: list[int]) -> None:
    plain = lane([1] * sum(lengths), 0.3)
    assert stretch_interval([(plain, lane(lengths, 0.2))]) == pytest.approx((1.5, 1.5))


def test_a_lane_that_slows_down_has_a_wide_interval() -> None:
    plain = lane([1] * 12 * TOKENS, 0.3)
    steady = [(plain, lane([1] * 12 * TOKENS, 0.2))]
    slowing = [(plain, lane([1] * 6 * TOKENS, 0.1) + lane([1] * 6 * TOKENS, 0.3))]
    low, high = stretch_interval(slowing) or (0.0, 0.0)
    # Three times as fast in one half, as fast in the other.
    assert 1 < low < 3**0.5 < high < 3
    assert high - low > 0.3
    assert stretch_interval(steady) == pytest.approx((1.5, 1.5))


def test_an_answer_of_a_few_tokens_has_none() -> None:
    assert stretch_interval([(lane([1] * TOKENS, 0.1), lane([1] * TOKENS, 0.1))]) is None
