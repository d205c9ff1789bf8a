"""Why two greedy answers part: how far apart the target holds the two tokens at the place where they differ."""

from collections.abc import Sequence
from contextlib import closing

import torch

from specdemo.metrics import first_divergence
from specdemo.proofs import Difference
from specdemo.target import Target

_TIES = {torch.bfloat16: 0.01, torch.float16: 0.002, torch.float32: 0.0001}
"""Share of the highest logit within which rounding of a pass at another width can reverse an order; bfloat16 keeps
eight bits, so 2 ** -7 = 0.008, float16 eleven, and float32 so many that its layers' rounding adds up to less."""


def find_difference(
    target: Target, prompt_ids: Sequence[int], plain: Sequence[int], other: Sequence[int]
) -> Difference | None:
    """The first token that differs between two greedy answers to a prompt; None where one only ends earlier, or none.

    Measured by a pass of its own over what both answers begin with.
    """
    index = first_divergence(plain, other)
    if index is None or index >= min(len(plain), len(other)):
        return None
    ids = [*prompt_ids, *plain[:index]]
    with closing(target.open()) as session:
        for _ in session.prefill(ids[:-1]):
            pass
        logits = session.verify(ids[-1:])[0].float()
    gap = float(logits[plain[index]] - logits[other[index]])
    highest, second = logits.topk(2).values.tolist()
    texts = (target.decode_text([plain[index]]), target.decode_text([other[index]]))
    is_tie = abs(gap) < _TIES.get(target.lm.dtype, _TIES[torch.bfloat16]) * max(1.0, abs(highest))
    return Difference(index, texts, gap, highest - second, is_tie, str(target.lm.dtype).removeprefix("torch."))


def explain_divergence(target: Target, prompt_ids: Sequence[int], plain: Sequence[int], other: Sequence[int]) -> str:
    """The same as one sentence, "" for None."""
    found = find_difference(target, prompt_ids, plain, other)
    if found is None:
        return ""
    return (
        f"first difference at token {found.index}: {found.texts[0]!r} (plain) and {found.texts[1]!r}, whose logits are "
        f"{abs(found.gap):.3g} apart in {found.dtype}: {'a numeric tie' if found.is_tie else 'no tie'}."
    )
