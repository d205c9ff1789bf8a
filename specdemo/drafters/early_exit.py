"""The target's first layers with its own final norm and head as a drafter (LayerSkip, Elhoushi et al. 2404.16710).

Shares the target's cache: what the first layers computed for a draft token is not computed again when it is verified.
"""

from collections.abc import Sequence

from torch import Tensor

from specdemo.acceptance import Draft
from specdemo.causal_lm import CausalLMSession
from specdemo.drafters.chain import draw_chain
from specdemo.errors import ModelError, SettingsError
from specdemo.llama import LlamaLM, LlamaSession
from specdemo.sampling import Sampler


class EarlyExitDrafter:
    """See drafters.base.Drafter. `exit_layer` E: the draft pass runs layers 0..E-1."""

    name = "early-exit"
    memory_bytes = 0
    feature_layers = ()

    def __init__(self, lm: object, exit_layer: int | None = None) -> None:
        if not isinstance(lm, LlamaLM):
            raise ModelError(
                "early-exit needs a target of the Llama architecture, whose first layers can run alone. "
                "Choose another drafter."
            )
        self.exit_layer = default_exit_layer(lm) if exit_layer is None else exit_layer
        if not 1 <= self.exit_layer < len(lm.layers):
            raise SettingsError(
                f"the exit layer is {self.exit_layer}; it must be from 1 to {len(lm.layers) - 1} for this target."
            )
        self.pass_bytes = lm.layer_bytes * self.exit_layer + lm.head_bytes

    def open(self, target_session: CausalLMSession, prompt_ids: Sequence[int], sampler: Sampler) -> "EarlyExitSession":
        """See drafters.base.Drafter.open."""
        assert isinstance(target_session, LlamaSession)
        return EarlyExitSession(self, target_session, prompt_ids, sampler)


class EarlyExitSession:
    """See drafters.base.DraftSession; its cache is the target's, which the decode loop crops."""

    note = ""

    def __init__(
        self, drafter: EarlyExitDrafter, target_session: LlamaSession, prompt_ids: Sequence[int], sampler: Sampler
    ) -> None:
        self._drafter = drafter
        self._session = target_session
        self._sampler = sampler
        self._ids = list(prompt_ids)
        self.bytes_read = 0

    def propose(self, max_tokens: int) -> Draft:
        """Run the newest token ahead through the first layers, draw, and go on from what was drawn."""
        return draw_chain(self._sampler, self._ids, max_tokens, self._logits_after)

    def _logits_after(self, token_ids: Sequence[int]) -> Tensor:
        self.bytes_read += self._drafter.pass_bytes
        return self._session.run_ahead(token_ids[-1], self._drafter.exit_layer)

    def commit(self, token_ids: Sequence[int], features: Tensor | None) -> None:
        """Remember the sequence."""
        self._ids += token_ids

    def close(self) -> None:
        """The target's session is closed by its owner."""


def default_exit_layer(lm: LlamaLM) -> int:
    """A third of the layers."""
    return max(1, len(lm.layers) // 3)
