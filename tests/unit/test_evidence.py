"""Evidence alone lets one re-derive the verdict: for every rule, from its own numbers, without the distributions."""

import json
import math
from dataclasses import asdict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specdemo.acceptance import TYPICAL_DELTA, TYPICAL_EPSILON, Draft, Verdict, accept
from specdemo.events import Evidence, PositionEvidence
from specdemo.evidence import NUM_TOP, build_evidence
from specdemo.sampling import Sampler
from specdemo.settings import DecodeSettings

V = 9
START = 20
SEEDS = st.integers(0, 10**6)
RULES = ("greedy", "rejection", "coupled", "block", "typical")


def judged(rule: str, seed: int, count: int, *, is_drawn: bool, top_k: int = 0) -> tuple[Draft, Verdict, Evidence]:
    """A round of `count` drafts over random logits; a drafter that draws is near the target, so that some stay."""
    generator = torch.Generator().manual_seed(seed)
    settings = DecodeSettings(temperature=0.0 if rule == "greedy" else 0.9, rule="auto" if rule == "greedy" else rule)
    sampler = Sampler(DecodeSettings(**{**asdict(settings), "seed": seed, "top_k": top_k}), V)
    logits = torch.randn(count + 1, V, generator=generator) * 2
    tokens: list[int] = []
    laws = []
    for index in range(count):
        near = logits[index] + torch.randn(V, generator=generator)
        token_id, law = sampler.choose_draft(near, [1] * START, tokens)
        tokens.append(token_id)
        laws.append(law)
    has_laws = is_drawn and count > 0 and laws[0] is not None
    draft = Draft(tuple(tokens), torch.stack(laws) if has_laws else None)  # type: ignore[arg-type]
    scores = sampler.scores(logits, [1] * START, tokens)
    probs = sampler.probs(scores)
    verdict = accept(sampler.rule, draft, probs, sampler.noise, START)
    return draft, verdict, build_evidence(draft, verdict, probs, scores, sampler, START)


def passes(rule: str, position: PositionEvidence) -> bool:
    """What the rule says of one draft, from its evidence."""
    if rule == "typical":
        assert position.entropy is not None
        threshold = min(TYPICAL_EPSILON, TYPICAL_DELTA * math.exp(-position.entropy))
        assert position.target_score == pytest.approx(threshold)
        return position.target_prob > threshold
    if rule in ("greedy", "coupled"):
        scores = [-math.inf if one.score is None else one.score for one in position.contenders]
        assert scores[0] == max(scores)
        return position.contenders[0].token_id == position.token_id
    if rule == "rejection":
        assert position.accept_prob == pytest.approx(min(1.0, position.target_prob / position.draft_prob))
    assert position.uniform is not None
    return position.uniform < position.accept_prob


@pytest.mark.parametrize("rule", RULES)
@given(seed=SEEDS, count=st.integers(0, 5), is_drawn=st.booleans(), top_k=st.sampled_from([0, 0, 3]))
def test_the_verdict_follows_from_the_evidence(rule: str, seed: int, count: int, is_drawn: bool, top_k: int) -> None:
    draft, verdict, evidence = judged(rule, seed, count, is_drawn=is_drawn, top_k=top_k)
    passed = [passes(rule, position) for position in evidence.positions]
    if rule == "block":
        num_accepted = max((index + 1 for index, is_passed in enumerate(passed) if is_passed), default=0)
        assert len(passed) == count
    else:
        num_accepted = passed.index(False) if False in passed else len(passed)
        assert len(passed) == min(num_accepted + 1, count)
    assert num_accepted == verdict.num_accepted
    assert [position.is_accepted for position in evidence.positions] == [i < num_accepted for i in range(len(passed))]
    assert [position.token_id for position in evidence.positions] == list(draft.token_ids[: len(passed)])


@pytest.mark.parametrize("rule", RULES)
@given(seed=SEEDS, count=st.integers(0, 5), is_drawn=st.booleans())
def test_the_next_token_follows_from_the_evidence(rule: str, seed: int, count: int, is_drawn: bool) -> None:
    _, verdict, evidence = judged(rule, seed, count, is_drawn=is_drawn)
    found = evidence.next_token
    assert found is not None
    is_residual = rule in ("rejection", "block") and verdict.num_accepted < count
    assert found.source == ("residual" if is_residual else "target")
    assert found.prob > 0
    if found.uniform is None:
        assert found.contenders[0].token_id == verdict.next_token_id
        return
    assert found.start is not None
    assert found.start - 1e-6 <= found.uniform <= found.start + found.prob + 1e-6
    stretches = sorted(zip(found.starts, (prob for _, prob in found.top), strict=True))
    ends = [start + prob for start, prob in stretches]
    assert all(end <= start + 1e-6 for end, (start, _) in zip(ends, stretches[1:], strict=False)), "none overlap"
    assert ends[-1] <= 1 + 1e-6


@pytest.mark.parametrize("rule", ["greedy", "coupled"])
@given(seed=SEEDS)
def test_contenders_carry_what_their_scores_are_made_of(rule: str, seed: int) -> None:
    _, _, evidence = judged(rule, seed, 4, is_drawn=True)
    for position in evidence.positions:
        first, second, *others = position.contenders
        assert {position.token_id} & {one.token_id for one in position.contenders}
        assert [one.token_id for one in others] in ([], [position.token_id])
        for one in position.contenders:
            assert one.score is not None
            if rule == "coupled":
                assert one.noise is not None
                assert one.score == pytest.approx(math.log(one.target_prob) + one.noise, abs=1e-4)
        if rule == "greedy":
            assert first.target_prob / second.target_prob == pytest.approx(
                math.exp((first.score or 0) - (second.score or 0)), rel=1e-4
            )


@pytest.mark.parametrize("rule", RULES)
@given(seed=SEEDS, top_k=st.integers(1, 3))
def test_evidence_is_plain_json_also_where_a_filter_removed_tokens(rule: str, seed: int, top_k: int) -> None:
    _, _, evidence = judged(rule, seed, 3, is_drawn=False, top_k=top_k)
    document = json.loads(json.dumps(asdict(evidence), allow_nan=False))
    assert len(document["positions"]) == len(evidence.positions)
    for position in evidence.positions:
        assert 1 <= len(position.target_top) <= NUM_TOP
        assert [prob for _, prob in position.target_top] == sorted((p for _, p in position.target_top), reverse=True)
    assert evidence.token_ids() <= set(range(V))
