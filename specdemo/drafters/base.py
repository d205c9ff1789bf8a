"""The seam between the decode loop and every drafter family."""

from collections.abc import Sequence
from typing import Protocol

from specdemo.acceptance import Draft
from specdemo.causal_lm import CausalLMSession
from specdemo.sampling import Sampler


class DraftSession(Protocol):
    """A drafter's state of one generation."""

    bytes_read: int
    """Weights read by the drafter's passes so far."""

    note: str
    """One sentence when the drafter had to stop proposing (its own limit), "" otherwise."""

    def propose(self, max_tokens: int) -> Draft:
        """Up to `max_tokens` draft tokens that follow the committed ones; none at all is legal."""

    def commit(self, token_ids: Sequence[int]) -> None:
        """These tokens became part of the sequence; the session feeds what it has not seen at the next proposal."""

    def close(self) -> None:
        """Free what the generation held."""


class Drafter(Protocol):
    """Weights or rules of a proposer; shared by all sessions."""

    name: str
    memory_bytes: int
    """Weights held besides the target's."""

    def open(self, target_session: CausalLMSession, prompt_ids: Sequence[int], sampler: Sampler) -> DraftSession:
        """Begin a generation.

        Read the prompt but its last token. `sampler` gives draws the settings of the generation.
        """
