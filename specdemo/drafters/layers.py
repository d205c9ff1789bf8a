"""An ordinary decoder layer as drafters run it: a few rows, weights in eight bits, keys and values of its own.

Shapes: T rows, D hidden size, H query heads, G key/value heads, E head size.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812
from transformers import LlamaConfig

from specdemo.drafters.checkpoint import Checkpoint, Parts
from specdemo.int8_linear import Int8Linear
from specdemo.llama_layers import normalize
from specdemo.target import Target

_GROWTH = 256
_LINEARS = (
    *(f"self_attn.{name}_proj" for name in "qkvo"),
    *(f"mlp.{name}_proj" for name in ("gate", "up", "down")),
)
LAYER_TENSORS = tuple(f"{name}.weight" for name in (*_LINEARS, "post_attention_layernorm"))
"""Published names, behind the layer's prefix; what else a layer has depends on its family."""
HEAD_NORMS = ("self_attn.q_norm.weight", "self_attn.k_norm.weight")
_CONFIG_KEYS = ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim", "rms_norm_eps", "rope_theta")
_CONFIG_KEYS += ("rope_parameters", "rope_scaling", "max_position_embeddings")


def layer_config(values: Mapping[str, Any]) -> LlamaConfig:
    """What a layer's sizes and rotary embedding are, from the configuration it was published with."""
    return LlamaConfig(**{key: values[key] for key in _CONFIG_KEYS if values.get(key) is not None})


@dataclass(frozen=True, slots=True)
class Layer:
    """Rows of q, k and v, and of gate and up, stand below each other. `num_groups` G, `head_size` E.

    `is_gated`: the rows of each query are followed by as many for its gate, as in Qwen3-Next and Qwen3.5; what `heads`
    calls queries is then twice as wide.
    """

    qkv: Int8Linear
    output: Int8Linear
    mlp_norm: Tensor
    gate_up: Int8Linear
    down: Int8Linear
    num_groups: int
    head_size: int
    epsilon: float
    head_norms: tuple[Tensor, Tensor] | None = None  # of each query and each key, (E,), as in Qwen3
    is_gated: bool = False

    @classmethod
    def from_parts(cls, parts: Parts, head_size: int, epsilon: float) -> "Layer":
        """The layer behind the prefix of `parts`."""
        has_head_norms = f"{parts.prefix}self_attn.q_norm.weight" in parts.tensors
        query, output = (parts.tensors[f"{parts.prefix}self_attn.{name}_proj.weight"] for name in "qo")
        return cls(
            qkv=parts.linear(*_LINEARS[:3]),
            output=parts.linear(_LINEARS[3]),
            mlp_norm=parts.tensor("post_attention_layernorm"),
            gate_up=parts.linear(*_LINEARS[4:6]),
            down=parts.linear(_LINEARS[6]),
            num_groups=len(parts.tensors[f"{parts.prefix}self_attn.k_proj.weight"]) // head_size,
            head_size=head_size,
            epsilon=epsilon,
            head_norms=(parts.tensor("self_attn.q_norm"), parts.tensor("self_attn.k_norm")) if has_head_norms else None,
            is_gated=len(query) == 2 * output.shape[1],
        )

    @property
    def pass_bytes(self) -> int:
        """What a pass of few rows reads."""
        return sum(linear.pass_bytes for linear in self._linears) + self.mlp_norm.nbytes

    @property
    def memory_bytes(self) -> int:
        """What is held, for passes of few rows and of many."""
        return sum(linear.memory_bytes for linear in self._linears) + self.mlp_norm.nbytes

    @property
    def _linears(self) -> Sequence[Int8Linear]:
        return self.qkv, self.output, self.gate_up, self.down

    def heads(self, rows: Tensor, rotary: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What attention needs of rows (T, ...) at the positions of `rotary`: (H, T, E), twice (G, T, E).

        Gated queries are (H, T, 2 E), see `attend`.
        """
        heads = self.qkv(rows).view(len(rows), -1, self.head_size).transpose(0, 1)
        groups = self.num_groups
        q, k, v = heads[: -2 * groups], heads[-2 * groups : -groups], heads[-groups:]
        q, gates = (q[::2], q[1::2]) if self.is_gated else (q, None)
        if self.head_norms is not None:
            q, k = (normalize(part, norm, self.epsilon) for part, norm in zip((q, k), self.head_norms, strict=True))
        q, k = rotate(q, rotary), rotate(k, rotary)
        return q if gates is None else torch.cat([q, gates], -1), k, v

    def finish(
        self, residual: Tensor, queries: Tensor, keys: Tensor, values: Tensor, visible: Tensor | None = None
    ) -> Tensor:
        """Attention and MLP. residual (T, D), queries (H, T, E), keys and values (G, length, E) -> (T, D).

        `visible` (T, length) says what a query sees; None: everything.
        """
        return self.behind(residual, attend(queries, keys, values, visible))

    def behind(self, residual: Tensor, mixed: Tensor) -> Tensor:
        """What `finish` does behind attention, with what that mixed, (T, H * E)."""
        x = residual + self.output(mixed)
        gate, up = self.gate_up(normalize(x, self.mlp_norm, self.epsilon)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


@dataclass(frozen=True, slots=True)
class WordHead:
    """Output rows for C of the target's V words; `token_ids` (C,) says which, None for all in order."""

    rows: Int8Linear
    token_ids: Tensor | None
    vocab_size: int
    memory_bytes: int
    """Held besides the target's own head."""

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, target: Target) -> "WordHead":
        """The checkpoint's own head, or where it brings none the target's, cut to the words that `d2t` names."""
        ids, size = checkpoint.word_ids(target.lm.vocab_size), target.lm.vocab_size
        token_ids = None if ids is None else ids.to(target.lm.device)
        rows, num_bytes = Parts(checkpoint.tensors, target).head()
        if token_ids is not None and "lm_head.weight" not in checkpoint.tensors:
            rows = rows[token_ids]
            num_bytes = rows.nbytes
        linear = Int8Linear(rows[:size])
        return cls(linear, token_ids, size, linear.memory_bytes - linear.weight.nbytes + num_bytes)

    def __call__(self, x: Tensor) -> Tensor:
        """x (T, D) -> logits (T, V), -inf for words that are never drafted."""
        return self.spread(self.rows(x))

    def spread(self, logits: Tensor) -> Tensor:
        """Logits of the draft words (T, C) as logits of the target's (T, V)."""
        if self.token_ids is None:
            return logits
        full = logits.new_full((len(logits), self.vocab_size), float("-inf"))
        return full.index_copy_(1, self.token_ids, logits)


