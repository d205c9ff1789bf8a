"""The drafter that proposes nothing: plain decoding, in the same loop as all others."""

from collections.abc import Sequence

from torch import Tensor

from specdemo.acceptance import Draft
from specdemo.causal_lm import CausalLMSession
from specdemo.sampling import Sampler


class NullDrafter:
    """See drafters.base.Drafter."""

    name = "none"
    memory_bytes = 0
    feature_layers = ()

    def open(self, target_session: CausalLMSession, prompt_ids: Sequence[int], sampler: Sampler) -> "NullSession":
        """See drafters.base.Drafter.open."""
        return NullSession()

    def cache_bytes(self, num_tokens: int) -> int:
        """Nothing."""
        return 0


class NullSession:
    """See drafters.base.DraftSession."""

    bytes_read = 0
    note = ""

    def propose(self, max_tokens: int) -> Draft:
        """No tokens: the round is a plain one."""
        return Draft(())

    def commit(self, token_ids: Sequence[int], features: Tensor | None) -> None:
        """Nothing to remember."""

    def close(self) -> None:
        """Nothing to free."""
