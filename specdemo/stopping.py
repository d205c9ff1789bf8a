"""Where a generation ends: one place that cuts every round of every lane, so that both end at the same token.

Knows no model: it is told the end-of-text ids, the stop strings and how much room is left.
"""

from collections.abc import Collection, Sequence

from specdemo.events import FinishReason
from specdemo.spans import DecodeText, Detokenizer


class StopRule:
    """Watches the answer of one lane token by token; stateful, one for each generation.

    A stop string may span tokens and may lie inside one; it counts only in the answer, never in the prompt. The token
    that completes it is the last one retained.
    """

    def __init__(
        self,
        *,
        eos_token_ids: Collection[int],
        stop_strings: Sequence[str],
        decode_text: DecodeText,
        max_new_tokens: int,
        context_room: int,
    ) -> None:
        self._eos_token_ids = frozenset(eos_token_ids)
        self._stop_strings = tuple(stop_strings)
        self._detokenizer = Detokenizer(decode_text)
        self._tail_length = max((len(text) for text in stop_strings), default=0)
        self._tail = ""
        self._num_left = max_new_tokens
        self._context_room = context_room

    @property
    def num_left(self) -> int:
        """How many tokens may still be emitted before the length cap or the end of the context."""
        return min(self._num_left, self._context_room)

    def cut(self, token_ids: Sequence[int]) -> tuple[int, FinishReason | None]:
        """Take a round's tokens: how many are retained, and the reason if the answer ends with the last of them."""
        for index, token_id in enumerate(token_ids):
            reason = self._reason_after(token_id)
            if reason is not None:
                return index + 1, reason
        return len(token_ids), None

    def _reason_after(self, token_id: int) -> FinishReason | None:
        self._num_left -= 1
        self._context_room -= 1
        if token_id in self._eos_token_ids:
            return "eos"
        if self._stop_strings and self._completes_stop_string(token_id):
            return "stop"
        if self._num_left == 0:
            return "length"
        return "context" if self._context_room == 0 else None

    def _completes_stop_string(self, token_id: int) -> bool:
        text = self._tail + self._detokenizer.add(token_id)
        self._tail = text[-(self._tail_length - 1) :] if self._tail_length > 1 else ""
        return any(stop in text for stop in self._stop_strings)
