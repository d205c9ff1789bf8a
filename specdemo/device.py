"""One thread for all that computes. Imports no torch.

OpenMP keeps a team of threads for each thread that ever computed, and once the teams together have more threads than
there are cores, each waits asleep and not ready at the hundreds of meetings of a pass: a race on the second thread of a
server ran at 60 % of its speed on two cores. So whoever asks, the same thread computes.
"""

import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

Result = TypeVar("Result")
_END = object()


class DeviceThread:
    """Runs what it is given, one thing after the other; ends with the process, also in the middle of a download."""

    def __init__(self) -> None:
        self._tasks: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
        threading.Thread(target=self._work, daemon=True, name="device").start()

    def submit(self, task: Callable[[], Result]) -> "Future[Result]":
        """Have the task done; the future holds its result or its error."""
        future: Future[Result] = Future()
        self._tasks.put((future, task))
        return future

    def iterate(self, start: Callable[[], Iterator[Result]]) -> Generator[Result, None, None]:
        """The items of an iterator that is made, advanced and closed there."""
        items = self.submit(start).result()
        try:
            while (item := self.submit(lambda: next(items, _END)).result()) is not _END:
                yield item  # type: ignore[misc]
        finally:
            self.submit(getattr(items, "close", lambda: None)).result()

    def _work(self) -> None:
        while True:
            future, task = self._tasks.get()
            try:
                future.set_result(task())
            except BaseException as error:  # noqa: BLE001 - it is the asker's to handle
                future.set_exception(error)
