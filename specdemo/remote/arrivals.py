"""A stream read as it arrives, in a thread of its own, so that whoever looks at it late does not move its clock."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from queue import SimpleQueue

from specdemo.remote.pieces import End, Piece

Arrival = tuple[float, Piece | End]
"""Seconds of `time.perf_counter`, and what came then."""


def arrivals(answer: Iterator[Piece | End]) -> Iterator[Arrival]:
    """Everything with the time at which it came; raises what reading raised.

    Closing it ends the request when the server sends its next token: a read that waits cannot be broken off.
    """
    came: SimpleQueue[Arrival | BaseException | None] = SimpleQueue()
    is_left = threading.Event()

    def read() -> None:
        try:
            with closing(answer):  # type: ignore[type-var]
                for piece in answer:
                    came.put((time.perf_counter(), piece))
                    if is_left.is_set():
                        return
        except BaseException as error:  # noqa: BLE001 - raised again by whoever reads on
            came.put(error)
        else:
            came.put(None)

    threading.Thread(target=read, daemon=True).start()
    try:
        while (arrival := came.get()) is not None:
            if isinstance(arrival, BaseException):
                raise arrival
            yield arrival
    finally:
        is_left.set()
