"""Drafters that are language models with a KV cache of their own: `draft-model` and `quantized`.

They differ in where the weights come from; how they draft stands here once.
"""

from collections.abc import Sequence

from torch import Tensor

from specdemo.acceptance import Draft
from specdemo.catalog import drafter_note
from specdemo.causal_lm import BatchLM, CausalLM, CausalLMSession
from specdemo.drafters.chain import Chain, draw_chains
from specdemo.llama import LlamaSession
from specdemo.sampling import Sampler


class AutoregressiveDrafter:
    """See drafters.base.Drafter. The model speaks the target's vocabulary."""

    feature_layers = ()
    reads_target_cache = False
    """Whether sessions take over what the target has read, whose weights may be finer than the drafter's."""

    def __init__(self, name: str, lm: CausalLM, memory_bytes: int) -> None:
        self.name = name
        self.lm = lm
        self.memory_bytes = memory_bytes

    def open(
        self, target_session: CausalLMSession, prompt_ids: Sequence[int], sampler: Sampler
    ) -> "AutoregressiveSession":
        """See drafters.base.Drafter.open."""
        session = self.lm.open()
        # The target in four bits reads a prompt with the target's own layers: what they gave is there already.
        if isinstance(session, LlamaSession) and session.shares_layers(target_session):
            session.adopt(target_session)
        return AutoregressiveSession(self.lm, session, prompt_ids, sampler)

    def cache_bytes(self, num_tokens: int) -> int:
        """The model's keys and values."""
        return self.lm.cache_bytes(num_tokens)

    def propose_many(self, asked: Sequence[tuple["AutoregressiveSession", int]]) -> list[Draft]:
        """See drafters.base.BatchDrafter; one after the other where the model's passes serve one sequence only."""
        lm, sessions = self.lm, [session for session, _ in asked]
        if not isinstance(lm, BatchLM):
            return [session.propose(max_tokens) for session, max_tokens in asked]

        def next_logits(drawing: Sequence[tuple[int, Sequence[int]]]) -> list[Tensor]:
            unread = [sessions[number].take_unread(ids) for number, ids in drawing]
            return lm.forward_many([sessions[number].session for number, _ in drawing], unread, [1] * len(drawing))

        return draw_chains([session.begin(max_tokens) for session, max_tokens in asked], next_logits)


class AutoregressiveSession:
    """See drafters.base.DraftSession; feeds exactly the suffix its cache has not seen."""

    def __init__(self, lm: CausalLM, session: CausalLMSession, prompt_ids: Sequence[int], sampler: Sampler) -> None:
        self._lm = lm
        self.session = session
        self._sampler = sampler
        self._ids = list(prompt_ids)
        self._fed = self._ids[: session.length]  # what the cache holds
        self.bytes_read = 0
        self.note = ""
        # One token is left for the first proposal; a prompt beyond the drafter's context is never read.
        if len(self._ids) - 1 > session.length and self._room() > 0:
            session.forward(self.take_unread(self._ids[:-1]), 0)

    def propose(self, max_tokens: int) -> Draft:
        """Draw one token after the other, each from the settings' own distribution."""
        chain = self.begin(max_tokens)
        while chain.is_open:
            chain.take(self.session.forward(self.take_unread(chain.token_ids), 1))
        return chain.draft()

    def begin(self, max_tokens: int) -> Chain:
        """An empty draft of what there is room for."""
        num_tokens = min(max_tokens, self._room())
        if num_tokens < max_tokens and not self.note:
            self.note = drafter_note("note_context_full", limit=self._lm.context_length)
        return Chain(self._sampler, self._ids, num_tokens)

    def take_unread(self, token_ids: Sequence[int]) -> Sequence[int]:
        """What a pass must be fed that gives the logits behind `token_ids`; the cache counts as holding them."""
        unread = token_ids[len(self._fed) :]
        self._fed += unread
        self.bytes_read += self._lm.weight_bytes
        return unread

    def commit(self, token_ids: Sequence[int], features: Tensor | None) -> None:
        """Keep what the cache shares with the sequence as it now is, forget the rest."""
        start = len(self._ids)
        self._ids += token_ids
        shared = min(start, len(self._fed))
        while shared < min(len(self._fed), len(self._ids)) and self._fed[shared] == self._ids[shared]:
            shared += 1
        del self._fed[shared:]
        self.session.crop(shared)

    def close(self) -> None:
        """Free the cache."""
        self.session.close()

    def _room(self) -> int:
        """How many draft tokens fit: the last one is never fed."""
        return max(0, self._lm.context_length - len(self._ids) + 1)
