"""The `dspark` and `dflash` families: a block of drafts in one pass, the target's hidden states in its keys and values.

B conversations, T tokens, P blocks, S slots of a block, C draft words, D hidden size, H key/value heads, G query heads
on each, R blocks at most in one conversation. A block begins at the newest token, which the target has not read yet,
and goes on with mask tokens; slot k expects the token k + 1 behind it (as DeepSpec has it, which calls it "anchor
predicts"). DSpark adds a bias for the token before (Markov head) and guesses whether a draft will be accepted
(confidence head). See specdemo.drafters.block for the sources.
"""

import copy
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import (
    LlamaDecoderLayer,
    LlamaMLP,
    LlamaRMSNorm,
    LlamaRotaryEmbedding,
    apply_rotary_pos_emb,
)

from specdemo.train.batches import Batch
from specdemo.train.chains import Chains
from specdemo.train.corpus import DEFAULT_HIDDEN
from specdemo.train.export import write_folder
from specdemo.train.losses import distance, is_agreed, overlap

BLOCK_SIZE = 7
_FEATURES = DEFAULT_HIDDEN[:3]
_MASK_TOKEN_ID = 16  # <empty_output>, one of the tokenizer's reserved tokens; no text holds it
_FIRST_LAYERS = [28, 29]
_RANK = 64
_SLOT_DECAY = 4.0  # slots weigh exp(-k / 4), as in DSpark's paper


@dataclass(frozen=True, slots=True)
class BlockFamily:
    """What `fit` needs to know of a family; `has_heads` sets DSpark apart from DFlash."""

    has_heads: bool
    READS_HIDDEN = True

    @staticmethod
    def num_steps(options: Namespace) -> int:
        """How many tokens a place is learnt from."""
        return BLOCK_SIZE

    def make(self, target: LlamaForCausalLM, vocabulary: Tensor, options: Namespace) -> "BlockStudent":
        """A student whose layers begin as the target's own, or as the weights that an earlier run saved."""
        student = BlockStudent(target, vocabulary, options.layers or _FIRST_LAYERS, has_heads=self.has_heads)
        if options.start is not None:
            tensors = {k: v for path in options.start.glob("*.safetensors") for k, v in load_file(path).items()}
            own = student.state_dict().keys() - {"vocabulary"}
            student.load_state_dict({k: v for k, v in tensors.items() if k in own}, strict=False)
        return student


DSPARK, DFLASH = BlockFamily(has_heads=True), BlockFamily(has_heads=False)


@dataclass(slots=True)
class _Seen:
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

    def forward(
        self, x: Tensor, rotation: tuple[Tensor, Tensor], context: tuple[Tensor, Tensor], seen: _Seen
    ) -> Tensor:
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


class _Layer(nn.Module):
    def __init__(self, config: LlamaConfig, source: LlamaDecoderLayer) -> None:
        super().__init__()
        self.self_attn = _Attention(config, source)
        self.mlp = LlamaMLP(config).float()
        self.mlp.load_state_dict(source.mlp.state_dict())
        for name in ("input_layernorm", "post_attention_layernorm"):
            norm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)
            norm.load_state_dict(getattr(source, name).state_dict())
            setattr(self, name, norm)

    def forward(
        self, x: Tensor, rotation: tuple[Tensor, Tensor], context: tuple[Tensor, Tensor], seen: _Seen
    ) -> Tensor:
        """x (P, S, D) -> (P, S, D)."""
        x = x + self.self_attn(self.input_layernorm(x), rotation, context, seen)
        return x + self.mlp(self.post_attention_layernorm(x))


class MarkovHead(nn.Module):
    """A bias for each draft word from the token before, of low rank."""

    def __init__(self, vocab_size: int, num_words: int) -> None:
        super().__init__()
        self.markov_w1 = nn.Embedding(vocab_size, _RANK)
        self.markov_w2 = nn.Linear(_RANK, num_words, bias=False)
        self.markov_w2.weight.data.zero_()

    def forward(self, previous: Tensor) -> tuple[Tensor, Tensor]:
        """previous (P, S) -> the bias (P, S, C), and what the confidence head sees of the token (P, S, rank)."""
        known = self.markov_w1(previous)
        return self.markov_w2(known), known


