"""The advisor of the tab "Tune" without a browser, the prompts that a person gives or chooses, and the texts."""

import json
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdemo.prompt_set import CATEGORIES, load_prompt_set
from specdemo.ui.form import FIELDS
from specdemo.ui.handlers import PageHandlers
from specdemo.ui.recorded import RecordedRaces
from specdemo.ui.texts_tune import TUNE, TUNE_LABELS
from specdemo.ui.tune_advice import AdviceHandlers, advice_request
from specdemo.ui.tune_prompts import chosen_prompts, own_prompts, read_file
from specdemo.ui.tune_record import TuneRecord
from tests.fakes_ui import ScriptedSource, Visit

VISIT: Any = Visit()
ADVICE = {
    "own": "Why do leaves fall?\nName three fruits.\nCount to five.",
    "categories": ["code"],
    "languages": ["en"],
    "temperature": 0.5,
    "rule": "coupled",
    "seconds": 30,
}


def advisor(source: ScriptedSource, folder: Path) -> AdviceHandlers:
    return AdviceHandlers(source, PageHandlers(source, RecordedRaces(folder)))


def advised(record: TuneRecord, folder: Path, **changed: Any) -> list[tuple[Any, ...]]:
    handlers = advisor(ScriptedSource(), folder)
    handlers.prepare(record, VISIT, *{**ADVICE, **changed}.values())
    return list(handlers.run(record, VISIT))


def test_advice_runs_and_its_race_has_the_advised_drafter_and_k(tmp_path: Path) -> None:
    record = TuneRecord()
    found = advised(record, tmp_path)
    view, race, calculator = found[-1]
    assert [one["state"] for one, *_ in (found[0], found[-1])] == ["running", "done"]
    assert (view["advice"]["drafter"], view["advice"]["k"], view["advice"]["interval"]) == ("ngram", 3, [1.2, 1.7])
    assert [one["engine"] for one in view["settings"]] == ["vLLM", "SGLang", "llama.cpp", "transformers"]
    assert race["visible"]
    assert [(one["drafter"], one["k"]) for one in calculator["points"]] == [("ngram", 3), ("ngram:static", 3)]
    fields = dict(zip(FIELDS, advisor(ScriptedSource(), tmp_path).put_into_race(record, VISIT), strict=True))
    assert fields["drafter"].value == "ngram"
    given_values = {name: fields[name]["value"] for name in ("prompt", "k", "temperature", "rule", "adaptive")}
    assert given_values == {
        "prompt": "Why do leaves fall?",
        "k": 3,
        "temperature": 0.5,
        "rule": "coupled",
        "adaptive": False,
    }
    assert json.dumps([one for one, *_ in found])


def test_advice_not_to_speculate_offers_no_race_and_no_settings(tmp_path: Path) -> None:
    record = TuneRecord()
    view, race, _ = advised(record, tmp_path, own="hopeless")[-1]
    assert (view["advice"]["k"], view["advice"]["reason"], view["settings"]) == (0, "draft", [])
    assert not race["visible"]
    assert all("value" not in one for one in advisor(ScriptedSource(), tmp_path).put_into_race(record, VISIT))


def test_without_prompts_of_ones_own_the_advice_takes_some_of_every_chosen_kind() -> None:
    asked = advice_request("en", *{**ADVICE, "own": " \n", "categories": ["code", "json"]}.values())
    kinds = {one.prompt: one.category for one in load_prompt_set()}
    assert sorted(kinds[prompt] for prompt in asked.prompts) == ["code"] * 5 + ["json"] * 4


@given(
    st.lists(st.sampled_from(CATEGORIES), unique=True, min_size=1),
    st.lists(st.sampled_from(["en", "zh"]), unique=True, min_size=1),
    st.integers(1, 8),
)
def test_any_number_of_chosen_prompts_from_the_front_is_a_fair_sample(
    categories: list[str], languages: list[str], most: int
) -> None:
    found = chosen_prompts("en", categories, languages, most)
    assert len(set(found)) == len(found)
    seen: dict[tuple[str, str], int] = {}
    order = []
    for one in found:
        kind = (one.category, one.language)
        order.append(seen.get(kind, 0))
        seen[kind] = order[-1] + 1
    assert order == sorted(order)
    assert set(seen) == {(category, language) for category in categories for language in languages}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"own": "", "categories": []}, "tick one kind"),
        ({"own": "\n".join(map(str, range(40)))}, "40 prompts"),
        ({"own": '{"prompt": 3}'}, "the box"),
        ({"own": "x" * 60_000}, "60,000"),
        ({"temperature": 9}, "temperature"),
        ({"rule": "magic"}, "rule"),
    ],
)
def test_advice_that_cannot_be_given_is_refused_with_a_sentence(
    changed: dict[str, Any], words: str, tmp_path: Path
) -> None:
    handlers, record = advisor(ScriptedSource(), tmp_path), TuneRecord()
    with pytest.raises(gr.Error, match=words):
        handlers.prepare(record, VISIT, *{**ADVICE, **changed}.values())
    assert record.wanted_advice is None


def test_a_file_of_prompts_comes_into_the_box_as_the_same_prompts(tmp_path: Path) -> None:
    lines = tmp_path / "mine.txt"
    lines.write_text("One <b>x</b>?\n\nTwo ${y}?\n", encoding="utf-8")
    assert read_file(str(lines), VISIT) == "One <b>x</b>?\nTwo ${y}?"
    objects = tmp_path / "mine.json"
    objects.write_text('[{"prompt": "a\\nb", "category": "c", "language": "fr"}, {"prompt": "d"}]', encoding="utf-8")
    swept_prompts = own_prompts(read_file(str(objects), VISIT), "en")
    assert [(one.prompt, one.category, one.language) for one in swept_prompts] == [
        ("a\nb", "c", "fr"),
        ("d", "own", "any"),
    ]
    brackets = tmp_path / "brackets.txt"
    brackets.write_text("[1] is what?\nplain", encoding="utf-8")
    own = read_file(str(brackets), VISIT)
    assert [one.prompt for one in own_prompts(own, "en")] == [
        "[1] is what?",
        "plain",
    ]
    empty = tmp_path / "empty.txt"
    empty.write_text("\n", encoding="utf-8")
    with pytest.raises(gr.Error, match="no prompt"):
        read_file(str(empty), VISIT)


@pytest.mark.parametrize("language", ["zh", "zh-TW"])
@pytest.mark.parametrize("texts", [TUNE, TUNE_LABELS], ids=["components", "labels"])
def test_all_languages_say_the_same_with_the_same_gaps(texts: dict[str, dict[str, str]], language: str) -> None:
    assert texts["en"].keys() == texts[language].keys()
    for key, english in texts["en"].items():
        gaps = [{part.split("}")[0] for part in text.split("{")[1:]} for text in (english, texts[language][key])]
        assert gaps[0] == gaps[1], key


def test_before_there_is_a_model_there_is_no_advice(tmp_path: Path) -> None:
    with pytest.raises(gr.Error, match="not ready"):
        advisor(ScriptedSource(state="loading"), tmp_path).prepare(TuneRecord(), VISIT, *ADVICE.values())
