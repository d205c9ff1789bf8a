"""The tab "Tune" without a browser: what is refused, what stays of a stopped sweep, what its files and charts hold."""

import csv
import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdemo.points import points
from specdemo.prompt_set import CATEGORIES, load_prompt_set
from specdemo.sweep_file import dumps
from specdemo.sweeps import HeatResult
from specdemo.ui.form import FIELDS
from specdemo.ui.handlers import PageHandlers
from specdemo.ui.recorded import RecordedRaces
from specdemo.ui.texts_tune import TUNE, TUNE_LABELS
from specdemo.ui.tune_advice import AdviceHandlers, advice_request
from specdemo.ui.tune_charts import Charts
from specdemo.ui.tune_prompts import chosen_prompts, read_file
from specdemo.ui.tune_record import TuneRecord
from specdemo.ui.tune_sweep import SweepHandlers, sweep_request
from specdemo.ui.tune_wire import SweepWire
from tests.fakes_tune import SECONDS_A_HEAT, heat_result
from tests.fakes_ui import ScriptedSource, Visit

ADVICE = {
    "own": "Why do leaves fall?\nName three fruits.\nCount to five.",
    "categories": ["code"],
    "languages": ["en"],
    "temperature": 0.5,
    "rule": "coupled",
    "seconds": 30,
}
SWEEP = {
    "own": "",
    "categories": ["code", "story"],
    "languages": ["en", "zh"],
    "drafters": ["ngram", "eagle3"],
    "ks": [1, 4],
    "temperatures": [0.0, 0.7],
    "each": 1,
    "max_new_tokens": 32,
    "minutes": 5,
}
VISIT: Any = Visit()
NUM_HEATS = 4 * 2 * 2


def advisor(source: ScriptedSource, folder: Path) -> AdviceHandlers:
    return AdviceHandlers(source, PageHandlers(source, RecordedRaces(folder)))


def sweeper(source: ScriptedSource, folder: Path = Path("nowhere")) -> SweepHandlers:
    return SweepHandlers(source, folder)


def swept(record: TuneRecord, source: ScriptedSource | None = None, **changed: Any) -> list[dict[str, Any]]:
    """All values of a sweep, from the press of Start."""
    handlers = sweeper(source or ScriptedSource())
    first = handlers.prepare(record, VISIT, *{**SWEEP, **changed}.values())
    return [first, *handlers.run(record, VISIT)]


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
    fields = dict(zip(FIELDS, advisor(ScriptedSource(), tmp_path).race(record, VISIT), strict=True))
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
    assert all("value" not in one for one in advisor(ScriptedSource(), tmp_path).race(record, VISIT))


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


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"categories": None}, "tick one kind"),
        ({"drafters": []}, "drafter"),
        ({"ks": None}, "K"),
        ({"temperatures": []}, "temperature"),
        ({"drafters": ["none"]}, "plain lane"),
        ({"max_new_tokens": 0}, "max-new-tokens"),
    ],
)
def test_a_sweep_that_cannot_run_is_refused_and_what_was_measured_stays(changed: dict[str, Any], words: str) -> None:
    record = TuneRecord()
    swept(record)
    kept = list(record.results)
    with pytest.raises(gr.Error, match=words):
        sweeper(ScriptedSource()).prepare(record, VISIT, *{**SWEEP, **changed}.values())
    assert record.results == kept != []


def test_before_there_is_a_model_nothing_is_measured(tmp_path: Path) -> None:
    loading = ScriptedSource(state="loading")
    with pytest.raises(gr.Error, match="not ready"):
        sweeper(loading).prepare(TuneRecord(), VISIT, *SWEEP.values())
    with pytest.raises(gr.Error, match="not ready"):
        advisor(loading, tmp_path).prepare(TuneRecord(), VISIT, *ADVICE.values())


def test_a_sweep_waits_fills_and_is_done() -> None:
    record, source = TuneRecord(), ScriptedSource()
    found = swept(record, source)
    assert [one["state"] for one in (found[0], found[1], found[-1])] == ["waiting", "running", "done"]
    last = found[-1]
    assert (last["done"], last["all"]) == (NUM_HEATS, NUM_HEATS)
    assert [(row["drafter"], row["temperature"], row["k"]) for row in last["points"]] == [
        (drafter, temperature, k) for drafter in ("ngram", "eagle3") for temperature in (0.0, 0.7) for k in (1, 4)
    ]
    assert all(row["num_prompts"] == 4 for row in last["points"])
    assert (source.started, source.closed, source.running) == (1, 1, 0)