class ConfidenceHead(nn.Module):
    """The logit of a draft's acceptance, from the slot and the token before it."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.proj = nn.Linear(hidden_size + _RANK, 1)
        self.proj.weight.data.zero_()

    def forward(self, hidden: Tensor, known: Tensor) -> Tensor:
        """hidden (P, S, D), known (P, S, rank) -> (P, S)."""
        return self.proj(torch.cat([hidden, known], -1)).squeeze(-1)


class BlockStudent(nn.Module):
    """Names of weights as published; embeddings and head stay the target's and are not saved."""

    def __init__(self, target: LlamaForCausalLM, vocabulary: Tensor, layers: list[int], *, has_heads: bool) -> None:
        super().__init__()
        config = copy.deepcopy(target.config)
        config.num_hidden_layers = len(layers)
        size, body = config.hidden_size, target.model
        self._config = config
        self.layers = nn.ModuleList(_Layer(config, body.layers[index]) for index in layers)
        self.fc = nn.Linear(len(_FEATURES) * size, size, bias=False)
        self.fc.weight.data = torch.cat([torch.zeros(size, (len(_FEATURES) - 1) * size), torch.eye(size)], 1)
        self.hidden_norm = LlamaRMSNorm(size, config.rms_norm_eps)
        self.hidden_norm.load_state_dict(body.layers[layers[-1]].input_layernorm.state_dict())
        self.norm = LlamaRMSNorm(size, config.rms_norm_eps)
        self.norm.load_state_dict(body.norm.state_dict())
        if has_heads:
            self.markov_head = MarkovHead(config.vocab_size, len(vocabulary))
            self.confidence_head = ConfidenceHead(size)
        self._has_heads = has_heads
        self._rotary = LlamaRotaryEmbedding(config)
        embedding, head = target.get_input_embeddings().weight.detach(), target.get_output_embeddings().weight.detach()
        self.register_buffer("_embedding", embedding.bfloat16(), persistent=False)
        self.register_buffer("_head", head[vocabulary].bfloat16(), persistent=False)
        self.register_buffer("vocabulary", vocabulary)
        self.mask_token_id = _MASK_TOKEN_ID

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """The logits (P, S, C) of the blocks that begin at the labels' places; logits of acceptance (P, S)."""
        rows, columns, ids = batch.labels.rows, batch.labels.columns, batch.ids
        hidden = self._blocks(batch, rows, columns)
        logits = F.linear(hidden, self._head.to(hidden.dtype))
        if not self._has_heads:
            return logits.float(), None
        # Behind a conversation's end there is no label: what is read there does not matter.
        reach = (columns[:, None] + torch.arange(BLOCK_SIZE, device=ids.device)).clamp_max(ids.shape[1] - 1)
        bias, known = self.markov_head(ids[rows[:, None], reach])
        return (logits + bias).float(), self.confidence_head(hidden, known).float()

    def _blocks(self, batch: Batch, rows: Tensor, columns: Tensor) -> Tensor:
        """What the layers make of the blocks, behind the final norm. -> (P, S, D)."""
        features = self.hidden_norm(self.fc(batch.hidden[:, :, : len(_FEATURES)].flatten(2)))
        places = torch.arange(batch.ids.shape[1], device=rows.device)
        chains = Chains.of(rows, columns, len(batch.ids))
        unseen = (places > chains.starts[..., None])[:, :, None, None, None]
        seen = _Seen(chains.slots, tuple(chains.starts.shape), unseen)
        block = torch.full((len(rows), BLOCK_SIZE), self.mask_token_id, device=rows.device)
        block[:, 0] = batch.ids[rows, columns]
        x = F.embedding(block, self._embedding)
        of_context = self._rotary(features, places[None])
        of_block = self._rotary(features, columns[:, None] + torch.arange(BLOCK_SIZE, device=rows.device))
        for layer in self.layers:
            x = layer(x, of_block, layer.self_attn.context(features, of_context), seen)
        return self.norm(x)

    def loss(self, batch: Batch, sharpness: float, tv_share: float) -> Tensor:
        """The mean distance over the slots, later ones weighing less; the confidence's cross-entropy beside it."""
        logits, confidence = self(batch)
        weights = torch.exp(-torch.arange(BLOCK_SIZE) / _SLOT_DECAY).tolist()
        losses = []
        # Unbound at once: to index slot by slot would fill a gradient of all slots for each of them.
        for slot, (weight, words) in enumerate(zip(weights, logits.unbind(1), strict=True)):
            labels = batch.labels.step(slot)
            losses.append(weight * distance(words, *labels, sharpness, tv_share))
            if confidence is not None:
                losses.append(weight * _confidence_loss(confidence[:, slot], words.detach(), *labels))
        return torch.stack(losses).sum() / sum(weights)

    @torch.no_grad()
    def accepted_lengths(self, batch: Batch, num_drafts: int) -> Tensor:
        """How many greedy drafts a round at each place accepts. -> (P,).

        A draft behind accepted ones stands on the answer itself, so the Markov head sees the tokens it will see.
        """
        logits, _ = self(batch)
        num = min(num_drafts, BLOCK_SIZE)
        agreed = [is_agreed(logits[:, slot], *batch.labels.step(slot)) for slot in range(num)]
        return torch.stack(agreed).long().cumprod(0).sum(0)

    def save(self, folder: Path) -> None:
        """Write the layout of speculators, with the target's embeddings and head left out."""
        name = "dspark" if self._has_heads else "dflash"
        known = torch.zeros(self._config.vocab_size, dtype=torch.bool)
        known[self.vocabulary] = True
        tensors = {key: tensor for key, tensor in self.state_dict().items() if key != "vocabulary"}
        tensors |= {"d2t": self.vocabulary - torch.arange(len(self.vocabulary)), "t2d": known}
        write_folder(folder, {**self._values(name), **(_HEAD_VALUES if self._has_heads else {})}, tensors)

    def _values(self, name: str) -> dict[str, object]:
        config = self._config
        kept = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
        kept += ("head_dim", "rms_norm_eps", "vocab_size", "max_position_embeddings")
        layer = {key: getattr(config, key) for key in kept}
        return {
            "architectures": ["DSparkSpeculator" if self._has_heads else "DFlashSpeculator"],
            "speculators_model_type": name,
            "speculators_config": {
                "algorithm": name,
                "default_proposal_method": "greedy",
                "proposal_methods": [{"proposal_type": "greedy", "speculative_tokens": BLOCK_SIZE}],
                "verifier": {"architectures": config.architectures, "name_or_path": None},
            },
            "transformer_layer_config": {
                "model_type": "qwen3",
                **layer,
                "rope_theta": config.rope_parameters["rope_theta"],
                "attention_bias": False,
                "layer_types": ["full_attention"] * config.num_hidden_layers,
            },
            "draft_vocab_size": len(self.vocabulary),
            "block_size": BLOCK_SIZE,
            "aux_hidden_state_layer_ids": list(_FEATURES),
            "mask_token_id": self.mask_token_id,
            "sample_from_anchor": True,
        }


_HEAD_VALUES = {
    "markov_rank": _RANK,
    "markov_head_type": "vanilla",
    "enable_confidence_head": True,
    "confidence_head_with_markov": True,
}


def _confidence_loss(confidence: Tensor, logits: Tensor, candidates: Tensor, probs: Tensor) -> Tensor:
    """Cross-entropy to what is accepted at temperature 1, sum min(target, draft); only where there is a label."""
    is_label = probs.sum(-1) > 0
    wanted = overlap(logits, candidates, probs)
    losses = F.binary_cross_entropy_with_logits(confidence, wanted, reduction="none")
    return (losses * is_label).sum() / is_label.sum().clamp_min(1)
