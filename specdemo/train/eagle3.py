"""The `eagle3` family: one layer on three of the target's hidden states, in the layout of the official EAGLE-3 files.

B conversations, T tokens, P chains, C draft words, D hidden size, H key/value heads. The first step of a chain reads
the target's features of token i with the embedding of token i + 1 and expects token i + 2; step k reads what step
k - 1 gave with the embedding of token i + k. So the layer learns from its own mistakes (training-time test). Chains
are unrolled from sampled places only; from all others they need no more than keys and values.
"""

from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from transformers import LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm, LlamaRotaryEmbedding, apply_rotary_pos_emb

from specdemo.train.batches import Batch
from specdemo.train.chains import Chains
from specdemo.train.corpus import DEFAULT_HIDDEN
from specdemo.train.export import write_folder
from specdemo.train.losses import distance, is_agreed

READS_HIDDEN = True
_FEATURES = DEFAULT_HIDDEN[:3]
_NUM_FEATURES = len(_FEATURES)
_STEP_DECAY = 0.8


def num_steps(options: Namespace) -> int:
    """How many tokens a place is learnt from."""
    return int(options.unrolled)


def make(target: LlamaForCausalLM, vocabulary: Tensor, options: Namespace) -> "Eagle3":
    """A student whose layer begins as the target's last, reading the highest of the three features."""
    return Eagle3(target, vocabulary, options.unrolled)


@dataclass(slots=True)
class _Seen:
    """Keys and values of the conversation (B, H, T, size), with what a chain may not see (B, 1, R, T); own steps'."""

    keys: Tensor
    values: Tensor
    unseen: Tensor
    own: list[tuple[Tensor, Tensor]]


class _Attention(nn.Module):
    """Reads embedding and feature side by side, 2 D wide."""

    def __init__(self, target: LlamaForCausalLM) -> None:
        super().__init__()
        config, source = target.config, target.model.layers[-1].self_attn
        self._head_size = config.hidden_size // config.num_attention_heads
        for name in ("q_proj", "k_proj", "v_proj"):
            weight = getattr(source, name).weight.float()
            linear = nn.Linear(2 * config.hidden_size, len(weight), bias=False)
            linear.weight.data = torch.cat([torch.zeros_like(weight), weight], 1)
            setattr(self, name, linear)
        self.o_proj = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.o_proj.weight.data = source.o_proj.weight.float().clone()

    def keys_and_values(self, x: Tensor, rotation: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """x (B, T, 2 D) -> twice (B, H, T, size)."""
        k, v = self._heads(self.k_proj(x)), self._heads(self.v_proj(x))
        return apply_rotary_pos_emb(k, k, *rotation)[1], v

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor], seen: _Seen) -> Tensor:
        """x (B, R, 2 D) -> (B, R, D). A chain sees the conversation up to its start, and its own later steps."""
        q = self._heads(self.q_proj(x))
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


class _Layer(nn.Module):
    def __init__(self, target: LlamaForCausalLM) -> None:
        super().__init__()
        config, source = target.config, target.model.layers[-1]
        self.self_attn = _Attention(target)
        self.mlp = LlamaMLP(config).float()
        self.mlp.load_state_dict(source.mlp.state_dict())
        self.input_layernorm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.hidden_norm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.hidden_norm.load_state_dict(source.input_layernorm.state_dict())
        self.post_attention_layernorm.load_state_dict(source.post_attention_layernorm.state_dict())

    def both(self, embedded: Tensor, feature: Tensor) -> Tensor:
        """What attention reads. embedded, feature (B, T, D) -> (B, T, 2 D)."""
        return torch.cat([self.input_layernorm(embedded), self.hidden_norm(feature)], -1)

    def forward(self, both: Tensor, feature: Tensor, rotation: tuple[Tensor, Tensor], seen: _Seen) -> Tensor:
        """both (B, R, 2 D), feature (B, R, D) -> (B, R, D)."""
        x = feature + self.self_attn(both, rotation, seen)
        return x + self.mlp(self.post_attention_layernorm(x))


