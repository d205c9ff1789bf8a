"""The Llama forward pass: transformers' weights, a cache that crops for free, compiled code for few rows on the CPU.

Serves the target, small drafters and the four-bit drafter alike, so both lanes profit equally. Also what early exit
needs: the first layers can run ahead and are not computed again. Checked against transformers' own pass in the tests.
Shapes: T tokens, D hidden, G key/value heads, E head size, R rows of the head, V vocabulary.
"""

from collections.abc import Sequence
from typing import TypeGuard

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812
from transformers import LlamaConfig, LlamaForCausalLM

from specdemo.causal_lm import LONGEST_PART
from specdemo.kernels.decoder import LayerWeights
from specdemo.kernels.llama import MOST_ROWS, CompiledLlama, fits
from specdemo.llama_layers import LayerStack, LlamaHead, RotaryTable, normalize, run_layer

_GROWTH = 512


class LlamaLM:
    """Weights of a Llama-architecture model; see causal_lm.CausalLM.

    `compiled`: the layers' and the head's weights in another format, for few rows; by default these same, where they
    fit the compiled pass.
    """

    can_crop = True

    def __init__(
        self,
        config: LlamaConfig,
        embedding: Tensor,
        layers: LayerStack,
        head: LlamaHead,
        compiled: CompiledLlama | None = None,
    ) -> None:
        self.config = config
        self.embedding = embedding
        self.layers = layers
        self.head = head
        self.compiled = compiled or _compiled(config, layers, head)
        self.vocab_size = int(config.vocab_size)
        self.context_length = int(config.max_position_embeddings)
        self.device = embedding.device
        self.dtype = embedding.dtype
        self.layer_bytes = compiled.layer_bytes if compiled else layers.layer_bytes
        self.head_bytes = compiled.head_bytes if compiled else head.weight.nbytes + head.norm.nbytes
        self.weight_bytes = self.layer_bytes * len(layers) + self.head_bytes
        is_shared = compiled is not None or head.weight.data_ptr() == embedding.data_ptr()
        self.memory_bytes = self.weight_bytes + (0 if is_shared else embedding.nbytes)
        self.rotary = RotaryTable(config, self.device, self.dtype)

    @classmethod
    def from_transformers(cls, model: LlamaForCausalLM) -> "LlamaLM":
        """A loaded model's weights in this pass; the model itself keeps working."""
        layers = LayerStack.from_model(model)
        head = LlamaHead(model.model.norm.weight.detach(), model.lm_head.weight.detach())
        return cls(model.config, model.model.embed_tokens.weight.detach(), layers, head)

    @staticmethod
    def fits(model: object) -> bool:
        """Whether this pass computes exactly what the model's own does."""
        if not isinstance(model, LlamaForCausalLM):
            return False
        config = model.config
        is_plain = not config.attention_bias and not config.mlp_bias and config.hidden_act == "silu"
        return is_plain and config.rope_parameters.get("rope_type") in ("default", "llama3", "linear")

    def open(self, feature_layers: Sequence[int] = ()) -> "LlamaSession":
        """A fresh, empty sequence; see causal_lm.CausalLM.open."""
        return LlamaSession(self, feature_layers)

    def cache_bytes(self, num_tokens: int) -> int:
        """See causal_lm.CausalLM.cache_bytes."""
        groups, size = self.config.num_key_value_heads, self.config.head_dim
        return 2 * len(self.layers) * groups * size * self.dtype.itemsize * num_tokens

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        """Final norm and head behind rows (T, D) of hidden states -> (T, V)."""
        if not len(hidden):
            return hidden.new_empty((0, self.vocab_size))
        if self.compiled is not None and len(hidden) <= MOST_ROWS:
            logits = self.compiled.logits(hidden.contiguous())
        else:
            logits = F.linear(normalize(hidden, self.head.norm, self.config.rms_norm_eps), self.head.weight)
        if self.head.token_ids is None:
            return logits
        full = logits.new_full((len(logits), self.vocab_size), float("-inf"))
        return full.index_copy_(1, self.head.token_ids, logits)


