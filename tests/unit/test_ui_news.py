"""What a page may ask for while its race runs."""

import json

import pytest

from specdemo.race import RaceRequest
from specdemo.settings import DecodeSettings
from specdemo.ui.handlers import PageHandlers
from specdemo.ui.news import RunningRaces
from specdemo.ui.record import RaceRecord
from specdemo.ui.recorded import RecordedRaces
from specdemo.ui.wire import RaceWire
from tests.fakes_ui import ScriptedSource

REQUEST = RaceRequest(prompt="Why?", drafter="quantized", settings=DecodeSettings(max_new_tokens=40))


def test_a_running_race_is_told_from_any_row_on() -> None:
    races, wire = RunningRaces(), RaceWire({})
    with races.shown(wire):
        wire.add(list(ScriptedSource().race(REQUEST)))
        assert races.rows_after([wire.run_id, 0]) == wire.rows
        assert races.rows_after([wire.run_id, 3]) == wire.rows[3:]
        assert races.rows_after([wire.run_id, 10_000]) == []
    assert races.rows_after([wire.run_id, 0]) == [], "a race that is over is forgotten"


@pytest.mark.parametrize("asked", [None, [], ["x", 0], ["x"], [5, 0], {"run": "x"}, "x", [["x"], 0], [None, None]])
def test_whatever_else_is_asked_has_no_answer(asked: object) -> None:
    assert RunningRaces().rows_after(asked) == []


@pytest.mark.parametrize("start", [-1, "0", 0.5, None])
def test_a_row_number_that_is_none_has_no_answer(start: object) -> None:
    races, wire = RunningRaces(), RaceWire({})
    with races.shown(wire):
        wire.add(list(ScriptedSource().race(REQUEST)))
        assert races.rows_after([wire.run_id, start]) == []


def test_rows_can_be_asked_for_between_two_yields_and_are_those_that_are_yielded(tmp_path: object) -> None:
    handlers, record = PageHandlers(ScriptedSource(seconds_per_update=0.01), RecordedRaces(tmp_path)), RaceRecord()  # type: ignore[arg-type]
    record.want(REQUEST)
    seen: list[list[str]] = []
    values = []
    for value in handlers.run(record, None):  # type: ignore[arg-type]
        values.append(value)
        seen.append(handlers.running.rows_after([value["run"], 0]))
    assert seen[0] == [row for row in values[0]["rows"].split("\n") if row]
    assert seen[-1] == [], "the last value tells all that is left"
    assert json.loads(values[-1]["rows"].split("\n")[-2])["e"] == "f"
