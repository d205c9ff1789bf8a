"""The `medusa` family: heads on the target's last hidden state, in the layout that specdemo.drafters.medusa reads.

B conversations, T tokens, P places, K heads, C draft words, D hidden size. All heads read the target's hidden state
of token i; head k, from 0, expects token i + 2 + k. No head sees what another guessed, so nothing is unrolled.
"""

from argparse import Namespace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from transformers import LlamaForCausalLM

from specdemo.train.batches import Batch
from specdemo.train.corpus import DEFAULT_HIDDEN
from specdemo.train.export import word_offsets, write_folder
from specdemo.train.losses import mean_distance, num_agreed

READS_HIDDEN = True
_LAST = len(DEFAULT_HIDDEN) - 1  # behind the target's final norm


def num_steps(options: Namespace) -> int:
    """How many tokens a place is learnt from: one for each head."""
    return int(options.unrolled)


def make(target: LlamaForCausalLM, vocabulary: Tensor, options: Namespace) -> "Medusa":
    """A student whose heads all begin as the target's own."""
    return Medusa(target, vocabulary, options.unrolled, options.blocks)


class _ResBlock(nn.Module):
    """x + SiLU(W x + b), at first x itself."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(size, size)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        """x (P, D) -> (P, D)."""
        return x + F.silu(self.linear(x))


def _head(size: int, num_blocks: int) -> nn.Sequential:
    """Blocks can hardly take anything away from x, as SiLU is never below -0.28; the linear layer behind them can."""
    linear = nn.Linear(size, size, bias=False)
    nn.init.eye_(linear.weight)
    return nn.Sequential(*(_ResBlock(size) for _ in range(num_blocks)), linear)


class Medusa(nn.Module):
    """Behind `heads.`, the names of weights are those of the published files."""

    def __init__(self, target: LlamaForCausalLM, vocabulary: Tensor, num_heads: int, num_blocks: int) -> None:
        super().__init__()
        size = target.config.hidden_size
        self._vocab_size, self._num_blocks = target.config.vocab_size, num_blocks
        self.heads = nn.ModuleList(_head(size, num_blocks) for _ in range(num_heads))
        self.lm_head = nn.Linear(size, len(vocabulary), bias=False)
        # The target's own rows, cut and not learnt: one matrix that serves all heads.
        rows = target.get_output_embeddings().weight.detach()[vocabulary].float()
        self.lm_head.weight = nn.Parameter(rows, requires_grad=False)
        self.register_buffer("vocabulary", vocabulary)

    def forward(self, batch: Batch, num_heads: int) -> list[Tensor]:
        """The logits (P, C) of each of the first heads at the labels' places."""
        # The token at `columns` is not read by the target yet: the newest hidden state is that of the one before.
        x = batch.hidden[batch.labels.rows, batch.labels.columns - 1, _LAST].float()
        return [self.lm_head(head(x)).float() for head in self.heads[:num_heads]]

    def loss(self, batch: Batch, sharpness: float, tv_share: float) -> Tensor:
        """The mean distance over the heads, later ones weighing less."""
        return mean_distance(self(batch, len(self.heads)), batch.labels, sharpness, tv_share)

    @torch.no_grad()
    def accepted_lengths(self, batch: Batch, num_drafts: int) -> Tensor:
        """How many greedy drafts a round at each place accepts, at most one for each head. -> (P,)."""
        return num_agreed(self(batch, num_drafts), batch.labels)

    def save(self, folder: Path) -> None:
        """Write the heads, and which of the target's words they share."""
        values = {
            "medusa_num_heads": len(self.heads),
            "medusa_num_layers": self._num_blocks,
            "hidden_size": self.lm_head.in_features,
            "vocab_size": self._vocab_size,
            "draft_vocab_size": len(self.vocabulary),
        }
        write_folder(folder, values, {**self.heads.state_dict(), **word_offsets(self.vocabulary)})
