"""The Llama forward pass in one sitting: transformers' weights, far fewer Python calls, a cache that crops for free.

Serves the target, small drafters and the four-bit drafter alike, so both lanes profit equally. Also what early exit
needs: the first layers can run ahead and are not computed again. Checked against transformers' own pass in the tests.
Shapes: T tokens, D hidden, H query heads, G key/value heads, E head size, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from specdemo.causal_lm import pass_bytes
from specdemo.linear import Linear, fuse

_GROWTH = 512


@dataclass(frozen=True, slots=True)
class LlamaLayer:
    """One decoder layer; `qkv` and `gate_up` are fused along their output rows."""

    input_norm: "RMSNorm"
    qkv: Linear
    output: Linear
    post_norm: "RMSNorm"
    gate_up: Linear
    down: Linear
    weight_bytes: int


@dataclass(frozen=True, slots=True)
class LlamaHead:
    """Final norm and output rows.

    `token_ids` (R,) names the vocabulary entries of a head cut to R rows, None for all.
    """

    norm: "RMSNorm"
    linear: Linear
    weight_bytes: int
    token_ids: Tensor | None = None


class RMSNorm:
    """hidden / sqrt(mean(hidden^2) + epsilon) * weight, in half of the calls that torch's own makes on the CPU.

    In float32 with transformers' own arithmetic, bit for bit. In half precision the mean square must be taken in
    float32: the mean of (x, -x) is 0 and its variance the mean square of x, so one fused layer norm does it.
    """

    def __init__(self, module: torch.nn.Module, dtype: torch.dtype | None = None) -> None:
        self._weight = module.weight.detach().to(dtype)
        self._twice = torch.cat([self._weight, self._weight])
        self._epsilon = module.variance_epsilon

    def __call__(self, hidden: Tensor) -> Tensor:
        if hidden.dtype == torch.float32:
            mean_square = (hidden * hidden).mean(-1, keepdim=True)
            return hidden * mean_square.add_(self._epsilon).rsqrt_() * self._weight
        both = torch.cat((hidden, -hidden), -1)
        normed = F.layer_norm(both, self._twice.shape, self._twice, None, self._epsilon)
        return normed[..., : hidden.shape[-1]].contiguous()


class LlamaLM:
    """Weights of a Llama-architecture model; see causal_lm.CausalLM."""

    can_crop = True

    def __init__(self, config: LlamaConfig, embedding: Tensor, layers: Sequence[LlamaLayer], head: LlamaHead) -> None:
        self.config = config
        self.embedding = embedding
        self.layers = tuple(layers)
        self.head = head
        self.vocab_size = int(config.vocab_size)
        self.context_length = int(config.max_position_embeddings)
        self.device = embedding.device
        self.dtype = embedding.dtype
        self.weight_bytes = sum(layer.weight_bytes for layer in self.layers) + head.weight_bytes
        self.memory_bytes = self.weight_bytes + embedding.nbytes
        self.rotary = _RotaryTable(config, self.device, self.dtype)

    @classmethod
    def from_transformers(cls, model: LlamaForCausalLM) -> "LlamaLM":
        """A loaded model's weights in this pass; the model itself keeps working."""
        layers = [_fused_layer(layer) for layer in model.model.layers]
        embedding = model.model.embed_tokens.weight.detach()
        lm = cls(model.config, embedding, layers, LlamaHead(RMSNorm(model.model.norm), fuse(model.lm_head), 0))
        lm.weight_bytes = pass_bytes(model)
        lm.memory_bytes = sum(parameter.nbytes for parameter in model.parameters())
        return lm

    @staticmethod
    def fits(model: object) -> bool:
        """Whether this pass computes exactly what the model's own does."""
        if not isinstance(model, LlamaForCausalLM):
            return False
        config = model.config
        is_plain = not config.attention_bias and not config.mlp_bias and config.hidden_act == "silu"
        return is_plain and config.rope_parameters.get("rope_type") in ("default", "llama3", "linear")

    def open(self) -> "LlamaSession":
        """A fresh, empty sequence."""
        return LlamaSession(self)


