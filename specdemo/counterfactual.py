"""What a smaller K would have given, from one run at a large K: a replay, and an estimate.

Under `greedy` and `coupled` the text does not depend on K, so that what the drafter got right at a place of it is known
wherever a round judged a draft there. A virtual round walks along these verdicts. Two things are not known and are
estimated from the run's own rates: a place whose token was the bonus of a full round, and a place that the virtual
round reaches at another depth than the real one did (a drafter that goes on from its own drafts, or guesses several
at once, errs more the deeper it is). Under the other rules verdicts are drawn anew, and the replay is rougher.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from specdemo.events import Event, Round
from specdemo.metrics import ratio

RoundCost = Callable[[int], float]
"""What a round with so many drafts costs: drafting, the pass that checks them, the loop."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """Tokens of the texts, and the expected rounds and cost in which they would have been made."""

    num_tokens: int
    num_rounds: float
    cost: float

    @property
    def tokens_per_round(self) -> float | None:
        """None of no tokens."""
        return ratio(self.num_tokens, self.num_rounds)


def replay(texts: Iterable[Sequence[Event]], run_k: int, k: int, cost: RoundCost) -> Replayed:
    """The texts in rounds of at most `k` drafts, with the verdicts of the run that made them at `run_k`, no smaller."""
    known = _Verdicts([[event for event in events if isinstance(event, Round)] for events in texts], run_k)
    totals = [_expected(known, places, k, cost) for places in known.places]
    return Replayed(
        sum(len(places) for places in known.places),
        sum(num_rounds for num_rounds, _ in totals),
        sum(spent for _, spent in totals),
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """One token of an answer as the run judged it.

    `is_accepted` None: nothing was judged. `num_drafts` is how many the drafter had from here on, None for unknown.
    """

    depth: int
    is_accepted: bool | None
    num_drafts: int | None


class _Verdicts:
    """What a run says of every token of its answers, and its rates by depth."""

    def __init__(self, texts: Sequence[Sequence[Round]], run_k: int) -> None:
        self._run_k = run_k
        self.places = [[place for r in rounds for place in self._of_round(r)] for rounds in texts]

    def _of_round(self, r: Round) -> Iterable[_Place]:
        num_drafted = len(r.draft_token_ids)
        for depth in range(len(r.emitted_token_ids)):
            is_full = num_drafted == self._run_k
            if depth < num_drafted:
                yield _Place(depth, depth < r.num_accepted, None if is_full else num_drafted - depth)
            elif num_drafted:
                yield _Place(depth, None, None)  # a bonus: nobody knows what would have been drafted
            else:
                yield _Place(0, None, 0)

    @cached_property
    def _rates(self) -> list[float | None]:
        """Share of the judged drafts at each depth that was accepted."""
        judged = [place for places in self.places for place in places if place.is_accepted is not None]
        at = [[place.is_accepted for place in judged if place.depth == depth] for depth in range(self._run_k)]
        return [ratio(sum(map(bool, verdicts)), len(verdicts)) for verdicts in at]

    @cached_property
    def _alpha(self) -> float:
        judged = [place.is_accepted for places in self.places for place in places if place.is_accepted is not None]
        return sum(judged) / len(judged) if judged else 0.0

    def chance(self, place: _Place, depth: int) -> float:
        """That a draft at this place, made at `depth` of its round, is accepted."""
        if place.is_accepted is None:
            return self._alpha
        then, now = self._rates[place.depth], self._rates[depth]
        if then is None or now is None or depth == place.depth:
            return float(place.is_accepted)
        # Whoever is right deep in a round is right early in one, and the rates say how often only the latter.
        if place.is_accepted:
            return min(1.0, now / then) if depth > place.depth else 1.0
        return max(0.0, (now - then) / (1 - then)) if depth < place.depth and then < 1 else 0.0


def _expected(known: _Verdicts, places: Sequence[_Place], k: int, cost: RoundCost) -> tuple[float, float]:
    """Expected rounds and cost of one text, from its end backwards: what follows does not depend on what led there."""
    num_rounds, spent = [0.0] * (len(places) + k + 2), [0.0] * (len(places) + k + 2)
    for start in reversed(range(len(places))):
        drafts = places[start].num_drafts
        num_drafts = min(k, len(places) - start - 1, k if drafts is None else drafts)
        rounds_behind = spent_behind = 0.0
        reached = 1.0
        for depth in range(num_drafts):
            place = places[start + depth]
            has_ended = depth > 0 and place.num_drafts == 0
            goes_on = 0.0 if has_ended else known.chance(place, depth)
            rounds_behind += reached * (1 - goes_on) * num_rounds[start + depth + 1]
            spent_behind += reached * (1 - goes_on) * spent[start + depth + 1]
            reached *= goes_on
        num_rounds[start] = 1 + rounds_behind + reached * num_rounds[start + num_drafts + 1]
        spent[start] = cost(num_drafts) + spent_behind + reached * spent[start + num_drafts + 1]
    return num_rounds[0], spent[0]