class LlamaSession:
    """One sequence in a LlamaLM; keys and values stand in one buffer, (2, layers, G, capacity, E)."""

    def __init__(self, lm: LlamaLM, feature_layers: Sequence[int] = ()) -> None:
        self._lm = lm
        self._feature_layers = tuple(feature_layers)
        self._cache: Tensor | None = None
        self._ahead: list[tuple[int, Tensor]] = []  # (token id, hidden state) run through the first layers only
        self._num_first_layers = 0
        self.features: Tensor | None = None
        self.length = 0

    @torch.inference_mode()
    def forward(self, token_ids: Sequence[int], num_logits: int) -> Tensor:
        """See CausalLMSession.forward; tokens that ran ahead resume where they stopped."""
        logits, features = [], []
        for start in range(0, len(token_ids), LONGEST_PART):
            part = token_ids[start : start + LONGEST_PART]
            num_behind = len(token_ids) - start - len(part)
            logits.append(self._pass(part, min(len(part), max(0, num_logits - num_behind))))
            features.append(self.features)
        if self._feature_layers:
            self.features = torch.cat(features)
        return torch.cat(logits)

    def _pass(self, token_ids: Sequence[int], num_logits: int) -> Tensor:
        lm, num_ahead = self._lm, len(self._ahead)
        assert [token_id for token_id, _ in self._ahead] == list(token_ids[:num_ahead]), (
            "what ran ahead must be fed first"
        )
        hidden = self._embed(token_ids[num_ahead:])
        if num_ahead:
            first = range(self._num_first_layers)
            rest = self._run(hidden, self.length + num_ahead, first) if len(hidden) else hidden
            hidden = torch.cat([*(row for _, row in self._ahead), rest])
        start = self._num_first_layers if num_ahead else 0
        hidden = self._run_and_keep(hidden, range(start, len(lm.layers)))
        self._ahead.clear()
        self.length += len(token_ids)
        return lm.logits(hidden[len(hidden) - num_logits :])

    @torch.inference_mode()
    def run_ahead(self, token_id: int, num_layers: int) -> Tensor:
        """Run one token through the first layers, keep its state for `forward`, and return it (1, D)."""
        self._num_first_layers = num_layers
        hidden = self._run(self._embed([token_id]), self.length + len(self._ahead), range(num_layers))
        self._ahead.append((token_id, hidden))
        return hidden

    def shares_layers(self, other: object) -> TypeGuard["LlamaSession"]:
        """Whether both read long texts with the same weights."""
        return isinstance(other, LlamaSession) and self._lm.layers is other._lm.layers

    def adopt(self, other: "LlamaSession") -> None:
        """Hold what a session that shares the layers has read, without reading it again."""
        if other.length:
            self._buffer(other.length)[..., : other.length, :] = other.keys_and_values()
        self.length = other.length

    def crop(self, length: int) -> None:
        """See CausalLMSession.crop; also forgets what ran ahead."""
        assert 0 <= length <= self.length
        self._ahead.clear()
        self.length = length

    def close(self) -> None:
        """See CausalLMSession.close."""
        self._cache = self.features = None
        self._ahead.clear()

    def keys_and_values(self) -> Tensor:
        """The cached keys and values, (2, layers, G, length, E): for audits."""
        assert self._cache is not None
        return self._cache[..., : self.length, :]

    def _embed(self, token_ids: Sequence[int]) -> Tensor:
        return F.embedding(torch.tensor(list(token_ids), dtype=torch.long, device=self._lm.device), self._lm.embedding)

    def _run_and_keep(self, hidden: Tensor, layers: range) -> Tensor:
        """The last layers of a pass; stops at the layers whose output is a feature to keep a copy of it."""
        kept = [hidden] * self._feature_layers.count(layers.start)
        for end in sorted({*self._feature_layers, layers.stop} - {0, layers.start}):
            hidden = self._run(hidden, self.length, range(layers.start, end))
            layers = range(end, layers.stop)
            feature = hidden if layers else normalize(hidden, self._lm.head.norm, self._lm.config.rms_norm_eps)
            kept += [feature] * self._feature_layers.count(end)
        if self._feature_layers:
            self.features = torch.cat(kept, -1)
        return hidden

    def _run(self, hidden: Tensor, start: int, layers: range) -> Tensor:
        """Some layers over rows (T, D) at positions start..start+T-1."""
        lm, end = self._lm, start + len(hidden)
        cache, rotary = self._buffer(end), lm.rotary.rows(start, end)
        if lm.compiled is not None and len(hidden) <= MOST_ROWS:
            hidden = hidden.clone()
            lm.compiled.run(hidden, cache, rotary, start, layers)
            return hidden
        for index in layers:
            hidden = run_layer(lm.layers, index, hidden, cache[:, index, :, :end], rotary, lm.config.rms_norm_eps)
        return hidden

    def _buffer(self, length: int) -> Tensor:
        config = self._lm.config
        capacity = 0 if self._cache is None else self._cache.shape[3]
        if length > capacity:
            shape = (
                2,
                len(self._lm.layers),
                config.num_key_value_heads,
                max(2 * capacity, 2 * ((length + _GROWTH) // 2)),
                config.head_dim,
            )
            grown = torch.empty(shape, dtype=self._lm.dtype, device=self._lm.device)
            if self._cache is not None:
                grown[..., :capacity, :] = self._cache
            self._cache = grown
        assert self._cache is not None
        return self._cache


def _compiled(config: LlamaConfig, layers: LayerStack, head: LlamaHead) -> CompiledLlama | None:
    if not fits(head.weight, *(tensor.shape[-1] for tensor in layers.tensors()), config.head_dim):
        return None
    arrays = LayerWeights(*(tensor.numpy() for tensor in layers.tensors()), float(config.rms_norm_eps))
    return CompiledLlama(arrays, head.norm.numpy(), head.weight.numpy())
