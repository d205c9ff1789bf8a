"""Evidence of whole races: it is there for each judged draft, has words for its tokens, and survives its file."""

import json
from pathlib import Path

import pytest

from specdemo.engine import Engine
from specdemo.events import Round, Started
from specdemo.race import LANES
from specdemo.reports import lane_document, request_document
from specdemo.traces import Trace, load, save
from tests.contract.test_engine import request
from tests.fakes import make_target

SAMPLED = {"temperature": 1.0, "seed": 2, "top_k": 3}


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(make_target())


@pytest.mark.parametrize(
    ("rule", "spec"),
    [
        ("greedy", "ngram:1-3"),
        ("coupled", "hybrid:early-exit:1"),
        ("rejection", "early-exit:1"),
        ("block", "early-exit:1"),
        ("typical", "early-exit:1"),
    ],
)
def test_evidence_goes_with_its_rounds_into_documents_and_files(
    engine: Engine, rule: str, spec: str, tmp_path: Path
) -> None:
    settings = {} if rule == "greedy" else {**SAMPLED, "rule": rule}
    asked = request(drafter=spec, evidence=True, stop=(" ",), **settings)
    updates = list(engine.race(asked))
    for lane in LANES:
        known: set[int] = set()
        for update in [update for update in updates if update.lane == lane]:
            event = update.event
            known |= {token_id for token_id, _ in update.texts}
            if isinstance(event, Started) and lane == "speculative":
                assert tuple(token_id for token_id, _ in update.texts) == event.prompt_token_ids
                assert "".join(text for _, text in update.texts).endswith("assistant\n")
            if isinstance(event, Round):
                check_evidence(event, rule)
                assert event.evidence is not None
                assert event.evidence.token_ids() <= known, "every candidate can be shown as text"
    document = json.dumps(lane_document([u for u in updates if u.lane == "speculative"]), allow_nan=False)
    assert json.loads(document)["rounds"][0]["evidence"]["next_token"] is not None
    trace = Trace("t", "c", request_document(asked), {}, tuple(updates))
    save(trace, tmp_path / "race.json.gz")
    assert load(tmp_path / "race.json.gz") == trace


def check_evidence(event: Round, rule: str) -> None:
    """One entry for each draft that the rule judged and a stop left, and one for the next token if there is one."""
    assert event.evidence is not None
    positions = event.evidence.positions
    assert tuple(position.token_id for position in positions) == event.draft_token_ids[: len(positions)]
    is_whole_block = rule == "block" and event.next_token_id is not None
    assert len(positions) == (len(event.draft_token_ids) if is_whole_block else event.num_judged)
    assert sum(position.is_accepted for position in positions) == event.num_accepted
    assert (event.evidence.next_token is None) == (event.next_token_id is None)
    for position in positions:
        if rule == "rejection":
            assert position.uniform is not None
            assert position.is_accepted == (position.uniform < position.accept_prob)
    if rule in ("greedy", "coupled") and event.evidence.next_token is not None:
        assert event.evidence.next_token.contenders[0].token_id == event.next_token_id