def test_a_sweep_out_of_time_goes_on_where_it_was() -> None:
    record, source = TuneRecord(), ScriptedSource()
    in_time = int(60 / SECONDS_A_HEAT)
    last = swept(record, source, minutes=1, categories=["code", "story", "chat"])[-1]
    assert (last["state"], last["done"]) == ("part", in_time)
    kept = list(record.results)
    handlers = sweeper(source)
    again = [handlers.go_on(record, 1, VISIT), *handlers.run(record, VISIT)]
    assert source.resumed_with == tuple(kept)
    assert again[0]["done"] == in_time
    assert (again[-1]["state"], len(record.results)) == ("done", again[-1]["all"])
    assert record.results[:in_time] == kept
    with pytest.raises(gr.Error, match="Everything of this sweep"):
        handlers.go_on(record, 1, VISIT)


def test_stop_keeps_what_was_measured_and_a_newer_sweep_ends_an_older_one() -> None:
    record, source = TuneRecord(), ScriptedSource(seconds_per_update=0.1)
    handlers = sweeper(source)
    handlers.prepare(record, VISIT, *SWEEP.values())
    running = handlers.run(record, VISIT)
    while not record.results:
        next(running)
    stopped = handlers.stop(record)
    assert (stopped["state"], stopped["done"]) == ("stopped", len(record.results))
    assert stopped["points"]
    num_kept = len(record.results)
    # What was on its way is shown, and no more is measured.
    assert {one["state"] for one in running} <= {"running"}
    assert (len(record.results), source.running) == (num_kept, 0)
    handlers.prepare(record, VISIT, *SWEEP.values())
    handlers.stop(record)
    assert list(handlers.run(record, VISIT)) == []
    with pytest.raises(gr.Error, match="no sweep yet"):
        handlers.go_on(TuneRecord(), 1, VISIT)


def test_a_point_is_the_same_whether_heats_come_one_by_one_or_at_once() -> None:
    request = sweep_request("en", *SWEEP.values())
    results = [heat_result(request, heat) for heat in request.heats()]
    one_by_one = SweepWire(request)
    for result in results:
        one_by_one.add([result])
        one_by_one.value("running")
    assert one_by_one.value("done")["points"] == SweepWire(request, results).value("done")["points"]


def test_a_saved_sweep_opens_as_it_was_and_a_foreign_file_is_refused(tmp_path: Path) -> None:
    record, opened = TuneRecord(), TuneRecord()
    shown = swept(record)[-1]
    handlers = sweeper(ScriptedSource())
    path = handlers.save(record, VISIT)
    assert Path(path).name == "sweep.jsonl"
    value = handlers.open_file(path, opened, VISIT)
    assert (value["state"], value["points"]) == ("opened", shown["points"])
    assert (opened.request, opened.results, opened.provenance) == (record.request, record.results, record.provenance)
    kept = list(opened.results)
    wrong: list[tuple[bytes, str]] = [
        (b"{}\n", "version"),
        (b"\xff\xfe", "UTF-8"),
        (_text_with_a_foreign_heat(record).encode(), "does not have"),
    ]
    for content, words in wrong:
        file = tmp_path / "wrong.jsonl"
        file.write_bytes(content)
        with pytest.raises(gr.Error, match=words):
            handlers.open_file(str(file), opened, VISIT)
    assert opened.results == kept


def _text_with_a_foreign_heat(record: TuneRecord) -> str:
    assert record.request is not None
    first = record.results[0]
    foreign = HeatResult(replace(first.heat, prompt_index=99), first.lanes)
    return dumps(record.request, {}, [foreign])


def test_points_as_csv_and_json_are_those_of_the_table(tmp_path: Path) -> None:
    record = TuneRecord()
    shown = swept(record)[-1]["points"]
    handlers = sweeper(ScriptedSource())
    rows = list(csv.DictReader(Path(handlers.save_csv(record, VISIT)).read_text(encoding="utf-8").splitlines()))
    assert [(row["drafter"], int(row["k"])) for row in rows] == [(row["drafter"], row["k"]) for row in shown]
    assert [float(row["speedup"]) for row in rows] == pytest.approx([row["speedup"] for row in shown], rel=1e-3)
    assert [float(row["interval_low"]) for row in rows] == pytest.approx(
        [row["interval"][0] for row in shown], rel=1e-3
    )
    document = json.loads(Path(handlers.save_json(record, VISIT)).read_text(encoding="utf-8"))
    assert len(document["points"]) == len(shown)
    assert len(document["by_category"]) == 4 * len(shown)
    assert document["provenance"]["device"] == "2 CPU cores"
    for save in (handlers.save, handlers.save_csv, handlers.save_json):
        with pytest.raises(gr.Error, match="no sweep yet"):
            save(TuneRecord(), VISIT)


