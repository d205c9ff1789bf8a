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
from transformers import LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaRMSNorm, LlamaRotaryEmbedding

from specdemo.train.batches import Batch
from specdemo.train.block_layers import RANK, BlockLayer, ConfidenceHead, MarkovHead, Seen
from specdemo.train.chains import Chains
from specdemo.train.corpus import DEFAULT_HIDDEN
from specdemo.train.export import layer_values, word_map, write_folder
from specdemo.train.losses import distance, num_agreed, overlap

BLOCK_SIZE = 7
_FEATURES = DEFAULT_HIDDEN[:3]
_MASK_TOKEN_ID = 16  # <empty_output>, one of the tokenizer's reserved tokens; no text holds it
_FIRST_LAYERS = [28, 29]
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


class BlockStudent(nn.Module):
    """Names of weights as published; embeddings and head stay the target's and are not saved."""

    def __init__(self, target: LlamaForCausalLM, vocabulary: Tensor, layers: list[int], *, has_heads: bool) -> None:
        super().__init__()
        config = copy.deepcopy(target.config)
        config.num_hidden_layers = len(layers)
        size, body = config.hidden_size, target.model
        self._config = config
        self.layers = nn.ModuleList(BlockLayer(config, body.layers[index]) for index in layers)
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
        seen = Seen(chains.slots, tuple(chains.starts.shape), unseen)
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
        return num_agreed(logits.unbind(1)[:num], batch.labels)

    def save(self, folder: Path) -> None:
        """Write the layout of speculators, with the target's embeddings and head left out."""
        name = "dspark" if self._has_heads else "dflash"
        tensors = {key: tensor for key, tensor in self.state_dict().items() if key != "vocabulary"}
        tensors |= word_map(self.vocabulary, self._config.vocab_size)
        write_folder(folder, {**self._values(name), **(_HEAD_VALUES if self._has_heads else {})}, tensors)

    def _values(self, name: str) -> dict[str, object]:
        config = self._config
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
                **layer_values(config),
                "num_hidden_layers": config.num_hidden_layers,
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
    "markov_rank": RANK,
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
