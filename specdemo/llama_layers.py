"""A Llama's weights, all layers stacked, and the pass over them in torch: any device, any dtype, any number of rows.

The compiled pass for few rows on the CPU reads the same memory (see `kernels`). Shapes: L layers, T tokens, D hidden,
F inner width, H query heads, G key/value heads, E head size, R rows of the head, V vocabulary.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding


@dataclass(frozen=True, slots=True)
class LayerStack:
    """Weights of all layers; the rows of q, k and v, and those of gate and up, stand below each other."""

    input_norm: Tensor  # (L, D)
    qkv: Tensor  # (L, (H + 2 G) E, D)
    output: Tensor  # (L, D, H E)
    post_norm: Tensor  # (L, D)
    gate_up: Tensor  # (L, 2 F, D)
    down: Tensor  # (L, D, F)

    @classmethod
    def from_model(cls, model: LlamaForCausalLM) -> "LayerStack":
        """Stacks a model's weights and makes its own parameters views of the stack, so that this adds no memory."""
        parts = [_parts(layer) for layer in model.model.layers]
        return cls(*(_stack([kinds[kind] for kinds in parts]) for kind in range(len(fields(cls)))))

    def __len__(self) -> int:
        return len(self.input_norm)

    def tensors(self) -> Iterator[Tensor]:
        """All of them, in the order of the fields."""
        return (getattr(self, field.name) for field in fields(self))

    def first(self, num_layers: int) -> "LayerStack":
        """The first layers, sharing memory."""
        return LayerStack(*(tensor[:num_layers] for tensor in self.tensors()))

    @property
    def layer_bytes(self) -> int:
        """Bytes of one layer."""
        return sum(tensor.nbytes for tensor in self.tensors()) // len(self)


@dataclass(frozen=True, slots=True)
class LlamaHead:
    """Final norm (D,) and output rows (R, D).

    `token_ids` (R,) names the vocabulary entries of a head cut to R rows, None for all.
    """

    norm: Tensor
    weight: Tensor
    token_ids: Tensor | None = None


