"""The rows of the races that are running, for the pages that ask for them. Knows no component.

A value that a handler yields passes through all of Gradio, on the server and in the browser, where every component of
the page hears of it. An answer to a question of the race component costs a fraction of that. So a live race is yielded
seldom, which keeps it cancellable, and asked for often: a question waits here until there is something to tell.

A page on the machine that decodes paints with the cores that decode. The race stands still between two rounds while it
does, outside both lanes' clocks, so that they measure the decoding and not the browser.
"""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from specdemo.ui.wire import RaceWire

MOST_SECONDS_OF_SILENCE = 2.0
MOST_SECONDS_OF_PAINTING = 0.15
SECONDS_BEHIND_A_FRAME = 0.04
"""What a browser does with a frame after it has told its page that it was painted."""

SECONDS_BETWEEN_PAINTINGS = 0.33


class RunningRaces:
    """Races by their run id, which is random: only the visitor who was sent it can ask."""

    def __init__(self) -> None:
        self._races: dict[str, ShownRace] = {}

    @contextmanager
    def shown(self, wire: RaceWire) -> Iterator["ShownRace"]:
        """Inside the block the race can be asked for."""
        race = self._races[wire.run_id] = ShownRace(wire)
        try:
            yield race
        finally:
            del self._races[wire.run_id]
            race.answer()

    async def rows_after(self, asked: Any) -> list[str]:
        """The rows behind the first `num_rows` of a race, for `[run_id, num_rows, is_local]`; none for anything else.

        Waits for them a while. `is_local`: the page paints on the machine that decodes.
        """
        match asked:
            case [str(run_id), int(num_rows), bool(is_local)] if num_rows >= 0 and run_id in self._races:
                return await self._races[run_id].rows_after(num_rows, is_local=is_local)
        return []


class ShownRace:
    """One running race: its handler publishes from its thread, its page asks on the event loop."""

    def __init__(self, wire: RaceWire) -> None:
        self._wire = wire
        self._lock = threading.Lock()
        self._questions: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._is_asked = threading.Event()
        self._is_local = False
        self._due = 0.0

    async def rows_after(self, num_rows: int, *, is_local: bool) -> list[str]:
        """See RunningRaces.rows_after. A page asks again when it has painted what it was told."""
        loop = asyncio.get_running_loop()
        question = loop, loop.create_future()
        with self._lock:
            self._is_local = is_local
            self._questions.append(question)
            self._is_asked.set()
        try:
            # A page on this machine is told only when the race is ready to stand still for it.
            if is_local or len(self._wire.rows) <= num_rows:
                await asyncio.wait([question[1]], timeout=MOST_SECONDS_OF_SILENCE)
        finally:
            with self._lock:
                self._questions = [other for other in self._questions if other is not question]
        return self._wire.rows[num_rows:]

    def publish(self) -> None:
        """Tell the page that there are new rows, and give a page on this machine the time to paint them."""
        if self._is_local and time.monotonic() < self._due:
            return
        self._is_asked.clear()
        if self.answer() and self._is_local:
            if self._is_asked.wait(MOST_SECONDS_OF_PAINTING):
                time.sleep(SECONDS_BEHIND_A_FRAME)
            self._due = time.monotonic() + SECONDS_BETWEEN_PAINTINGS

    def answer(self) -> bool:
        """Answer every question; whether there was one."""
        with self._lock:
            questions, self._questions = self._questions, []
        for loop, answered in questions:
            loop.call_soon_threadsafe(_settle, answered)
        return bool(questions)


def _settle(answered: asyncio.Future[None]) -> None:
    if not answered.done():
        answered.set_result(None)
