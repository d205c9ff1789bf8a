"""The rows of the races that are running, for the pages that ask for them. Knows no component.

A value that a handler yields passes through all of Gradio, on the server and in the browser, where every component of
the page hears of it. An answer to a question of the race component costs a fraction of that, and on a small machine
the race pays for it. So a live race is yielded seldom, which keeps it cancellable, and asked for often.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from specdemo.ui.wire import RaceWire


class RunningRaces:
    """Races by their run id, which is random: only the visitor who was sent it can ask."""

    def __init__(self) -> None:
        self._wires: dict[str, RaceWire] = {}

    @contextmanager
    def shown(self, wire: RaceWire) -> Iterator[None]:
        """Inside the block the race can be asked for."""
        self._wires[wire.run_id] = wire
        try:
            yield
        finally:
            del self._wires[wire.run_id]

    def rows_after(self, asked: Any) -> list[str]:
        """The rows behind the first `num_rows` of a race, for `[run_id, num_rows]`; none for anything else."""
        match asked:
            case [str(run_id), int(num_rows)] if num_rows >= 0 and run_id in self._wires:
                return self._wires[run_id].rows[num_rows:]
        return []
