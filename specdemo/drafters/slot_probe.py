"""Which slot of a block predicts the token after the newest: what the weights say, whatever the config claims.

Published block drafters differ by one slot, and a wrong reading only shows as poor acceptance.
"""

import torch

from specdemo.drafters.block import BlockDrafter
from specdemo.sampling import Sampler
from specdemo.settings import DecodeSettings
from specdemo.target import Target

_TEXT = (
    "The capital of France is Paris. The capital of Italy is Rome. One, two, three, four, five, six, seven, eight.\n"
    "Here is a short list of three fruits:\n\n1. Apple\n2. Banana\n3. Orange\n\nfor i in range(10):\n    print(i)\n"
)
_NUM_ANCHORS = 48
_LEAST_LEAD = 0.15
"""Of the anchors, by which one slot must lead the other; a drafter that knows nothing gives a lead of about 0."""


def known_ids(target: Target) -> list[int]:
    """A short text that every language model goes on with alike."""
    return list(target.tokenizer(_TEXT, add_special_tokens=False)["input_ids"])[: target.context_length - 1]


@torch.inference_mode()
def first_slot_by_probe(drafter: BlockDrafter, target: Target) -> int | None:
    """0 or 1, the slot that says more often what the target expects after the newest token; None for no clear lead."""
    ids = known_ids(target)
    session = target.lm.open(drafter.feature_layers)
    wanted = session.forward(ids, len(ids)).argmax(-1).tolist()
    features = session.features
    session.close()
    assert features is not None
    first = max(1, len(ids) - _NUM_ANCHORS)
    block = drafter.open_with(features[:first], ids[: first + 1], Sampler(DecodeSettings(), target.lm.vocab_size))
    agreed = [0, 0]
    for anchor in range(first, len(ids)):
        for slot, token_id in enumerate(block.slot_choices(2)):
            agreed[slot] += token_id == wanted[anchor]
        if anchor + 1 < len(ids):
            block.commit(ids[anchor + 1 : anchor + 2], features[anchor : anchor + 1])
    block.close()
    lead = (agreed[1] - agreed[0]) / max(1, len(ids) - first)
    return None if abs(lead) < _LEAST_LEAD else int(lead > 0)
