"""Drafts walked token by token through what followed what: `ngram:static`, `ngram:hashed`, `ngram:map` in one session.

Each drafted token is put behind the text and the next one looked up anew. One-hot: it never draws. The session and all
it has learnt belong to one generation; only a table that was counted before is shared.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from torch import Tensor

from specdemo.acceptance import Draft
from specdemo.causal_lm import CausalLMSession
from specdemo.events import DraftOrigin
from specdemo.sampling import Sampler

_UNKNOWN = DraftOrigin()


class Successors(Protocol):
    """What followed what in one text; it sees the newest `reach` tokens, so that no cost grows with the text."""

    reach: int

    copied: DraftOrigin | None
    """Where the token that `after` gave last was copied from; None where it comes from counts."""

    def learn(self, text: Sequence[int], token_id: int) -> None:
        """`token_id` was written behind `text`."""

    def after(self, text: Sequence[int]) -> int | None:
        """What may follow `text`; None where nothing is known, or nothing sure enough."""

    def forget(self) -> None:
        """Free what was learnt."""

    def bytes_of(self, num_tokens: int) -> int:
        """What is held of a text of so many tokens, at most."""


class WalkDrafter:
    """See drafters.base.Drafter. `begin` makes the empty successors of one generation."""

    name = "ngram"
    feature_layers = ()

    def __init__(self, begin: Callable[[], Successors], memory_bytes: int = 0) -> None:
        self._begin = begin
        self.memory_bytes = memory_bytes

    def open(self, target_session: CausalLMSession, prompt_ids: Sequence[int], sampler: Sampler) -> "WalkSession":
        """See drafters.base.Drafter.open."""
        session = WalkSession(self._begin())
        session.commit(prompt_ids, None)
        return session

    def cache_bytes(self, num_tokens: int) -> int:
        """What a generation learns; a table that was counted before is not among it."""
        return self._begin().bytes_of(num_tokens)


class WalkSession:
    """See drafters.base.DraftSession."""

    bytes_read = 0
    note = ""

    def __init__(self, successors: Successors) -> None:
        self._successors = successors
        self._text: list[int] = []  # as far back as the successors see

    def propose(self, max_tokens: int) -> Draft:
        """Go on until nothing is known to follow."""
        text = list(self._text)
        drafted: list[int] = []
        origins: list[DraftOrigin] = []
        while len(drafted) < max_tokens:
            token_id = self._successors.after(text)
            if token_id is None:
                break
            drafted.append(token_id)
            origins.append(self._successors.copied or _UNKNOWN)
            text = self._moved(text, token_id)
        return Draft(tuple(drafted), origins=tuple(origins))

    def commit(self, token_ids: Sequence[int], features: Tensor | None) -> None:
        """Learn what each token followed."""
        for token_id in token_ids:
            self._successors.learn(self._text, token_id)
            self._text = self._moved(self._text, token_id)

    def close(self) -> None:
        """Forget the text."""
        self._text.clear()
        self._successors.forget()

    def _moved(self, text: list[int], token_id: int) -> list[int]:
        return [*text, token_id][-self._successors.reach :]
