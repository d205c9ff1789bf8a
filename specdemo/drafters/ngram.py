"""Copies what followed the last few tokens the last time they occurred; no weights. One-hot: it never draws.

Source of the idea: prompt lookup decoding (apoorvumang/prompt-lookup-decoding); here the longest suffix is tried first
and the most recent occurrence wins, as in llama.cpp's ngram-simple.
"""

import sys
from collections.abc import Iterable, Sequence

from torch import Tensor

from specdemo.acceptance import Draft
from specdemo.causal_lm import CausalLMSession
from specdemo.errors import SettingsError
from specdemo.events import DraftOrigin
from specdemo.sampling import Sampler

DEFAULT_MIN_N = 2
DEFAULT_MAX_N = 5
_SLOT_BYTES = 8  # of a list, for the address of what stands there


class NgramDrafter:
    """See drafters.base.Drafter. `min_n` and `max_n` bound the length of the suffix that is looked up."""

    name = "ngram"
    memory_bytes = 0
    feature_layers = ()

    def __init__(self, min_n: int = DEFAULT_MIN_N, max_n: int = DEFAULT_MAX_N) -> None:
        if not 1 <= min_n <= max_n <= 16:
            raise SettingsError(
                f"n-gram lengths are {min_n}-{max_n}; they must be whole numbers 1 <= min <= max <= 16."
            )
        self.min_n = min_n
        self.max_n = max_n

    def open(self, target_session: CausalLMSession, prompt_ids: Sequence[int], sampler: Sampler) -> "NgramSession":
        """See drafters.base.Drafter.open."""
        session = NgramSession(self.min_n, self.max_n)
        session.commit(prompt_ids, None)
        return session

    def cache_bytes(self, num_tokens: int) -> int:
        """The index, were no n-gram written twice."""
        return SuffixIndex(self.min_n, self.max_n).bytes_of(num_tokens)


class NgramSession:
    """See drafters.base.DraftSession."""

    bytes_read = 0
    note = ""

    def __init__(self, min_n: int, max_n: int) -> None:
        self._index = SuffixIndex(min_n, max_n)

    def propose(self, max_tokens: int) -> Draft:
        """What followed the longest known suffix; a copy that reaches the present goes on with its own tokens."""
        ids = self._index.ids
        found = self._index.find(ids)
        if found is None:
            return Draft(())
        end, n = found
        copied = ids[end : end + max_tokens]
        period = len(ids) - end
        while len(copied) < max_tokens:
            copied.append(copied[len(copied) - period])
        return Draft(tuple(copied), origins=tuple(DraftOrigin(end + i, n + i) for i in range(max_tokens)))

    def commit(self, token_ids: Sequence[int], features: Tensor | None) -> None:
        """Index the n-grams that now have a token behind them."""
        for token_id in token_ids:
            self._index.append(token_id)

    def close(self) -> None:
        """Forget the text."""
        self._index.clear()


class SuffixIndex:
    """A text, `ids`, and where each of its n-grams last ended; the cost of a token does not grow with the text."""

    def __init__(self, min_n: int, max_n: int) -> None:
        self.ids: list[int] = []
        self._lengths = range(max_n, min_n - 1, -1)
        self._ends: dict[tuple[int, ...], int] = {}

    def append(self, token_id: int) -> None:
        """Index the n-grams that end before `token_id`."""
        end = len(self.ids)
        for n in self._lengths:
            if n <= end:
                self._ends[tuple(self.ids[end - n :])] = end
        self.ids.append(token_id)

    def find(self, text: Sequence[int]) -> tuple[int, int] | None:
        """Where what followed the longest known suffix of `text` stands in `ids`, and the length of that suffix."""
        for n in self._lengths:
            if n <= len(text):
                end = self._ends.get(tuple(text[-n:]))
                if end is not None:
                    return end, n
        return None

    def clear(self) -> None:
        """Forget the text."""
        self.ids.clear()
        self._ends.clear()

    def bytes_of(self, num_tokens: int) -> int:
        """Of an index of so many tokens, no n-gram of which was written twice: the most there can be."""
        num_ends = num_tokens * sys.getsizeof(num_tokens)  # one for the n-grams of every length
        return num_tokens * _SLOT_BYTES + num_ends + ngram_bytes(num_tokens, self._lengths)


def ngram_bytes(num_tokens: int, lengths: Iterable[int]) -> int:
    """A dict whose keys are so many n-grams of each length, without its values."""
    sizes = [sys.getsizeof((0,) * n) for n in lengths]
    slots: dict[int, None] = {}
    for key in range(num_tokens * len(sizes)):  # grown key by key, as such a dict is
        slots[key] = None
    return sys.getsizeof(slots) + num_tokens * sum(sizes)
