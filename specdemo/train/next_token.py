"""Students whose draft at a place depends on the text before it alone: what `draft-model` and `early-exit` share.

P places whose next token is learnt, C draft words.
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from specdemo.train.batches import Batch
from specdemo.train.losses import distance, is_agreed, run_lengths


class NextTokenStudent(nn.Module, ABC):
    """Learns one token ahead of each place."""

    @abstractmethod
    def forward(self, batch: Batch) -> Tensor:
        """Logits (P, C) at the places of the batch's labels."""

    def loss(self, batch: Batch, sharpness: float, tv_share: float) -> Tensor:
        """The distance from the target; see losses."""
        return distance(self(batch), *batch.labels.step(0), sharpness, tv_share)

    @torch.no_grad()
    def accepted_lengths(self, batch: Batch, num_drafts: int) -> Tensor:
        """How many greedy drafts a round at each place accepts. -> (P,)."""
        return run_lengths(is_agreed(self(batch), *batch.labels.step(0)), batch.labels.rows, num_drafts)
