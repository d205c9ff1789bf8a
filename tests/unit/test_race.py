"""Lanes are merged by their own clocks; trouble in one does not reach the other, and closing reaches all."""

from collections.abc import Iterator

import pytest
from hypothesis import given

from specdemo.errors import ModelError
from specdemo.events import Event, Finished, Round, Started
from specdemo.race import race
from tests.strategies import generations


def lane(prefill: float, *seconds: float) -> list[Event]:
    """A finished generation of plain rounds that take `seconds`."""
    rounds = [Round(i, (), 0, 7, "plain", verify_seconds=s) for i, s in enumerate(seconds)]
    return [Started((1,), {}, prefill), *rounds, Finished("length")]


def order(lanes: dict[str, list[Event]]) -> str:
    """The initials of the lanes in the order in which they advanced."""
    return "".join(name[0] for name, _ in race({name: iter(events) for name, events in lanes.items()}))


def seconds_of(event: Event) -> float:
    if isinstance(event, Started):
        return event.prefill_seconds
    return event.seconds if isinstance(event, Round) else 0.0


def test_the_lane_with_the_lowest_clock_advances_and_the_earlier_wins_a_tie() -> None:
    assert order({"plain": lane(0, 1, 1, 1), "speculative": lane(0, 2, 2)}) == "ppssppsps"


def test_one_lane_runs_alone_to_its_end() -> None:
    assert order({"plain": lane(1, 1, 1)}) == "pppp"


@given(plain=generations(), speculative=generations())
def test_every_lane_keeps_its_own_events_in_order(plain: tuple[Event, ...], speculative: tuple[Event, ...]) -> None:
    seen: dict[str, list[Event]] = {"plain": [], "speculative": []}
    for name, event in race({"plain": iter(plain), "speculative": iter(speculative)}):
        seen[name].append(event)
    assert seen == {"plain": list(plain), "speculative": list(speculative)}


@given(plain=generations(), speculative=generations())
def test_no_lane_advances_while_another_running_one_is_behind_it(
    plain: tuple[Event, ...], speculative: tuple[Event, ...]
) -> None:
    clocks = {"plain": 0.0, "speculative": 0.0}
    for name, event in race({"plain": iter(plain), "speculative": iter(speculative)}):
        assert clocks[name] == min(clocks.values())
        clocks[name] += seconds_of(event)
        if isinstance(event, Finished):
            del clocks[name]
    assert clocks == {}


def failing(*events: Event) -> Iterator[Event]:
    yield from events
    raise ModelError("the drafter has another vocabulary.")


@given(plain=generations(), speculative=generations())
def test_a_lane_that_fails_ends_with_its_sentence_and_the_other_goes_on(
    plain: tuple[Event, ...], speculative: tuple[Event, ...]
) -> None:
    lanes = {"plain": iter(plain), "speculative": failing(*speculative[:-1])}
    seen = list(race(lanes))
    assert [event for name, event in seen if name == "plain"] == list(plain)
    last = [event for name, event in seen if name == "speculative"][-1]
    assert last == Finished("failed", "the drafter has another vocabulary.")


def test_a_bug_in_a_lane_is_not_hidden_as_a_failed_lane() -> None:
    def buggy() -> Iterator[Event]:
        yield Started((1,), {}, 0.0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(race({"plain": iter(lane(0, 1)), "speculative": buggy()}))


class OpenLane:
    """An endless lane that remembers whether it was closed, and may fail to close."""

    def __init__(self, error: Exception | None = None) -> None:
        self.is_closed = False
        self._error = error

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        return Started((1,), {}, 1.0)

    def close(self) -> None:
        self.is_closed = True
        if self._error:
            raise self._error


def test_closing_a_race_closes_every_lane() -> None:
    lanes = {"plain": OpenLane(), "speculative": OpenLane()}
    running = race(lanes)
    next(running)
    running.close()  # type: ignore[attr-defined]
    assert [lane.is_closed for lane in lanes.values()] == [True, True]


@pytest.mark.parametrize("name", ["plain", "speculative"])
def test_a_lane_that_fails_to_close_does_not_keep_the_other_open(name: str) -> None:
    lanes = {"plain": OpenLane(), "speculative": OpenLane()}
    lanes[name] = OpenLane(RuntimeError("stuck"))
    running = race(lanes)
    next(running)
    with pytest.raises(RuntimeError, match="stuck"):
        running.close()  # type: ignore[attr-defined]
    assert [lane.is_closed for lane in lanes.values()] == [True, True]


def test_a_race_that_ends_by_itself_has_closed_its_lanes() -> None:
    closed = []

    def generation() -> Iterator[Event]:
        try:
            yield from lane(0, 1)
            yield Started((1,), {}, 0.0)
        finally:
            closed.append(True)

    list(race({"plain": generation()}))
    assert closed == [True]
