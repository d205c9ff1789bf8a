"""One layer on the target's hidden states that drafts token by token: what `eagle3` and `mtp` share.

Row i holds what the target made of token i beside the embedding of token i + 1 and expects token i + 2; behind the
newest hidden state the layer goes on from its own output. Shapes: T rows, D hidden size of the drafter, V the target's
vocabulary.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from specdemo.acceptance import Draft
from specdemo.causal_lm import LONGEST_PART, CausalLMSession
from specdemo.drafters.chain import draw_chain
from specdemo.drafters.layers import KeyValues, Layer
from specdemo.llama_layers import RotaryTable
from specdemo.sampling import Sampler


class FeatureCell(Protocol):
    """Weights of one family, and what it does around the layer."""

    layer: Layer
    embedding: Tensor
    feature_bytes: int
    """Read by `read_features`."""
    pass_bytes: int
    """Read by a step."""
    memory_bytes: int

    def read_features(self, features: Tensor) -> Tensor:
        """The target's hidden states (T, ...) as what the layer goes on from, (T, D)."""

    def combine(self, embedded: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """embedded, inputs (T, D) -> what attention reads (T, ...), and what it is added to (T, D)."""

    def finish(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The layer's output (1, D) -> what the chain goes on from (1, D), and logits (1, V)."""


class FeatureChainDrafter:
    """See drafters.base.Drafter."""

    def __init__(self, name: str, cell: FeatureCell, feature_layers: Sequence[int], rotary: RotaryTable) -> None:
        self.name, self.cell, self.rotary = name, cell, rotary
        self.feature_layers = tuple(feature_layers)
        self.memory_bytes = cell.memory_bytes

    def open(
        self, target_session: CausalLMSession, prompt_ids: Sequence[int], sampler: Sampler
    ) -> "FeatureChainSession":
        """See drafters.base.Drafter.open."""
        features = target_session.features if len(prompt_ids) > 1 else None
        return FeatureChainSession(self, features, prompt_ids, sampler)

    def cache_bytes(self, num_tokens: int) -> int:
        """The layer's keys and values."""
        return KeyValues([self.cell.layer]).bytes_of(num_tokens)


class FeatureChainSession:
    """See drafters.base.DraftSession. Between rounds the cache holds rows of true features only."""

    note = ""

    def __init__(
        self, drafter: FeatureChainDrafter, features: Tensor | None, prompt_ids: Sequence[int], sampler: Sampler
    ) -> None:
        self._cell, self._rotary, self._sampler = drafter.cell, drafter.rotary, sampler
        self._ids = list(prompt_ids)
        self._cache = KeyValues([drafter.cell.layer])
        self._newest: Tensor | None = None  # what the chain goes on from (1, D)
        self.bytes_read = 0
        # The last row of the prompt is left for the first proposal, which needs what the layer makes of it.
        self._unread = [] if features is None else [features[-1:]]
        if features is not None:
            self._read(features[:-1])

    @torch.inference_mode()
    def _read(self, features: Tensor) -> None:
        for part in features.split(LONGEST_PART):
            first = self._cache.length + 1
            self._extend(self._ids[first : first + len(part)], self._cell.read_features(part))

    @torch.inference_mode()
    def propose(self, max_tokens: int) -> Draft:
        """Read the features that came in, then go on from the layer's own output."""
        if not self._unread:
            return Draft(())  # a prompt of one token: the target has read nothing yet
        features = torch.cat(self._unread)
        self._unread.clear()
        self.bytes_read += self._cell.feature_bytes
        inputs = self._cell.read_features(features)
        num_true = self._cache.length + len(inputs)

        def next_logits(token_ids: Sequence[int]) -> Tensor:
            is_first = self._newest is None
            return self._step(token_ids[self._cache.length + 1 :], inputs if is_first else self._newest)

        self._newest = None
        draft = draw_chain(self._sampler, self._ids, max_tokens, next_logits)
        self._cache.length = num_true
        return draft

    def commit(self, token_ids: Sequence[int], features: Tensor | None) -> None:
        """Remember tokens and features."""
        assert features is not None, "the decode loop hands over the features that feature_layers asks for"
        self._ids += token_ids
        self._unread.append(features)

    def close(self) -> None:
        """Free the cache."""
        self._cache.close()
        self._newest = None
        self._unread.clear()

    def _step(self, token_ids: Sequence[int], inputs: Tensor) -> Tensor:
        """Rows (T, D), each with the token after it; returns the logits (1, V) behind the last."""
        cell = self._cell
        query, keys, values, residual = self._extend(token_ids, inputs)
        # No other row's output is needed than the last.
        x = cell.layer.finish(residual[-1:], query[:, -1:], keys, values)
        self._newest, logits = cell.finish(x)
        self.bytes_read += cell.pass_bytes
        return logits

    def _extend(self, token_ids: Sequence[int], inputs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Append rows to the cache; returns their queries, all keys and values, and what attention is added to."""
        cell, start = self._cell, self._cache.length
        ids = torch.tensor(list(token_ids), device=inputs.device)
        rows, residual = cell.combine(F.embedding(ids, cell.embedding), inputs)
        query, key, value = cell.layer.heads(rows, self._rotary.rows(start, start + len(rows)))
        keys, values = self._cache.put(0, key, value)
        self._cache.length = start + len(rows)
        return query, keys, values, residual
