"""`ngram:hashed`: the hash of the last n tokens is the slot of a table that holds what followed them the last time.

Source of the idea: llama.cpp's `ngram-mod` (`common/ngram-mod.cpp`). All its requests share one table; here each
generation has its own, so that no visitor's text reaches another's drafts.

Its n is 24, for long code. On the example prompts (greedy, K = 8, up to 128 tokens) n = 1, 2, 3, 4, 8 gave 1.54, 1.52,
1.43, 1.37, 1.24 tokens per round at an acceptance rate of 0.13, 0.34, 0.51, 0.61, 0.77: two tokens give nearly as much
as one, and far fewer of their drafts are rejected.
"""

from array import array
from collections.abc import Sequence

from specdemo.drafters.ngram_table import hash_of

DEFAULT_N = 2
NUM_SLOTS = 2**16
_EMPTY = -1


class HashedSuccessors:
    """See ngram_walk.Successors. Memory is the same for every text: 256 KB.

    The n-grams themselves are not kept: two that share a slot are taken for each other, which costs a rejection. The
    embedded target's longest text, 8192 tokens, fills at most an eighth of the slots.
    """

    copied = None

    def __init__(self, n: int = DEFAULT_N, num_slots: int = NUM_SLOTS) -> None:
        self.reach = n
        self._slots = array("i", [_EMPTY]) * num_slots

    def learn(self, text: Sequence[int], token_id: int) -> None:
        """The newest successor stays."""
        if len(text) == self.reach:
            self._slots[self._slot(text)] = token_id

    def after(self, text: Sequence[int]) -> int | None:
        """What stands in the slot."""
        if len(text) < self.reach:
            return None
        token_id = self._slots[self._slot(text)]
        return None if token_id == _EMPTY else token_id

    def forget(self) -> None:
        """See ngram_walk.Successors."""
        del self._slots[:]

    def bytes_of(self, num_tokens: int) -> int:
        """See ngram_walk.Successors."""
        return len(self._slots) * self._slots.itemsize

    def _slot(self, text: Sequence[int]) -> int:
        return hash_of(text) % len(self._slots)
