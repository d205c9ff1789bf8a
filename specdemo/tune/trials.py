"""One drafter along answers that are known, some rounds at a time: what every K would give, and what drafts cost."""

import time
from collections.abc import Callable, Sequence
from functools import cache
from statistics import median

from specdemo.advice import LARGE_K, Estimate
from specdemo.costs import PassClock
from specdemo.counterfactual import replay
from specdemo.engine import Engine
from specdemo.events import Round
from specdemo.settings import DecodeSettings
from specdemo.tune.known import KnownText, rounds_along
from specdemo.tune.widths import between

_TOKENS_A_TURN, _TOKENS_AT_ONCE = 32, 16
"""In all, and of one answer before the next has its turn: several answers begun say more than one that was finished."""
_TOKENS_FOR_COST = 8
_CHAIN_K, _TREE_K = 1, 4
"""The K that is tried beside the large one: of a chain a little, for the cost of a draft, as a replay says the rest; of
a tree as far, for of a tree no replay says what fewer drafts would have given."""
_FEWEST_ROUNDS = 3
"""Of as many drafts, for their cost to count."""

Settings = Callable[[int], DecodeSettings]


class Costs:
    """What a round costs besides drafting, in rounds of plain decoding."""

    def __init__(self, passes: PassClock, plain: Sequence[Round]) -> None:
        """`plain` are rounds without drafts."""
        self.passes = passes
        self.plain = 1 + median(r.overhead_seconds for r in plain) / median(r.verify_seconds for r in plain)
        """A plain round, in passes of one token."""

    def verifying(self, num_drafts: int) -> float:
        """The pass that checks a chain of so many drafts, in passes of one token."""
        return between(self.passes.ratios(), num_drafts + 1)


class Trial:
    """A drafter's rounds so far, at the large K and at one other."""

    def __init__(
        self,
        engine: Engine,
        drafter: str,
        settings: Settings,
        texts: Sequence[KnownText],
        costs: Costs,
    ) -> None:
        self.drafter = drafter
        self.num_turns = 0
        self._costs = costs
        self._tree_passes: dict[int, list[float]] = {}
        self._walk_at = lambda k: _Walk(engine, drafter, settings(k), texts)
        self._walks = {LARGE_K: self._walk_at(LARGE_K)}

    @property
    def num_tokens(self) -> int:
        """Of the answers so far."""
        return self._walks[LARGE_K].num_tokens

    @property
    def is_over(self) -> bool:
        """Whether it has been along all answers."""
        return self._walks[LARGE_K].is_over

    def turn(self, most_seconds: float) -> None:
        """Some rounds more, between passes of the target: the unit of its costs, of that moment."""
        passes = self._costs.passes
        before = passes.one()
        self._go_on(LARGE_K, before, _TOKENS_A_TURN, most_seconds)
        if self._is_tree:
            if _TREE_K not in self._walks:
                self._walks[_TREE_K] = self._walk_at(_TREE_K)
            self._go_on(_TREE_K, before, _TOKENS_A_TURN, most_seconds)
            for k, walk in self._walks.items():
                if tree := next((r.draft_parents for r, _ in reversed(walk.rounds) if len(r.draft_parents) == k), None):
                    self._tree_passes.setdefault(k, []).append(passes.tree(tree))
        elif not self.num_turns:
            self._walks[_CHAIN_K] = self._walk_at(_CHAIN_K)
            self._go_on(_CHAIN_K, before, _TOKENS_FOR_COST, most_seconds)
        passes.compare()
        self.num_turns += 1

    def close(self) -> None:
        """End the generations and free what they held."""
        for walk in self._walks.values():
            walk.close()

    def estimates(self) -> list[Estimate]:
        """For every K up to the large one of a chain, for the two that were tried of a tree."""
        own = _OwnCosts([one for walk in self._walks.values() for one in walk.rounds])
        plain = self._costs.plain

        def verifying(num_drafts: int) -> float:
            trees = self._tree_passes.get(num_drafts)
            return (median(trees) if trees else self._costs.verifying(num_drafts)) + own.overhead(num_drafts)

        @cache
        def cost(num_drafts: int) -> float:
            return (own.drafting(num_drafts) + verifying(num_drafts)) / plain

        found = []
        for k in sorted(self._walks) if self._is_tree else range(1, LARGE_K + 1):
            num_tokens, num_rounds, spent = self._made(k, cost)
            found.append(
                Estimate(
                    drafter=self.drafter,
                    k=k,
                    tokens_per_round=num_tokens / num_rounds,
                    draft_cost=own.drafting(k) / plain,
                    verify_cost=verifying(k) / plain,
                    speedup=num_tokens / spent,
                )
            )
        return found

    def best(self) -> float:
        """The highest estimated speedup; whoever has not run yet must."""
        return max(one.speedup for one in self.estimates()) if self.num_tokens else float("inf")

    @property
    def _is_tree(self) -> bool:
        return any(r.draft_parents for r, _ in self._walks[LARGE_K].rounds)

    def _go_on(self, k: int, before: float, num_tokens: int, most_seconds: float) -> None:
        rounds = self._walks[k].advance(num_tokens, most_seconds)
        unit = (before + self._costs.passes.one()) / 2
        self._walks[k].rounds += [(r, unit) for r in rounds]

    def _made(self, k: int, cost: Callable[[int], float]) -> tuple[int, float, float]:
        """Tokens, rounds and cost at `k`: as they were, or as the replay of the large K has them."""
        if self._is_tree:
            rounds = [r for r, _ in self._walks[k].rounds]
            return self._walks[k].num_tokens, len(rounds), sum(cost(len(r.draft_token_ids)) for r in rounds)
        replayed = replay(self._walks[LARGE_K].answers, LARGE_K, k, cost)
        return replayed.num_tokens, replayed.num_rounds, replayed.cost


