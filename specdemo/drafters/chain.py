"""A chain of draft tokens, one drawn after the other: what every drafter that drafts token by token shares."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from specdemo.acceptance import Draft
from specdemo.sampling import Sampler


class Chain:
    """A draft in the making: while it is open it takes logits and draws the next token."""

    def __init__(self, sampler: Sampler, committed: Sequence[int], num_tokens: int) -> None:
        self._sampler, self._committed = sampler, committed
        self._num_left = num_tokens
        self._drafted: list[int] = []
        self._laws: list[Tensor | None] = []

    @property
    def is_open(self) -> bool:
        """Whether a token is still to be drawn."""
        return self._num_left > 0

    @property
    def token_ids(self) -> list[int]:
        """The whole sequence so far, committed and drafted."""
        return [*self._committed, *self._drafted]

    def take(self, logits: Tensor | None) -> None:
        """Draw from the logits (1, V) behind `token_ids`.

        None ends the draft: decided before the next token is drawn, so the laws stay honest.
        """
        if logits is None:
            self._num_left = 0
            return
        token_id, probs = self._sampler.choose_draft(logits[0], self._committed, self._drafted)
        self._drafted.append(token_id)
        self._laws.append(probs)
        self._num_left -= 1

    def draft(self) -> Draft:
        """What was drawn."""
        laws = [law for law in self._laws if law is not None]
        return Draft(tuple(self._drafted), torch.stack(laws) if laws else None)


def draw_chain(
    sampler: Sampler, committed: Sequence[int], num_tokens: int, next_logits: Callable[[Sequence[int]], Tensor | None]
) -> Draft:
    """Draw `num_tokens` tokens; `next_logits` gives the logits (1, V) after the whole sequence it is shown, or None."""
    chain = Chain(sampler, committed, num_tokens)
    while chain.is_open:
        chain.take(next_logits(chain.token_ids))
    return chain.draft()


def draw_chains(
    chains: Sequence[Chain], next_logits: Callable[[Sequence[tuple[int, Sequence[int]]]], Sequence[Tensor | None]]
) -> list[Draft]:
    """Draw several chains side by side.

    `next_logits` is shown (number of the chain, whole sequence) of those that are open, and gives logits for each.
    """
    while drawing := [(number, chain) for number, chain in enumerate(chains) if chain.is_open]:
        found = next_logits([(number, chain.token_ids) for number, chain in drawing])
        for (_, chain), logits in zip(drawing, found, strict=True):
            chain.take(logits)
    return [chain.draft() for chain in chains]
