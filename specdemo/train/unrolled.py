"""Students of one layer on the target's hidden states that learn several steps ahead: what `eagle3` and `mtp` share.

B conversations, T tokens, P chains, R of them at most in one conversation, C draft words, D hidden size, H key/value
heads. The first step of a chain reads the target's features of token i with the embedding of token i + 1 and expects
token i + 2; step k reads what step k - 1 gave with the embedding of token i + k. So the layer learns from its own
mistakes (EAGLE-3's training-time test, Li et al. 2503.01840). Chains are unrolled from sampled places only; from all
others they need no more than keys and values.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from transformers import LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm, LlamaRotaryEmbedding, apply_rotary_pos_emb

from specdemo.train.batches import Batch
from specdemo.train.chains import Chains
from specdemo.train.export import layer_values, write_folder
from specdemo.train.losses import mean_distance, num_agreed


def copy_norm(source: LlamaRMSNorm) -> LlamaRMSNorm:
    """A norm that learns, with the weight of another."""
    norm = LlamaRMSNorm(len(source.weight), source.variance_epsilon)
    norm.load_state_dict(source.state_dict())
    return norm


@dataclass(slots=True)
class Seen:
    """Keys and values of the conversation (B, H, T, size), with what a chain may not see (B, 1, R, T); own steps'."""

    keys: Tensor
    values: Tensor
    unseen: Tensor
    own: list[tuple[Tensor, Tensor]]


class Attention(nn.Module):
    """Reads I inputs side by side, I D wide; begins as the target's last, reading the last of them."""

    def __init__(self, target: LlamaForCausalLM, num_inputs: int) -> None:
        super().__init__()
        config, source = target.config, target.model.layers[-1].self_attn
        self._head_size = config.hidden_size // config.num_attention_heads
        for name in ("q_proj", "k_proj", "v_proj"):
            weight = getattr(source, name).weight.float()
            others = weight.new_zeros(len(weight), (num_inputs - 1) * config.hidden_size)
            linear = nn.Linear(num_inputs * config.hidden_size, len(weight), bias=False)
            linear.weight.data = torch.cat([others, weight], 1)
            setattr(self, name, linear)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.o_proj.weight.data = source.o_proj.weight.float().clone()

    def keys_and_values(self, rows: Tensor, rotation: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """rows (B, T, I D) -> twice (B, H, T, size)."""
        k, v = self._heads(self.k_proj(rows)), self._heads(self.v_proj(rows))
        return apply_rotary_pos_emb(k, k, *rotation)[1], v

    def forward(self, rows: Tensor, rotation: tuple[Tensor, Tensor], seen: Seen) -> Tensor:
        """rows (B, R, I D) -> (B, R, D). A chain sees the conversation up to its start, and its own later steps."""
        q = self._heads(self.q_proj(rows))
        q = apply_rotary_pos_emb(q, q, *rotation)[0] * self._head_size**-0.5
        shape = q.shape
        # The query heads of a key/value head stand as rows of one product, so that nothing is repeated.
        q = q.unflatten(1, (seen.keys.shape[1], -1))
        scores = torch.einsum("bhgrd,bhtd->bhgrt", q, seen.keys).masked_fill(seen.unseen[:, None], float("-inf"))
        own = [(q * k[:, :, None]).sum(-1, keepdim=True) for k, _ in seen.own]
        weights = torch.cat([scores, *own], -1).softmax(-1, dtype=torch.float32).to(q.dtype)
        length = seen.keys.shape[2]
        mixed = torch.einsum("bhgrt,bhtd->bhgrd", weights[..., :length], seen.values)
        for index, (_, v) in enumerate(seen.own):
            mixed = mixed + weights[..., length + index, None] * v[:, :, None]
        return self.o_proj(mixed.reshape(shape).transpose(1, 2).flatten(2))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self._head_size)).transpose(1, 2)


class Layer(nn.Module):
    """A decoder layer that begins as the target's last; what stands before its attention is the family's."""

    def __init__(self, target: LlamaForCausalLM, num_inputs: int) -> None:
        super().__init__()
        source = target.model.layers[-1]
        self.self_attn = Attention(target, num_inputs)
        self.mlp = LlamaMLP(target.config).float()
        self.mlp.load_state_dict(source.mlp.state_dict())
        self.post_attention_layernorm = copy_norm(source.post_attention_layernorm)

    def forward(self, rows: Tensor, residual: Tensor, rotation: tuple[Tensor, Tensor], seen: Seen) -> Tensor:
        """rows (B, R, I D), residual (B, R, D) -> (B, R, D)."""
        x = residual + self.self_attn(rows, rotation, seen)
        return x + self.mlp(self.post_attention_layernorm(x))


