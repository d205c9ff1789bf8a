"""A chain of draft tokens, one drawn after the other: what every drafter that drafts token by token shares."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from specdemo.acceptance import Draft
from specdemo.sampling import Sampler


def draw_chain(
    sampler: Sampler, committed: Sequence[int], num_tokens: int, next_logits: Callable[[Sequence[int]], Tensor | None]
) -> Draft:
    """Draw `num_tokens` tokens; `next_logits` gives the logits (1, V) after the whole sequence it is shown.

    Where it gives None the draft ends: decided before the next token is drawn, so the laws stay honest.
    """
    drafted: list[int] = []
    laws = []
    for _ in range(num_tokens):
        logits = next_logits([*committed, *drafted])
        if logits is None:
            break
        token_id, probs = sampler.choose_draft(logits[0], committed, drafted)
        drafted.append(token_id)
        laws.append(probs)
    is_drawn = bool(laws) and laws[0] is not None
    return Draft(tuple(drafted), torch.stack(laws) if is_drawn else None)
