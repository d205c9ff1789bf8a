"""The optimizers of a drafter: Muon for matrices, AdamW for embeddings and the rest. Both take one learning rate."""

import math
from collections.abc import Iterable

import torch
from torch import nn

WARM_UP_SHARE = 0.03


def make_optimizers(student: nn.Module, weight_decay: float) -> list[torch.optim.Optimizer]:
    """Optimizers for all weights that learn; the learning rate is set before every step."""
    learning = [p for p in student.parameters() if p.requires_grad]
    # An embedding is a table of rows, not a map between spaces.
    tables = {id(module.weight) for module in student.modules() if isinstance(module, nn.Embedding)}
    matrices = [p for p in learning if p.ndim == 2 and id(p) not in tables]
    others = [p for p in learning if p.ndim != 2 or id(p) in tables]
    # The adjusted rate gives updates of AdamW's size, so that both optimizers share one rate.
    muon = torch.optim.Muon(matrices, weight_decay=weight_decay, adjust_lr_fn="match_rms_adamw")
    return [muon, torch.optim.AdamW(others, betas=(0.9, 0.95), weight_decay=0.0)]


def set_learning_rate(optimizers: Iterable[torch.optim.Optimizer], peak: float, progress: float) -> float:
    """Warm up in a straight line, then decay by half a cosine; `progress` runs from 0 to 1."""
    if progress < WARM_UP_SHARE:
        rate = peak * max(progress / WARM_UP_SHARE, 0.02)
    else:
        rate = peak * 0.5 * (1 + math.cos(math.pi * min(1.0, (progress - WARM_UP_SHARE) / (1 - WARM_UP_SHARE))))
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate
    return rate
