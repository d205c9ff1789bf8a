"""Lessons as data: what each claims, what to do on the page, what it means. Figures in them are references.

A lesson is one JSON file of `assets/lessons/`; each of its texts stands in all languages side by side, so that who
reviews one reads the others beside it. The order of the names is the order of the lessons.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdemo.errors import LessonError
from specdemo.figures import RecordedFigures
from specdemo.traces import Trace, load

LANGUAGES = ("en", "zh", "zh-TW")
KINDS = ("lesson", "myth")
TEXTS = ("title", "claim", "do", "look", "meaning", "question", "answer")
_ASSETS = Path(__file__).resolve().parents[1] / "assets"
SHIPPED_TRACES = _ASSETS / "traces"


@dataclass(frozen=True, slots=True)
class Try:
    """One experiment: a race to run, or to play where no model is ready.

    `labels` by language; `controls` by the page's field names, fields left out stand at their defaults; `race` is the
    name of a recorded race.
    """

    labels: Mapping[str, str]
    controls: Mapping[str, Any]
    race: str


@dataclass(frozen=True, slots=True)
class Lesson:
    """`kind` is one of KINDS; `texts` by language and then by TEXTS, their figures filled in.

    `shows_pass_costs`: beside its texts stands what a pass costs at each width.
    """

    id: str
    kind: str
    texts: Mapping[str, Mapping[str, str]]
    tries: tuple[Try, ...]
    shows_pass_costs: bool = False


@dataclass(frozen=True, slots=True)
class Course:
    """All lessons in order, the recorded races by name, and (width, seconds) of a pass as those races had it."""

    lessons: tuple[Lesson, ...]
    races: Mapping[str, Trace]
    pass_costs: tuple[tuple[int, float], ...]

    def attempt(self, lesson_id: str, index: int) -> Try:
        """An experiment of a lesson; raises LessonError where there is none."""
        for lesson in self.lessons:
            if lesson.id == lesson_id and 0 <= index < len(lesson.tries):
                return lesson.tries[index]
        raise LessonError(f"there is no experiment {index} in a lesson {lesson_id!r}; pick a lesson from the list.")


def load_course(folder: Path = _ASSETS / "lessons", traces: Path = SHIPPED_TRACES) -> Course:
    """Read lessons and recorded races; raises LessonError or TraceError, in a line, for a file that cannot be used."""
    races = {path.name.partition(".")[0]: load(path) for path in sorted(traces.glob("*.json*"))}
    figures = RecordedFigures(races)
    paths = sorted(folder.glob("*.json"))
    lessons = tuple(read_lesson(path.name, _document(path), figures, races) for path in paths)
    return Course(lessons, races, figures.pass_costs)


def read_lesson(name: str, document: Mapping[str, Any], figures: RecordedFigures, races: Mapping[str, Trace]) -> Lesson:
    """The lesson in the document of a file of that name; raises LessonError."""
    missing = [key for key in ("kind", *TEXTS) if key not in document]
    unknown = sorted(set(document) - {"kind", "tries", "shows_pass_costs", *TEXTS})
    if missing or unknown:
        raise LessonError(f"{name}: missing are {missing}, unknown are {unknown}; see the other lessons.")
    if document["kind"] not in KINDS:
        raise LessonError(f"{name}: kind is {document['kind']!r}; it must be one of {', '.join(KINDS)}.")
    texts = {key: _translated(document[key], f"{name}: {key}", figures) for key in TEXTS}
    tries = [_try(item, f"{name}: try {i + 1}", figures, races) for i, item in enumerate(document.get("tries", ()))]
    return Lesson(
        id=name.removesuffix(".json").partition("-")[2],
        kind=document["kind"],
        texts={language: {key: texts[key][language] for key in TEXTS} for language in LANGUAGES},
        tries=tuple(tries),
        shows_pass_costs=document.get("shows_pass_costs") is True,
    )


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LessonError(f"{path.name} cannot be read as JSON: {error}. Mend or remove it.") from error
    if not isinstance(document, dict):
        raise LessonError(f"{path.name} is not a JSON object; see the other lessons.")
    return document


def _translated(value: Any, place: str, figures: RecordedFigures) -> dict[str, str]:
    """One text in every language, its figures filled in."""
    if not isinstance(value, dict) or set(value) != set(LANGUAGES) or not all(map(_is_text, value.values())):
        raise LessonError(f"{place} must be an object of texts for {', '.join(LANGUAGES)}.")
    return {language: figures.fill(text, f"{place} ({language})") for language, text in value.items()}


def _try(value: Any, place: str, figures: RecordedFigures, races: Mapping[str, Trace]) -> Try:
    if not isinstance(value, dict) or set(value) != {"label", "controls", "race"}:
        raise LessonError(f"{place} must be an object of label, controls and race.")
    if value["race"] not in races:
        raise LessonError(f"{place} names the race {value['race']!r}; there are {', '.join(races)}.")
    if not isinstance(value["controls"], dict):
        raise LessonError(f"{place}: controls must be an object of the page's fields.")
    return Try(_translated(value["label"], f"{place} label", figures), value["controls"], value["race"])


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value.strip() == value != ""
