"""Whose turn it is on the device: one race or proof at a time, and long measurements between their rounds.

Imports no torch.
"""

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")
_END = object()


class Turns:
    """People who wait at a page go first; what runs for many minutes takes a step only while none of them is there."""

    def __init__(self) -> None:
        self._device = threading.Lock()
        self._changed = threading.Condition()
        self._num_first = 0

    @contextmanager
    def first(self) -> Iterator[None]:
        """Hold the device for all of a race; whoever asks here meanwhile is next."""
        with self._changed:
            self._num_first += 1
        try:
            with self._device:
                yield
        finally:
            with self._changed:
                self._num_first -= 1
                self._changed.notify_all()

    def behind(self, steps: Iterator[Item]) -> Generator[Item, None, None]:
        """The items, each taken while nobody holds or awaits the device; closes `steps` in the end."""
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._num_first == 0)
                with self._device:
                    item = next(steps, _END)
                if item is _END:
                    return
                yield item  # type: ignore[misc]
        finally:
            getattr(steps, "close", lambda: None)()
