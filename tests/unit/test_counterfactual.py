"""The replay at a smaller K against rounds that were really made at it, by a drafter whose every token is scripted."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdemo.counterfactual import replay
from specdemo.events import Round

RIGHT, WRONG = 7, 8


def rounds_of(is_right: Sequence[bool], k: int) -> list[Round]:
    """A greedy run over a text in which the drafter is right at the places that say so, wherever a round begins."""
    rounds, start = [], 0
    while start < len(is_right):
        places = is_right[start : start + min(k, len(is_right) - start - 1)]
        num_accepted = next((i for i, right in enumerate(places) if not right), len(places))
        drafts = tuple(RIGHT if right else WRONG for right in places)
        kind = "plain" if not drafts else "bonus" if num_accepted == len(drafts) else "corrected"
        rounds.append(Round(len(rounds), drafts, num_accepted, RIGHT, kind))  # type: ignore[arg-type]
        start += num_accepted + 1
    return rounds


TEXTS = st.lists(st.booleans(), min_size=1, max_size=40)


@given(text=TEXTS, k=st.integers(1, 8))
def test_at_its_own_k_a_run_is_replayed_as_it_was(text: list[bool], k: int) -> None:
    rounds = rounds_of(text, k)
    replayed = replay([rounds], k, k, lambda num_drafts: 1 + num_drafts)
    assert replayed.num_tokens == len(text)
    assert replayed.num_rounds == pytest.approx(len(rounds))
    assert replayed.cost == pytest.approx(sum(1 + len(r.draft_token_ids) for r in rounds))


@pytest.mark.parametrize("is_right", [True, False])
@pytest.mark.parametrize("k", [1, 3, 8])
def test_a_drafter_that_is_always_right_or_never_is_replayed_exactly(is_right: bool, k: int) -> None:
    text = [is_right] * 41
    replayed = replay([rounds_of(text, 8)], 8, k, lambda num_drafts: 1 + num_drafts)
    real = rounds_of(text, k)
    assert replayed.num_rounds == pytest.approx(len(real))
    assert replayed.cost == pytest.approx(sum(1 + len(r.draft_token_ids) for r in real))


@pytest.mark.parametrize("alpha", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_where_bonus_tokens_are_guessed_the_estimate_is_close(alpha: float, k: int) -> None:
    draw = random.Random(1)
    texts = [[draw.random() < alpha for _ in range(400)] for _ in range(10)]
    replayed = replay([rounds_of(text, 8) for text in texts], 8, k, lambda _: 1.0)
    real = sum(map(len, texts)) / sum(len(rounds_of(text, k)) for text in texts)
    assert replayed.tokens_per_round == pytest.approx(real, rel=0.03)


def test_a_run_that_never_drafted_stays_plain() -> None:
    plain = [Round(index, (), 0, RIGHT, "plain") for index in range(5)]
    assert replay([plain], 8, 3, lambda num_drafts: 1 + num_drafts).tokens_per_round == 1
    assert replay([], 8, 3, lambda _: 1.0).tokens_per_round is None


def test_a_drafter_that_errs_deep_in_a_round_is_not_held_against_its_first_draft() -> None:
    """Right at the first place of a round and wrong at all others, whatever the text: K = 1 accepts everything."""
    rounds = [Round(index, (RIGHT, WRONG, WRONG, WRONG), 1, RIGHT, "corrected") for index in range(30)]
    assert replay([rounds], 4, 1, lambda _: 1.0).tokens_per_round == pytest.approx(2, rel=0.02)
