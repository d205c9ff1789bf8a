"""The held-out prompts, used by no training: their text, and the target's greedy answers with all that it knew."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

from transformers import LlamaForCausalLM, PreTrainedTokenizerBase

from specdemo.chat import encode_prompt
from specdemo.train.collect import Collector
from specdemo.train.conversation import Growing
from specdemo.train.corpus import DEFAULT_HIDDEN, Conversation, read_shard, write_shard
from specdemo.train.openings import CATEGORIES
from specdemo.train.teacher import Teacher
from specdemo.train.writer import Writer

PATH = Path(__file__).with_suffix(".json")
NUM_ANSWER_TOKENS = 128


@dataclass(frozen=True, slots=True)
class HeldOutPrompt:
    """A prompt and its category."""

    category: str
    prompt: str


def held_out_prompts() -> list[HeldOutPrompt]:
    """Eight prompts of each of eight categories."""
    return [HeldOutPrompt(**entry) for entry in json.loads(PATH.read_text(encoding="utf-8"))["prompts"]]


def held_out_answers(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, path: Path) -> list[Conversation]:
    """The target's greedy answers to all held-out prompts, kept in the file `path`; written there the first time."""
    if not path.exists():
        write_shard(path, _answer(model, tokenizer, held_out_prompts()))
    return read_shard(path, with_hidden=True)


def category_name(conversation: Conversation) -> str:
    """What kind of prompt a conversation answers."""
    return CATEGORIES[conversation.category]


class _Given:
    """Hands out prompts in place of a Writer; rows that are through get a prompt that is thrown away."""

    def __init__(self, writer: Writer, prompts: list[Growing]) -> None:
        self._waiting = list(prompts)
        self._spare = prompts[0]
        self.prefix, self.random = writer.prefix, writer.random
        self.form = replace(writer.form, max_answer_tokens=NUM_ANSWER_TOKENS, max_tokens=NUM_ANSWER_TOKENS + 224)

    def open(self) -> Growing:
        return self._waiting.pop(0) if self._waiting else replace(self._spare, ids=list(self._spare.ids), category=-1)

    def keep_passage(self, conversation: Growing) -> None:
        """Given prompts are all there are."""


def _answer(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, prompts: list[HeldOutPrompt]
) -> list[Conversation]:
    writer = Writer(tokenizer, "held out")
    rows = []
    for entry in prompts:
        ids = encode_prompt(tokenizer, entry.prompt, system="", raw=False, context_length=10_000)
        category, start = CATEGORIES.index(entry.category), len(writer.prefix) - 1
        rows.append(Growing(ids, category, 0.0, opening_end=len(ids), fed=start, answer_start=len(ids)))
    given = _Given(writer, rows)
    collector = Collector(Teacher(model, len(rows), given.form.max_tokens, DEFAULT_HIDDEN), given)
    done: list[Conversation] = []
    while len(done) < len(prompts):
        done += [c for c in collector.step() if c.category >= 0]
    return done
