"""Who waits, who is refused, and the estimate, over a queue of Gradio's that is only looked at."""

from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdemo.errors import SpecdemoError
from specdemo.ui.waiting import WaitingLine


def queue_of(sessions: Sequence[str], num_running: int = 0) -> SimpleNamespace:
    """What Gradio's queue looks like with events of these sessions."""
    events = [SimpleNamespace(session_hash=session) for session in sessions]
    return SimpleNamespace(queue=events, current_concurrency=num_running)


class Clock:
    """A time that stands until it is set."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def measured(lengths: Sequence[float], queue: SimpleNamespace) -> tuple[WaitingLine, Clock]:
    """A line that has seen races of these lengths."""
    clock = Clock()
    line = WaitingLine(60, lambda: queue, clock)
    for length in lengths:
        with line.race():
            clock.now += length
    return line, clock


def test_before_a_race_was_measured_there_is_a_place_and_no_estimate() -> None:
    line, _ = measured([], queue_of(["a", "b"], 1))
    assert line.place("a") == (1, None)
    assert line.place("b") == (2, None)
    assert line.place("c") is None
    assert WaitingLine().place("a") is None, "before the first event there is no queue"


@given(st.lists(st.floats(0.5, 100), min_size=1, max_size=8), st.integers(0, 30), st.integers(0, 1))
def test_the_estimate_is_the_mean_of_the_last_races_for_each_that_is_before(
    lengths: list[float], num_before: int, num_running: int
) -> None:
    queue = queue_of([*(f"s{i}" for i in range(num_before)), "me"], num_running)
    line, _ = measured(lengths, queue)
    place = line.place("me")
    assert place is not None
    assert place[0] == num_before + num_running
    assert place[1] == pytest.approx((num_before + num_running) * sum(lengths) / len(lengths))


def test_the_running_race_counts_with_what_is_left_of_it_and_old_races_count_no_more() -> None:
    queue = queue_of(["a", "b"], 1)
    line, clock = measured([1000.0] * 3 + [10.0] * 8, queue)
    with line.race():
        clock.now += 4
        assert line.place("a") == (1, pytest.approx(6.0))
        assert line.place("b") == (2, pytest.approx(16.0))
        clock.now += 60
        assert line.place("a") == (1, 0.0), "a race longer than most may end at any moment"


def test_a_race_that_fails_is_over_too() -> None:
    line, clock = measured([], queue_of(["a"], 1))

    def failing() -> None:
        with line.race():
            clock.now += 3
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert line.place("a") == (1, pytest.approx(3.0))


def test_who_presses_race_again_and_again_counts_once_and_keeps_the_place() -> None:
    line, _ = measured([10.0], queue_of(["a", *["b"] * 9, "c", "a"]))
    assert [line.place(session) for session in "abc"] == [(0, 0.0), (1, 10.0), (2, 20.0)]


def test_one_person_more_than_may_wait_is_refused_in_a_sentence() -> None:
    line = WaitingLine(2, lambda: queue_of(["a", "a", "b"]))
    line.check("en", "a")
    with pytest.raises(SpecdemoError, match="2 people wait"):
        line.check("en", "c")
    with pytest.raises(SpecdemoError, match="2 人"):
        line.check("zh")
    WaitingLine(2, lambda: queue_of(["a", "a", "a"])).check("en", "c")
