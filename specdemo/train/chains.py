"""Where drafts begin in a batch of conversations, as an array: what students that draft ahead share.

B conversations, P chains, R of them at most in one conversation.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Chains:
    """P chains laid out by conversation, R to each, the rest of a row unused.

    `slots` (P,) place a chain in (B * R,); `starts` (B, R) are the tokens whose features they begin with.
    """

    slots: Tensor
    starts: Tensor

    @classmethod
    def of(cls, rows: Tensor, columns: Tensor, num_rows: int) -> "Chains":
        """Chains whose first draft follows the tokens at (rows, columns), rows in order."""
        counts = torch.bincount(rows, minlength=num_rows)
        order = torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts)[rows]
        slots = rows * int(counts.max()) + order
        starts = torch.zeros(num_rows * int(counts.max()), dtype=torch.long, device=rows.device)
        # The token at `columns` is not read by the target yet: the newest features are those of the one before.
        starts[slots] = columns - 1
        return cls(slots, starts.view(num_rows, -1))
