"""The measures of fit are what they say: against enumeration, and against many draws of a law."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specdemo.goodness import chi_square_p_value, expected_total_variation, total_variation
from tests.exact import random_law


def multinomials(size: int, num_draws: int) -> list[tuple[int, ...]]:
    """All ways in which so many draws can fall into `size` cells."""
    return [n for n in itertools.product(range(num_draws + 1), repeat=size) if sum(n) == num_draws]


def probability(counts: tuple[int, ...], probs: list[float]) -> float:
    ways = math.factorial(sum(counts)) / math.prod(map(math.factorial, counts))
    return ways * math.prod(p**n for p, n in zip(probs, counts, strict=True))


@given(seed=st.integers(0, 10**6), size=st.integers(2, 3), num_draws=st.integers(1, 12))
def test_the_expected_total_variation_is_the_mean_over_all_that_can_be_drawn(
    seed: int, size: int, num_draws: int
) -> None:
    law = random_law(seed, size)
    mean = sum(
        probability(counts, law.tolist()) * total_variation(law, torch.tensor(counts).double() / num_draws)
        for counts in multinomials(size, num_draws)
    )
    assert expected_total_variation(law, num_draws)[0] == pytest.approx(mean, abs=1e-9)


def draws(law: torch.Tensor, num_draws: int, num_experiments: int) -> torch.Tensor:
    """(num_experiments, C) counts."""
    torch.manual_seed(0)
    return torch.distributions.Multinomial(num_draws, law).sample((num_experiments,))


@pytest.mark.parametrize("size", [2, 5, 20])
def test_the_spread_of_the_total_variation_is_that_of_many_experiments(size: int) -> None:
    law = random_law(size, size)
    found = torch.tensor([total_variation(law, row / 2000) for row in draws(law, 2000, 600)])
    mean, spread = expected_total_variation(law, 2000)
    assert float(found.mean()) == pytest.approx(mean, rel=0.05)
    assert float(found.std()) == pytest.approx(spread, rel=0.15)


@pytest.mark.parametrize("size", [2, 8, 25])
def test_p_values_of_draws_from_the_law_itself_are_spread_evenly_and_small_ones_are_as_rare_as_they_say(
    size: int,
) -> None:
    law = random_law(size + 40, size, 2.0)
    found = torch.tensor([chi_square_p_value(law, row) for row in draws(law, 3000, 1000)])
    for level in (0.5, 0.1):
        assert float((found < level).double().mean()) == pytest.approx(level, rel=0.4)
    assert float((found < 0.001).double().mean()) < 0.006
    assert float(found.min()) > 1e-6


def test_chi_square_is_that_of_the_tables() -> None:
    """Two degrees of freedom: the chance of more than x is exp(-x / 2)."""
    law, counts = torch.tensor([0.5, 0.25, 0.25]), torch.tensor([220.0, 90.0, 90.0])
    statistic = 20**2 / 200 + 2 * 10**2 / 100
    assert chi_square_p_value(law, counts) == pytest.approx(math.exp(-statistic / 2))


def test_what_the_law_never_gives_is_certain_proof_and_a_law_of_one_outcome_is_none() -> None:
    assert chi_square_p_value(torch.tensor([0.5, 0.5, 0.0]), torch.tensor([500.0, 499.0, 1.0])) == 0.0
    assert chi_square_p_value(torch.tensor([1.0, 0.0]), torch.tensor([10.0, 0.0])) == 1.0
    assert expected_total_variation(torch.tensor([1.0, 0.0]), 10) == (0.0, 0.0)


def test_rare_outcomes_are_taken_together() -> None:
    """Alone, one draw of an outcome that was expected a hundredth of a time would be proof of anything."""
    law = torch.tensor([0.6, 0.3, *[0.001] * 100])
    counts = torch.tensor([600.0, 300.0, *[1.0] * 99, 1.0]) * 1.0
    assert chi_square_p_value(law, counts) > 0.9
    lucky = torch.tensor([600.0, 300.0, 100.0, *[0.0] * 99])
    assert chi_square_p_value(law, lucky) == pytest.approx(1.0)
