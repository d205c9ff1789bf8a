"""A round is consistent with itself, or it cannot be made."""

import json
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdemo.events import Round
from tests.strategies import rounds


@given(event=rounds())
def test_every_draft_is_accepted_rejected_or_unused(event: Round) -> None:
    assert event.num_accepted + event.num_rejected + event.num_unused == len(event.draft_token_ids)
    assert min(event.num_accepted, event.num_rejected, event.num_unused) >= 0


@given(event=rounds())
def test_emitted_tokens_are_the_accepted_prefix_and_the_next_token(event: Round) -> None:
    tail = [] if event.next_token_id is None else [event.next_token_id]
    assert list(event.emitted_token_ids) == [*event.draft_token_ids[: event.num_accepted], *tail]
    assert len(event.emitted_token_ids) >= 1, "a round always makes progress"


@given(event=rounds())
def test_judged_are_the_accepted_and_the_one_that_failed(event: Round) -> None:
    assert event.num_judged == event.num_accepted + (event.next_token_kind == "corrected")


@given(event=rounds())
def test_the_parts_of_a_round_add_up_to_its_seconds(event: Round) -> None:
    assert event.seconds == event.draft_seconds + event.verify_seconds + event.overhead_seconds


@given(event=rounds())
def test_a_round_as_json_carries_its_stored_and_derived_counts(event: Round) -> None:
    values = json.loads(json.dumps(event.to_dict()))
    assert values["num_drafted"] == values["num_accepted"] + values["num_rejected"] + values["num_unused"]
    assert values["emitted_token_ids"] == list(event.emitted_token_ids)
    assert ("evidence" in values) == (event.evidence is not None)


CONTRADICTIONS: dict[str, dict[str, Any]] = {
    "accepted more than drafted": {"num_accepted": 3},
    "accepted a negative count": {"num_accepted": -1},
    "unused a negative count": {"num_accepted": 3, "num_unused": -1, "next_token_id": None, "next_token_kind": None},
    "a kind without a token": {"next_token_id": None},
    "a token without a kind": {"next_token_kind": None},
    "bonus after a rejection": {"next_token_kind": "bonus"},
    "plain with drafts": {"next_token_kind": "plain"},
    "corrected without a rejection": {"num_accepted": 2},
    "unused before a next token": {"num_unused": 1},
    "stopped without an accepted draft": {"num_accepted": 0, "next_token_id": None, "next_token_kind": None},
    "stopped after a rejection": {"next_token_id": None, "next_token_kind": None},
}


@pytest.mark.parametrize("changes", CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys())
def test_a_contradiction_cannot_be_built(changes: dict[str, Any]) -> None:
    consistent = Round(0, (10, 11), 1, 12, "corrected")
    with pytest.raises(AssertionError):
        replace(consistent, **changes)


@given(event=rounds(), index=st.integers())
def test_a_round_cannot_be_changed(event: Round, index: int) -> None:
    with pytest.raises(FrozenInstanceError):
        event.index = index  # type: ignore[misc]
