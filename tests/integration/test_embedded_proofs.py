"""The proofs on the embedded target, on the page's own defaults: green as it is, red for each planted mistake."""

import pytest

from specdemo.engine import Engine
from specdemo.proof import prove
from specdemo.proofs import (
    ALPHA,
    MISTAKES,
    AnswerRow,
    ProofRequest,
    SampleState,
    default_drafters,
    default_prompts,
    is_alarm,
)
from tests.integration.test_embedded import load

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def engine() -> Engine:
    return load()


def test_each_planted_mistake_turns_red_within_the_usual_draws_and_the_right_rule_stays_green(engine: Engine) -> None:
    prompts, drafters = default_prompts("mistakes"), default_drafters("mistakes")
    request = ProofRequest(proof="mistakes", prompts=prompts, drafters=drafters, num_draws=2000)
    assert request.num_draws < ProofRequest(proof="mistakes", prompts=prompts, drafters=drafters).num_draws
    ends = {}
    for update in prove(engine, request):
        if isinstance(update, SampleState) and update.verdict:
            assert not is_alarm(request, update)
            ends[update.mistake] = min(update.next_token.p_value, update.pair.p_value)
    assert list(ends) == ["", *MISTAKES]
    assert ends.pop("") > 1e-3, "far from red"
    assert max(ends.values()) < ALPHA / 1e4, "far from green"


def test_greedy_answers_are_the_same_in_float32_and_part_only_by_ties_in_bfloat16(engine: Engine) -> None:
    prompts, drafters = default_prompts("greedy")[:1], ("ngram:static",)
    request = ProofRequest(proof="greedy", prompts=prompts, drafters=drafters, ks=(4,), max_new_tokens=24)
    rows = [update for update in prove(engine, request) if isinstance(update, AnswerRow)]
    assert [row.dtype for row in rows] == ["float32", "bfloat16", "bfloat16"]
    assert rows[0].verdict == "same"
    assert all(row.verdict in ("same", "tie") for row in rows[1:])
