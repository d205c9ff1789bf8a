"""Whether two models mean the same tokens by the same ids: told by the strings, not by how many there are."""

from collections.abc import Iterator

from transformers import PreTrainedTokenizerBase

from specdemo.detection import LANGUAGE_MODEL
from specdemo.drafters.draft_model import count_shared_ids
from specdemo.errors import ModelError
from specdemo.findings import Finding
from specdemo.places import Seen
from specdemo.preflight.facts import TargetFacts, inner_values


def check_own_vocabulary(facts: TargetFacts) -> Iterator[Finding]:
    """Of the target's tokenizer and head."""
    name = facts.seen.name
    if facts.tokenizer is None:
        yield Finding(
            "refusal", "tokenizer", f"{name} has no tokenizer that can be read; copy its tokenizer files there."
        )
    elif facts.num_words > facts.vocab_size:
        yield Finding(
            "refusal",
            "tokenizer",
            f"the tokenizer of {name} knows {facts.num_words:,} tokens and the model {facts.vocab_size:,}; give a "
            "model and a tokenizer that belong together.",
        )
    elif facts.num_words < facts.vocab_size:
        padding = facts.vocab_size - facts.num_words
        yield Finding(
            "ok",
            "tokenizer",
            f"the head of {name} has {padding:,} rows more than its tokenizer has tokens; they are padding.",
        )
    else:
        yield Finding("ok", "tokenizer", f"{name} has {facts.vocab_size:,} tokens.")


def check_shared_vocabulary(
    facts: TargetFacts, tokenizer: PreTrainedTokenizerBase, seen: Seen, family: str
) -> tuple[str, list[Finding]]:
    """Which family a language model drafts as beside this target, `family` where a person chose, and what was found."""
    assert facts.tokenizer is not None
    if family == "universal":
        return family, [Finding("ok", "vocabulary", f"{seen.name} drafts through its own vocabulary, text by text.")]
    try:
        num_shared = count_shared_ids(facts.tokenizer, tokenizer, seen.name)
    except ModelError as error:
        if family != LANGUAGE_MODEL:
            remedy = f"Or let it draft text by text: --drafter universal:{seen.name}."
            return family, [Finding("refusal", "vocabulary", f"{error} {remedy}")]
        sentence = f"{seen.name} has another vocabulary than the target; it drafts text by text, as `universal`."
        return "universal", [Finding("warning", "vocabulary", sentence)]
    rows = int(inner_values(seen.values).get("vocab_size") or num_shared)
    num_shared = min(num_shared, rows, facts.vocab_size)
    if num_shared == facts.vocab_size == rows:
        sentence = f"{seen.name} and the target mean the same by all {num_shared:,} ids."
    else:
        sentence = (
            f"{seen.name} and the target mean the same by ids 0 to {num_shared - 1:,}; of {rows:,} rows in its head "
            f"and {facts.vocab_size:,} in the target's the others are never drafted."
        )
    return "draft-model", [Finding("ok", "vocabulary", sentence)]
