"""Opens conversations for the target to write, in its own chat format."""

import random

from transformers import PreTrainedTokenizerBase

from specdemo.train.conversation import Format, Growing, cut_passage, draw_temperature
from specdemo.train.openings import CATEGORIES, draw_opening

_MAX_OPENING_TOKENS = 112
_MAX_PASSAGE_WORDS = 72
_NUM_PASSAGES = 400
_PLACEHOLDER = "\ue000"


class Writer:
    """Draws openings, and keeps passages of finished answers for the openings that are given one."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, seed: str) -> None:
        self._tokenizer = tokenizer
        self.random = random.Random(seed)
        self._passages: list[str] = []
        turn = [{"role": "user", "content": _PLACEHOLDER}]
        before, after = tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True).split(
            _PLACEHOLDER
        )
        self.prefix = self._ids(before)
        end_of_turn, *before_answer = self._ids(after)
        self.form = Format(end_of_turn, tuple(before_answer))

    def open(self) -> Growing:
        """A new conversation: the constant start and an opening of the user's turn."""
        category, text = draw_opening(self.random, self._passages)
        ids = [*self.prefix, *self._ids(text)[:_MAX_OPENING_TOKENS]]
        temperature = draw_temperature(self.random)
        return Growing(ids, CATEGORIES.index(category), temperature, len(ids), len(self.prefix) - 1)

    def keep_passage(self, conversation: Growing) -> None:
        """Let the beginning of an answer serve as a text to summarise or rewrite, if it reads like prose."""
        text = self._tokenizer.decode(conversation.ids[conversation.answer_start :], skip_special_tokens=True)
        passage = cut_passage(text, self.random.randint(30, _MAX_PASSAGE_WORDS))
        if len(passage) > 100 and not any(mark in passage for mark in "{}`|"):
            self._passages.append(passage)
            del self._passages[:-_NUM_PASSAGES]

    def _ids(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])
