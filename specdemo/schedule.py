"""How many draft tokens the next round asks for: K as set, or K that follows what was accepted lately."""

from specdemo.settings import MAX_DRAFT_TOKENS, DecodeSettings


class DraftSchedule:
    """State of one generation; starts from the chosen K every time."""

    def __init__(self, settings: DecodeSettings) -> None:
        self.num_draft_tokens = settings.num_draft_tokens
        self._is_adaptive = settings.schedule == "adaptive"

    def update(self, num_drafted: int, num_accepted: int) -> None:
        """Grow by one after a round in which all was accepted; fall half-way to what was accepted after any other.

        A round that drafted less than was asked for says nothing about a longer draft and leaves K as it is when it
        went through.
        """
        if not self._is_adaptive or num_drafted == 0:
            return
        if num_accepted < num_drafted:
            self.num_draft_tokens = max(1, (min(self.num_draft_tokens, num_drafted) + num_accepted) // 2)
        elif num_drafted >= self.num_draft_tokens:
            self.num_draft_tokens = min(MAX_DRAFT_TOKENS, self.num_draft_tokens + 1)
