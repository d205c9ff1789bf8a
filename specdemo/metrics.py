"""Pure folds over events: the one place where counts become rates.

Every rate is a ratio of sums and None for 0/0. Definitions are those of the README's words; sources for the two rates:
vLLM `v1/spec_decode/metrics.py` (acceptance rate), Leviathan et al. 2211.17192 section 3.1 (alpha).
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from specdemo.events import Event, Finished, Known, Reported, Round, Started


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What one lane did. Seconds are the lane's own clock, bytes are weights read by its passes.

    `accepted_length_histogram[n]` counts the rounds with drafts in which n were accepted; rounds without drafts are not
    in it. What a server leaves open (see events.Known) is None: the passes and all that is counted in rounds where only
    tokens are known. Its totals give the acceptance rate then, and stand in `reported`.
    """

    num_tokens: int
    num_rounds: int | None
    num_drafted: int
    num_accepted: int
    num_rejected: int
    num_unused: int
    num_judged: int
    num_corrected: int
    num_bonus: int
    num_plain: int
    acceptance_rate: float | None
    alpha: float | None
    tokens_per_round: float | None
    mean_accepted_length: float | None
    accepted_length_histogram: tuple[int, ...]
    acceptance_by_position: tuple[float | None, ...]
    survival_by_position: tuple[float | None, ...]
    prefill_seconds: float
    time_to_first_token_seconds: float | None
    draft_seconds: float
    verify_seconds: float
    overhead_seconds: float
    decode_seconds: float
    tokens_per_second: float | None
    target_passes: int | None
    draft_bytes: int
    verify_bytes: int
    weight_bytes_read: int
    finish_reason: str | None
    known: Known = "all"
    reported: Reported | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        values = asdict(self)
        return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def summarize(events: Iterable[Event]) -> Summary:
    """Fold one lane's events, finished or not, into its figures."""
    events = tuple(events)
    rounds = [event for event in events if isinstance(event, Round)]
    prefill = sum(event.prefill_seconds for event in events if isinstance(event, Started))
    reasons = [event.reason for event in events if isinstance(event, Finished)]
    known, reported = _told(events)
    num_rounds = None if known == "tokens" else len(rounds)
    drafted = [r for r in rounds if r.draft_token_ids]
    num_drafted = sum(len(r.draft_token_ids) for r in rounds)
    num_accepted = sum(r.num_accepted for r in rounds)
    num_unused = sum(r.num_unused for r in rounds)
    num_judged = sum(r.num_judged for r in rounds)
    num_tokens = sum(len(r.emitted_token_ids) for r in rounds)
    decode_seconds = sum(r.seconds for r in rounds)
    draft_bytes = sum(r.draft_bytes for r in rounds)
    verify_bytes = sum(r.verify_bytes for r in rounds)
    return Summary(
        num_tokens=num_tokens,
        num_rounds=num_rounds,
        num_drafted=num_drafted,
        num_accepted=num_accepted,
        num_rejected=sum(r.num_rejected for r in rounds),
        num_unused=num_unused,
        num_judged=num_judged,
        num_corrected=_count(rounds, "corrected"),
        num_bonus=_count(rounds, "bonus"),
        num_plain=_count(rounds, "plain"),
        acceptance_rate=_reported_rate(reported, ratio(num_accepted, num_drafted - num_unused), known),
        alpha=ratio(num_accepted, num_judged),
        tokens_per_round=ratio(num_tokens, num_rounds or 0),
        mean_accepted_length=ratio(num_accepted, len(drafted)),
        accepted_length_histogram=_histogram(drafted),
        acceptance_by_position=_acceptance_by_position(drafted),
        survival_by_position=_survival_by_position(drafted),
        prefill_seconds=prefill,
        time_to_first_token_seconds=prefill + rounds[0].seconds if rounds else None,
        draft_seconds=sum(r.draft_seconds for r in rounds),
        verify_seconds=sum(r.verify_seconds for r in rounds),
        overhead_seconds=sum(r.overhead_seconds for r in rounds),
        decode_seconds=decode_seconds,
        tokens_per_second=ratio(num_tokens - num_untimed(known, rounds), decode_seconds),
        target_passes=num_rounds,
        draft_bytes=draft_bytes,
        verify_bytes=verify_bytes,
        weight_bytes_read=draft_bytes + verify_bytes,
        finish_reason=reasons[0] if reasons else None,
        known=known,
        reported=reported,
    )


