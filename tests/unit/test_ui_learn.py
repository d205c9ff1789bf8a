"""What the lesson cards' events do, without a browser."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import gradio as gr
import pytest

from specdemo.events import Started
from specdemo.lessons import SHIPPED_TRACES, Course, load_course
from specdemo.theory import expected_tokens_per_round
from specdemo.traces import load
from specdemo.ui.form import FIELDS
from specdemo.ui.handlers import PageHandlers
from specdemo.ui.learn import LessonHandlers, lesson_constants, recorded_passes
from specdemo.ui.record import RaceRecord
from specdemo.ui.recorded import LESSON, RecordedRaces
from specdemo.ui.view import ASSETS, asset
from specdemo.ui.wire import verdict
from tests.fakes_ui import ScriptedSource, Visit
from tests.unit.test_ui_handlers import FORM

DEFAULTS = {**FORM, "drafter": None, "prompt": "the first example", "max_new_tokens": 128}


@pytest.fixture(scope="module")
def course() -> Course:
    """The shipped lessons."""
    return load_course()


def lessons(source: ScriptedSource, course: Course) -> LessonHandlers:
    """Handlers over the recorded races that ship."""
    return LessonHandlers(source, course, PageHandlers(source, RecordedRaces(SHIPPED_TRACES, course.races)), DEFAULTS)


def attempt(
    handlers: LessonHandlers, record: RaceRecord, lesson: Any, index: Any, now: Mapping[str, Any] = DEFAULTS
) -> list[Any]:
    """Press a card's button where `now` stands in the fields."""
    event = gr.EventData(None, {"lesson": lesson, "index": index})
    return handlers.attempt(record, event, Visit(), *(now[name] for name in FIELDS))  # type: ignore[arg-type]


def standing(fields: list[Any]) -> dict[str, Any]:
    """What stands in the fields after an update of them."""
    values = zip(FIELDS, fields, strict=True)
    return {name: field.value if name == "drafter" else field["value"] for name, field in values}


def test_an_experiment_sets_every_field_and_presses_race(course: Course) -> None:
    shown, cards, *fields = attempt(lessons(ScriptedSource(), course), RaceRecord(), "first-error", 0)
    assert cards["value"]["press"] is True
    assert "value" not in shown
    values = dict(zip(FIELDS, fields, strict=True))
    asked = course.attempt("first-error", 0).controls
    assert asked["rule"] == "rejection"
    for name in set(FIELDS) - {"drafter"}:
        assert values[name]["value"] == asked.get(name, DEFAULTS[name]), name
    assert values["drafter"].value == asked["drafter"]


def test_after_any_row_of_experiments_the_persons_own_settings_come_back(course: Course) -> None:
    """What the person had before the first one; but a field that was touched since stays as it is."""
    handlers, record = lessons(ScriptedSource(), course), RaceRecord()
    own = {**DEFAULTS, "prompt": "my question", "drafter": "ngram", "k": 7, "temperature": 0.35, "seed": 5}
    now = own
    for lesson, index in (("round", 0), ("first-error", 0), ("first-error", 0), ("greedy", 0)):
        _, cards, *fields = attempt(handlers, record, lesson, index, now)
        assert cards["value"]["moved"] is True
        now = standing(fields)
        assert now["prompt"] != own["prompt"]
        if lesson == "first-error":
            now["seed"] = 11
    assert now["raw"] is True
    assert handlers.measure(record, Visit())["moved"] is True  # type: ignore[arg-type]
    now["prompt"] = "another question"
    cards, *fields = handlers.put_back(record, Visit(), *(now[name] for name in FIELDS))  # type: ignore[arg-type]
    assert standing(fields) == {**own, "prompt": "another question", "seed": 11}
    assert cards["value"]["moved"] is False
    cards, *fields = handlers.put_back(record, Visit(), *(now[name] for name in FIELDS))  # type: ignore[arg-type]
    assert not any("value" in field for field in fields), "nothing is left to put back"


@pytest.mark.parametrize("state", ["absent", "loading", "failed"])
def test_without_a_model_the_recorded_race_is_shown(course: Course, state: str) -> None:
    record = RaceRecord()
    shown, cards, *_ = attempt(lessons(ScriptedSource(state=state), course), record, "round", 0)
    assert cards["value"]["press"] is False
    assert (shown["head"]["origin"], shown["head"]["prompt"]) == ("recorded", "The capital of France is")
    assert record.shown is course.races["10-capital"]


@pytest.mark.parametrize(("lesson", "index"), [("poem", 0), ("round", 99), ("round", "0"), (None, None)])
def test_an_experiment_that_is_not_there_is_a_sentence(course: Course, lesson: Any, index: Any) -> None:
    with pytest.raises(gr.Error, match="no such lesson"):
        attempt(lessons(ScriptedSource(), course), RaceRecord(), lesson, index)


def test_passes_are_measured_where_there_is_a_model(course: Course) -> None:
    value = lessons(ScriptedSource(), course).measure(RaceRecord(), Visit())  # type: ignore[arg-type]
    assert value["measured"]["machine"] == "2 CPU cores"
    assert [width for width, _ in value["measured"]["costs"]] == [1, 2, 3, 5, 9, 17]
    with pytest.raises(gr.Error, match="not ready"):
        lessons(ScriptedSource(state="loading"), course).measure(RaceRecord(), Visit())  # type: ignore[arg-type]


def test_the_script_holds_the_texts_and_the_machine_of_the_recorded_passes(course: Course) -> None:
    constants = dict(re.findall(r"^const (\w+) = (.*);$", lesson_constants(course), re.MULTILINE))
    cards = json.loads(constants["LESSONS"])
    assert [card["id"] for card in cards] == [lesson.id for lesson in course.lessons]
    assert "{" not in constants["LESSONS"].replace('{"', "").replace("{}", "")
    assert "2 cores" in recorded_passes(course)["machine"]


def test_the_table_of_a_card_holds_a_race_of_every_experiment(course: Course) -> None:
    held = re.search(r"^const MOST_RESULTS = (\d+);", asset("learn.js"), re.MULTILINE)
    assert held is not None
    assert max(len(lesson.tries) for lesson in course.lessons) <= int(held[1])


def test_the_list_leaves_the_lessons_races_to_the_lessons(course: Course) -> None:
    names = {name for _, name in RecordedRaces(SHIPPED_TRACES).choices}
    assert names == {name for name, trace in course.races.items() if trace.category != LESSON}
    assert "2-code" in names
    assert "10-capital" not in names


def test_the_verdict_holds_the_formula_from_alpha_and_k() -> None:
    updates = load(ASSETS / "traces" / "2-code.json.gz").updates
    told = verdict(updates)
    assert told["expected_tokens_per_round"] == expected_tokens_per_round(told["alpha"], 4)
    adaptive = [
        replace(update, event=replace(update.event, settings={**update.event.settings, "schedule": "adaptive"}))
        if isinstance(update.event, Started)
        else update
        for update in updates
    ]
    assert verdict(adaptive)["expected_tokens_per_round"] is None
