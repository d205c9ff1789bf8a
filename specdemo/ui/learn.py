"""The lesson cards above a race: a static skeleton that `assets/learn.js` fills, and what its events do.

The script asks the server nothing but its two events, so that a page without a server shows the same cards.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import gradio as gr

from specdemo.errors import SpecdemoError
from specdemo.lessons import Course, Lesson, Try
from specdemo.race import EventSource, PassCosts
from specdemo.ui.edge import page_error, sentences
from specdemo.ui.form import FIELDS, check_ready
from specdemo.ui.handlers import PageHandlers
from specdemo.ui.head import machine_name
from specdemo.ui.moved import move
from specdemo.ui.record import RaceRecord
from specdemo.ui.texts import drafter_names, language_of, sentence
from specdemo.ui.texts_learn import LEARN
from specdemo.ui.view import asset

_PRESS = "(told) => { if (told.press) document.querySelector('#race-button')?.click(); }"
_NOT_MEASURED = "() => { document.dispatchEvent(new Event('passes-not-measured')); }"
_SCRIPTS = ("race_text.js", "learn_curve.js", "learn.js")


class LessonCards(gr.HTML):
    """All lessons, one shown at a time. `value` is what the server has told.

    That is the measured passes, whether to press Race, and whether there are settings to put back.
    """

    def __init__(self, course: Course, **props: Any) -> None:
        super().__init__(
            value={"measured": None, "press": False, "moved": False},
            html_template=asset("learn.html"),
            js_on_load=lesson_script(course),
            apply_default_css=False,
            **props,
        )

    def api_info(self) -> dict[str, Any]:
        """See `value`."""
        return {"type": "object", "additionalProperties": True}


def lesson_script(course: Course) -> str:
    """All of the cards' script. Besides `element` it needs `props`, `watch` and `trigger` of Gradio."""
    return "\n".join((lesson_constants(course), *map(asset, _SCRIPTS)))


def lesson_constants(course: Course) -> str:
    """The texts as constants of the script, as the race component has its own."""
    constants = {
        "TEXTS": LEARN,
        "DRAFTERS": {language: drafter_names(language) for language in LEARN},
        "LESSONS": [_shown(lesson) for lesson in course.lessons],
        "RECORDED_PASSES": recorded_passes(course),
    }
    return "\n".join(f"const {name} = {json.dumps(value, ensure_ascii=False)};" for name, value in constants.items())


def recorded_passes(course: Course) -> dict[str, Any]:
    """What a pass cost at each width in the recorded races, and on which machine."""
    first = next(iter(course.races.values()))
    return _measured(PassCosts(course.pass_costs, first.provenance))


def _measured(costs: PassCosts) -> dict[str, Any]:
    return {"costs": [list(cost) for cost in costs.seconds], "machine": machine_name(costs.provenance)}


def _shown(lesson: Lesson) -> dict[str, Any]:
    return {
        "id": lesson.id,
        "kind": lesson.kind,
        "texts": lesson.texts,
        "tries": [_shown_try(one) for one in lesson.tries],
        "curve": lesson.shows_pass_costs,
    }


def _shown_try(one: Try) -> dict[str, Any]:
    """`asked` is what a race says of itself that is this experiment's."""
    asked = {name: one.controls[name] for name in ("prompt", "drafter", "k")}
    return {"labels": dict(one.labels), "race": one.race, "asked": asked}


class LessonHandlers:
    """What the cards' events do. Holds no visitor's data."""

    def __init__(
        self, source: EventSource, course: Course, handlers: PageHandlers, defaults: Mapping[str, Any]
    ) -> None:
        self._source = source
        self._course = course
        self._handlers = handlers
        self._defaults = defaults

    def attempt(self, record: RaceRecord, event: gr.EventData, request: gr.Request, *now: Any) -> list[Any]:
        """Set every field as the experiment says; where no model is ready, show its recorded race.

        `now` is what stands in the fields in the order of FIELDS. Returned are the values of the race view, of the
        cards, and of the fields in that order.
        """
        language = language_of(request)
        lesson, index = event._data.get("lesson"), event._data.get("index")
        try:
            chosen = self._course.attempt(str(lesson), index if isinstance(index, int) else -1)
        except SpecdemoError as error:
            raise page_error(sentence(language, "no_lesson"), sentence(language, "cannot_open")) from error
        is_ready = self._source.status().state == "ready"
        shown = gr.skip() if is_ready else self._handlers.show(self._course.races[chosen.race], "recorded", record)
        values = {**self._defaults, **chosen.controls}
        record.moved = move(record.moved, dict(zip(FIELDS, now, strict=True)), values)
        return [shown, self._told(record, press=is_ready), *self._fields(values, language)]

    def put_back(self, record: RaceRecord, request: gr.Request, *now: Any) -> list[Any]:
        """Bring back the person's own settings: the values of the cards, and of the fields in the order of FIELDS."""
        if record.moved is None:
            return [self._told(record), *[gr.skip()] * len(FIELDS)]
        values = record.moved.own(dict(zip(FIELDS, now, strict=True)))
        record.moved = None
        return [self._told(record), *self._fields(values, language_of(request))]

    def measure(self, record: RaceRecord, request: gr.Request) -> dict[str, Any]:
        """What a pass costs here at each width: the value of the cards."""
        language = language_of(request)
        with sentences(sentence(language, "cannot_measure")):
            check_ready(self._source, language)
            costs = self._source.pass_costs()
        return _value(record, measured=_measured(costs))

    def _told(self, record: RaceRecord, press: bool = False) -> Any:
        return gr.update(value=_value(record, press=press))

    def _fields(self, values: Mapping[str, Any], language: str) -> list[Any]:
        return [
            self._handlers.drafters(language, values[name]) if name == "drafter" else gr.update(value=values[name])
            for name in FIELDS
        ]


def _value(record: RaceRecord, **told: Any) -> dict[str, Any]:
    return {"measured": None, "press": False, "moved": record.moved is not None, **told}


def connect_lessons(
    cards: LessonCards, lessons: LessonHandlers, outputs: Sequence[Any], record: gr.State, device: str
) -> None:
    """Connect the cards' events. `outputs` are the race view and the fields, `device` the queue of the model."""
    view, *fields = outputs
    private: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
    asked, unlimited = [record, *fields], {**private, "concurrency_limit": None}
    tried = cards.attempt(lessons.attempt, asked, [view, cards, *fields], **unlimited)
    tried.success(None, cards, None, js=_PRESS, queue=False, **private)
    cards.put_back(lessons.put_back, asked, [cards, *fields], **unlimited)
    measured = cards.measure(lessons.measure, record, cards, concurrency_id=device, concurrency_limit=1, **private)
    measured.failure(None, None, None, js=_NOT_MEASURED, queue=False, **private)
