"""The lessons that ship: complete in every language, legal settings, figures by reference alone."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdemo.catalog import DRAFTER_LABELS
from specdemo.errors import LessonError
from specdemo.figures import REFERENCE, RecordedFigures, recorded_pass_costs
from specdemo.lessons import KINDS, LANGUAGES, TEXTS, Course, load_course, read_lesson
from specdemo.prompts import load_prompts
from specdemo.race import DrafterInfo
from specdemo.theory import expected_tokens_per_round
from specdemo.traces import Trace, compare
from specdemo.ui.form import FIELDS, checked_request
from specdemo.ui.sidebar import LOSING
from specdemo.ui.texts_learn import LEARN, LEARN_SENTENCES, LINK_LABELS
from specdemo.ui.view import ASSETS
from tests.fakes_ui import ScriptedSource
from tests.unit.test_ui_handlers import FORM

FOLDER = ASSETS / "lessons"
FILES = sorted(FOLDER.glob("*.json"))
# What may hold a digit without being measured: names, and the formulas of the literature.
NAMES = re.compile(
    r"EAGLE-3|float32|K \+ 1|min\(1,|max\(0,|4 \u6bd4\u7279|4 \u4f4d\u5143"
    r"|\(1 \u2212 alpha\^\(K\+1\)\) / \(1 \u2212 alpha\)"
)
RACES = load_course().races
FIGURES = RecordedFigures(RACES)


class AllDrafters(ScriptedSource):
    """An engine that offers what the embedded target has."""

    def drafters(self) -> tuple[DrafterInfo, ...]:
        return tuple(DrafterInfo(name, name) for name in DRAFTER_LABELS)


@pytest.fixture(scope="module")
def course() -> Course:
    """The shipped lessons."""
    return load_course()


def texts_of(document: dict[str, Any]) -> list[dict[str, str]]:
    """Every translated text of a lesson's file."""
    return [document[name] for name in TEXTS] + [one["label"] for one in document["tries"]]


def test_there_are_ten_lessons_and_five_myths(course: Course) -> None:
    kinds = [lesson.kind for lesson in course.lessons]
    assert kinds == ["lesson"] * 10 + ["myth"] * 5
    assert set(kinds) == set(KINDS)
    assert len({lesson.id for lesson in course.lessons}) == len(kinds)
    assert all(lesson.tries for lesson in course.lessons)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_figure_is_a_reference_and_the_same_one_in_every_language(path: Path) -> None:
    for text in texts_of(json.loads(path.read_text(encoding="utf-8"))):
        for words in text.values():
            assert re.findall(r"\d\S*", NAMES.sub("", REFERENCE.sub("", words))) == [], words
        references = [sorted(match[0] for match in REFERENCE.finditer(text[language])) for language in LANGUAGES]
        assert references[0] == references[1] == references[2]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_chinese_is_chinese_and_each_in_its_own_script(path: Path) -> None:
    simplified, traditional = set("\u8fd9\u4e2a\u6765\u4eec"), set("\u9019\u500b\u4f86\u5011")
    for text in texts_of(json.loads(path.read_text(encoding="utf-8"))):
        assert not set(text["zh"]) & traditional
        assert not set(text["zh-TW"]) & simplified
        if len(text["en"]) > 20:
            assert all(re.search("[\u4e00-\u9fff]", text[language]) for language in ("zh", "zh-TW"))


def test_every_experiment_is_a_race_that_the_page_can_run(course: Course) -> None:
    for lesson in course.lessons:
        for one in lesson.tries:
            assert {"prompt", "drafter", "k"} <= set(one.controls) <= set(FIELDS)
            checked_request(AllDrafters(), {**FORM, "max_new_tokens": 128, **one.controls})


def test_what_is_recorded_is_what_the_experiment_asks_for(course: Course) -> None:
    for lesson in course.lessons:
        for one in lesson.tries:
            asked = checked_request(AllDrafters(), {**FORM, "max_new_tokens": 128, **one.controls})
            recorded = course.races[one.race].request
            assert (asked.prompt, asked.drafter, asked.raw) == tuple(recorded[k] for k in ("prompt", "drafter", "raw"))
            settings, told = asked.settings.to_dict(), dict(recorded["settings"])
            # Coupled and auto are both greedy at temperature 0; the numbers behind the verdicts change none.
            for name in ("rule", "evidence"):
                settings.pop(name)
                told.pop(name)
            assert settings == told


def test_figures_are_those_of_the_race(course: Course) -> None:
    code = compare(course.races["2-code"].updates)
    formula = next(lesson for lesson in course.lessons if lesson.id == "formula")
    words = formula.texts["en"]["look"]
    speculative = code["speculative"]
    assert f"{speculative['tokens_per_round']:.2f}" in words
    assert f"{expected_tokens_per_round(speculative['alpha'], 4):.2f}" in words
    myth = next(lesson for lesson in course.lessons if lesson.id == "always-faster")
    for name in ("7-repeat", "1-chat", "8-loses"):
        assert f"{compare(course.races[name].updates)['speedup']:.2f}\u00d7" in myth.texts["zh"]["look"]