class UnrolledStudent(nn.Module, ABC):
    """One layer; embedding and head stay the target's and are not saved. See drafters.feature_chain."""

    def __init__(self, target: LlamaForCausalLM, vocabulary: Tensor, num_unrolled: int) -> None:
        super().__init__()
        self.config, self._num_unrolled = target.config, num_unrolled
        self.norm = copy_norm(target.model.norm)
        embedding = target.get_input_embeddings().weight.detach()
        self.lm_head = nn.Linear(target.config.hidden_size, len(vocabulary), bias=False)
        # The target's own rows, cut: they are right from the start, and not learning them halves the cost of a step.
        rows = target.get_output_embeddings().weight.detach()[vocabulary].float()
        self.lm_head.weight = nn.Parameter(rows, requires_grad=False)
        self._rotary = LlamaRotaryEmbedding(target.config)
        self.register_buffer("_embedding", embedding.bfloat16(), persistent=False)
        self.register_buffer("vocabulary", vocabulary)

    @property
    @abstractmethod
    def layer(self) -> Layer:
        """The layer, under whatever name it is saved."""

    @abstractmethod
    def read_features(self, hidden: Tensor) -> Tensor:
        """The target's hidden states (B, T, kept, D) as what the layer goes on from, (B, T, D)."""

    @abstractmethod
    def combine(self, embedded: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """embedded, inputs (B, T, D) -> what attention reads (B, T, I D), and what it is added to (B, T, D)."""

    @abstractmethod
    def finish(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The layer's output (B, R, D) -> what the chain goes on from, and what the head reads, both (B, R, D)."""

    def forward(self, batch: Batch, num_steps: int) -> list[Tensor]:
        """The logits (P, C) of each step of the chains whose first drafts follow the labels' places."""
        features = self.read_features(batch.hidden)
        chains = Chains.of(batch.labels.rows, batch.labels.columns, len(batch.ids))
        seen = self._read(features, batch.ids, chains)
        inputs = features.gather(1, chains.starts[..., None].expand(-1, -1, features.shape[-1]))
        logits = []
        for step in range(num_steps):
            # Behind a conversation's end there is no label: what is read there does not matter.
            newest = batch.ids.gather(1, (chains.starts + step + 1).clamp_max(batch.ids.shape[1] - 1))
            rows, residual = self.combine(F.embedding(newest, self._embedding), inputs)
            rotation = self._rotary(residual, chains.starts + step)
            if step:
                seen.own.append(self.layer.self_attn.keys_and_values(rows, rotation))
            inputs, finished = self.finish(self.layer(rows, residual, rotation, seen))
            logits.append(self.lm_head(finished.flatten(0, 1)[chains.slots]).float())
        return logits

    def _read(self, features: Tensor, ids: Tensor, chains: Chains) -> Seen:
        """The keys and values of all tokens' true features."""
        places = torch.arange(ids.shape[1], device=ids.device)
        rows, residual = self.combine(F.embedding(ids.roll(-1, 1), self._embedding), features)
        keys, values = self.layer.self_attn.keys_and_values(rows, self._rotary(residual, places[None]))
        return Seen(keys, values, (places > chains.starts[..., None])[:, None], [])

    def loss(self, batch: Batch, sharpness: float, tv_share: float) -> Tensor:
        """The mean distance over the steps, later ones weighing less."""
        return mean_distance(self(batch, self._num_unrolled), batch.labels, sharpness, tv_share)

    @torch.no_grad()
    def accepted_lengths(self, batch: Batch, num_drafts: int) -> Tensor:
        """How many greedy drafts a round at each place accepts, at most as many as were learnt. -> (P,)."""
        return num_agreed(self(batch, min(num_drafts, self._num_unrolled)), batch.labels)

    def write(self, folder: Path, own_values: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Write weights and configuration; `tensors` say which of the target's words are drafted."""
        config, vocabulary = self.config, self.vocabulary
        values = {
            "model_type": "llama",
            **layer_values(config),
            "num_hidden_layers": 1,
            "draft_vocab_size": len(vocabulary),
            "bos_token_id": config.bos_token_id,
            "eos_token_id": config.eos_token_id,
            "tie_word_embeddings": False,
        }
        write_folder(folder, values | own_values, tensors)
