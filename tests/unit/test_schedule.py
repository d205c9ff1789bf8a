"""K stays as set, or follows what was accepted, between 1 and the highest K."""

from hypothesis import given
from hypothesis import strategies as st

from specdemo.schedule import DraftSchedule
from specdemo.settings import MAX_DRAFT_TOKENS, DecodeSettings

K = st.integers(1, MAX_DRAFT_TOKENS)
SHARES = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=30)


@given(k=K, shares=SHARES)
def test_a_constant_schedule_never_moves(k: int, shares: list[tuple[float, float]]) -> None:
    schedule = DraftSchedule(DecodeSettings(num_draft_tokens=k))
    for drafted, accepted in shares:
        num_drafted = round(drafted * k)
        schedule.update(num_drafted, round(accepted * num_drafted))
        assert schedule.num_draft_tokens == k


@given(k=K, shares=SHARES)
def test_an_adaptive_schedule_stays_in_range_and_moves_the_way_of_the_last_round(
    k: int, shares: list[tuple[float, float]]
) -> None:
    schedule = DraftSchedule(DecodeSettings(num_draft_tokens=k, schedule="adaptive"))
    for drafted, accepted in shares:
        before = schedule.num_draft_tokens
        num_drafted = round(drafted * before)
        num_accepted = round(accepted * num_drafted)
        schedule.update(num_drafted, num_accepted)
        after = schedule.num_draft_tokens
        assert 1 <= after <= MAX_DRAFT_TOKENS
        if num_drafted == 0 or (num_accepted == num_drafted < before):
            assert after == before
        elif num_accepted == num_drafted:
            assert after == min(before + 1, MAX_DRAFT_TOKENS)
        else:
            assert after < before or before == 1
            assert after >= min(num_accepted, before)


@given(k=K)
def test_rounds_that_all_fail_end_at_one_and_rounds_that_all_pass_at_the_highest(k: int) -> None:
    settings = DecodeSettings(num_draft_tokens=k, schedule="adaptive")
    falling, rising = DraftSchedule(settings), DraftSchedule(settings)
    for _ in range(MAX_DRAFT_TOKENS):
        falling.update(falling.num_draft_tokens, 0)
        rising.update(rising.num_draft_tokens, rising.num_draft_tokens)
    assert (falling.num_draft_tokens, rising.num_draft_tokens) == (1, MAX_DRAFT_TOKENS)
