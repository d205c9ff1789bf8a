"""Evidence for scripted rounds: numbers that agree with their verdicts, drawn from a seed, under the rejection rule."""

import random
from dataclasses import replace

from specdemo.events import DraftOrigin, Evidence, NextTokenEvidence, PositionEvidence, Round, Started
from specdemo.race import LaneUpdate
from specdemo.traces import Trace


def with_evidence(trace: Trace, rule: str = "rejection") -> Trace:
    """The same race with evidence in every round, and the texts that go with it."""
    made = random.Random(7)
    settings = {**trace.request["settings"], "evidence": True, "rule": rule, "resolved_rule": rule}
    updates = tuple(_looked_into(update, made) for update in trace.updates)
    return replace(trace, request={**trace.request, "settings": settings}, updates=updates)


def _looked_into(update: LaneUpdate, made: random.Random) -> LaneUpdate:
    event = update.event
    if isinstance(event, Started):
        return replace(update, texts=tuple((i, f" p{i}") for i in event.prompt_token_ids))
    if not isinstance(event, Round):
        return update
    judged = range(event.num_judged)
    positions = tuple(_position(event, i, made) for i in judged)
    start, prob = made.uniform(0, 0.6), made.uniform(0.1, 0.3)
    assert event.next_token_id is not None
    source = "residual" if event.next_token_kind == "corrected" else "target"
    next_token = NextTokenEvidence(
        source, prob, start + prob / 2, ((event.next_token_id, prob), (7, 0.05)), start, (start, 0.95)
    )
    return replace(update, event=replace(event, evidence=Evidence(positions, next_token)), texts=((7, "<b>seven</b>"),))


def _position(event: Round, i: int, made: random.Random) -> PositionEvidence:
    """Later rounds' accepted drafts are copied from the answer behind a match that reaches back into the prompt."""
    token_id, is_accepted = event.draft_token_ids[i], i < event.num_accepted
    draft_prob = made.uniform(0.5, 0.9)
    target_prob = made.uniform(0.1, 0.4)
    ratio = target_prob / draft_prob
    return PositionEvidence(
        token_id=token_id,
        is_accepted=is_accepted,
        draft_prob=draft_prob,
        target_prob=target_prob,
        accept_prob=ratio,
        uniform=made.uniform(0, ratio) if is_accepted else made.uniform(ratio, 1),
        draft_top=((token_id, draft_prob), (7, 0.05)),
        target_top=((7, 0.5), (token_id, target_prob)),
        origin=DraftOrigin(4, 2) if is_accepted and event.index else DraftOrigin(1, 1),
    )
