"""The tab "Tune" without a browser: what is refused, what stays of a stopped sweep, what its files and charts hold."""

import csv
import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from specdemo.points import points
from specdemo.sweep_file import dumps
from specdemo.sweeps import HeatResult
from specdemo.ui.tune_charts import Charts
from specdemo.ui.tune_record import TuneRecord
from specdemo.ui.tune_sweep import SweepHandlers, sweep_request
from specdemo.ui.tune_wire import SweepWire
from tests.fakes_tune import SECONDS_A_HEAT, heat_result
from tests.fakes_ui import ScriptedSource, Visit

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


def sweeper(source: ScriptedSource, folder: Path = Path("nowhere")) -> SweepHandlers:
    return SweepHandlers(source, folder)


def swept(record: TuneRecord, source: ScriptedSource | None = None, **changed: Any) -> list[dict[str, Any]]:
    """All values of a sweep, from the press of Start."""
    handlers = sweeper(source or ScriptedSource())
    first = handlers.prepare(record, VISIT, *{**SWEEP, **changed}.values())
    return [first, *handlers.run(record, VISIT)]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"categories": None}, "tick one kind"),
        ({"drafters": []}, "drafter"),
        ({"ks": None}, "K"),
        ({"temperatures": []}, "temperature"),
        ({"drafters": ["none"]}, "plain decoding itself"),
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


def test_before_there_is_a_model_nothing_is_measured() -> None:
    loading = ScriptedSource(state="loading")
    with pytest.raises(gr.Error, match="not ready"):
        sweeper(loading).prepare(TuneRecord(), VISIT, *SWEEP.values())


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
    document = json.loads(Path(handlers.save_json(record, VISIT)).read_text(encoding="utf-8"))
    assert len(document["rows"]) == len(shown)
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
    speedup, tokens, costs, positions, heat = (json.loads(figure.plot)["data"] for figure in figures)
    assert record.request is not None
    measured = points(record.request, record.results)
    mine = [one for one in measured if (one.drafter, one.temperature) == ("eagle3", 0.0)]
    expected = [one.speedup for one in mine]
    # A measured line and the formula's, drafter by drafter.
    assert [line["y"] for line in speedup[2:]] == [expected, [one.predicted_speedup for one in mine]]
    assert [len(line["x"]) for line in speedup] == [2, 2, 2, 2]
    assert [line["y"] for line in tokens[2:]] == [
        [one.tokens_per_round for one in mine],
        [one.expected_tokens_per_round for one in mine],
    ]
    assert costs[1]["y"] == [one.draft_cost for one in mine]
    assert costs[-1]["x"] == [one.k for one in mine]
    assert heat[0]["z"][0] == expected
    assert len(positions[0]["y"]) == 4


def test_each_of_several_rules_has_a_line_of_its_own() -> None:
    request = replace(sweep_request("en", *{**SWEEP, "temperatures": [0.7]}.values()), rules=("coupled", "rejection"))
    measured = points(request, [heat_result(request, heat) for heat in request.heats()])
    lines = json.loads(Charts(measured, "en").speedup(0.7).plot)["data"]
    assert [line["name"] for line in lines[::2]] == [
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
