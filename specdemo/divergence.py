"""Why two greedy answers part: how far apart the target holds the two tokens at the place where they differ."""

from collections.abc import Sequence
from contextlib import closing

from specdemo.metrics import first_divergence
from specdemo.target import Target

_TIE = 0.01
"""Share of the highest logit within which rounding of a pass at another width can reverse an order; bfloat16 keeps
eight bits, so 2 ** -7 = 0.008."""


def explain_divergence(target: Target, prompt_ids: Sequence[int], plain: Sequence[int], other: Sequence[int]) -> str:
    """One sentence on the first token that differs between two greedy answers to a prompt, "" if none does.

    Measured by a pass of its own over what both answers begin with; logits have no unit.
    """
    index = first_divergence(plain, other)
    if index is None or index >= min(len(plain), len(other)):
        return ""
    with closing(target.open()) as session:
        for _ in session.prefill([*prompt_ids, *plain[:index]][:-1]):
            pass
        logits = session.verify([[*prompt_ids, *plain[:index]][-1]])[0].float()
    gap = float(logits[plain[index]] - logits[other[index]])
    highest = float(logits.max())
    texts = [target.decode_text([ids[index]]) for ids in (plain, other)]
    kind = "a numeric tie" if abs(gap) < _TIE * max(1.0, abs(highest)) else "no tie"
    return (
        f"first difference at token {index}: {texts[0]!r} (plain) and {texts[1]!r}, whose logits are {abs(gap):.3g} "
        f"apart in {str(target.lm.dtype).removeprefix('torch.')}: {kind}."
    )
