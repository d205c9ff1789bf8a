"""The seam between the decode loop and every drafter family."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from torch import Tensor

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

    def commit(self, token_ids: Sequence[int], features: Tensor | None) -> None:
        """These tokens became part of the sequence; the session feeds what it has not seen at the next proposal.

        `features` (len(token_ids), ...): the target's hidden states at the layers the drafter asks for, one position
        before each of the tokens: what the target itself chose the token from. None where it asks for none.
        """

    def close(self) -> None:
        """Free what the generation held."""


class Drafter(Protocol):
    """Weights or rules of a proposer; shared by all sessions."""

    name: str
    memory_bytes: int
    """Weights held besides the target's."""

    feature_layers: Sequence[int]
    """Layers of the target whose hidden states its sessions are given; see causal_lm.CausalLM.open."""

    def open(self, target_session: CausalLMSession, prompt_ids: Sequence[int], sampler: Sampler) -> DraftSession:
        """Begin a generation.

        Read the prompt but its last token; `target_session` has just read it and holds its features. `sampler`
        gives draws the settings of the generation.
        """

    def cache_bytes(self, num_tokens: int) -> int:
        """What a session holds of a text of so many tokens, besides the target's own cache."""


@runtime_checkable
class BatchDrafter(Protocol):
    """A drafter whose passes can serve several generations at once."""

    def propose_many(self, asked: Sequence[tuple[DraftSession, int]]) -> list[Draft]:
        """What `propose` gives for each (session, max_tokens)."""


def reads_target_cache(drafter: Drafter) -> bool:
    """Whether it computes with the keys and values of the target, which only the target's own passes make."""
    return bool(getattr(drafter, "reads_target_cache", False))


def propose_all(drafter: Drafter, asked: Sequence[tuple[DraftSession, int]]) -> list[Draft]:
    """A draft for each (session, max_tokens), none where max_tokens is 0; one after the other where there is no way
    to draft together.
    """
    drafting = [(session, max_tokens) for session, max_tokens in asked if max_tokens > 0]
    if len(drafting) > 1 and isinstance(drafter, BatchDrafter):
        drafts = iter(drafter.propose_many(drafting))
    else:
        drafts = (session.propose(max_tokens) for session, max_tokens in drafting)
    return [next(drafts) if max_tokens > 0 else Draft(()) for _, max_tokens in asked]