class Eagle3(nn.Module):
    """Names of weights as in the official files; embeddings stay the target's and are not saved."""

    def __init__(self, target: LlamaForCausalLM, vocabulary: Tensor, num_unrolled: int) -> None:
        super().__init__()
        config, size = target.config, target.config.hidden_size
        self._config, self._num_unrolled = config, num_unrolled
        self.fc = nn.Linear(_NUM_FEATURES * size, size, bias=False)
        self.fc.weight.data = torch.cat([torch.zeros(size, (_NUM_FEATURES - 1) * size), torch.eye(size)], 1)
        self.midlayer = _Layer(target)
        self.norm = LlamaRMSNorm(size, config.rms_norm_eps)
        self.norm.load_state_dict(target.model.norm.state_dict())
        embedding = target.get_input_embeddings().weight.detach()
        self.lm_head = nn.Linear(size, len(vocabulary), bias=False)
        # The target's own rows, cut: they are right from the start, and not learning them halves the cost of a step.
        self.lm_head.weight = nn.Parameter(embedding[vocabulary].float(), requires_grad=False)
        self._rotary = LlamaRotaryEmbedding(config)
        self.register_buffer("_embedding", embedding.bfloat16(), persistent=False)
        self.register_buffer("vocabulary", vocabulary)

    def forward(self, batch: Batch, num_steps: int) -> list[Tensor]:
        """The logits (P, C) of each step of the chains whose first drafts follow the labels' places."""
        features = self.fc(batch.hidden[:, :, :_NUM_FEATURES].flatten(2))
        chains = Chains.of(batch.labels.rows, batch.labels.columns, len(batch.ids))
        seen = self._read(features, batch.ids, chains)
        x = features.gather(1, chains.starts[..., None].expand(-1, -1, features.shape[-1]))
        logits = []
        for step in range(num_steps):
            # Behind a conversation's end there is no label: what is read there does not matter.
            newest = batch.ids.gather(1, (chains.starts + step + 1).clamp_max(batch.ids.shape[1] - 1))
            both = self.midlayer.both(F.embedding(newest, self._embedding), x)
            rotation = self._rotary(x, chains.starts + step)
            if step:
                seen.own.append(self.midlayer.self_attn.keys_and_values(both, rotation))
            x = self.midlayer(both, x, rotation, seen)
            logits.append(self.lm_head(self.norm(x.flatten(0, 1)[chains.slots])).float())
        return logits

    def _read(self, features: Tensor, ids: Tensor, chains: Chains) -> _Seen:
        """The keys and values of all tokens' true features."""
        places = torch.arange(ids.shape[1], device=ids.device)
        both = self.midlayer.both(F.embedding(ids.roll(-1, 1), self._embedding), features)
        keys, values = self.midlayer.self_attn.keys_and_values(both, self._rotary(features, places[None]))
        return _Seen(keys, values, (places > chains.starts[..., None])[:, None], [])

    def loss(self, batch: Batch, sharpness: float, tv_share: float) -> Tensor:
        """The mean distance over the steps, later ones weighing less."""
        all_logits = self(batch, self._num_unrolled)
        weights = [_STEP_DECAY**step for step in range(len(all_logits))]
        losses = [
            weight * distance(logits, *batch.labels.step(step), sharpness, tv_share)
            for step, (logits, weight) in enumerate(zip(all_logits, weights, strict=True))
        ]
        return torch.stack(losses).sum() / sum(weights)

    @torch.no_grad()
    def accepted_lengths(self, batch: Batch, num_drafts: int) -> Tensor:
        """How many greedy drafts a round at each place accepts, at most as many as were learnt. -> (P,)."""
        num_steps = min(num_drafts, self._num_unrolled)
        all_logits = self(batch, num_steps)
        agreed = [is_agreed(logits, *batch.labels.step(step)) for step, logits in enumerate(all_logits)]
        return torch.stack(agreed).long().cumprod(0).sum(0)

    def save(self, folder: Path) -> None:
        """Write the official layout: `d2t` holds offsets, target id = draft id + d2t[draft id]."""
        config = self._config
        names = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim")
        values = {
            "architectures": ["LlamaForCausalLMEagle3"],
            "model_type": "llama",
            **{
                name: getattr(config, name)
                for name in (*names, "rms_norm_eps", "vocab_size", "max_position_embeddings")
            },
            "rope_theta": config.rope_parameters["rope_theta"],
            "num_hidden_layers": 1,
            "draft_vocab_size": len(self.vocabulary),
            "bos_token_id": config.bos_token_id,
            "eos_token_id": config.eos_token_id,
            "tie_word_embeddings": False,
            "eagle_config": {"eagle_aux_hidden_state_layer_ids": list(_FEATURES), "use_aux_hidden_state": True},
        }
        known = torch.zeros(config.vocab_size, dtype=torch.bool)
        known[self.vocabulary] = True
        tensors = {name: tensor for name, tensor in self.state_dict().items() if name != "vocabulary"}
        tensors |= {"d2t": self.vocabulary - torch.arange(len(self.vocabulary)), "t2d": known}
        write_folder(folder, values, tensors)
