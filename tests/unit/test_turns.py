"""Who races goes first; what runs for long takes a step only in between, and is closed in the end."""

import threading
from collections.abc import Iterator

from specdemo.turns import Turns

SECONDS = 10


def test_a_race_comes_between_two_steps_and_none_is_taken_meanwhile() -> None:
    turns, taken, closed = Turns(), [], threading.Event()
    may_go_on, is_racing, race_ends = threading.Event(), threading.Event(), threading.Event()

    def steps() -> Iterator[int]:
        try:
            for number in range(5):
                taken.append(number)
                yield number
        finally:
            closed.set()

    def measure() -> None:
        for number in turns.behind(steps()):
            if number == 1:
                may_go_on.set()
                assert is_racing.wait(SECONDS)

    def race() -> None:
        assert may_go_on.wait(SECONDS)
        with turns.first():
            is_racing.set()
            assert race_ends.wait(SECONDS)

    threads = [threading.Thread(target=target, daemon=True) for target in (measure, race)]
    for thread in threads:
        thread.start()
    assert is_racing.wait(SECONDS)
    assert not closed.wait(0.2)
    assert taken == [0, 1]
    race_ends.set()
    assert closed.wait(SECONDS)
    for thread in threads:
        thread.join(SECONDS)
    assert taken == list(range(5))


def test_what_is_left_early_is_closed() -> None:
    closed = threading.Event()

    def steps() -> Iterator[int]:
        try:
            yield from range(9)
        finally:
            closed.set()

    running = Turns().behind(steps())
    next(running)
    running.close()
    assert closed.is_set()
