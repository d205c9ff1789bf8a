"""Random rounds, generations and races for property tests; knows no model and no tokenizer."""

from collections.abc import Sequence

from hypothesis import strategies as st

from specdemo.events import (
    Contender,
    DraftOrigin,
    Event,
    Evidence,
    Finished,
    NextTokenEvidence,
    PositionEvidence,
    Round,
    Started,
)
from specdemo.race import LANES, LaneUpdate
from specdemo.spans import Span

# Multiples of 1/1024 add up without rounding, so that sums can be compared exactly.
SECONDS = st.integers(0, 4096).map(lambda n: n / 1024)
PROBABILITIES = st.floats(0, 1)
TOKEN_IDS = st.integers(0, 49151)
REASONS = st.sampled_from(["eos", "stop", "length", "context", "cancelled", "failed"])
STATUSES = st.sampled_from(["accepted", "rejected", "discarded", "corrected", "bonus", "plain", "unused"])
TOP = st.lists(st.tuples(TOKEN_IDS, PROBABILITIES), max_size=3).map(tuple)
TEXTS = st.text(max_size=8)

SCORES = st.none() | st.floats(allow_nan=False, allow_infinity=False)
# Chosen, not drawn: much of every generation is evidence, and each number that is drawn costs time.
CONTENDERS = st.sampled_from(
    [(), (Contender(5, 0.25),), (Contender(5, 0.25, 0.5, -1.5, 2.5), Contender(49151, 1e-9, 0.0, None, -0.125))]
)
ORIGINS = st.sampled_from([None, DraftOrigin(17, 3), DraftOrigin(confidence=0.375)])
POSITIONS = st.builds(
    PositionEvidence,
    token_id=TOKEN_IDS,
    is_accepted=st.booleans(),
    draft_prob=PROBABILITIES,
    target_prob=PROBABILITIES,
    accept_prob=PROBABILITIES,
    uniform=st.none() | PROBABILITIES,
    draft_score=SCORES,
    target_score=SCORES,
    draft_top=TOP,
    target_top=TOP,
    entropy=st.none() | PROBABILITIES,
    contenders=CONTENDERS,
    origin=ORIGINS,
)
NEXT_TOKENS = st.builds(
    NextTokenEvidence,
    source=st.sampled_from(["target", "residual"]),
    prob=PROBABILITIES,
    uniform=st.none() | PROBABILITIES,
    top=TOP,
    start=st.none() | PROBABILITIES,
    contenders=CONTENDERS,
)
EVIDENCE = st.builds(Evidence, positions=st.lists(POSITIONS, max_size=3).map(tuple), next_token=st.none() | NEXT_TOKENS)
STARTED = st.builds(
    Started,
    prompt_token_ids=st.lists(TOKEN_IDS, max_size=5).map(tuple),
    settings=st.dictionaries(TEXTS, st.none() | st.integers() | st.booleans() | TEXTS, max_size=3),
    prefill_seconds=SECONDS,
    provenance=st.dictionaries(TEXTS, TEXTS, max_size=2),
    notes=st.lists(TEXTS, max_size=2).map(tuple),
)
FINISHED = st.builds(Finished, reason=REASONS, message=TEXTS)
WORDS = st.sampled_from([(), ((7, " <b>"), (8, ""))])
SPANS = st.lists(st.builds(Span, token_id=TOKEN_IDS, text=TEXTS, status=STATUSES), max_size=4).map(tuple)


@st.composite
def rounds(draw: st.DrawFn, index: int = 0, max_drafts: int = 6) -> Round:
    """A round of any outcome: plain, corrected, bonus, or stopped inside the accepted drafts."""
    drafts = tuple(draw(st.lists(TOKEN_IDS, max_size=max_drafts)))
    is_stopped = bool(drafts) and draw(st.booleans())
    num_accepted = draw(st.integers(1 if is_stopped else 0, len(drafts)))
    kind = "plain" if not drafts else "bonus" if num_accepted == len(drafts) else "corrected"
    return Round(
        index=index,
        draft_token_ids=drafts,
        num_accepted=num_accepted,
        next_token_id=None if is_stopped else draw(TOKEN_IDS),
        next_token_kind=None if is_stopped else kind,
        num_unused=len(drafts) - num_accepted if is_stopped else 0,
        draft_seconds=draw(SECONDS),
        verify_seconds=draw(SECONDS),
        overhead_seconds=draw(SECONDS),
        draft_bytes=draw(st.integers(0, 10**12)),
        verify_bytes=draw(st.integers(0, 10**12)),
        evidence=draw(st.none() | EVIDENCE),
    )


@st.composite
def generations(draw: st.DrawFn, max_rounds: int = 6) -> tuple[Event, ...]:
    """Started, Round*, Finished."""
    num_rounds = draw(st.integers(0, max_rounds))
    body = [draw(rounds(index)) for index in range(num_rounds)]
    return (draw(STARTED), *body, draw(FINISHED))


@st.composite
def rounds_that_emit(
    draw: st.DrawFn, token_ids: Sequence[int], rejected_ids: st.SearchStrategy[int] | None = None
) -> list[Round]:
    """Rounds whose emitted ids, joined, are `token_ids`, with rejected drafts between if `rejected_ids` are given."""
    left = list(token_ids)
    result: list[Round] = []
    while left:
        num_accepted = draw(st.integers(0, min(4, len(left) - 1)))
        accepted, next_token_id = left[:num_accepted], left[num_accepted]
        rejected = draw(st.lists(rejected_ids, max_size=3)) if rejected_ids is not None else []
        kind = "corrected" if rejected else "bonus" if accepted else "plain"
        result.append(Round(len(result), (*accepted, *rejected), num_accepted, next_token_id, kind))
        left = left[num_accepted + 1 :]
    return result


@st.composite
def lane_updates(draw: st.DrawFn) -> tuple[LaneUpdate, ...]:
    """A whole race: both lanes' generations, interleaved at random; a lane may have failed before it started."""
    waiting = {}
    for lane in LANES:
        events = draw(generations(max_rounds=3))
        waiting[lane] = list(events[-1:] if draw(st.booleans()) else events)
    updates = []
    while any(waiting.values()):
        lane = draw(st.sampled_from([lane for lane in LANES if waiting[lane]]))
        updates.append(LaneUpdate(lane, waiting[lane].pop(0), draw(SPANS), draw(WORDS)))
    return tuple(updates)