class KeyValues:
    """The keys and values of some layers, (2, layers, G, capacity, E), as many for each."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        first = layers[0]
        self._held = first.mlp_norm.new_empty((2, len(layers), first.num_groups, 0, first.head_size))
        self.length = 0

    def put(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write keys and values (G, T, E) of one layer behind `length`; returns all up to them, (G, length + T, E).

        They count only once `length` is raised, when all layers have theirs.
        """
        end = self.length + keys.shape[1]
        if end > self._held.shape[3]:
            grown = self._held.new_empty((*self._held.shape[:3], end + _GROWTH, self._held.shape[4]))
            grown[:, :, :, : self._held.shape[3]] = self._held
            self._held = grown
        self._held[0, layer, :, self.length : end], self._held[1, layer, :, self.length : end] = keys, values
        return self._held[0, layer, :, :end], self._held[1, layer, :, :end]

    def bytes_of(self, num_tokens: int) -> int:
        """Of all layers' keys and values of so many tokens."""
        _, num_layers, num_groups, _, head_size = self._held.shape
        return 2 * num_layers * num_groups * head_size * self._held.itemsize * num_tokens

    def close(self) -> None:
        """Free them."""
        self._held = self._held[..., :0, :].clone()
        self.length = 0


def attend(queries: Tensor, keys: Tensor, values: Tensor, visible: Tensor | None = None) -> Tensor:
    """Mixed values, (T, H * E); see Layer.finish.

    What stands in a query behind as many numbers as a key has is a gate: its sigmoid multiplies what is mixed.
    """
    size = keys.shape[-1]
    queries, gates = queries[..., :size], queries[..., size:]
    mixed = F.scaled_dot_product_attention(queries[None], keys[None], values[None], attn_mask=visible, enable_gqa=True)
    if gates.shape[-1]:
        mixed = mixed * gates.sigmoid()
    return mixed[0].transpose(0, 1).flatten(1)


def rotate(states: Tensor, rotary: Tensor) -> Tensor:
    """states (heads, T, E), rotary (2, T, R) with the first half of the sines negative; see RotaryTable.

    Only the first R numbers of a head are rotated where R < E.
    """
    size = rotary.shape[-1]
    turned, rest = states[..., :size], states[..., size:]
    half = size // 2
    swapped = torch.cat([turned[..., half:], turned[..., :half]], -1)
    turned = turned * rotary[0] + swapped * rotary[1]
    return torch.cat([turned, rest], -1) if rest.shape[-1] else turned
