"""Copies what followed the last few tokens the last time they occurred; no weights. One-hot: it never draws.

With a table of static counts it also knows what usually follows where the text itself has not said it before.

Source of the idea: prompt lookup decoding (apoorvumang/prompt-lookup-decoding); here the longest suffix is tried first
and the most recent occurrence wins, as in llama.cpp's ngram-simple.
"""

from collections.abc import Sequence

from torch import Tensor

from specdemo.acceptance import Draft
from specdemo.causal_lm import CausalLMSession
from specdemo.drafters.ngram_table import MAX_N, NgramTable
from specdemo.errors import SettingsError
from specdemo.sampling import Sampler

DEFAULT_MIN_N = 2
DEFAULT_MAX_N = 5


class NgramDrafter:
    """See drafters.base.Drafter. `min_n` and `max_n` bound the length of the suffix that is looked up."""

    name = "ngram"
    feature_layers = ()

    def __init__(self, min_n: int = DEFAULT_MIN_N, max_n: int = DEFAULT_MAX_N, table: NgramTable | None = None) -> None:
        if not 1 <= min_n <= max_n <= 16:
            raise SettingsError(
                f"n-gram lengths are {min_n}-{max_n}; they must be whole numbers 1 <= min <= max <= 16."
            )
        self.min_n = min_n
        self.max_n = max_n
        self.table = table
        self.memory_bytes = table.memory_bytes if table else 0

    def open(self, target_session: CausalLMSession, prompt_ids: Sequence[int], sampler: Sampler) -> "NgramSession":
        """See drafters.base.Drafter.open."""
        session = NgramSession(self.min_n, self.max_n, self.table)
        session.commit(prompt_ids, None)
        return session


class NgramSession:
    """An index from n-grams to where they last ended, extended by each commit: the cost does not grow with the text."""

    bytes_read = 0
    note = ""

    def __init__(self, min_n: int, max_n: int, table: NgramTable | None = None) -> None:
        self._table = table
        self._lengths = range(max_n, min_n - 1, -1)
        self._ids: list[int] = []
        self._ends: dict[tuple[int, ...], int] = {}

    def propose(self, max_tokens: int) -> Draft:
        """What followed the longest known suffix; a copy that reaches the present goes on with its own tokens.

        With a table the longest suffix is looked for anew behind each token, in the text and then in the table.
        """
        return Draft(self._copy(max_tokens) if self._table is None else self._chain(max_tokens, self._table))

    def commit(self, token_ids: Sequence[int], features: Tensor | None) -> None:
        """Index the n-grams that now have a token behind them."""
        for token_id in token_ids:
            end = len(self._ids)
            for n in self._lengths:
                if n <= end:
                    self._ends[tuple(self._ids[end - n :])] = end
            self._ids.append(token_id)

    def close(self) -> None:
        """Forget the text."""
        self._ids.clear()
        self._ends.clear()

    def _copy(self, max_tokens: int) -> tuple[int, ...]:
        end = self._find_match(self._ids)
        if end is None:
            return ()
        copied = list(self._ids[end : end + max_tokens])
        period = len(self._ids) - end
        while len(copied) < max_tokens:
            copied.append(copied[len(copied) - period])
        return tuple(copied)

    def _chain(self, max_tokens: int, table: NgramTable) -> tuple[int, ...]:
        text = self._ids[-max(self._lengths.start, MAX_N) :]
        drafted: list[int] = []
        while len(drafted) < max_tokens:
            end = self._find_match(text)
            token_id = table.after(text) if end is None else self._ids[end]
            if token_id is None:
                break
            drafted.append(token_id)
            text.append(token_id)
        return tuple(drafted)

    def _find_match(self, text: Sequence[int]) -> int | None:
        """Where what followed the longest known suffix of `text` stands."""
        for n in self._lengths:
            if n <= len(text):
                end = self._ends.get(tuple(text[-n:]))
                if end is not None:
                    return end
        return None
