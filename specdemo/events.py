"""What happens during one generation, as immutable values: `Reading*, Started, Round*, Finished`.

Plain ints, floats, strings and tuples only, so that an event can be stored, sent and replayed. Knows no model, no text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from specdemo.branches import ROOT, Parents, children_of, deepest, path_to

NextTokenKind = Literal["corrected", "bonus", "plain"]
FinishReason = Literal["eos", "stop", "length", "context", "cancelled", "failed"]

Known = Literal["all", "rounds", "tokens"]
"""What is known of a lane. `all`: it was decoded here. `rounds`: a server counted drafts and accepted ones round by
round, without saying which drafts failed. `tokens`: tokens as they came, each in a round of its own, and totals."""

UNKNOWN_TOKEN = -1
"""The id of a token that a server counted and did not name."""

TopTokens = tuple[tuple[int, float], ...]
"""The most probable tokens as (token id, probability), highest first."""


@dataclass(frozen=True, slots=True)
class DraftOrigin:
    """What a drafter knows of one of its tokens besides the law it drew it from; None where it knows no such thing.

    `copied_from` is the token's index in prompt, answer and the drafts before it; the `num_matched` tokens before that
    index are the same as those before the draft. `confidence` is the drafter's own guess that the draft is accepted if
    it is reached.
    """

    copied_from: int | None = None
    num_matched: int | None = None
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Contender:
    """A token in the running where the rule takes the highest score: under `greedy` and `coupled`.

    `score` is the target's logit, or its log-probability plus `noise`; None where a filter removed the token.
    `draft_prob` is None where nothing was drafted.
    """

    token_id: int
    target_prob: float
    draft_prob: float | None = None
    score: float | None = None
    noise: float | None = None


@dataclass(frozen=True, slots=True)
class PositionEvidence:
    """Why one draft token was accepted or rejected, in the numbers that the rule used.

    `uniform` is the random number compared with `accept_prob`; None where the rule draws none (greedy, coupled,
    typical). `draft_score` and `target_score` are what the rule compared besides probabilities: under `coupled`
    log-probability plus noise of the drafted token and of the winner, under `greedy` the drafted token's and the best
    logit, under `block` the running product and h, under `typical` the drafted token's probability and the threshold.
    None where there is no such number. `entropy` is the target's in nats, under `typical`. `contenders` are the two
    highest scores of the target, the winner first, and the drafted token where it is neither.
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
    entropy: float | None = None
    contenders: tuple[Contender, ...] = ()
    origin: DraftOrigin | None = None


