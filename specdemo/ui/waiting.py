"""Who waits for the device, in which order, and about how long. Knows no component.

Gradio holds the queue and tells its own spinner alone; the length of a race is measured here. A person counts once,
however often they pressed Race while they waited: the race that is due is always the newest they asked for.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from specdemo.errors import SpecdemoError
from specdemo.ui.texts import sentence

MAX_WAITING = 40
_NUM_RACES_IN_MEAN = 8


class DeviceQueue(Protocol):
    """What is read of a queue of Gradio's: the events that wait, and how many run."""

    queue: list[Any]
    current_concurrency: int


class WaitingLine:
    """The people before the device. `queue` finds Gradio's queue, None before the first event."""

    def __init__(
        self,
        max_waiting: int = MAX_WAITING,
        queue: Callable[[], DeviceQueue | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_waiting = max_waiting
        self._queue = queue
        self._clock = clock
        self._lengths: deque[float] = deque(maxlen=_NUM_RACES_IN_MEAN)
        self._running_since: float | None = None

    @contextmanager
    def race(self) -> Iterator[None]:
        """Inside the block a race holds the device; its length counts from now on."""
        start = self._running_since = self._clock()
        try:
            yield
        finally:
            self._running_since = None
            self._lengths.append(self._clock() - start)

    def place(self, session: object) -> tuple[int, float | None] | None:
        """How many races run or wait before the first one of a session, and the seconds that they will take.

        None where none of the session waits; the seconds are None until a race has been measured.
        """
        people = self._people()
        if session not in people:
            return None
        num_waiting, num_running = people.index(session), self._num_running()
        return num_running + num_waiting, self._seconds(num_running, num_waiting)

    def check(self, language: str = "en", session: object = None) -> None:
        """Refuse one person more than may wait; who waits already may ask for another race."""
        people = self._people()
        if len(people) >= self._max_waiting and session not in people:
            raise SpecdemoError(sentence(language, "queue_full", num=len(people)))

    def _seconds(self, num_running: int, num_waiting: int) -> float | None:
        if not self._lengths:
            return None
        mean = sum(self._lengths) / len(self._lengths)
        since = self._running_since
        elapsed = 0.0 if since is None else self._clock() - since
        return num_running * max(mean - elapsed, 0.0) + num_waiting * mean

    def _people(self) -> list[object]:
        queue = self._queue()
        return [] if queue is None else list(dict.fromkeys(event.session_hash for event in list(queue.queue)))

    def _num_running(self) -> int:
        queue = self._queue()
        return 0 if queue is None else queue.current_concurrency