class _Walk:
    """The rounds along all texts, at one K."""

    def __init__(self, engine: Engine, drafter: str, settings: DecodeSettings, texts: Sequence[KnownText]) -> None:
        self.answers: list[list[Round]] = [[] for _ in texts]
        self.rounds: list[tuple[Round, float]] = []
        """Each with the seconds of a one-token pass at its time."""
        self.num_tokens = 0
        made = engine.drafter(drafter)
        running = (rounds_along(engine.target, made, text, settings) for text in texts)
        self._running = list(zip(self.answers, running, strict=True))
        """The answers that are not at their ends, the next one first."""

    @property
    def is_over(self) -> bool:
        """Whether all texts were gone along."""
        return not self._running

    def advance(self, num_tokens: int, most_seconds: float) -> list[Round]:
        """The rounds of so many tokens more, or of what is left, or of as many as the seconds allow."""
        made: list[Round] = []
        end, deadline = self.num_tokens + num_tokens, time.perf_counter() + most_seconds
        while self._running and self.num_tokens < end and (not made or time.perf_counter() < deadline):
            answer, running = self._running.pop(0)
            part = self.num_tokens + _TOKENS_AT_ONCE
            for r in running:
                made.append(r)
                answer.append(r)
                self.num_tokens += len(r.emitted_token_ids)
                if self.num_tokens >= part or time.perf_counter() > deadline:
                    self._running.append((answer, running))
                    break
        return made

    def close(self) -> None:
        """Free what it held."""
        for _, running in self._running:
            running.close()


class _OwnCosts:
    """What a drafter's rounds take besides the pass, in passes of one token, by the number of their drafts."""

    def __init__(self, rounds: Sequence[tuple[Round, float]]) -> None:
        self._drafting = _by_drafts([(r, r.draft_seconds / unit) for r, unit in rounds])
        self._overhead = _by_drafts([(r, r.overhead_seconds / unit) for r, unit in rounds])

    def drafting(self, num_drafts: int) -> float:
        """Of so many drafts."""
        return between(self._drafting, num_drafts)

    def overhead(self, num_drafts: int) -> float:
        """Of the loop around so many."""
        return between(self._overhead, num_drafts)


def _by_drafts(values: Sequence[tuple[Round, float]]) -> dict[int, float]:
    """Medians by number of drafts, of the numbers that were met often enough."""
    groups: dict[int, list[float]] = {}
    for r, value in values:
        groups.setdefault(len(r.draft_token_ids), []).append(value)
    often = {num: found for num, found in groups.items() if len(found) >= _FEWEST_ROUNDS}
    return {num: median(found) for num, found in (often or groups).items()}
