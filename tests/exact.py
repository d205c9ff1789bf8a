"""Exact integration over a program's random numbers: run it once for each sequence of outcomes, and add up."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch
from torch import Tensor

Outcome = TypeVar("Outcome")
_CELLS = 4
"""Draft laws whose probabilities are multiples of 1 / _CELLS are integrated exactly by one number from each cell."""


class Choices:
    """The random choices of one run; see `outcomes`."""

    def __init__(self, given: Sequence[int]) -> None:
        self._given = tuple(given)
        self.made: list[tuple[int, list[float]]] = []
        self.probability = 1.0

    def choose(self, weights: Sequence[float]) -> int:
        """An index, in one run each whose weight is positive; the weights sum to 1."""
        depth = len(self.made)
        index = self._given[depth] if depth < len(self._given) else _next_positive(weights, 0)
        assert index is not None
        self.made.append((index, list(weights)))
        self.probability *= weights[index]
        return index


def outcomes(program: Callable[[Choices], Outcome]) -> Iterator[tuple[float, Outcome]]:
    """(probability, result) of every run that the program can take."""
    path: list[int] | None = []
    while path is not None:
        choices = Choices(path)
        result = program(choices)
        yield choices.probability, result
        path = _next_path(choices.made)


def law(program: Callable[[Choices], Outcome]) -> dict[Outcome, float]:
    """The exact distribution of the program's result."""
    total: dict[Outcome, float] = defaultdict(float)
    for probability, result in outcomes(program):
        total[result] += probability
    return dict(total)


def expectation(program: Callable[[Choices], float]) -> float:
    return sum(probability * value for probability, value in outcomes(program))


class Uniform:
    """A number in [0, 1) of which only the answers to comparisons are drawn."""

    def __init__(self, choices: Choices) -> None:
        self._choices = choices
        self._low, self._high = 0.0, 1.0

    def __lt__(self, bound: float) -> bool:
        middle = min(max(bound, self._low), self._high)
        share = (middle - self._low) / (self._high - self._low)
        is_below = self._choices.choose([share, 1.0 - share]) == 0
        self._low, self._high = (self._low, middle) if is_below else (middle, self._high)
        return is_below

    def __ge__(self, bound: float) -> bool:
        return not self < bound

    __le__, __gt__ = __lt__, __ge__


class ExactNoise:
    """In the place of PositionNoise: one number for each position and stream, the same each time it is asked for.

    What an acceptance is judged by is integrated by comparison, what a draft is drawn by over _CELLS cells. The next
    token's number is of no account: who uses this draws the next token from the verdict's own distribution.
    """

    def __init__(self, choices: Choices) -> None:
        self._choices = choices
        self._numbers: dict[tuple[int, str], Uniform | float] = {}

    def uniform(self, position: int, stream: str) -> Uniform | float:
        key = (position, stream)
        if key not in self._numbers:
            self._numbers[key] = self._new(stream)
        return self._numbers[key]

    def _new(self, stream: str) -> Uniform | float:
        if stream.startswith("accept"):
            return Uniform(self._choices)
        if stream.startswith("draft"):
            return (self._choices.choose([1 / _CELLS] * _CELLS) + 0.5) / _CELLS
        return 0.5


def random_law(seed: int, size: int, concentration: float = 1.0) -> Tensor:
    """A distribution over `size` tokens, float64; a low concentration makes it peaked."""
    generator = torch.Generator().manual_seed(seed)
    weights = -torch.rand(size, generator=generator, dtype=torch.float64).log_()
    return (weights**concentration) / (weights**concentration).sum()


def _next_positive(weights: Sequence[float], start: int) -> int | None:
    return next((index for index in range(start, len(weights)) if weights[index] > 0.0), None)


def _next_path(made: list[tuple[int, list[float]]]) -> list[int] | None:
    while made:
        index, weights = made.pop()
        following = _next_positive(weights, index + 1)
        if following is not None:
            return [*(chosen for chosen, _ in made), following]
    return None
