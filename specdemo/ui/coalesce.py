"""Updates gathered by time, so that a fast lane never floods the browser. Knows nothing of what it gathers."""

import time
from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

Item = TypeVar("Item")


def batches(
    items: Iterable[Item], seconds: float, clock: Callable[[], float] = time.monotonic
) -> Generator[list[Item], None, None]:
    """Lists of items at most every `seconds`, the first item at once, the last one always.

    Closing this iterator closes `items`.
    """
    gathered: list[Item] = []
    due = clock()
    try:
        for item in items:
            gathered.append(item)
            if clock() >= due:
                yield gathered
                gathered = []
                due = clock() + seconds
        if gathered:
            yield gathered
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()
