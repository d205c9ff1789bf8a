"""Token ids to display spans, incrementally; spans are addressed by token index, never found by searching text.

Knows no tokenizer: it takes a function from ids to text. The retained spans of a lane, joined, are exactly the decoded
answer: a character that spans several tokens appears once, with the token that completes it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from specdemo.branches import ROOT, children_of, parent_of
from specdemo.events import Round

DecodeText = Callable[[Sequence[int]], str]
Status = Literal["accepted", "rejected", "discarded", "corrected", "bonus", "plain", "unused"]
RETAINED = frozenset({"accepted", "corrected", "bonus", "plain"})
_INCOMPLETE = "\ufffd"
_LONGEST_WINDOW = 32


@dataclass(frozen=True, slots=True)
class Span:
    """One token on the screen. `text` may be "": the token holds part of a character that a later token completes."""

    token_id: int
    text: str
    status: Status


class Detokenizer:
    """Ids in, text out as soon as it is final.

    Only the tokens since the last complete character are decoded again, so the cost of a token does not grow with the
    answer.
    """

    def __init__(self, decode_text: DecodeText) -> None:
        self._decode_text = decode_text
        self._window: list[int] = []
        self._num_known_tokens = 0  # tokens of the window that ended in a complete character
        self._num_known_chars = 0  # characters of the decoded window that have been returned

    def fork(self) -> "Detokenizer":
        """An independent copy, to see how tokens that may be thrown away would read."""
        copy = Detokenizer(self._decode_text)
        copy._window = list(self._window)
        copy._num_known_tokens, copy._num_known_chars = self._num_known_tokens, self._num_known_chars
        return copy

    def add(self, token_id: int) -> str:
        """The text that this token makes final; "" while a character is incomplete."""
        self._window.append(token_id)
        text = self._decode_text(self._window)
        is_full = len(self._window) > _LONGEST_WINDOW
        num_held = _num_held(text) if is_full else _num_marks(text)
        # A tokenizer with byte fallback takes characters back while the next one is incomplete; what was shown stays.
        end = max(self._num_known_chars, len(text) - num_held)
        piece = text[self._num_known_chars : end]
        self._num_known_chars = end
        if not num_held:
            self._rebase(self._num_known_tokens)
        elif is_full:
            self._rebase(len(self._window) - _LONGEST_WINDOW // 4)
        return piece

    def finish(self) -> str:
        """The rest, where the answer ends inside a character: what a full decode would show for it."""
        text = self._decode_text(self._window)
        piece = text[self._num_known_chars :]
        self._num_known_chars = len(text)
        return piece

    def _rebase(self, start: int) -> None:
        self._window = self._window[start:]
        self._num_known_tokens = len(self._window)
        text = self._decode_text(self._window)
        self._num_known_chars = len(text) - _num_held(text)


def _num_marks(text: str) -> int:
    return len(text) - len(text.rstrip(_INCOMPLETE))


def _num_held(text: str) -> int:
    """Trailing replacement marks that later bytes may still turn into a character (UTF-8 leaves at most three open)."""
    return min(_num_marks(text), 3)


class LaneSpans:
    """The spans of one lane, round by round."""

    def __init__(self, decode_text: DecodeText) -> None:
        self._detokenizer = Detokenizer(decode_text)

    def add(self, event: Round) -> tuple[Span, ...]:
        """The round's spans in reading order: accepted, then rejected and discarded or unused, then the next token.

        In the order of `drafts_in_reading_order`.
        """
        behind = {ROOT: self._detokenizer.fork()}
        spans = []
        for index in event.accepted_drafts:
            token_id = event.draft_token_ids[index]
            spans.append(Span(token_id, self._detokenizer.add(token_id), "accepted"))
            behind[index] = self._detokenizer.fork()
        spans += self._dropped(event, behind)
        if event.next_token_id is not None and event.next_token_kind is not None:
            spans.append(Span(event.next_token_id, self._detokenizer.add(event.next_token_id), event.next_token_kind))
        return tuple(spans)

    def finish(self) -> str:
        """Text of an unfinished character at the very end, "" otherwise."""
        return self._detokenizer.finish()

    def _dropped(self, event: Round, behind: dict[int, Detokenizer]) -> list[Span]:
        """The drafts that did not stay, each as it reads behind those that it followed."""
        parents, failed = event.draft_parents, set(_failed(event))
        spans = []
        # Parents stand before their children in this order too.
        for index in drafts_in_reading_order(event)[event.num_accepted :]:
            token_id = event.draft_token_ids[index]
            behind[index] = behind[parent_of(parents, index)].fork()
            text = behind[index].add(token_id)
            if not text and not children_of(parents, len(event.draft_token_ids), index):
                text = behind[index].finish()
            status: Status = "unused" if event.num_unused else "rejected" if index in failed else "discarded"
            spans.append(Span(token_id, text, status))
        return spans


def drafts_in_reading_order(event: Round) -> list[int]:
    """Indices of a round's drafts: those that stayed, those that failed behind the last of them, and the others."""
    first = [*event.accepted_drafts, *_failed(event)]
    return [*first, *(index for index in range(len(event.draft_token_ids)) if index not in first)]


def _failed(event: Round) -> Sequence[int]:
    """The drafts that were judged behind the last one that stayed, and failed."""
    return event.drafts_behind if event.num_rejected else ()


class CandidateTexts:
    """How the tokens that evidence names read, each told once in a lane."""

    def __init__(self, decode_text: DecodeText) -> None:
        self._decode_text = decode_text
        self._told: set[int] = set()

    def add(self, event: Round) -> tuple[tuple[int, str], ...]:
        """(token id, text) of those not told before; none where there is no evidence.

        Each is read by itself: one that holds part of a character is a replacement mark.
        """
        if event.evidence is None:
            return ()
        new = sorted(event.evidence.token_ids() - self._told)
        self._told.update(new)
        return tuple((token_id, self._decode_text([token_id])) for token_id in new)


def prompt_texts(decode_text: DecodeText, token_ids: Sequence[int]) -> tuple[tuple[int, str], ...]:
    """The prompt token by token, for those who look where a draft was copied from."""
    detokenizer = Detokenizer(decode_text)
    return tuple((token_id, detokenizer.add(token_id)) for token_id in token_ids)
