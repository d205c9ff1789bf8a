"""What a page may ask for while its race runs."""

import asyncio
import json
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from specdemo.race import RaceRequest
from specdemo.settings import DecodeSettings
from specdemo.ui import news
from specdemo.ui.handlers import PageHandlers
from specdemo.ui.news import RunningRaces
from specdemo.ui.record import RaceRecord
from specdemo.ui.recorded import RecordedRaces
from specdemo.ui.wire import RaceWire
from tests.fakes_ui import ScriptedSource

Result = TypeVar("Result")
REQUEST = RaceRequest(prompt="Why?", drafter="quantized", settings=DecodeSettings(max_new_tokens=40))


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """On a thread of its own: a browser that another test drives leaves a loop on this one."""
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(asyncio.run, coroutine).result()


def ask(races: RunningRaces, asked: object) -> list[str]:
    return run(races.rows_after(asked))


@pytest.fixture(autouse=True)
def _short_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(news, "MOST_SECONDS_OF_SILENCE", 0.2)


def test_a_running_race_is_told_from_any_row_on() -> None:
    races, wire = RunningRaces(), RaceWire({})
    with races.shown(wire):
        wire.add(list(ScriptedSource().race(REQUEST)))
        assert ask(races, [wire.run_id, 0, False]) == wire.rows
        assert ask(races, [wire.run_id, 3, False]) == wire.rows[3:]
        assert ask(races, [wire.run_id, 10_000, False]) == []
    assert ask(races, [wire.run_id, 0, False]) == [], "a race that is over is forgotten"


@pytest.mark.parametrize(
    "asked",
    [None, [], ["x", 0, True], ["x", 0], ["x"], [5, 0, False], {"run": "x"}, "x", [["x"], 0, False], [None] * 3],
)
def test_whatever_else_is_asked_has_no_answer(asked: object) -> None:
    assert ask(RunningRaces(), asked) == []


@pytest.mark.parametrize("start", [-1, "0", 0.5, None])
@pytest.mark.parametrize("is_local", [False, 1, None])
def test_a_row_number_or_place_that_is_none_has_no_answer(start: object, is_local: object) -> None:
    races, wire = RunningRaces(), RaceWire({})
    with races.shown(wire):
        wire.add(list(ScriptedSource().race(REQUEST)))
        assert ask(races, [wire.run_id, start, is_local]) == []


def test_a_question_waits_for_the_rows_it_asks_for_and_for_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(news, "MOST_SECONDS_OF_SILENCE", 60.0)
    races, wire = RunningRaces(), RaceWire({})
    updates = list(ScriptedSource().race(REQUEST))

    async def scenario() -> None:
        with races.shown(wire) as shown:
            question = asyncio.create_task(races.rows_after([wire.run_id, 0, False]))
            await asyncio.sleep(0.05)
            assert not question.done()
            wire.add(updates[:4])
            shown.publish()
            assert await question == wire.rows
            last = asyncio.create_task(races.rows_after([wire.run_id, len(wire.rows), False]))
            await asyncio.sleep(0.05)
        assert await last == []

    run(asyncio.wait_for(scenario(), 10))


def test_the_race_stands_still_while_a_page_on_this_machine_paints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it asks again; and no race waits for a page that never does."""
    monkeypatch.setattr(news, "MOST_SECONDS_OF_PAINTING", 1.0)
    monkeypatch.setattr(news, "MOST_SECONDS_OF_SILENCE", 60.0)
    races, wire = RunningRaces(), RaceWire({})

    async def published(*, is_local: bool, asks_again: bool) -> bool:
        """Whether the race still stood a moment after it published."""
        with races.shown(wire) as shown:
            first = asyncio.create_task(races.rows_after([wire.run_id, 0, is_local]))
            await asyncio.sleep(0.05)
            wire.add(list(ScriptedSource().race(REQUEST)))
            thread = threading.Thread(target=shown.publish)
            thread.start()
            assert await first == wire.rows
            await asyncio.sleep(0.1)
            stood = thread.is_alive()
            if asks_again:
                again = asyncio.create_task(races.rows_after([wire.run_id, len(wire.rows), is_local]))
                await asyncio.sleep(0.1)
                assert not thread.is_alive()
                again.cancel()
            await asyncio.to_thread(thread.join)
        return stood

    assert run(published(is_local=True, asks_again=True))
    wire.rows.clear()
    start = time.monotonic()
    assert run(published(is_local=True, asks_again=False))
    assert time.monotonic() - start < 10
    wire.rows.clear()
    assert not run(published(is_local=False, asks_again=False))


def test_rows_can_be_asked_for_between_two_yields_and_are_those_that_are_yielded(tmp_path: object) -> None:
    handlers, record = PageHandlers(ScriptedSource(seconds_per_update=0.01), RecordedRaces(tmp_path)), RaceRecord()  # type: ignore[arg-type]
    record.want(REQUEST)
    seen: list[list[str]] = []
    values = []
    for value in handlers.run(record, None):  # type: ignore[arg-type]
        values.append(value)
        seen.append(ask(handlers.running, [value["run"], 0, False]))
    assert seen[0] == [row for row in values[0]["rows"].split("\n") if row]
    assert seen[-1] == [], "the last value tells all that is left"
    assert json.loads(values[-1]["rows"].split("\n")[-2])["e"] == "f"