def test_the_losing_example_asks_for_what_a_recorded_race_lost_with_and_for_longer_drafts(course: Course) -> None:
    lost = course.races["8-loses"]
    assert compare(lost.updates)["speedup"] < 1
    assert lost.request["prompt"] in [example.prompt for example in load_prompts() if example.loses]
    assert lost.request["drafter"] == LOSING["drafter"]
    assert lost.request["settings"]["temperature"] == LOSING["temperature"]
    assert lost.request["settings"]["num_draft_tokens"] <= LOSING["k"]


def test_what_the_texts_say_in_words_is_what_the_races_show(course: Course) -> None:
    figures = {name: compare(trace.updates) for name, trace in course.races.items()}
    assert all(figures[name]["identical"] for name in ("1-chat", "2-code", "6-story", "13-chinese", "10-capital"))
    assert not figures["8-loses"]["identical"]
    assert figures["8-loses"]["speedup"] < 1 < figures["1-chat"]["speedup"] < 2 < figures["7-repeat"]["speedup"]
    speculative = {name: figure["speculative"] for name, figure in figures.items()}
    passes = [speculative[name]["target_passes"] for name in ("11-code-k1", "2-code", "12-code-k12")]
    assert passes == sorted(passes, reverse=True)
    rates = [speculative[name]["acceptance_rate"] for name in ("11-code-k1", "2-code", "12-code-k12")]
    alphas = [speculative[name]["alpha"] for name in ("11-code-k1", "12-code-k12")]
    assert rates[0] > rates[1] > rates[2]
    assert alphas[0] - alphas[1] < (rates[0] - rates[2]) / 2
    assert speculative["13-chinese"]["alpha"] < speculative["1-chat"]["alpha"] < speculative["2-code"]["alpha"]
    assert speculative["5-facts"]["alpha"] == 1
    costs = dict(course.pass_costs)
    assert costs[1] < costs[5] < costs[9] < 2 * costs[1]


def test_the_first_round_goes_as_the_second_lesson_tells_it(course: Course) -> None:
    updates = [update for update in course.races["10-capital"].updates if update.lane == "speculative"]
    spans = next(update.spans for update in updates if update.spans)
    assert [(span.text.strip(), span.status) for span in spans[:2]] == [("Paris", "accepted"), (",", "rejected")]
    assert [span.status for span in spans[2:]] == ["discarded", "discarded", "corrected"]
    assert spans[-1].text == "."


def test_pass_costs_count_only_races_like_the_first(course: Course) -> None:
    assert [width for width, _ in course.pass_costs] == sorted({width for width, _ in course.pass_costs})
    first = dict(list(course.races.items())[:1])
    trace = course.races["5-facts"]
    other = Trace(trace.title, trace.category, trace.request, {**trace.provenance, "num_threads": 64}, trace.updates)
    assert recorded_pass_costs({**first, "other": other}) == recorded_pass_costs(first)
    assert 7 in dict(recorded_pass_costs({**first, "other": trace}))


@given(st.sampled_from(LANGUAGES), st.sampled_from(sorted(TEXTS)), st.data())
def test_a_text_that_is_missing_is_one_sentence(language: str, name: str, data: st.DataObject) -> None:
    document = json.loads(FILES[0].read_text(encoding="utf-8"))
    data.draw(st.sampled_from([lambda: document.pop(name), lambda: document[name].pop(language)]))()
    with pytest.raises(LessonError, match=name):
        read_lesson("00-broken.json", document, FIGURES, RACES)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"kind": "poem"}, "kind is 'poem'"),
        ({"extra": 1}, "unknown are .'extra'."),
        ({"claim": dict.fromkeys(LANGUAGES, "fast: {99-none.speedup}")}, "no recorded race 99-none"),
        ({"claim": dict.fromkeys(LANGUAGES, "fast: {2-code.mood}")}, "figures are speedup"),
        ({"claim": dict.fromkeys(LANGUAGES, "fast: {2-code.plain.alpha}")}, "does not have"),
        ({"claim": dict.fromkeys(LANGUAGES, "fast: {passes.77}")}, "a pass of 77"),
        ({"claim": dict.fromkeys(LANGUAGES, "fast: {speedup}")}, "brace"),
        ({"tries": [{"label": {}, "controls": {}, "race": "none"}]}, "the race 'none'"),
        ({"tries": [{"race": "2-code"}]}, "label, controls and race"),
    ],
)
def test_a_broken_lesson_is_one_sentence(change: dict[str, Any], sentence: str) -> None:
    document = json.loads(FILES[1].read_text(encoding="utf-8")) | change
    with pytest.raises(LessonError, match=sentence):
        read_lesson("00-broken.json", document, FIGURES, RACES)


def test_the_cards_words_have_the_same_keys_and_values_in_every_language() -> None:
    for texts in (LEARN, LEARN_SENTENCES, LINK_LABELS):
        assert set(texts) == set(LANGUAGES)
        for language in LANGUAGES:
            assert list(texts[language]) == list(texts["en"])
            for key, words in texts[language].items():
                assert set(re.findall(r"\{(\w+)\}", words)) == set(re.findall(r"\{(\w+)\}", texts["en"][key])), key


def test_an_experiment_that_is_not_there_is_one_sentence(course: Course) -> None:
    assert course.attempt("k", 2).controls["k"] == 12
    for name, index in (("k", 3), ("k", -1), ("nothing", 0)):
        with pytest.raises(LessonError, match="no experiment"):
            course.attempt(name, index)
