"""How far a drafter is from the target, on the draft vocabulary. P places, C draft words."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from specdemo.train.batches import Labels

_STEP_DECAY = 0.8


def distance(logits: Tensor, candidates: Tensor, probs: Tensor, sharpness: float, tv_share: float) -> Tensor:
    """Mean distance of the drafter's law from the target's. logits (P, C); candidates, probs (P, 16) -> a number.

    A mix of the cross-entropy to the target's law, raised to the power `sharpness` (greedy answers ask for its peak),
    and of the total variation, 1 - sum min(target, draft), which is what acceptance by `rejection` loses.
    """
    mass = probs.sum(-1, keepdim=True)
    target = probs / mass.clamp_min(1e-6)
    log_draft = logits.log_softmax(-1).gather(1, candidates)
    sharp = target**sharpness
    entropy = -(sharp / sharp.sum(-1, keepdim=True).clamp_min(1e-6) * log_draft).sum(-1)
    variation = 1 - torch.minimum(target, log_draft.exp()).sum(-1)
    # A place where few of the target's candidates are draft words cannot be won; it counts as little as it can be.
    weights = mass[:, 0]
    return ((1 - tv_share) * entropy + tv_share * variation).mul(weights).sum() / weights.sum().clamp_min(1.0)


def overlap(logits: Tensor, candidates: Tensor, probs: Tensor) -> Tensor:
    """What `rejection` accepts at temperature 1, sum min(target, draft). As for distance -> (P,)."""
    return torch.minimum(probs, logits.softmax(-1).gather(1, candidates)).sum(-1)


def mean_distance(all_logits: Sequence[Tensor], labels: Labels, sharpness: float, tv_share: float) -> Tensor:
    """The mean distance over steps with logits (P, C) each, later ones weighing less: a round seldom gets to them."""
    weights = [_STEP_DECAY**step for step in range(len(all_logits))]
    losses = [
        weight * distance(logits, *labels.step(step), sharpness, tv_share)
        for step, (logits, weight) in enumerate(zip(all_logits, weights, strict=True))
    ]
    return torch.stack(losses).sum() / sum(weights)


def is_agreed(logits: Tensor, candidates: Tensor, probs: Tensor) -> Tensor:
    """Where the drafter's first choice is the target's. logits (P, C); candidates, probs (P, 16) -> (P,)."""
    return (logits.argmax(-1) == candidates[:, 0]) & (probs[:, 0] > 0)


def run_lengths(agreed: Tensor, rows: Tensor, num_drafts: int) -> Tensor:
    """What a round at each place accepts where a draft depends on the text before it alone. agreed, rows (P,) -> (P,).

    A draft behind accepted ones stands on the answer itself, so agreement at each place tells it all. `rows` says which
    answer a place belongs to; places stand in order.
    """
    accepted = torch.zeros_like(rows)
    for _ in range(num_drafts):
        following = F.pad(accepted[1:], (0, 1)) * (rows == F.pad(rows[1:], (0, 1), value=-1))
        accepted = agreed * (1 + following)
    return accepted.clamp_max(num_drafts)


def num_agreed(all_logits: Sequence[Tensor], labels: Labels) -> Tensor:
    """How many first choices in a row are the target's, from the first of steps with logits (P, C) each. -> (P,)."""
    agreed = [is_agreed(logits, *labels.step(step)) for step, logits in enumerate(all_logits)]
    return torch.stack(agreed).long().cumprod(0).sum(0)


def tokens_per_round(accepted_lengths: list[int]) -> tuple[int, int]:
    """Emitted tokens and rounds of greedy decoding over one answer, from what a round at each of its places accepts."""
    place, rounds = 0, 0
    while place < len(accepted_lengths):
        place += accepted_lengths[place] + 1
        rounds += 1
    return len(accepted_lengths), rounds
