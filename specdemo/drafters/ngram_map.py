"""`ngram:map`: counts what followed each n-gram and proposes only what came far more often than all else.

Source of the idea: llama.cpp's `ngram-map-k4v` (`common/ngram-map.cpp`): four continuations a key, the best needs three
times the others' count. There a key has one length and a continuation many tokens; here a continuation is one token and
the longest known key decides, and where it is in doubt nothing is drafted. That makes keys of one token worth asking.

On the example prompts (greedy, K = 8, up to 128 tokens) keys of 1-3 tokens and a lead of 1, 2, 3 gave 1.66, 1.62, 1.61
tokens per round at an acceptance rate of 0.21, 0.31, 0.31; keys of two tokens only and a lead of 2 gave 1.49 at 0.48,
`ngram` 1.53 at 0.37. More than four continuations changed nothing.
"""

import sys
from collections.abc import Sequence

from specdemo.drafters.ngram import ngram_bytes

MAX_N = 3
MAX_CONTINUATIONS = 4
LEAD = 2
"""How many times the count of all others the best must have."""


class CountedSuccessors:
    """See ngram_walk.Successors."""

    reach = MAX_N
    copied = None

    def __init__(self) -> None:
        self._counts: dict[tuple[int, ...], dict[int, int]] = {}

    def learn(self, text: Sequence[int], token_id: int) -> None:
        """Count it behind each end of the text; a fifth continuation takes the place of the rarest."""
        for n in range(1, len(text) + 1):
            counts = self._counts.setdefault(tuple(text[-n:]), {})
            if token_id not in counts and len(counts) == MAX_CONTINUATIONS:
                del counts[min(counts, key=counts.__getitem__)]
            counts[token_id] = counts.get(token_id, 0) + 1

    def after(self, text: Sequence[int]) -> int | None:
        """What the longest known end of the text was followed by, where that is not in doubt."""
        for n in range(len(text), 0, -1):
            counts = self._counts.get(tuple(text[-n:]))
            if counts is not None:
                best = max(counts, key=counts.__getitem__)
                num_others = sum(counts.values()) - counts[best]
                return best if counts[best] >= LEAD * num_others else None
        return None

    def forget(self) -> None:
        """See ngram_walk.Successors."""
        self._counts.clear()

    def bytes_of(self, num_tokens: int) -> int:
        """See ngram_walk.Successors. Most keys are followed by one token."""
        lengths = range(1, self.reach + 1)
        return ngram_bytes(num_tokens, lengths) + num_tokens * len(lengths) * sys.getsizeof({0: 1})
