"""Static counts for `ngram:static` and `ngram:code`: what followed n-grams of a large text most often. A table.

Source of the idea: llama.cpp's lookup decoding with a static cache (`common/ngram-cache.cpp`). Only the winner of each
n-gram is kept, and only where it differs from what the shorter n-gram says, so that a million tokens of text become
0.6 MB. Shapes: N entries.
"""

import sys
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from specdemo.drafters.ngram import DEFAULT_MAX_N, DEFAULT_MIN_N, SuffixIndex
from specdemo.errors import ModelError
from specdemo.events import DraftOrigin

FILE_NAME = "table.safetensors"
MAX_N = 4
_MULTIPLIER, _MASK = 6364136223846793005, 2**64 - 1  # Knuth's linear congruential generator, MMIX


class NgramTable:
    """`keys` (N,) uint32 are the n-grams' hashes, `tokens` (N,) what follows, in as few bytes as they take.

    One unknown n-gram in some fifty thousand has the hash of a known one: a wrong draft, which costs a rejection.
    """

    def __init__(self, keys: NDArray[np.uint32], tokens: NDArray[np.unsignedinteger]) -> None:
        self._keys, self._tokens = keys, tokens
        self._winners = dict(zip(keys.tolist(), tokens.tolist(), strict=True))
        entries = chain.from_iterable(self._winners.items())
        self.memory_bytes = (
            keys.nbytes + tokens.nbytes + sys.getsizeof(self._winners) + sum(map(sys.getsizeof, entries))
        )

    @classmethod
    def from_winners(cls, winners: Mapping[tuple[int, ...], int]) -> "NgramTable":
        """From each n-gram's most frequent successor; of two with one hash the later stays."""
        by_key = {hash_of(ngram): token_id for ngram, token_id in winners.items()}
        keys = sorted(by_key)
        tokens = [by_key[key] for key in keys]
        return cls(np.array(keys, np.uint32), np.array(tokens, np.min_scalar_type(max(tokens, default=0))))

    @classmethod
    def load(cls, path: Path) -> "NgramTable":
        """Read what `save` wrote."""
        try:
            arrays = load_file(path)
            return cls(arrays["keys"], arrays["tokens"])
        except (OSError, KeyError, SafetensorError) as error:
            raise ModelError(f"no n-gram table could be read from {path}: {error}. Install specdemo again.") from error

    def save(self, path: Path) -> None:
        """Write a safetensors file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file({"keys": self._keys, "tokens": self._tokens}, path)

    def after(self, token_ids: Sequence[int]) -> int | None:
        """What follows the longest known end of `token_ids`; None where nothing is known."""
        for n in range(min(MAX_N, len(token_ids)), 0, -1):
            winner = self._winners.get(hash_of(token_ids[-n:]))
            if winner is not None:
                return winner
        return None


class TextThenTable:
    """See ngram_walk.Successors. The text itself is asked first, the table where the text has not said it before."""

    def __init__(self, table: NgramTable, min_n: int = DEFAULT_MIN_N, max_n: int = DEFAULT_MAX_N) -> None:
        self.reach = max(max_n, MAX_N)
        self.copied: DraftOrigin | None = None
        self._table = table
        self._index = SuffixIndex(min_n, max_n)

    def learn(self, text: Sequence[int], token_id: int) -> None:
        """Index the n-grams that end with `text`."""
        self._index.append(token_id)

    def after(self, text: Sequence[int]) -> int | None:
        """What followed the longest known suffix in the text, or else what usually does."""
        found = self._index.find(text)
        self.copied = None if found is None else DraftOrigin(*found)
        return self._table.after(text) if found is None else self._index.ids[found[0]]

    def forget(self) -> None:
        """See ngram_walk.Successors."""
        self._index.clear()

    def bytes_of(self, num_tokens: int) -> int:
        """See ngram_walk.Successors."""
        return self._index.bytes_of(num_tokens)


def hash_of(ngram: Sequence[int]) -> int:
    """32 bits that depend on length and order."""
    state = len(ngram)
    for token_id in ngram:
        state = (state * _MULTIPLIER + token_id + 1) & _MASK
    return (state * _MULTIPLIER & _MASK) >> 32
