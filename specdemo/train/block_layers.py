"""The layers of a block student, and the two small heads that DSpark adds.

B conversations, T tokens, P blocks, S slots of a block, C draft words, D hidden size, H key/value heads, G query heads
on each, R blocks at most in one conversation.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaMLP, LlamaRMSNorm, apply_rotary_pos_emb

RANK = 64


@dataclass(slots=True)
class Seen:
    """Where blocks stand: `slots` (P,) in (B * R,); what a block may not see of its conversation, (B, 1, R, 1, T)."""

    slots: Tensor
    shape: tuple[int, int]
    unseen: Tensor


class _Attention(nn.Module):
    """Rows of a block see the conversation before it, and all of the block; as in Qwen3 heads are normalised."""

    def __init__(self, config: LlamaConfig, source: LlamaDecoderLayer) -> None:
        super().__init__()
        self._head_size = config.head_dim
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            weight = getattr(source.self_attn, name).weight.detach().float().clone()
            linear = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
            linear.weight.data = weight
            setattr(self, name, linear)
        scale = source.input_layernorm.weight.detach().float()
        for name, linear in (("q_norm", self.q_proj), ("k_norm", self.k_proj)):
            norm = LlamaRMSNorm(self._head_size, config.rms_norm_eps)
            # The size that heads of normalised rows have on the average.
            norm.weight.data.fill_(float((linear.weight.data * scale).square().sum(1).mean().sqrt()))
            setattr(self, name, norm)

    def context(self, x: Tensor, rotation: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Keys and values of the target's features. x (B, T, D) -> twice (B, H, T, size)."""
        k, v = self._heads(self.k_proj(x)).transpose(1, 2), self._heads(self.v_proj(x)).transpose(1, 2)
        k = self.k_norm(k)
        return apply_rotary_pos_emb(k, k, *rotation)[0].to(v.dtype), v

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor], context: tuple[Tensor, Tensor], seen: Seen) -> Tensor:
        """x (P, S, D) -> (P, S, D)."""
        q, k, v = (self._heads(linear(x)) for linear in (self.q_proj, self.k_proj, self.v_proj))
        q, k = apply_rotary_pos_emb(self.q_norm(q), self.k_norm(k), *rotation, unsqueeze_dim=2)
        q, k = q.to(v.dtype), k.to(v.dtype)
        keys, values = context
        # The query heads of a key/value head stand as rows of one product, so that nothing is repeated.
        q = (q * self._head_size**-0.5).unflatten(2, (keys.shape[1], -1))  # (P, S, H, G, size)
        laid_out = q.new_zeros(seen.shape[0] * seen.shape[1], *q.shape[1:]).index_copy(0, seen.slots, q)
        laid_out = laid_out.unflatten(0, seen.shape)
        scores = torch.einsum("brshgd,bhtd->brshgt", laid_out, keys)
        scores = scores.masked_fill(seen.unseen, float("-inf")).flatten(0, 1)[seen.slots]
        own = torch.einsum("pshgd,puhd->pshgu", q, k)
        length = keys.shape[2]
        weights = torch.cat([scores, own], -1).softmax(-1, dtype=torch.float32).to(q.dtype)
        shape = (seen.shape[0] * seen.shape[1], *weights.shape[1:-1], length)
        spread = weights.new_zeros(shape).index_copy(0, seen.slots, weights[..., :length]).unflatten(0, seen.shape)
        mixed = torch.einsum("brshgt,bhtd->brshgd", spread, values).flatten(0, 1)[seen.slots]
        mixed = mixed + torch.einsum("pshgu,puhd->pshgd", weights[..., length:], v)
        return self.o_proj(mixed.flatten(2))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self._head_size))


class BlockLayer(nn.Module):
    """Begins as a layer of the target."""

    def __init__(self, config: LlamaConfig, source: LlamaDecoderLayer) -> None:
        super().__init__()
        self.self_attn = _Attention(config, source)
        self.mlp = LlamaMLP(config).float()
        self.mlp.load_state_dict(source.mlp.state_dict())
        for name in ("input_layernorm", "post_attention_layernorm"):
            norm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)
            norm.load_state_dict(getattr(source, name).state_dict())
            setattr(self, name, norm)

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor], context: tuple[Tensor, Tensor], seen: Seen) -> Tensor:
        """x (P, S, D) -> (P, S, D)."""
        x = x + self.self_attn(self.input_layernorm(x), rotation, context, seen)
        return x + self.mlp(self.post_attention_layernorm(x))


class MarkovHead(nn.Module):
    """A bias for each draft word from the token before, of low rank."""

    def __init__(self, vocab_size: int, num_words: int) -> None:
        super().__init__()
        self.markov_w1 = nn.Embedding(vocab_size, RANK)
        self.markov_w2 = nn.Linear(RANK, num_words, bias=False)
        self.markov_w2.weight.data.zero_()

    def forward(self, previous: Tensor) -> tuple[Tensor, Tensor]:
        """previous (P, S) -> the bias (P, S, C), and what the confidence head sees of the token (P, S, rank)."""
        known = self.markov_w1(previous)
        return self.markov_w2(known), known


class ConfidenceHead(nn.Module):
    """The logit of a draft's acceptance, from the slot and the token before it."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.proj = nn.Linear(hidden_size + RANK, 1)
        self.proj.weight.data.zero_()

    def forward(self, hidden: Tensor, known: Tensor) -> Tensor:
        """hidden (P, S, D), known (P, S, rank) -> (P, S)."""
        return self.proj(torch.cat([hidden, known], -1)).squeeze(-1)