@dataclass(frozen=True, slots=True)
class NextTokenEvidence:
    """Where the round's last token came from: `residual` after a rejection under a residual rule, else `target`.

    `uniform` is the number that picked it from the cumulative distribution, in the order of token ids: the token's own
    stretch of it begins at `start` and is `prob` long, those of `top` begin at `starts`. All three are empty where the
    rule does not draw; then `contenders` are the two highest scores, the winner first.
    """

    source: Literal["target", "residual"]
    prob: float
    uniform: float | None
    top: TopTokens
    start: float | None = None
    starts: tuple[float, ...] = ()
    contenders: tuple[Contender, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of one round: one entry per judged draft token, and the next token's.

    `block` judges all drafts of a round, the other rules those up to the one that failed; in a tree these are all that
    stood behind the last accepted one. What a stop cut off is not in it.
    """

    positions: tuple[PositionEvidence, ...]
    next_token: NextTokenEvidence | None

    def token_ids(self) -> set[int]:
        """Every token that is named, besides the round's own."""
        tops = [top for position in self.positions for top in (position.draft_top, position.target_top)]
        tops += [self.next_token.top] if self.next_token else []
        running = [contender for one in (*self.positions, self.next_token) if one for contender in one.contenders]
        return {token_id for top in tops for token_id, _ in top} | {contender.token_id for contender in running}


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
    known: Known = "all"


@dataclass(frozen=True, slots=True)
class Round:
    """One propose, verify, accept cycle.

    In a tree `draft_parents` are those of the drafts, and `accepted_path` the drafts that stayed; both are () in a
    chain, of which the first `num_accepted` stayed. Counts: drafted = accepted + rejected + unused. `num_unused`
    drafts were cut by a stop or the length cap behind the last retained token, and never judged. `next_token_id` is
    None when a stop ended the accepted prefix.
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
    draft_parents: Parents = ()
    accepted_path: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self._check_tree()
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

    def _check_tree(self) -> None:
        parents, path = self.draft_parents, self.accepted_path
        if not parents:
            assert not path, "only a tree has a path"
            return
        assert len(parents) == len(self.draft_token_ids), "each draft of a tree has a parent"
        assert all(ROOT <= parent < index for index, parent in enumerate(parents)), "parents stand before children"
        assert path == (path_to(parents, path[-1]) if path else ()), "the accepted drafts are one branch"
        assert len(path) == self.num_accepted, "accepted drafts are the path"

    def _expected_kind(self) -> NextTokenKind:
        if not self.draft_token_ids:
            return "plain"
        return "corrected" if self.drafts_behind else "bonus"

    @property
    def drafts_behind(self) -> Sequence[int]:
        """Indices of the drafts right behind the last one that stayed: they failed, or a stop came first."""
        last = self.accepted_drafts[-1] if self.num_accepted else ROOT
        return children_of(self.draft_parents, len(self.draft_token_ids), last)

    @property
    def accepted_drafts(self) -> Sequence[int]:
        """Indices of the drafts that stayed, in order."""
        return self.accepted_path if self.draft_parents else range(self.num_accepted)

    @property
    def num_drafted_deep(self) -> int:
        """How many drafts could have been accepted at most: all of a chain, the longest branch of a tree."""
        return deepest(self.draft_parents, len(self.draft_token_ids))

    @property
    def num_rejected(self) -> int:
        """Drafts that failed or were discarded behind the one that failed."""
        return len(self.draft_token_ids) - self.num_accepted - self.num_unused

    @property
    def num_judged(self) -> int:
        """Accepted drafts and the one that failed: the trials that alpha speaks of. Siblings are one trial."""
        return self.num_accepted + (self.next_token_kind == "corrected")

    @property
    def emitted_token_ids(self) -> tuple[int, ...]:
        """The tokens this round appended to the answer, in order."""
        accepted = tuple(self.draft_token_ids[index] for index in self.accepted_drafts)
        return accepted if self.next_token_id is None else (*accepted, self.next_token_id)

    @property
    def seconds(self) -> float:
        """The round on its lane's own clock."""
        return self.draft_seconds + self.verify_seconds + self.overhead_seconds

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values with the derived counts beside the stored ones.

        `evidence` only when it was asked for, what a tree has besides only of a tree.
        """
        values = asdict(self)
        if self.evidence is None:
            del values["evidence"]
        if not self.draft_parents:
            del values["draft_parents"], values["accepted_path"]
        derived = {
            "emitted_token_ids": list(self.emitted_token_ids),
            "num_drafted": len(self.draft_token_ids),
            "num_rejected": self.num_rejected,
        }
        return {**values, "draft_token_ids": list(self.draft_token_ids), **derived}


@dataclass(frozen=True, slots=True)
class Reported:
    """A server's own totals for one answer, None where it gives none; `source` says where they stood.

    `num_rounds` counts passes of the target that verified drafts.
    """

    source: str
    num_drafted: int | None = None
    num_accepted: int | None = None
    num_rounds: int | None = None


@dataclass(frozen=True, slots=True)
class Finished:
    """Why a generation ended; `message` is the sentence of a `failed` one, or the drafter's note on its own limit."""

    reason: FinishReason
    message: str = ""
    reported: Reported | None = None


Event = Reading | Started | Round | Finished
