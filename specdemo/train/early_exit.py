"""The `early-exit` family: a trained way from the target's first layers to its words; the layers stay the target's.

LayerSkip (Elhoushi et al. 2404.16710) trains the whole target for early exits. Here it has to stay the same to the
bit, so what learns stands behind the exit: a block without attention (no cache to keep) and a norm of its own.

B conversations, T tokens, P places whose next token is learnt, C draft words, D hidden size.
"""

import copy
from argparse import Namespace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from transformers import LlamaForCausalLM, LlamaModel
from transformers.models.llama.modeling_llama import LlamaMLP, LlamaRMSNorm

from specdemo.train.batches import Batch
from specdemo.train.export import word_offsets, write_folder
from specdemo.train.next_token import NextTokenStudent
from specdemo.train.unrolled import copy_norm

READS_HIDDEN = False


def num_steps(options: Namespace) -> int:
    """How many tokens a place is learnt from."""
    return 1


def make(target: LlamaForCausalLM, vocabulary: Tensor, options: Namespace) -> "EarlyExit":
    """A student that begins as the exit without anything learnt: the target's own norm and rows."""
    return EarlyExit(target, vocabulary, options.exit_layer, options.width)


class EarlyExit(NextTokenStudent):
    """The target's first layers, which stay as they are, and the exit behind them, which learns."""

    def __init__(self, target: LlamaForCausalLM, vocabulary: Tensor, exit_layer: int, width: int) -> None:
        super().__init__()
        config = copy.deepcopy(target.config)
        self.exit_layer = exit_layer
        config.num_hidden_layers, config.intermediate_size = exit_layer, width
        config.use_cache = False
        self.body = LlamaModel(config).to(target.dtype)
        self.body.layers = target.model.layers[:exit_layer]
        self.body.embed_tokens = target.model.embed_tokens
        self.body.norm = nn.Identity()
        self.body.requires_grad_(False)
        self.input_norm = LlamaRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = LlamaMLP(config).float()
        nn.init.zeros_(self.mlp.down_proj.weight)
        self.norm = copy_norm(target.model.norm)
        rows = target.get_output_embeddings().weight.detach()[vocabulary]
        self.register_buffer("head", rows.bfloat16(), persistent=False)
        self.register_buffer("vocabulary", vocabulary)

    def forward(self, batch: Batch) -> Tensor:
        """See NextTokenStudent."""
        with torch.no_grad():
            # Conversations are padded behind, where a causal pass never looks: no mask is needed.
            hidden = self.body(batch.ids).last_hidden_state
        x = hidden[batch.labels.rows, batch.labels.columns].float()
        x = x + self.mlp(self.input_norm(x))
        return F.linear(self.norm(x).bfloat16(), self.head).float()

    def save(self, folder: Path) -> None:
        """Write what was learnt, and which of the target's words the exit leads to."""
        learnt = {f"{name}.weight": getattr(self, name).weight for name in ("input_norm", "norm")}
        learnt |= {f"mlp.{name}": tensor for name, tensor in self.mlp.state_dict().items()}
        values = {"exit_layer": self.exit_layer, "draft_vocab_size": len(self.vocabulary)}
        write_folder(folder, values, learnt | word_offsets(self.vocabulary))
