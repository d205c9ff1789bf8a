"""Many pairs of tokens drawn by the rounds of a rule from laws that are known, and compared with the target's law.

Knows no model: the laws were read before. Shapes: A tokens of an alphabet, which are called by their index.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specdemo.goodness import FEWEST_EXPECTED, chi_square_p_value, expected_total_variation, total_variation
from specdemo.mistakes import Play, Proposal
from specdemo.proofs import Comparison, SampleState
from specdemo.sampling import PositionNoise, Sampler
from specdemo.settings import DecodeSettings

DRAFTS_PER_ROUND = 2
MOST_OUTCOMES = 30
_DRAWS_PER_STATE = 100


@dataclass(frozen=True, slots=True)
class PairLaws:
    """All that decides the next two tokens behind a context.

    `first` (A,): the target's law of the next token; `second[x]` (A,) that behind token x, for each x that target or
    drafter may say. `drafted[()]` and `drafted[(x,)]`: what the drafter proposes first, and in the same round behind
    its own x; `redrafted[x]`: what it proposes in a new round behind x. `texts` (A) as they are shown.
    """

    texts: Sequence[str]
    first: Tensor
    second: Mapping[int, Tensor]
    drafted: Mapping[tuple[int, ...], Proposal]
    redrafted: Mapping[int, Proposal]
    position: int  # of the next token

    def target_rows(self, tokens: Sequence[int], num_rows: int) -> Tensor:
        """The laws at the places behind the first 0, 1, ... of `tokens`, (num_rows, A).

        A third token is drawn by no experiment: its law is any.
        """
        behind = [self.first, self.second[tokens[0]] if tokens else self.first, self.first]
        return torch.stack(behind[:num_rows])


class Experiment:
    """Draws pair after pair, the i-th with the noise of seed + i."""

    def __init__(self, laws: PairLaws, rule: str, play: Play, seed: int) -> None:
        self._laws, self._rule, self._play, self._seed = laws, rule, play, seed
        self._sampler = Sampler(DecodeSettings(temperature=1.0, rule=rule), len(laws.texts))
        self.pairs: Counter[tuple[int, int]] = Counter()
        self.num_draws = 0

    def draw(self, count: int) -> None:
        """Draw so many more."""
        for _ in range(count):
            self._sampler.noise = PositionNoise(self._seed + self.num_draws, len(self._laws.texts))
            self.pairs[self._pair()] += 1
            self.num_draws += 1

    def _pair(self) -> tuple[int, int]:
        tokens: tuple[int, ...] = ()
        while len(tokens) < 2:
            tokens += self._round(tokens)
        return tokens[0], tokens[1]

    def _round(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        laws, noise, position = self._laws, self._sampler.noise, self._laws.position + len(tokens)

        def proposals(drafted: Sequence[int]) -> Proposal:
            return laws.redrafted.get(tokens[0]) if tokens else laws.drafted.get(tuple(drafted))

        max_tokens = min(DRAFTS_PER_ROUND, 2 - len(tokens))
        draft = self._play.propose(self._sampler, proposals, position, max_tokens)
        num_rows = len(draft.token_ids) + 1
        rows = laws.target_rows((*tokens, *draft.token_ids), len(tokens) + num_rows)[len(tokens) :]
        verdict = self._play.judge(self._rule, draft, rows, noise, position)
        return verdict.tokens(draft)


def states(experiment: Experiment, laws: PairLaws, mistake: str, rule: str, num_draws: int) -> Iterator[SampleState]:
    """Draw, and say every now and then how it stands; the last state has all draws."""
    outcomes = _Outcomes(laws, num_draws)
    while experiment.num_draws < num_draws:
        experiment.draw(min(_DRAWS_PER_STATE, num_draws - experiment.num_draws))
        yield SampleState(
            rule=rule,
            mistake=mistake,
            num_draws=experiment.num_draws,
            num_all=num_draws,
            next_token=outcomes.next_token(experiment.pairs),
            pair=outcomes.pair(experiment.pairs),
        )


class _Outcomes:
    """Which outcomes are compared: those that are probable enough to be, fixed before the first draw."""

    def __init__(self, laws: PairLaws, num_draws: int) -> None:
        self._texts = laws.texts
        first = {(x,): float(laws.first[x]) for x in torch.nonzero(laws.first)[:, 0].tolist()}
        pairs = {
            (x, y): share * float(laws.second[x][y])
            for (x,), share in first.items()
            for y in torch.nonzero(laws.second[x])[:, 0].tolist()
        }
        self._first, self._pairs = _Cells(first, num_draws), _Cells(pairs, num_draws)

    def next_token(self, pairs: Mapping[tuple[int, int], int]) -> Comparison:
        counts: Counter[tuple[int, ...]] = Counter()
        for (x, _), count in pairs.items():
            counts[(x,)] += count
        return self._compare(self._first, counts)

    def pair(self, pairs: Mapping[tuple[int, int], int]) -> Comparison:
        return self._compare(self._pairs, Counter(pairs))

    def _compare(self, cells: "_Cells", counts: Mapping[tuple[int, ...], int]) -> Comparison:
        probs, numbers = cells.probs, cells.numbers(counts)
        num_draws = int(numbers.sum())
        mean, spread = expected_total_variation(probs, num_draws)
        shares = numbers / num_draws
        return Comparison(
            labels=(*("".join(self._texts[x] for x in outcome) for outcome in cells.outcomes), ""),
            expected=tuple(probs[:-1].tolist()),
            observed=(*shares[:-2].tolist(), float(shares[-2:].sum())),
            distance=total_variation(probs, shares),
            expected_distance=mean,
            spread=spread,
            p_value=chi_square_p_value(probs, numbers),
        )


class _Cells:
    """The outcomes that are counted one by one, the others together, and those that the law never gives.

    `probs` (len(outcomes) + 2,).
    """

    def __init__(self, law: Mapping[tuple[int, ...], float], num_draws: int) -> None:
        self._law = law
        ordered = sorted(law, key=lambda outcome: -law[outcome])
        self.outcomes = [one for one in ordered[:MOST_OUTCOMES] if law[one] * num_draws >= FEWEST_EXPECTED]
        rarer = sum(law[outcome] for outcome in ordered[len(self.outcomes) :])
        probs = torch.tensor([*(law[one] for one in self.outcomes), rarer, 0.0], dtype=torch.float64)
        self.probs = probs / probs.sum()

    def numbers(self, counts: Mapping[tuple[int, ...], int]) -> Tensor:
        """How often each cell was drawn, the shape of `probs`."""
        singles = [counts.get(outcome, 0) for outcome in self.outcomes]
        num_impossible = sum(count for outcome, count in counts.items() if outcome not in self._law)
        num_rarer = sum(counts.values()) - sum(singles) - num_impossible
        return torch.tensor([*singles, num_rarer, num_impossible], dtype=torch.float64)
