"""The formulas against exhaustive enumeration, and the choice of K against looking at all of them."""

import math
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdemo.settings import MAX_DRAFT_TOKENS
from specdemo.theory import best_num_draft_tokens, cost_of, expected_speedup, expected_tokens_per_round

ALPHAS = st.floats(0, 1)
KS = st.integers(0, MAX_DRAFT_TOKENS)
COSTS = st.floats(0.01, 4)


def emitted(outcomes: tuple[bool, ...]) -> int:
    """Tokens of a round whose drafts would be judged as `outcomes`: those before the first failure, and one more."""
    return (outcomes.index(False) if False in outcomes else len(outcomes)) + 1


@given(numerator=st.integers(0, 10), k=st.integers(0, 7))
def test_expected_tokens_equal_the_mean_over_all_outcomes(numerator: int, k: int) -> None:
    alpha = Fraction(numerator, 10)
    mean = sum(
        (math.prod([alpha if ok else 1 - alpha for ok in outcomes], start=Fraction(1)) * emitted(outcomes))
        for outcomes in product((True, False), repeat=k)
    )
    assert expected_tokens_per_round(float(alpha), k) == pytest.approx(float(mean))


@given(alpha=st.floats(0, 0.99), k=KS)
def test_expected_tokens_equal_the_closed_form_of_the_paper(alpha: float, k: int) -> None:
    assert expected_tokens_per_round(alpha, k) == pytest.approx((1 - alpha ** (k + 1)) / (1 - alpha))


@given(k=KS)
def test_a_perfect_drafter_yields_k_plus_one_and_a_useless_one_yields_one(k: int) -> None:
    assert expected_tokens_per_round(1.0, k) == k + 1
    assert expected_tokens_per_round(0.0, k) == 1


@given(alpha=ALPHAS, k=KS)
def test_expected_tokens_grow_with_k_and_stay_within_one_and_k_plus_one(alpha: float, k: int) -> None:
    here = expected_tokens_per_round(alpha, k)
    assert 1 <= here <= k + 1
    assert expected_tokens_per_round(alpha, k + 1) >= here


@pytest.mark.parametrize(("alpha", "k"), [(-0.1, 4), (1.1, 4), (math.nan, 4), (0.5, -1)])
def test_what_is_no_probability_or_no_count_is_refused(alpha: float, k: int) -> None:
    with pytest.raises(ValueError, match="it must be"):
        expected_tokens_per_round(alpha, k)


@given(alpha=ALPHAS, k=KS, c=st.floats(0, 2))
def test_speedup_is_that_of_theorem_3_8_when_verification_is_free_of_its_width(alpha: float, k: int, c: float) -> None:
    found = expected_speedup(alpha, k, lambda n: n * c, lambda _: 1.0)
    assert found == pytest.approx(expected_tokens_per_round(alpha, k) / (k * c + 1))


@given(alpha=ALPHAS, verify_cost=COSTS)
def test_without_drafts_only_the_verify_pass_costs(alpha: float, verify_cost: float) -> None:
    assert expected_speedup(alpha, 0, [math.inf], [0.0, verify_cost]) == pytest.approx(1 / verify_cost)


@given(values=st.lists(COSTS, min_size=MAX_DRAFT_TOKENS + 2, max_size=MAX_DRAFT_TOKENS + 2), alpha=ALPHAS, k=KS)
def test_measured_costs_and_a_function_of_the_same_values_agree(values: list[float], alpha: float, k: int) -> None:
    as_sequence = expected_speedup(alpha, k, values, values)
    assert as_sequence == expected_speedup(alpha, k, values.__getitem__, values.__getitem__)
    assert cost_of(values, k) == values[k]


@given(
    alpha=ALPHAS,
    draft=st.lists(COSTS, min_size=10, max_size=10),
    verify=st.lists(COSTS, min_size=10, max_size=10),
    candidates=st.sets(st.integers(0, 8), min_size=1),
)
def test_no_candidate_beats_the_best_k_and_no_smaller_one_equals_it(
    alpha: float, draft: list[float], verify: list[float], candidates: set[int]
) -> None:
    best = best_num_draft_tokens(alpha, candidates, draft, verify)
    speedups = {k: expected_speedup(alpha, k, draft, verify) for k in candidates}
    assert speedups[best] == max(speedups.values())
    assert all(speedups[k] < speedups[best] for k in candidates if k < best)


def test_a_drafter_that_is_never_right_makes_not_speculating_best() -> None:
    assert best_num_draft_tokens(0.0, range(9), lambda n: 0.1 * n, lambda n: 1 + 0.1 * (n - 1)) == 0
