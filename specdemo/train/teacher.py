"""The target as a teacher: many rows at once, each at a place of its own, one token a row and step.

Shapes: B rows, D hidden size, H key/value heads, G query heads on each of them, T slots of a row.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812
from transformers import LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, apply_rotary_pos_emb


class Teacher:
    """A Llama with a cache of B rows and T slots. `kept` names hidden states by their index in transformers' tuple."""

    def __init__(self, model: LlamaForCausalLM, num_rows: int, num_slots: int, kept: Sequence[int]) -> None:
        self.model = model
        self.num_rows, self.num_slots = num_rows, num_slots
        self.kept = tuple(kept)
        config = model.config
        self._heads = config.num_key_value_heads
        self._head_size = config.hidden_size // config.num_attention_heads
        self._qkv = [_joined(layer) for layer in model.model.layers]
        shape = (2, num_rows, self._heads, num_slots, self._head_size)
        self._caches = [torch.zeros(shape, dtype=model.dtype, device=model.device) for _ in model.model.layers]
        self._slots = torch.arange(num_slots, device=model.device)
        # Where each row's heads begin in a cache that is seen as one list of vectors.
        self._starts = torch.arange(num_rows * self._heads, device=model.device).view(num_rows, -1) * num_slots

    @torch.inference_mode()
    def step(self, token_ids: Tensor, positions: Tensor) -> Tensor:
        """Feed one token a row at its position. token_ids, positions (B,) -> the kept hidden states (B, kept, D)."""
        body = self.model.model
        x = body.embed_tokens(token_ids)
        rotation = body.rotary_emb(x, positions[:, None])
        unread = (self._slots > positions[:, None])[:, None, None]
        places = (self._starts + positions[:, None]).flatten()
        states = [x]
        for layer, qkv, cache in zip(body.layers, self._qkv, self._caches, strict=True):
            q, k, v = self._project(layer.input_layernorm(x), qkv, rotation)
            for part, values in zip(cache, (k, v), strict=True):
                part.view(-1, self._head_size).index_copy_(0, places, values.reshape(-1, self._head_size))
            x = x + layer.self_attn.o_proj(_attend(q, cache, unread))
            x = x + layer.mlp(layer.post_attention_layernorm(x))
            states.append(x)
        states[-1] = body.norm(x)
        return torch.stack([states[i] for i in self.kept], 1)

    def _project(self, x: Tensor, qkv: Tensor, rotation: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Queries (B, H, G, size); keys and values (B, H, size)."""
        heads = F.linear(x, qkv).view(len(x), -1, 1, self._head_size)
        q, k, v = heads.split([heads.shape[1] - 2 * self._heads, self._heads, self._heads], 1)
        q, k = apply_rotary_pos_emb(q, k, *rotation)
        return q.reshape(len(x), self._heads, -1, self._head_size), k[:, :, 0], v[:, :, 0]


def _joined(layer: LlamaDecoderLayer) -> Tensor:
    attention = layer.self_attn
    return torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight]).detach()


def _attend(q: Tensor, cache: Tensor, unread: Tensor) -> Tensor:
    """The query heads of a key/value head stand as rows of one product, so that nothing is repeated. -> (B, D)."""
    scores = torch.matmul(q, cache[0].transpose(-1, -2)).float() * q.shape[-1] ** -0.5
    weights = scores.masked_fill(unread, float("-inf")).softmax(-1).to(q.dtype)
    return torch.matmul(weights, cache[1]).reshape(len(q), -1)


@torch.inference_mode()
def top_candidates(hidden: Tensor, head: Tensor, num: int) -> tuple[Tensor, Tensor]:
    """The `num` likeliest ids and their logits in float32. hidden (B, D), head (V, D) -> twice (B, num), best first.

    A product in bfloat16 rounds logits to steps of an eighth: it finds the candidates, float32 puts them in order.
    """
    ids = F.linear(hidden, head).topk(num, sorted=False).indices
    logits = torch.einsum("bd,bnd->bn", hidden.float(), head[ids].float())
    logits, order = logits.sort(descending=True)
    return ids.gather(1, order), logits
