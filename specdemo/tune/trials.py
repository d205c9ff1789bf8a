"""One drafter tried at a large K on a person's prompts, a few rounds at a time: what that says of every smaller K."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median

from specdemo.advice import LARGE_K, NONE, Estimate
from specdemo.counterfactual import replay
from specdemo.engine import Engine
from specdemo.events import Event, Round
from specdemo.race import RaceRequest
from specdemo.settings import DecodeSettings
from specdemo.tune.widths import between

_ROUNDS_A_TURN = 4
_TOKENS_A_PROMPT = 32
"""Of each prompt at first: several answers begun say more than one that was finished."""


class Trial:
    """A drafter's rounds so far; NONE is plain decoding, the unit of all costs."""

    def __init__(
        self, engine: Engine, drafter: str, settings: DecodeSettings, prompts: Sequence[Sequence[int]]
    ) -> None:
        self.drafter = drafter
        self.is_over = False
        self._engine, self._prompts = engine, prompts
        self._texts: list[list[Event]] = []
        self._short_rounds: list[Round] = []
        self._large = self._generate(settings, self._texts)
        self._short = self._generate(replace(settings, num_draft_tokens=1), [])

    @property
    def num_tokens(self) -> int:
        """Of all answers so far."""
        return sum(len(r.emitted_token_ids) for r in self._rounds)

    @property
    def round_seconds(self) -> float:
        """Median of all rounds."""
        return median(r.seconds for r in self._rounds)

    def turn(self, *, is_short_too: bool) -> None:
        """A few rounds more at the large K, and at K = 1 where the cost of a draft is to be known better."""
        for _ in range(_ROUNDS_A_TURN):
            self.is_over = next(self._large, None) is None
        if is_short_too and self.drafter != NONE:
            self._short_rounds += [r for r in (next(self._short, None) for _ in range(_ROUNDS_A_TURN)) if r]

    def close(self) -> None:
        """End the generations and free what they held."""
        self._large.close()
        self._short.close()

    def estimates(self, plain: "Trial", passes: Mapping[int, float]) -> list[Estimate]:
        """For every K up to the large one, by replay and by measured costs; `passes` are seconds by width."""
        unit = plain.round_seconds
        overhead = median(r.overhead_seconds for r in self._rounds)

        def verifying(num_drafts: int) -> float:
            # The pass costs what it costs; the loop around it is the drafter's own.
            extra = between(passes, num_drafts + 1) - passes[1]
            return (extra + overhead + median(r.verify_seconds for r in plain._rounds)) / unit

        def drafting(num_drafts: int) -> float:
            return self._draft_seconds(num_drafts) / unit

        found = []
        for k in range(1, LARGE_K + 1):
            replayed = replay(self._texts, LARGE_K, k, lambda n: verifying(n) + drafting(n))
            found.append(
                Estimate(
                    drafter=self.drafter,
                    k=k,
                    tokens_per_round=replayed.num_tokens / replayed.num_rounds,
                    draft_cost=drafting(k),
                    verify_cost=verifying(k),
                    speedup=replayed.num_tokens / replayed.cost,
                )
            )
        return found

    def best(self, plain: "Trial", passes: Mapping[int, float]) -> float:
        """The highest estimated speedup; whoever has not run yet must."""
        if not self._rounds or not plain._rounds:
            return float("inf")
        return max(estimate.speedup for estimate in self.estimates(plain, passes))

    @property
    def _rounds(self) -> list[Round]:
        return [event for events in self._texts for event in events if isinstance(event, Round)]

    def _draft_seconds(self, num_drafts: int) -> float:
        """On the line through one draft and the most that were made; through the origin before one was measured."""
        longest = max(len(r.draft_token_ids) for r in self._rounds)
        most = median(r.draft_seconds for r in self._rounds if len(r.draft_token_ids) == longest)
        ones = [r.draft_seconds for r in self._short_rounds if len(r.draft_token_ids) == 1]
        if longest < 2:
            return most
        if not ones:
            return most * num_drafts / longest
        one = min(median(ones), most)
        return one + (most - one) * (num_drafts - 1) / (longest - 1)

    def _generate(self, settings: DecodeSettings, texts: list[list[Event]]) -> Iterator[Round]:
        """The rounds of one answer after the other; all but a single one are left early, for the next."""
        for prompt_ids in self._prompts:
            events: list[Event] = []
            texts.append(events)
            request = RaceRequest(prompt="", drafter=self.drafter, settings=settings)
            num_tokens = 0
            for event in self._engine.lane(request, list(prompt_ids), self.drafter):
                if isinstance(event, Round):
                    events.append(event)
                    num_tokens += len(event.emitted_token_ids)
                    yield event
                if num_tokens >= _TOKENS_A_PROMPT and len(self._prompts) > 1:
                    break
