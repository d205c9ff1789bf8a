"""What a drafter would reach on held-out answers, from passes over known text; `score` measures it by decoding."""

from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import nn

from specdemo.train.batches import Batches
from specdemo.train.corpus import Conversation
from specdemo.train.held_out import category_name
from specdemo.train.losses import tokens_per_round

_BATCH = 16


def expected_tokens_per_round(
    student: nn.Module, batches: Batches, conversations: Sequence[Conversation], num_drafts: int, device: str
) -> dict[str, float]:
    """Emitted tokens over rounds with `num_drafts` drafts, by category and over `all`."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    student.eval()
    for start in range(0, len(conversations), _BATCH):
        group = conversations[start : start + _BATCH]
        batch = batches.make(group, None)
        with torch.autocast(device, torch.bfloat16):
            accepted = student.accepted_lengths(batch.to(device), num_drafts).cpu()
        for row, conversation in enumerate(group):
            emitted, rounds = tokens_per_round(accepted[batch.labels.rows == row].tolist())
            for name in ("all", category_name(conversation)):
                counts[name][0] += emitted
                counts[name][1] += rounds
    student.train()
    return {name: emitted / rounds for name, (emitted, rounds) in sorted(counts.items())}
