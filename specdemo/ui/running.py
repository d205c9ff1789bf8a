"""A run as its component sees it: the wire's values while updates come. Knows no engine."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any, Protocol

from specdemo.errors import SpecdemoError
from specdemo.ui.coalesce import batches
from specdemo.ui.edge import page_error


class Wire(Protocol):
    """What a component shows of a run."""

    def add(self, updates: list[Any]) -> None:
        """Take in what came."""

    def value(self, state: str, message: str = "") -> dict[str, Any]:
        """As the component receives it."""


def running(wire: Wire, updates: Iterator[Any], seconds: float, title: str) -> Iterator[dict[str, Any]]:
    """Values that say running, at most every `seconds`; where the updates break off, one that says so, and the error.

    What comes behind the last update is the caller's to say. Closing this iterator closes `updates`.
    """
    yield wire.value("running")
    try:
        with closing(batches(updates, seconds)) as gathered:
            for batch in gathered:
                wire.add(batch)
                yield wire.value("running")
    except SpecdemoError as error:
        yield wire.value("failed", str(error))
        raise page_error(error, title) from error
    except Exception as error:
        yield wire.value("failed", type(error).__name__)
        raise
