"""What happens during one generation, as immutable values: `Reading*, Started, Round*, Finished`.

Plain ints, floats, strings and tuples only, so that an event can be stored, sent and replayed. Knows no model, no text.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

NextTokenKind = Literal["corrected", "bonus", "plain"]
FinishReason = Literal["eos", "stop", "length", "context", "cancelled", "failed"]

TopTokens = tuple[tuple[int, float], ...]
"""The most probable tokens as (token id, probability), highest first."""


@dataclass(frozen=True, slots=True)
class PositionEvidence:
    """Why one draft token was accepted or rejected, in the numbers that the rule used.

    `uniform` is the random number compared with `accept_prob`; None where the rule draws none (greedy, coupled,
    typical). `draft_score` and `target_score` are what the rule compared besides probabilities: under `coupled`
    log-probability plus noise of the drafted token and of the winner, under `greedy` the drafted token's and the best
    logit, under `block` the running product and h, under `typical` the drafted token's probability and the threshold.
    None where there is no such number.
    """

    token_id: int
    is_accepted: bool
    draft_prob: float
    target_prob: float
    accept_prob: float
    uniform: float | None = None
    draft_score: float | None = None
    target_score: float | None = None
    draft_top: TopTokens = ()
    target_top: TopTokens = ()


@dataclass(frozen=True, slots=True)
class NextTokenEvidence:
    """Where the round's last token came from: `residual` after a rejection under a residual rule, else `target`.

    `uniform` is the number that picked it from the cumulative distribution; None where the rule does not draw one.
    """

    source: Literal["target", "residual"]
    prob: float
    uniform: float | None
    top: TopTokens


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of one round: one entry per judged draft token, and the next token's."""

    positions: tuple[PositionEvidence, ...]
    next_token: NextTokenEvidence | None


@dataclass(frozen=True, slots=True)
class Reading:
    """So many tokens of a long prompt have been read by the target; a generation can be stopped here."""

    num_read: int
    num_prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Started:
    """Prefill is done: both models have read the prompt but its last token, which the first round feeds."""

    prompt_token_ids: tuple[int, ...]
    settings: Mapping[str, Any]
    prefill_seconds: float
    provenance: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Round:
    """One propose, verify, accept cycle.

    Counts: drafted = accepted + rejected + unused. `num_unused` drafts were cut by a stop or the length cap behind the
    last retained token, and never judged. `next_token_id` is None when a stop ended the accepted prefix.
    Seconds are the lane's own clock, device-synchronised; bytes are the weights read by the drafter's and the target's
    passes.
    """

    index: int
    draft_token_ids: tuple[int, ...]
    num_accepted: int
    next_token_id: int | None
    next_token_kind: NextTokenKind | None
    num_unused: int = 0
    draft_seconds: float = 0.0
    verify_seconds: float = 0.0
    overhead_seconds: float = 0.0
    draft_bytes: int = 0
    verify_bytes: int = 0
    evidence: Evidence | None = None

    def __post_init__(self) -> None:
        drafted = len(self.draft_token_ids)
        assert self.num_accepted >= 0 and self.num_unused >= 0, "counts are never negative"
        assert self.num_accepted + self.num_unused <= drafted, "accepted + unused exceed drafted"
        assert (self.next_token_id is None) == (self.next_token_kind is None), "a next token and its kind go together"
        if self.next_token_kind is None:
            assert self.num_accepted > 0 and self.num_rejected == 0, (
                "only a stop inside accepted drafts has no next token"
            )
        else:
            assert self.num_unused == 0, "drafts are unused only behind a stop inside the accepted ones"
            assert self.next_token_kind == self._expected_kind(), "kind contradicts the counts"

    def _expected_kind(self) -> NextTokenKind:
        if not self.draft_token_ids:
            return "plain"
        return "bonus" if self.num_rejected == 0 else "corrected"

    @property
    def num_rejected(self) -> int:
        """Drafts that failed or were discarded behind the one that failed."""
        return len(self.draft_token_ids) - self.num_accepted - self.num_unused

    @property
    def num_judged(self) -> int:
        """Accepted drafts and the one that failed: the trials that alpha speaks of."""
        return self.num_accepted + (1 if self.num_rejected else 0)

    @property
    def emitted_token_ids(self) -> tuple[int, ...]:
        """The tokens this round appended to the answer, in order."""
        accepted = self.draft_token_ids[: self.num_accepted]
        return accepted if self.next_token_id is None else (*accepted, self.next_token_id)

    @property
    def seconds(self) -> float:
        """The round on its lane's own clock."""
        return self.draft_seconds + self.verify_seconds + self.overhead_seconds

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values with the derived counts beside the stored ones; `evidence` only when it was asked for."""
        values = asdict(self)
        if self.evidence is None:
            del values["evidence"]
        derived = {
            "emitted_token_ids": list(self.emitted_token_ids),
            "num_drafted": len(self.draft_token_ids),
            "num_rejected": self.num_rejected,
        }
        return {**values, "draft_token_ids": list(self.draft_token_ids), **derived}


@dataclass(frozen=True, slots=True)
class Finished:
    """Why a generation ended; `message` is the sentence of a `failed` one, or the drafter's note on its own limit."""

    reason: FinishReason
    message: str = ""


Event = Reading | Started | Round | Finished
