"""A class of thirty before one device: over HTTP, as thirty browsers do, at the same time."""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from specdemo.ui.form import PAGE_FIELDS
from specdemo.ui.layout import build_page, launch_options
from specdemo.ui.room import Room
from tests.fakes_ui import ScriptedSource
from tests.unit.test_ui_handlers import FORM

NUM_STUDENTS = 30
# A browser has the drafters once it has asked where the engine stands; None is the first.
STUDENTS_FORM: dict[str, Any] = {**FORM, "evidence": False, "drafter": None, "max_new_tokens": 16}


@dataclass
class Class:
    """A served page by its address, and the numbers of what a visitor's browser calls."""

    source: ScriptedSource
    url: str
    prepare: int
    run: int
    view: int


@dataclass
class Student:
    """One visitor: what was chosen, all that was ever received, and the places that were told."""

    number: int
    received: str = ""
    places: list[tuple[int, float | None]] = field(default_factory=list)
    completed: dict[str, Any] = field(default_factory=dict)

    @property
    def session(self) -> str:
        return f"session{self.number:02d}"

    @property
    def mark(self) -> str:
        return f"mark{self.number:02d}"

    @property
    def k(self) -> int:
        return 1 + self.number % 4

    def form(self) -> list[Any]:
        values = {**STUDENTS_FORM, "prompt": f"{self.mark} asks", "k": self.k}
        return [None, *(values[name] for name in PAGE_FIELDS)]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Class]:
    source = ScriptedSource(seconds_per_update=0.001)
    page = build_page(source, tmp_path, Room("http://10.0.0.2:7860", ((1,),)))
    numbers = {fn.fn.__name__: number for number, fn in page.fns.items() if fn.fn is not None}
    view = next(number for number, block in page.blocks.items() if block.elem_id == "race-view")
    _, url, _ = page.launch(prevent_thread_lock=True, **{**launch_options(), "quiet": True})
    yield Class(source, url, numbers["prepare"], numbers["run"], view)
    page.close()


async def join(client: httpx.AsyncClient, student: Student, number: int, data: list[Any]) -> str:
    """Queue an event and return its name."""
    body = {"data": data, "fn_index": number, "session_hash": student.session, "event_data": None, "trigger_id": None}
    joined = await client.post("queue/join", json=body)
    assert joined.status_code == 200, joined.text
    return str(joined.json()["event_id"])


async def listen(client: httpx.AsyncClient, student: Student) -> None:
    """Read the session's stream, of which a browser has one, until none of its events is left and the server ends it.

    Who goes earlier takes what the session has queued since out of Gradio's queue.
    """
    async with client.stream("GET", "queue/data", params={"session_hash": student.session}) as stream:
        async for line in stream.aiter_lines():
            student.received += line
            message = json.loads(line.removeprefix("data:")) if line.startswith("data:") else {}
            if message.get("msg") == "process_completed":
                assert message["success"], message
                student.completed[message["event_id"]] = message["output"]


async def ask_for_the_place(client: httpx.AsyncClient, room: Class, student: Student) -> None:
    """What a page that waits asks the server, until its race has run."""
    while True:
        body = {"session_hash": student.session, "component_id": room.view, "fn_name": "place", "data": student.session}
        answer = (await client.post("component_server", json=body)).json()
        if answer:
            student.places.append(tuple(answer))
        await asyncio.sleep(1.0)


async def race(client: httpx.AsyncClient, room: Class, student: Student) -> None:
    """Press Race, wait, and see the verdict."""
    prepared = await join(client, student, room.prepare, student.form())
    await listen(client, student)
    assert student.completed[prepared]["data"][0]["state"] == "waiting"
    asking = asyncio.create_task(ask_for_the_place(client, room, student))
    await join(client, student, room.run, [None])
    await listen(client, student)
    asking.cancel()


def run(room: Class, scenario: Callable[[httpx.AsyncClient], Coroutine[Any, Any, None]]) -> None:
    """On a thread of its own: a browser that another test drives leaves a loop on this one."""

    async def with_client() -> None:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=f"{room.url}gradio_api/", limits=limits, timeout=60) as client:
            await asyncio.wait_for(scenario(client), 120)

    with ThreadPoolExecutor(1) as executor:
        executor.submit(asyncio.run, with_client()).result()


def test_thirty_at_once_each_get_their_own_race_in_turn(served: Class) -> None:
    students = [Student(number) for number in range(NUM_STUDENTS)]

    async def lesson(client: httpx.AsyncClient) -> None:
        await asyncio.gather(*(race(client, served, student) for student in students))

    run(served, lesson)
    assert (served.source.started, served.source.most_running) == (NUM_STUDENTS, 1)
    for student in students:
        assert f"{student.mark} asks" in student.received
        assert f'"k":{student.k}' in student.received.replace(" ", "")
        assert '"identical":true' in student.received.replace(" ", "")
        strangers = [other.mark for other in students if other is not student and other.mark in student.received]
        assert strangers == [], "nothing of one visitor reaches another"
        places = [place for place, _ in student.places]
        assert places == sorted(places, reverse=True), "nobody is put back"
    # How many wait at once goes by how fast the machine lets them in.
    assert max(place for student in students for place, _ in student.places) >= 3
    estimates = [seconds for student in students for place, seconds in student.places if place > 1]
    assert any(seconds is not None and seconds > 0 for seconds in estimates)


def test_who_presses_race_twice_while_waiting_runs_once_with_the_newer_choice(served: Class) -> None:
    served.source.num_tokens, served.source.seconds_per_update = 400, 0.05
    before, student = Student(0), Student(1)

    async def scenario(client: httpx.AsyncClient) -> None:
        first = asyncio.create_task(race(client, served, before))
        await asyncio.sleep(0.5)
        await join(client, student, served.prepare, student.form())
        await listen(client, student)
        await join(client, student, served.run, [None])
        listening = asyncio.create_task(listen(client, student))
        changed = student.form()
        changed[1] = "newer words"
        prepared = await join(client, student, served.prepare, changed)
        while prepared not in student.completed:
            await asyncio.sleep(0.05)
        await join(client, student, served.run, [None])
        assert not first.done(), "the first race still runs"
        served.source.seconds_per_update = 0.0
        await asyncio.gather(first, listening)

    run(served, scenario)
    assert served.source.started == 2, "the older race of the second never ran"
    assert " newer" in student.received
