"""Counts add up, rates are ratios of sums, and nothing divides by zero, over random generations."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdemo.events import Event, Finished, Round, Started
from specdemo.metrics import emitted_token_ids, first_divergence, ratio, speedup, summarize
from tests.strategies import TOKEN_IDS, generations

ANSWERS = st.lists(TOKEN_IDS, max_size=6)


def rounds_of(events: tuple[Event, ...]) -> list[Round]:
    return [event for event in events if isinstance(event, Round)]


@given(events=generations())
def test_drafted_equals_accepted_rejected_and_unused(events: tuple[Event, ...]) -> None:
    summary = summarize(events)
    assert summary.num_drafted == summary.num_accepted + summary.num_rejected + summary.num_unused


@given(events=generations())
def test_emitted_equals_accepted_corrected_bonus_and_plain(events: tuple[Event, ...]) -> None:
    summary = summarize(events)
    parts = summary.num_accepted + summary.num_corrected + summary.num_bonus + summary.num_plain
    assert summary.num_tokens == parts == len(emitted_token_ids(events))


@given(events=generations())
def test_rates_stay_within_zero_and_one(events: tuple[Event, ...]) -> None:
    summary = summarize(events)
    by_position = (*summary.acceptance_by_position, *summary.survival_by_position)
    for rate in (summary.acceptance_rate, summary.alpha, *by_position):
        assert rate is None or 0 <= rate <= 1


@given(events=generations())
def test_alpha_is_never_below_the_acceptance_rate(events: tuple[Event, ...]) -> None:
    summary = summarize(events)
    assert (summary.alpha is None) == (summary.acceptance_rate is None)
    assert (summary.alpha or 0) >= (summary.acceptance_rate or 0)


@given(events=generations())
def test_the_histogram_counts_each_round_with_drafts_once(events: tuple[Event, ...]) -> None:
    drafted = [event for event in rounds_of(events) if event.draft_token_ids]
    histogram = summarize(events).accepted_length_histogram
    assert sum(histogram) == len(drafted)
    assert len(histogram) == (max(len(event.draft_token_ids) for event in drafted) + 1 if drafted else 0)
    assert sum(length * count for length, count in enumerate(histogram)) == summarize(events).num_accepted


@given(events=generations())
def test_acceptance_by_position_multiplies_to_the_share_of_rounds_that_got_there(events: tuple[Event, ...]) -> None:
    reached = [event for event in rounds_of(events) if event.draft_token_ids and not event.num_unused]
    summary = summarize(reached)
    longest = len(summary.acceptance_by_position)
    if reached and all(len(event.draft_token_ids) == longest for event in reached):
        share = 1.0
        for position, rate in enumerate(summary.acceptance_by_position):
            share *= rate or 0.0
            assert share == pytest.approx(sum(e.num_accepted > position for e in reached) / len(reached))


@given(events=generations())
def test_times_and_bytes_are_sums_over_the_rounds(events: tuple[Event, ...]) -> None:
    summary = summarize(events)
    parts = summary.draft_seconds + summary.verify_seconds + summary.overhead_seconds
    assert summary.decode_seconds == parts == sum(event.seconds for event in rounds_of(events))
    assert summary.weight_bytes_read == summary.draft_bytes + summary.verify_bytes
    assert summary.target_passes == summary.num_rounds == len(rounds_of(events))


@given(events=generations())
def test_the_first_token_comes_after_prefill_and_the_first_round(events: tuple[Event, ...]) -> None:
    started, *rest = events
    assert isinstance(started, Started)
    first = next((event for event in rest if isinstance(event, Round)), None)
    expected = None if first is None else started.prefill_seconds + first.seconds
    assert summarize(events).time_to_first_token_seconds == expected


@given(events=generations(), cut=st.integers(0, 8))
def test_figures_of_an_unfinished_lane_are_those_of_what_it_did_so_far(events: tuple[Event, ...], cut: int) -> None:
    summary = summarize(events[:cut])
    assert summary.num_tokens == len(emitted_token_ids(events[:cut]))
    last = events[-1]
    assert isinstance(last, Finished)
    assert summary.finish_reason == (last.reason if cut >= len(events) else None)


@given(events=generations())
def test_a_summary_is_plain_json(events: tuple[Event, ...]) -> None:
    values = summarize(events).to_dict()
    assert json.loads(json.dumps(values)) == values


def test_a_lane_that_did_nothing_has_no_rates() -> None:
    summary = summarize([])
    rates = (summary.acceptance_rate, summary.alpha, summary.tokens_per_round, summary.mean_accepted_length)
    assert (*rates, summary.tokens_per_second, summary.time_to_first_token_seconds) == (None,) * 6
    assert summary.accepted_length_histogram == ()


def test_figures_computed_by_hand() -> None:
    summary = summarize(
        [
            Started((1, 2), {}, prefill_seconds=0.5),
            Round(0, (10, 11, 12, 13), 2, 14, "corrected", draft_seconds=0.25, verify_seconds=0.25),
            Round(1, (20, 21, 22, 23), 4, 24, "bonus", draft_seconds=0.25, verify_seconds=0.25),
            Round(2, (), 0, 30, "plain", verify_seconds=0.5),
            Round(3, (40, 41, 42), 1, None, None, num_unused=2, overhead_seconds=0.5),
            Finished("stop"),
        ]
    )
    assert (summary.num_tokens, summary.num_drafted, summary.num_judged) == (10, 11, 8)
    assert summary.acceptance_rate == 7 / 9
    assert summary.alpha == 7 / 8
    assert summary.tokens_per_round == 10 / 4
    assert summary.mean_accepted_length == 7 / 3
    assert summary.accepted_length_histogram == (0, 1, 1, 0, 1)
    assert summary.acceptance_by_position == (1.0, 1.0, 0.5, 1.0)
    assert summary.time_to_first_token_seconds == 1.0
    assert summary.tokens_per_second == 5.0


def test_speedup_compares_decode_speeds_and_a_loss_is_below_one() -> None:
    plain = summarize([Round(i, (), 0, 1, "plain", verify_seconds=1.0) for i in range(4)])
    slower = summarize([Round(0, (1, 2), 0, 3, "corrected", draft_seconds=1.0, verify_seconds=1.0)])
    faster = summarize([Round(0, (1, 2), 2, 3, "bonus", draft_seconds=0.5, verify_seconds=1.0)])
    assert speedup(slower, plain) == 0.5
    assert speedup(faster, plain) == 2.0
    assert speedup(faster, summarize([])) is None
    assert speedup(summarize([]), plain) is None


@given(numerator=st.integers(0, 9), denominator=st.integers(0, 9))
def test_a_ratio_is_none_exactly_for_a_denominator_of_zero(numerator: int, denominator: int) -> None:
    assert (ratio(numerator, denominator) is None) == (denominator == 0)


@given(answer=ANSWERS, tail=st.lists(TOKEN_IDS, min_size=1, max_size=3))
def test_equal_answers_do_not_diverge_and_a_longer_one_diverges_at_the_others_end(
    answer: list[int], tail: list[int]
) -> None:
    assert first_divergence(answer, answer) is None
    assert first_divergence(answer, answer + tail) == first_divergence(answer + tail, answer) == len(answer)


@given(same=ANSWERS, left=ANSWERS, right=ANSWERS)
def test_divergence_is_the_first_index_that_differs(same: list[int], left: list[int], right: list[int]) -> None:
    assert first_divergence([*same, 1, *left], [*same, 2, *right]) == len(same)


@given(events=generations())
def test_survival_is_never_above_acceptance_and_falls_from_position_to_position(events: tuple[Event, ...]) -> None:
    whole = [event for event in rounds_of(events) if len(event.draft_token_ids) == 3 and not event.num_unused]
    summary = summarize(whole)
    for given_reached, of_all in zip(summary.acceptance_by_position, summary.survival_by_position, strict=True):
        assert of_all is not None
        assert given_reached is None or of_all <= given_reached
    assert list(summary.survival_by_position) == sorted(summary.survival_by_position, reverse=True)  # type: ignore[type-var]
    accepted = sum(rate or 0 for rate in summary.survival_by_position) * len(whole)
    assert round(accepted) == summary.num_accepted
