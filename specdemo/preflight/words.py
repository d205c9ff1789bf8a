"""Which of the target's words a drafter may draft: its head, its map of words, the tokenizer it may come with."""

from collections.abc import Iterator

import torch
from safetensors import safe_open
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from specdemo.drafters.draft_model import count_shared_ids
from specdemo.errors import ModelError
from specdemo.findings import Finding
from specdemo.hub import weight_files
from specdemo.places import Seen
from specdemo.preflight.facts import TargetFacts, read_tokenizer

_WORD_TABLES = ("embed_tokens.weight", "markov_head.markov_w1.weight", "markov_w1.weight")


def check_words(facts: TargetFacts, seen: Seen) -> Iterator[Finding]:
    """Shapes of the head and its map to the target's ids, and ids of the map where it can be read."""
    shapes, size = seen.shapes, facts.vocab_size
    for name in _WORD_TABLES:
        if name in shapes and shapes[name][0] != size:
            yield Finding(
                "refusal",
                "vocabulary",
                f"{name} of {seen.name} has {shapes[name][0]:,} rows; this target has {size:,} ids.",
            )
    head, offsets, flags = (shapes.get(name, (0,))[0] for name in ("lm_head.weight", "d2t", "t2d"))
    if flags and flags != size:
        yield Finding(
            "refusal", "vocabulary", f"the map of {seen.name} is of {flags:,} token ids; this target has {size:,}."
        )
    if head and head != (offsets or size):
        has = f"a map of {offsets:,} words" if offsets else "no map of words"
        yield Finding(
            "refusal",
            "draft_vocabulary",
            f"{seen.name} drafts from {head:,} words with {has}; it needs one of as many, or a head of all {size:,}.",
        )
    if offsets:
        yield from _check_map(facts, seen)
    if (tokenizer := read_tokenizer(seen.folder)) is not None and facts.tokenizer is not None:
        yield from _check_tokenizer(facts, tokenizer, seen)


def _check_map(facts: TargetFacts, seen: Seen) -> Iterator[Finding]:
    """`d2t` holds offsets: target id less draft id."""
    offsets = _read(seen, "d2t")
    if offsets is None:
        return
    ids = torch.arange(len(offsets)) + offsets.long()
    low, high, num = int(ids.min()), int(ids.max()), len(ids.unique())
    if low < 0 or high >= facts.vocab_size or num != len(ids):
        yield Finding(
            "refusal",
            "draft_vocabulary",
            f"{seen.name} maps its {len(ids):,} words to {num:,} ids from {low:,} to {high:,}; this target has ids 0 "
            f"to {facts.vocab_size - 1:,}, and each word needs its own.",
        )
    elif high >= facts.num_words:
        beyond = int((ids >= facts.num_words).sum())
        yield Finding(
            "warning", "draft_vocabulary", f"{beyond:,} words of {seen.name} are beyond the tokenizer and never right."
        )
    else:
        yield Finding("ok", "draft_vocabulary", f"{seen.name} drafts {len(ids):,} of the target's tokens.")


def _check_tokenizer(facts: TargetFacts, tokenizer: PreTrainedTokenizerBase, seen: Seen) -> Iterator[Finding]:
    assert facts.tokenizer is not None
    try:
        num_shared = count_shared_ids(facts.tokenizer, tokenizer, seen.name)
    except ModelError as error:
        yield Finding("refusal", "vocabulary", str(error))
    else:
        yield Finding(
            "ok", "vocabulary", f"{seen.name} comes with the target's tokenizer: {num_shared:,} ids are the same."
        )


def _read(seen: Seen, name: str) -> Tensor | None:
    """A tensor, where its file is on this machine."""
    for file in weight_files(path.name for path in seen.folder.iterdir()):
        if file.endswith(".safetensors"):
            with safe_open(seen.folder / file, framework="pt") as tensors:
                if name in tensors.keys():  # noqa: SIM118 - it is no mapping
                    return tensors.get_tensor(name)
    return None
