"""`hybrid`: n-grams where the text repeats itself, a model drafter everywhere else.

A copied draft costs nothing, and where a text repeats itself it is hard to beat; elsewhere only a model can guess.
llama.cpp combines its n-gram and model drafters in the same order (`common/speculative.cpp`).
"""

from collections.abc import Sequence

from torch import Tensor

from specdemo.acceptance import Draft
from specdemo.causal_lm import CausalLMSession
from specdemo.drafters.base import Drafter, DraftSession, propose_all, reads_target_cache
from specdemo.drafters.ngram import NgramDrafter
from specdemo.sampling import Sampler

NAME = "hybrid"
MIN_N, MAX_N = 2, 8
"""A shortest suffix of 2, 3, 4, 6 gave 2.18, 2.15, 2.14, 2.10 tokens per round (K = 4) on the example prompts."""


class HybridDrafter:
    """See drafters.base.Drafter."""

    name = NAME

    def __init__(self, model: Drafter) -> None:
        self.model = model
        self.ngram = NgramDrafter(MIN_N, MAX_N)
        self.memory_bytes = model.memory_bytes
        self.feature_layers = model.feature_layers
        self.reads_target_cache = reads_target_cache(model)

    def open(self, target_session: CausalLMSession, prompt_ids: Sequence[int], sampler: Sampler) -> "HybridSession":
        """See drafters.base.Drafter.open."""
        first = self.ngram.open(target_session, prompt_ids, sampler)
        return HybridSession(first, self.model.open(target_session, prompt_ids, sampler))

    def cache_bytes(self, num_tokens: int) -> int:
        """Both sessions'."""
        return self.ngram.cache_bytes(num_tokens) + self.model.cache_bytes(num_tokens)

    def propose_many(self, asked: Sequence[tuple["HybridSession", int]]) -> list[Draft]:
        """See drafters.base.BatchDrafter; only the sessions without a copy go through the model."""
        copies = [session.first.propose(max_tokens) for session, max_tokens in asked]
        left = [(s.model, n) for (s, n), copied in zip(asked, copies, strict=True) if not copied.token_ids]
        drafts = iter(propose_all(self.model, left))
        return [copied if copied.token_ids else next(drafts) for copied in copies]


class HybridSession:
    """See drafters.base.DraftSession. Both hear of every token; the model reads what it missed when asked."""

    def __init__(self, first: DraftSession, model: DraftSession) -> None:
        self.first, self.model = first, model

    @property
    def bytes_read(self) -> int:
        """N-grams read no weights."""
        return self.model.bytes_read

    @property
    def note(self) -> str:
        """The model's own limit."""
        return self.model.note

    def propose(self, max_tokens: int) -> Draft:
        """The copy, or else the model's chain."""
        copied = self.first.propose(max_tokens)
        return copied if copied.token_ids else self.model.propose(max_tokens)

    def commit(self, token_ids: Sequence[int], features: Tensor | None) -> None:
        """Tell both."""
        self.first.commit(token_ids, features)
        self.model.commit(token_ids, features)

    def close(self) -> None:
        """Free both."""
        self.first.close()
        self.model.close()
