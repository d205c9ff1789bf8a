"""How one conversation grows token by token: what is given, what is drawn, and where it ends. Knows no model."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from specdemo.train.corpus import repeated_tail

_TEMPERATURES = (0.7, 0.85, 1.0)
_GREEDY_SHARE = 0.7
_KEPT_REPEATS = 3  # of a loop's body


@dataclass(frozen=True, slots=True)
class Format:
    """The ids around the turns of the target's chat format, and how long turns may get."""

    end_of_turn: int
    before_answer: tuple[int, ...]
    max_user_tokens: int = 56  # behind the opening
    max_answer_tokens: int = 200
    max_tokens: int = 320  # of the whole conversation


@dataclass(slots=True)
class Growing:
    """A conversation under way: `ids` holds what is known, the first `fed` of which the teacher has read.

    `opening_end` is where the given part of the user's turn ends.
    """

    ids: list[int]
    category: int
    answer_temperature: float
    opening_end: int
    fed: int
    answer_start: int = 0
    is_done: bool = False

    @property
    def wants_token(self) -> bool:
        """Whether nothing is known behind the token that is read next, so that what follows has to be drawn."""
        return self.fed == len(self.ids) - 1

    @property
    def temperature(self) -> float:
        """The user's turn is drawn at temperature 1, the answer at its own."""
        return self.answer_temperature if self.answer_start else 1.0

    def take(self, token_id: int, form: Format) -> None:
        """Add the drawn token; ends the turn where it ends."""
        self.ids.append(token_id)
        if not self.answer_start:
            self._end_user_turn(token_id, form)
            return
        num = len(self.ids) - self.answer_start
        is_stuck = num % 32 == 0 and repeated_tail(self.ids[self.answer_start :])[0] > max(64, num // 2)
        is_full = num >= form.max_answer_tokens or len(self.ids) >= form.max_tokens
        self.is_done = token_id == form.end_of_turn or is_full or is_stuck

    def _end_user_turn(self, token_id: int, form: Format) -> None:
        is_long = len(self.ids) - self.opening_end >= form.max_user_tokens
        if token_id != form.end_of_turn and not is_long:
            return
        if token_id != form.end_of_turn:
            self.ids.append(form.end_of_turn)
        self.ids += form.before_answer
        self.answer_start = len(self.ids)

    def useful_length(self) -> int:
        """How many ids to keep: of an answer that is mostly a loop only a few turns of it."""
        answer = self.ids[self.answer_start :]
        num_repeated, period = repeated_tail(answer)
        if num_repeated <= len(answer) // 2:
            return len(self.ids)
        return len(self.ids) - max(0, num_repeated - _KEPT_REPEATS * max(period, 8))


def draw_temperature(source: random.Random) -> float:
    """The temperature of an answer: greedy above all."""
    return 0.0 if source.random() < _GREEDY_SHARE else source.choice(_TEMPERATURES)


def cut_passage(text: str, max_words: int) -> str:
    """The first whole sentences of a text within so many words, "" where there are none."""
    words: Sequence[str] = text.split()[:max_words]
    cut = " ".join(words)
    end = max(cut.rfind(mark) for mark in ".!?")
    return cut[: end + 1] if end > 0 else ""
