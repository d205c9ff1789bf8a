"""Text between two tokenizers: the committed text as a drafter's ids, drafted text as the target's ids.

Knows no model. Encoding a text and decoding it again need not give the same ids, in either vocabulary, so nothing here
relies on it: what the target committed is never encoded again for the target, and a draft is offered only where the
encoding of the text before it gave the ids that are committed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from transformers import BatchEncoding, PreTrainedTokenizerBase

from specdemo.spans import Detokenizer

_INCOMPLETE = "\ufffd"
_LONGEST_OPEN = 128  # characters
_TAILS = (8, 4, 2, 1, 0)
_SINGLE_SPACE = re.compile(r"(?<=\S) (?=\S)")


@dataclass(frozen=True)
class Codec:
    """A tokenizer in both directions. In a text nothing is a control token, whatever it looks like."""

    tokenizer: PreTrainedTokenizerBase

    @cached_property
    def control_ids(self) -> dict[str, int]:
        """Control tokens by how they are written."""
        known = self.tokenizer.added_tokens_decoder
        return {str(token): token_id for token_id, token in known.items() if token.special}

    @cached_property
    def num_tokens(self) -> int:
        """One more than the largest id."""
        return max(self.tokenizer.get_vocab().values()) + 1

    def encode(self, text: str) -> BatchEncoding:
        """The text alone, without an opening or closing token."""
        return self.tokenizer(text, add_special_tokens=False, split_special_tokens=True)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Exact text of the ids; a replacement mark stands for an incomplete character."""
        text = self.tokenizer.decode(list(token_ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return str(text)


def shared_controls(one: Codec, other: Codec) -> dict[int, int | None]:
    """For each control id of `one` the id that is written alike in `other`, None where there is none."""
    return {token_id: other.control_ids.get(text) for text, token_id in one.control_ids.items()}


class DrafterText:
    """The committed text as the drafter's ids.

    A control token of the target becomes the drafter's one of the same name; one that the drafter does not know is left
    out. Only the end of the text, some `_LONGEST_OPEN` characters, is encoded again when text arrives, so a round costs
    the same however long the text is: the first `num_settled` of `ids` stay as they are.
    """

    def __init__(self, target: Codec, drafter: Codec, opening: Sequence[int] = ()) -> None:
        self._target, self._drafter = target, drafter
        self._controls = shared_controls(target, drafter)
        self._open_text = ""
        self._detokenizer = Detokenizer(target.decode)
        self.ids = list(opening)
        self.num_settled = len(self.ids)

    def read(self, token_ids: Sequence[int]) -> None:
        """Add tokens of the target; bytes that are no whole character yet wait for those that complete it."""
        for token_id in token_ids:
            if token_id in self._controls:
                self._end_run(self._controls[token_id])
                continue
            self._open_text += self._detokenizer.add(token_id)
            if len(self._open_text) > _LONGEST_OPEN:
                end = _parting(self._open_text)
                self._settle(self._open_text[:end])
                self._open_text = self._open_text[end:]
        self.ids[self.num_settled :] = self._encode(self._open_text)

    def _end_run(self, control_id: int | None) -> None:
        self._settle(self._open_text + self._detokenizer.finish())
        self._open_text = ""
        self._detokenizer = Detokenizer(self._target.decode)
        # A text that the drafter's own opening token begins already does not get it twice.
        if control_id is not None and self.ids != [control_id]:
            self.ids.append(control_id)
            self.num_settled += 1

    def _settle(self, text: str) -> None:
        self.ids[self.num_settled :] = self._encode(text)
        self.num_settled = len(self.ids)

    def _encode(self, text: str) -> list[int]:
        return list(self._drafter.encode(text)["input_ids"]) if text else []


def _parting(text: str) -> int:
    """Where to part a text so that its parts are encoded as in one piece: before a lone space, else in the middle."""
    middle = len(text) // 2
    return max((match.start() for match in _SINGLE_SPACE.finditer(text, 0, middle)), default=middle)


@dataclass(frozen=True, slots=True)
class Conversion:
    """Drafted text as ids of the target; behind the first `num_certain` more text could change them.

    Not `is_possible` where no tail of what is committed is reproduced, whatever text may follow.
    """

    ids: tuple[int, ...] = ()
    num_certain: int = 0
    is_possible: bool = True

    @property
    def likely(self) -> tuple[int, ...]:
        """The ids that can be offered where no more text will come to settle them: all but the last."""
        return self.ids[: max(self.num_certain, len(self.ids) - 1)]


class TargetTail:
    """The newest committed ids of the target behind its last control token, and what drafted text is behind them."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._control_ids = frozenset(codec.control_ids.values())
        self._ids: list[int] = []

    def read(self, token_ids: Sequence[int]) -> None:
        """Add committed tokens; control tokens part a text, so none before them matters."""
        for token_id in token_ids:
            self._ids.append(token_id)
            if token_id in self._control_ids:
                self._ids.clear()
        del self._ids[: -_TAILS[0]]

    def convert(self, text: str) -> Conversion:
        """The ids of `text` behind a tail that its encoding reproduces, the longest first.

        Where the committed ids end inside a character, `text` begins with the whole of it, and the ids begin behind
        what is committed. Nothing where even the shortest tail is encoded otherwise.
        """
        for tail in self._tails():
            encoding = self._codec.encode(self._codec.decode(tail).rstrip(_INCOMPLETE) + text)
            ids = encoding["input_ids"]
            if ids[: len(tail)] == tail:
                found = tuple(ids[len(tail) :])
                return Conversion(found, max(0, len(found) - _num_uncertain(encoding)))
        return Conversion(is_possible=not text)

    def _tails(self) -> list[list[int]]:
        lengths = {min(length, len(self._ids)) for length in _TAILS}
        if self._codec.decode(self._ids).endswith(_INCOMPLETE):
            lengths.discard(0)  # the committed bytes of the character must be reproduced
        return [self._ids[len(self._ids) - length :] for length in sorted(lengths, reverse=True)]


def _num_uncertain(encoding: BatchEncoding) -> int:
    """How many ids at the end further text may change: those of the last word that the tokenizer splits a text into.

    Of a tokenizer that splits no words, or does not say so, the last one.
    """
    words = encoding.word_ids() if encoding.is_fast else []
    num_last = sum(1 for _ in takewhile(lambda word: word == words[-1], reversed(words)))
    return num_last if num_last < len(words) else 1
