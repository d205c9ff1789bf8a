"""A tree of draft tokens that grows where it is worth most (EAGLE-2, Li et al. 2406.16858, section 4).

A draft's value is the log-probability of its branch, by the drafter. Level by level the best new drafts are expanded,
and of all that were seen the best so many are proposed, best first. A value never rises along a branch, so that what
cannot be among them any more needs no pass. Shapes: B drafts of a level, V the target's vocabulary.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from specdemo.acceptance import Draft
from specdemo.branches import MOST_BRANCHES, ROOT, path_to
from specdemo.catalog import drafter_note
from specdemo.sampling import Sampler


class Tree:
    """A draft in the making: while it is open, it takes logits behind each draft of its `frontier`."""

    def __init__(self, sampler: Sampler, committed: Sequence[int], num_tokens: int) -> None:
        self._sampler, self._committed, self._num_tokens = sampler, committed, num_tokens
        self._token_ids: list[int] = []
        self._parents: list[int] = []
        self._values: list[float] = []
        self.frontier = [ROOT] if num_tokens > 0 else []
        """Drafts whose followers are wanted, all as deep; ROOT at first."""

    @property
    def is_open(self) -> bool:
        """Whether any draft is worth a pass."""
        return bool(self.frontier)

    def path(self, index: int) -> tuple[int, ...]:
        """The drafts from the first to this one; none for ROOT."""
        return path_to(tuple(self._parents), index) if index != ROOT else ()

    def parent(self, index: int) -> int:
        """The draft before this one, or ROOT."""
        return self._parents[index]

    def token_id(self, index: int) -> int:
        """What it says."""
        return self._token_ids[index]

    @torch.inference_mode()
    def take(self, logits: Tensor) -> None:
        """Look at the best followers of each draft of the frontier, from its logits (B, V)."""
        behind = [[self._token_ids[i] for i in self.path(index)] for index in self.frontier]
        bets = self._sampler.bets(logits, self._committed, behind)
        values, token_ids = bets.topk(min(MOST_BRANCHES, self._num_tokens, bets.shape[-1]))
        first = len(self._token_ids)
        for parent, row_values, row_ids in zip(self.frontier, values.tolist(), token_ids.tolist(), strict=True):
            so_far = 0.0 if parent == ROOT else self._values[parent]
            for value, token_id in zip(row_values, row_ids, strict=True):
                if value > float("-inf"):
                    self._token_ids.append(token_id)
                    self._parents.append(parent)
                    self._values.append(so_far + value)
        # The last of the best has no room for a follower.
        worth = self._best()[: self._num_tokens - 1]
        self.frontier = [index for index in worth if index >= first][:MOST_BRANCHES]

    def draft(self) -> Draft:
        """The best of what was looked at."""
        best = self._best()
        places = {index: place for place, index in enumerate(best)} | {ROOT: ROOT}
        parents = tuple(places[self._parents[index]] for index in best)
        return Draft(tuple(self._token_ids[index] for index in best), parents=parents)

    def _best(self) -> list[int]:
        """Highest value first; of equals the earlier, so that nobody stands before the draft that it follows."""
        return sorted(range(len(self._values)), key=lambda index: (-self._values[index], index))[: self._num_tokens]


def grow_tree(
    sampler: Sampler, committed: Sequence[int], num_tokens: int, next_logits: Callable[[Tree], Tensor | None]
) -> Draft:
    """A tree of up to `num_tokens` drafts.

    `next_logits` gives the logits (B, V) behind the drafts of its frontier, None where the drafter goes no deeper.
    """
    tree = Tree(sampler, committed, num_tokens)
    while tree.is_open and (logits := next_logits(tree)) is not None:
        tree.take(logits)
    return tree.draft()


def tree_or_note(sampler: Sampler, *, wants_tree: bool) -> tuple[bool, str]:
    """Whether a drafter may draft trees in this generation, and what to say where it may not."""
    if wants_tree and sampler.rule == "block":
        return False, drafter_note("note_block_chain")
    return wants_tree, ""