def normalize(hidden: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """hidden (T, D) / sqrt(mean(hidden^2) + epsilon) * weight; in float32 with transformers' arithmetic, bit for bit.

    In half precision the mean square must be taken in float32: the mean of (x, -x) is 0 and its variance the mean
    square of x, so one fused layer norm does it.
    """
    if hidden.dtype == torch.float32:
        mean_square = (hidden * hidden).mean(-1, keepdim=True)
        return hidden * mean_square.add_(epsilon).rsqrt_() * weight
    twice = torch.cat([weight, weight])
    both = F.layer_norm(torch.cat((hidden, -hidden), -1), twice.shape, twice, None, epsilon)
    return both[..., : hidden.shape[-1]].contiguous()


def run_layer(
    stack: LayerStack,
    index: int,
    hidden: Tensor,
    sequences: Sequence[tuple[Tensor, int, Tensor | None]],
    rotary: Tensor,
    epsilon: float,
) -> Tensor:
    """Hidden states (T, D) behind layer `index`.

    `sequences`, one after the other: a cache (2, G, length, E) that ends with the places of its sequence's new tokens,
    how many those are, and what they see of it (T, length), None for all up to themselves. `rotary` (2, T, E).
    """
    num_rows, (_, num_groups, _, size) = len(hidden), sequences[0][0].shape
    normed = normalize(hidden, stack.input_norm[index], epsilon)
    qkv = F.linear(normed, stack.qkv[index]).view(num_rows, -1, size).transpose(0, 1)
    num_heads = len(qkv) - 2 * num_groups
    rotated = _rotate(qkv[: num_heads + num_groups], rotary)
    mixed, first = [], 0
    for cache, num_new, visible in sequences:
        rows = slice(first, first + num_new)
        cache[0, :, -num_new:] = rotated[num_heads:, rows]
        cache[1, :, -num_new:] = qkv[num_heads + num_groups :, rows]
        mixed.append(_attend(rotated[:num_heads, rows], cache, visible))
        first += num_new
    hidden = hidden + F.linear(joined(mixed), stack.output[index])
    normed = normalize(hidden, stack.post_norm[index], epsilon)
    gate, up = F.linear(normed, stack.gate_up[index]).chunk(2, -1)
    return hidden + F.linear(F.silu(gate) * up, stack.down[index])


def joined(parts: Sequence[Tensor], dim: int = 0) -> Tensor:
    """One behind the other; a single one as it is, without a copy."""
    return parts[0] if len(parts) == 1 else torch.cat(tuple(parts), dim)


def _attend(queries: Tensor, cache: Tensor, visible: Tensor | None) -> Tensor:
    """Mixed values, (T, H * E), of queries (H, T, E) over keys and values (2, G, length, E); see `run_layer`."""
    num_heads, num_rows, size = queries.shape
    if num_rows == 1:
        # One row sees everything, so the heads of a group can be the rows of one query: fewer, larger products.
        grouped = queries.reshape(1, cache.shape[1], -1, size)
        return F.scaled_dot_product_attention(grouped, cache[None, 0], cache[None, 1]).reshape(1, -1)
    if visible is None:
        positions = torch.arange(cache.shape[2], device=queries.device)
        visible = positions[None] <= positions[-num_rows:, None]
    mixed = F.scaled_dot_product_attention(
        queries[None], cache[None, 0], cache[None, 1], attn_mask=visible, enable_gqa=True
    )
    return mixed[0].transpose(0, 1).reshape(num_rows, num_heads * size)


def _rotate(states: Tensor, rotary: Tensor) -> Tensor:
    half = states.shape[-1] // 2
    swapped = torch.cat([states[..., half:], states[..., :half]], -1)
    return states * rotary[0] + swapped * rotary[1]


class RotaryTable:
    """Cosines and signed sines of transformers' own rotary embedding, (2, T, E), grown as positions are asked for."""

    def __init__(self, config: LlamaConfig, device: torch.device, dtype: torch.dtype) -> None:
        self._embedding = LlamaRotaryEmbedding(config).to(device)
        self._device, self._dtype = device, dtype
        self._table = torch.empty((2, 0, config.head_dim), device=device, dtype=dtype)

    def rows(self, start: int, end: int) -> Tensor:
        """Rows of positions start..end-1; the first half of the sines is negative."""
        table = self._table
        if end > table.shape[1]:
            positions = torch.arange(2 * end, device=self._device)[None]
            cos, sin = self._embedding(torch.empty(0, device=self._device), positions)
            half = sin.shape[-1] // 2
            signed = torch.cat([-sin[..., :half], sin[..., half:]], -1)
            self._table = table = torch.cat([cos, signed]).to(self._dtype)
        return table[:, start:end]


def _parts(layer: nn.Module) -> tuple[tuple[nn.Parameter, ...], ...]:
    """A layer's parameters, in the order of LayerStack's fields."""
    attention, mlp = layer.self_attn, layer.mlp
    return (
        (layer.input_layernorm.weight,),
        (attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight),
        (attention.o_proj.weight,),
        (layer.post_attention_layernorm.weight,),
        (mlp.gate_proj.weight, mlp.up_proj.weight),
        (mlp.down_proj.weight,),
    )


def _stack(layers: list[tuple[nn.Parameter, ...]]) -> Tensor:
    first = layers[0]
    shape = (len(layers), sum(len(part) for part in first), *first[0].shape[1:])
    stacked = torch.empty(shape, dtype=first[0].dtype, device=first[0].device)
    for whole, parts in zip(stacked, layers, strict=True):
        for view, part in zip(whole.split([len(part) for part in parts]), parts, strict=True):
            view.copy_(part.detach())
            part.data = view
    return stacked