class LlamaSession:
    """One sequence in a LlamaLM; keys and values stand in one buffer, (2, layers, G, capacity, E)."""

    def __init__(self, lm: LlamaLM) -> None:
        self._lm = lm
        self._cache: Tensor | None = None
        self._ahead: list[tuple[int, Tensor]] = []  # (token id, hidden state) run through the first layers only
        self._num_first_layers = 0
        self.length = 0

    @torch.inference_mode()
    def forward(self, token_ids: Sequence[int], num_logits: int) -> Tensor:
        """See CausalLMSession.forward; tokens that ran ahead resume where they stopped."""
        lm, num_ahead = self._lm, len(self._ahead)
        assert [token_id for token_id, _ in self._ahead] == list(token_ids[:num_ahead]), (
            "what ran ahead must be fed first"
        )
        hidden = self._embed(token_ids[num_ahead:])
        if num_ahead:
            first = self._run(hidden, self.length + num_ahead, 0, self._num_first_layers) if len(hidden) else hidden
            hidden = torch.cat([*(row for _, row in self._ahead), first])
        hidden = self._run(hidden, self.length, self._num_first_layers if num_ahead else 0, len(lm.layers))
        self._ahead.clear()
        self.length += len(token_ids)
        return self._logits(hidden[len(hidden) - num_logits :])

    @torch.inference_mode()
    def run_ahead(self, token_id: int, num_layers: int) -> Tensor:
        """Run one token through the first layers, keep its state for `forward`; returns the exit's logits (1, V)."""
        self._num_first_layers = num_layers
        hidden = self._run(self._embed([token_id]), self.length + len(self._ahead), 0, num_layers)
        self._ahead.append((token_id, hidden))
        return self._logits(hidden)

    def crop(self, length: int) -> None:
        """See CausalLMSession.crop; also forgets what ran ahead."""
        assert 0 <= length <= self.length
        self._ahead.clear()
        self.length = length

    def close(self) -> None:
        """See CausalLMSession.close."""
        self._cache = None
        self._ahead.clear()

    def keys_and_values(self) -> Tensor:
        """The cached keys and values, (2, layers, G, length, E): for audits."""
        assert self._cache is not None
        return self._cache[..., : self.length, :]

    def _embed(self, token_ids: Sequence[int]) -> Tensor:
        return F.embedding(torch.tensor(list(token_ids), dtype=torch.long, device=self._lm.device), self._lm.embedding)

    def _logits(self, hidden: Tensor) -> Tensor:
        head = self._lm.head
        logits = head.linear(head.norm(hidden))
        if head.token_ids is None:
            return logits
        full = logits.new_full((len(logits), self._lm.vocab_size), float("-inf"))
        return full.index_copy_(1, head.token_ids, logits)

    def _run(self, hidden: Tensor, start: int, first: int, last: int) -> Tensor:
        """Layers first..last-1 over rows (T, D) at positions start..start+T-1."""
        end = start + len(hidden)
        cache, rotary = self._buffer(end), self._lm.rotary.rows(start, end)
        is_visible = None
        if len(hidden) > 1:
            positions = torch.arange(end, device=hidden.device)
            is_visible = positions[None] <= positions[start:, None]
        for index in range(first, last):
            hidden = self._layer(self._lm.layers[index], hidden, cache[:, index, :, :end], rotary, is_visible)
        return hidden

    def _layer(
        self, layer: LlamaLayer, hidden: Tensor, cache: Tensor, rotary: Tensor, is_visible: Tensor | None
    ) -> Tensor:
        config, num_rows = self._lm.config, len(hidden)
        num_heads, num_groups = config.num_attention_heads, config.num_key_value_heads
        qkv = layer.qkv(layer.input_norm(hidden)).view(num_rows, -1, config.head_dim).transpose(0, 1)
        rotated = _rotate(qkv[: num_heads + num_groups], rotary)
        cache[0, :, -num_rows:] = rotated[num_heads:]
        cache[1, :, -num_rows:] = qkv[num_heads + num_groups :]
        hidden = hidden + layer.output(self._attend(rotated[:num_heads], cache, is_visible))
        gate, up = layer.gate_up(layer.post_norm(hidden)).chunk(2, -1)
        return hidden + layer.down(F.silu(gate) * up)

    def _attend(self, queries: Tensor, cache: Tensor, is_visible: Tensor | None) -> Tensor:
        """Mixed values, (T, H * E), of queries (H, T, E) over keys and values (2, G, length, E)."""
        num_heads, num_rows, size = queries.shape
        if is_visible is None:
            # One row sees everything, so the heads of a group can be the rows of one query: fewer, larger products.
            grouped = queries.reshape(1, cache.shape[1], -1, size)
            return F.scaled_dot_product_attention(grouped, cache[None, 0], cache[None, 1]).reshape(1, -1)
        mixed = F.scaled_dot_product_attention(
            queries[None], cache[None, 0], cache[None, 1], attn_mask=is_visible, enable_gqa=True
        )
        return mixed[0].transpose(0, 1).reshape(num_rows, num_heads * size)

    def _buffer(self, length: int) -> Tensor:
        config = self._lm.config
        capacity = 0 if self._cache is None else self._cache.shape[3]
        if length > capacity:
            shape = (
                2,
                len(self._lm.layers),
                config.num_key_value_heads,
                max(2 * capacity, length + _GROWTH),
                config.head_dim,
            )
            grown = torch.empty(shape, dtype=self._lm.dtype, device=self._lm.device)
            if self._cache is not None:
                grown[..., :capacity, :] = self._cache
            self._cache = grown
        assert self._cache is not None
        return self._cache


class _RotaryTable:
    """Cosines and signed sines of transformers' own rotary embedding, (2, T, E), grown as positions are asked for."""

    def __init__(self, config: LlamaConfig, device: torch.device, dtype: torch.dtype) -> None:
        self._embedding = LlamaRotaryEmbedding(config).to(device)
        self._device, self._dtype = device, dtype
        self._table = torch.empty((2, 0, config.head_dim), device=device, dtype=dtype)

    def rows(self, start: int, end: int) -> Tensor:
        """Rows of positions start..end-1."""
        if end > self._table.shape[1]:
            positions = torch.arange(2 * end, device=self._device)[None]
            cos, sin = self._embedding(torch.empty(0, device=self._device), positions)
            half = sin.shape[-1] // 2
            signed = torch.cat([-sin[..., :half], sin[..., half:]], -1)
            self._table = torch.cat([cos, signed]).to(self._dtype)
        return self._table[:, start:end]


def _rotate(states: Tensor, rotary: Tensor) -> Tensor:
    half = states.shape[-1] // 2
    swapped = torch.cat([states[..., half:], states[..., :half]], -1)
    return states * rotary[0] + swapped * rotary[1]


def _fused_layer(layer: torch.nn.Module) -> LlamaLayer:
    attention, mlp = layer.self_attn, layer.mlp
    return LlamaLayer(
        RMSNorm(layer.input_layernorm),
        fuse(attention.q_proj, attention.k_proj, attention.v_proj),
        fuse(attention.o_proj),
        RMSNorm(layer.post_attention_layernorm),
        fuse(mlp.gate_proj, mlp.up_proj),
        fuse(mlp.down_proj),
        sum(parameter.nbytes for parameter in layer.parameters()),
    )