def test_charts_hold_the_points_and_keep_the_choice_that_still_stands() -> None:
    record = TuneRecord()
    swept(record)
    handlers = sweeper(ScriptedSource())
    assert handlers.results(TuneRecord(), None, None, VISIT)[0]["visible"] is False
    column, drafter, temperature, *figures, shown, marked = handlers.results(record, "eagle3", "9", VISIT)
    assert column["visible"]
    assert (drafter["value"], temperature["value"], shown["shown"]) == (
        "eagle3",
        "0",
        {"drafter": "eagle3", "temperature": 0.0},
    )
    assert len(marked["points"]) == 8
    speedup, tokens, heat, positions = (json.loads(figure.plot)["data"] for figure in figures)
    assert record.request is not None
    measured = points(record.request, record.results)
    expected = [one.speedup for one in measured if (one.drafter, one.temperature) == ("eagle3", 0.0)]
    assert speedup[1]["y"] == expected
    assert [len(line["x"]) for line in speedup] == [2, 2]
    assert len(tokens) == 4
    assert heat[0]["z"][0] == expected
    assert len(positions[0]["y"]) == 4


def test_each_of_several_rules_has_a_line_of_its_own() -> None:
    request = replace(sweep_request("en", *{**SWEEP, "temperatures": [0.7]}.values()), rules=("coupled", "rejection"))
    measured = points(request, [heat_result(request, heat) for heat in request.heats()])
    lines = json.loads(Charts(measured, "en").speedup(0.7).plot)["data"]
    assert [line["name"] for line in lines] == [
        "n-gram, coupled",
        "n-gram, rejection",
        "EAGLE-3, coupled",
        "EAGLE-3, rejection",
    ]


def test_the_grid_shows_the_sessions_sweep_else_the_newest_that_ships_else_says_so(tmp_path: Path) -> None:
    record = TuneRecord()
    swept(record)
    assert sweeper(ScriptedSource(), tmp_path).grid(TuneRecord()) == {"origin": "none", "cells": []}
    own = sweeper(ScriptedSource(), tmp_path).grid(record)
    assert own["origin"] == "own"
    assert {(cell["category"], cell["language"]) for cell in own["cells"]} == {
        (category, language) for category in ("code", "story") for language in ("en", "zh")
    }
    assert record.request is not None
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    text = dumps(record.request, {"device": "4 CPU cores"}, record.results)
    (shipped / "one.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    recorded = sweeper(ScriptedSource(), shipped).grid(TuneRecord())
    assert (recorded["origin"], recorded["machine"]) == ("recorded", "4 CPU cores")
    assert recorded["cells"] == own["cells"]


def test_a_file_of_prompts_comes_into_the_box_as_the_same_prompts(tmp_path: Path) -> None:
    lines = tmp_path / "mine.txt"
    lines.write_text("One <b>x</b>?\n\nTwo ${y}?\n", encoding="utf-8")
    assert read_file(str(lines), VISIT) == "One <b>x</b>?\nTwo ${y}?"
    objects = tmp_path / "mine.json"
    objects.write_text('[{"prompt": "a\\nb", "category": "c", "language": "fr"}, {"prompt": "d"}]', encoding="utf-8")
    swept_prompts = sweep_request("en", *{**SWEEP, "own": read_file(str(objects), VISIT)}.values()).prompts
    assert [(one.prompt, one.category, one.language) for one in swept_prompts] == [
        ("a\nb", "c", "fr"),
        ("d", "own", "any"),
    ]
    brackets = tmp_path / "brackets.txt"
    brackets.write_text("[1] is what?\nplain", encoding="utf-8")
    own = read_file(str(brackets), VISIT)
    assert [one.prompt for one in sweep_request("en", *{**SWEEP, "own": own}.values()).prompts] == [
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