def num_untimed(known: Known, rounds: Sequence[Round]) -> int:
    """Tokens that no decode second stands for: a server sends its first ones when the prompt's own pass is over."""
    return 0 if known == "all" else sum(len(r.emitted_token_ids) for r in rounds if not r.seconds)


def _total(reports: Sequence[Reported | None]) -> Reported | None:
    """The totals of several answers; None where one of them has none."""
    known = [one for one in reports if one is not None]
    if not known or len(known) < len(reports):
        return None

    def total(counts: Iterable[int | None]) -> int | None:
        values = tuple(counts)
        return None if None in values else sum(value or 0 for value in values)

    return Reported(
        known[0].source,
        total(one.num_drafted for one in known),
        total(one.num_accepted for one in known),
        total(one.num_rounds for one in known),
    )


def _reported_rate(reported: Reported | None, counted: float | None, known: Known) -> float | None:
    """The rate that was counted here, or of the server's totals where only these are known."""
    if known != "tokens" or reported is None:
        return counted
    return ratio(reported.num_accepted or 0, reported.num_drafted or 0)


def _told(events: Sequence[Event]) -> tuple[Known, Reported | None]:
    """How much is known of the lane, and the server's totals."""
    known: Known = next((event.known for event in events if isinstance(event, Started)), "all")
    return known, _total([event.reported for event in events if isinstance(event, Finished)])


def ratio(numerator: float, denominator: float) -> float | None:
    """numerator / denominator, None for a denominator of 0."""
    return numerator / denominator if denominator else None


def speedup(speculative: Summary, plain: Summary) -> float | None:
    """Decode speed of the speculative lane over the plain lane's; below 1 where speculation loses."""
    if not plain.tokens_per_second or speculative.tokens_per_second is None:
        return None
    return speculative.tokens_per_second / plain.tokens_per_second


def emitted_token_ids(events: Iterable[Event]) -> tuple[int, ...]:
    """The answer's token ids."""
    return tuple(i for event in events if isinstance(event, Round) for i in event.emitted_token_ids)


def first_divergence(left: Sequence[int], right: Sequence[int]) -> int | None:
    """Index of the first token in which two answers differ (a missing token differs), None for equal answers."""
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return index
    return None if len(left) == len(right) else min(len(left), len(right))


def drafts_trees(events: Iterable[Event]) -> bool:
    """Whether any round drafted a tree, of which the formula for tokens per round says nothing."""
    return any(isinstance(event, Round) and event.draft_parents for event in events)


def _count(rounds: Iterable[Round], kind: str) -> int:
    return sum(r.next_token_kind == kind for r in rounds)


def _histogram(drafted: Sequence[Round]) -> tuple[int, ...]:
    longest = max((r.num_drafted_deep for r in drafted), default=0)
    counts = [0] * (longest + 1) if drafted else []
    for r in drafted:
        counts[r.num_accepted] += 1
    return tuple(counts)


def _acceptance_by_position(drafted: Sequence[Round]) -> tuple[float | None, ...]:
    """Of the drafts judged at each position of a round, the share that was accepted (given that those before were)."""
    longest = max((r.num_drafted_deep for r in drafted), default=0)
    accepted = [sum(r.num_accepted > i for r in drafted) for i in range(longest)]
    judged = [sum(r.num_judged > i for r in drafted) for i in range(longest)]
    return tuple(ratio(a, j) for a, j in zip(accepted, judged, strict=True))


def _survival_by_position(drafted: Sequence[Round]) -> tuple[float | None, ...]:
    """Of the drafts at each position that no stop cut off, the share that was accepted, reached or not."""
    longest = max((r.num_drafted_deep for r in drafted), default=0)
    accepted = [sum(r.num_accepted > i for r in drafted) for i in range(longest)]
    deep = [r.num_accepted if r.num_unused else r.num_drafted_deep for r in drafted]
    proposed = [sum(depth > i for depth in deep) for i in range(longest)]
    return tuple(ratio(a, p) for a, p in zip(accepted, proposed, strict=True))
