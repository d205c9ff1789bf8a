"""The page's events without a browser: what is refused, what a session keeps, what ends a run."""

from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from specdemo.catalog import drafter_note
from specdemo.errors import PromptError, SettingsError, SpecdemoError
from specdemo.race import DrafterInfo
from specdemo.traces import Trace, load, save
from specdemo.ui.form import MAX_PROMPT_CHARS, PAGE_FIELDS, checked_request
from specdemo.ui.handlers import PageHandlers
from specdemo.ui.head import race_head
from specdemo.ui.record import RaceRecord
from specdemo.ui.recorded import RecordedRaces
from specdemo.ui.texts import DRAFTERS
from tests.fakes_ui import ScriptedSource, Visit

FORM: dict[str, Any] = {
    "prompt": "Why do leaves fall?",
    "drafter": "quantized",
    "k": 4,
    "adaptive": False,
    "temperature": 0,
    "rule": "coupled",
    "seed": 0,
    "max_new_tokens": 32,
    "top_p": 1,
    "top_k": 0,
    "min_p": 0,
    "repetition_penalty": 1,
    "stop": "",
    "system": "",
    "raw": False,
    "precision": "auto",
}


def page(source: ScriptedSource, folder: Path) -> PageHandlers:
    """Handlers over a folder of recorded races."""
    return PageHandlers(source, RecordedRaces(folder))


def prepare(handlers: PageHandlers, record: RaceRecord, language: str = "en", **changed: Any) -> dict[str, Any]:
    """Press Race."""
    values = {**FORM, "evidence": False, **changed}
    return handlers.prepare(record, Visit(language), *(values[name] for name in PAGE_FIELDS))  # type: ignore[arg-type]


def finished(source: ScriptedSource, folder: Path) -> tuple[PageHandlers, RaceRecord, list[dict[str, Any]]]:
    """A race that ran to its end, with all values."""
    handlers, record = page(source, folder), RaceRecord()
    prepare(handlers, record)
    return handlers, record, list(handlers.run(record, Visit()))  # type: ignore[arg-type]


@pytest.mark.parametrize("prompt", ["", "   ", "\n", None])
def test_a_blank_prompt_is_refused_before_anything_else(prompt: str | None) -> None:
    with pytest.raises(PromptError, match="empty"):
        checked_request(ScriptedSource(state="loading"), {**FORM, "prompt": prompt})


def test_a_huge_prompt_is_counted_and_refused() -> None:
    with pytest.raises(PromptError, match="200,000"):
        checked_request(ScriptedSource(), {**FORM, "prompt": "x" * 200_000})
    assert MAX_PROMPT_CHARS < 200_000


@pytest.mark.parametrize("state", ["absent", "fetching", "loading", "failed"])
def test_before_there_is_a_model_the_sentence_says_what_happens(state: str) -> None:
    with pytest.raises(SpecdemoError, match="ecorded races"):
        checked_request(ScriptedSource(state=state, progress=0.5), FORM)


def test_an_empty_number_and_a_value_out_of_range_are_sentences() -> None:
    with pytest.raises(SettingsError, match="seed"):
        checked_request(ScriptedSource(), {**FORM, "seed": None})
    with pytest.raises(SettingsError, match="K is 17"):
        checked_request(ScriptedSource(), {**FORM, "k": 17})


def test_the_form_becomes_a_request() -> None:
    values = {**FORM, "drafter": None, "adaptive": True, "stop": "a\n\nb", "system": "Be brief."}
    request = checked_request(ScriptedSource(), values)
    assert request.drafter == "quantized", "the first drafter is the default"
    assert request.settings.schedule == "adaptive"
    assert request.settings.stop == ("a", "b")
    assert request.system == "Be brief."


def test_a_refused_race_leaves_the_session_as_it_was(tmp_path: Path) -> None:
    handlers, record = page(ScriptedSource(), tmp_path), RaceRecord()
    with pytest.raises(gr.Error) as error:
        prepare(handlers, record, prompt="forbidden")
    assert "&lt;b&gt;forbidden" in error.value.message, "the page renders HTML"
    assert (record.ticket, record.wanted) == (0, None)


def test_the_sentence_is_chinese_for_a_chinese_browser(tmp_path: Path) -> None:
    with pytest.raises(gr.Error) as error:
        prepare(page(ScriptedSource(), tmp_path), RaceRecord(), "zh-CN,zh;q=0.9", prompt="")
    assert "\u63d0\u793a\u8bcd" in error.value.message


def test_a_race_streams_and_ends_with_its_verdict(tmp_path: Path) -> None:
    _, record, values = finished(ScriptedSource(seconds_per_update=0.005), tmp_path)
    assert values[-1]["state"] == "done"
    assert values[-1]["done"]["identical"] is True
    assert {value["run"] for value in values} == {values[0]["run"]}
    assert 3 <= len(values) <= 5, "yielded seldom: the page asks for the rows in between"
    assert record.trace() is not None


def test_a_stopped_race_is_closed_and_can_be_saved(tmp_path: Path) -> None:
    source = ScriptedSource(seconds_per_update=0.02)
    handlers, record = page(source, tmp_path), RaceRecord()
    prepare(handlers, record)
    values = handlers.run(record, Visit())  # type: ignore[arg-type]
    assert [next(values)["state"] for _ in range(2)] == ["running"] * 2
    handlers.stop(record)
    assert list(values) == []
    assert (source.closed, source.running) == (1, 0)
    trace = load(Path(handlers.save_file(record, Visit())))  # type: ignore[arg-type]
    assert [trace.events(lane)[-1].reason for lane in ("plain", "speculative")] == ["cancelled"] * 2  # type: ignore[union-attr]


def test_a_race_stopped_while_it_waits_never_runs(tmp_path: Path) -> None:
    source = ScriptedSource()
    handlers, record = page(source, tmp_path), RaceRecord()
    prepare(handlers, record)
    handlers.stop(record)
    assert list(handlers.run(record, Visit())) == []  # type: ignore[arg-type]
    assert source.started == 0


def test_a_newer_race_ends_the_older(tmp_path: Path) -> None:
    source = ScriptedSource(seconds_per_update=0.02)
    handlers, record = page(source, tmp_path), RaceRecord()
    prepare(handlers, record)
    older = handlers.run(record, Visit())  # type: ignore[arg-type]
    next(older)
    prepare(handlers, record, k=8)
    assert list(older) == []
    newer = list(handlers.run(record, Visit()))  # type: ignore[arg-type]
    assert newer[-1]["head"]["k"] == 8
    assert source.closed == 2


def test_an_error_of_the_engine_is_shown_on_the_page_and_as_a_sentence(tmp_path: Path) -> None:
    class Broken(ScriptedSource):
        def race(self, request: object) -> Any:
            raise PromptError("the prompt has <9000> tokens.")

    handlers, record = page(Broken(), tmp_path), RaceRecord()
    prepare(handlers, record)
    values = handlers.run(record, Visit())  # type: ignore[arg-type]
    next(values)
    assert next(values)["message"] == "the prompt has <9000> tokens."
    with pytest.raises(gr.Error, match="&lt;9000&gt;"):
        next(values)


def test_a_bug_never_leaves_the_page_waiting(tmp_path: Path) -> None:
    class Broken(ScriptedSource):
        def race(self, request: object) -> Any:
            raise ZeroDivisionError

    handlers, record = page(Broken(), tmp_path), RaceRecord()
    prepare(handlers, record)
    values = handlers.run(record, Visit())  # type: ignore[arg-type]
    assert [next(values)["state"] for _ in range(2)] == ["running", "failed"]
    with pytest.raises(ZeroDivisionError):
        next(values)


def test_save_then_open_shows_the_same_rows(tmp_path: Path) -> None:
    handlers, record, values = finished(ScriptedSource(), tmp_path)
    opened = handlers.open_file(handlers.save_file(record, Visit()), RaceRecord(), Visit())  # type: ignore[arg-type]
    assert opened["rows"] == values[-1]["rows"]
    assert opened["done"] == values[-1]["done"]
    assert opened["head"]["origin"] == "file"


def test_what_is_no_trace_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("<not json>")
    with pytest.raises(gr.Error, match="not a trace"):
        page(ScriptedSource(), tmp_path).open_file(str(tmp_path / "x.txt"), RaceRecord(), Visit())  # type: ignore[arg-type]
    with pytest.raises(gr.Error, match="No race"):
        page(ScriptedSource(), tmp_path).save_file(RaceRecord(), Visit())  # type: ignore[arg-type]


def test_recorded_races_are_listed_and_a_damaged_one_is_left_out(tmp_path: Path) -> None:
    _, record, _ = finished(ScriptedSource(), tmp_path / "none")
    trace = record.trace()
    assert trace is not None
    save(Trace("digits", "loses", trace.request, trace.provenance, trace.updates), tmp_path / "a.json")
    save(Trace("leaves", "chat", trace.request, trace.provenance, trace.updates), tmp_path / "b.json")
    (tmp_path / "c.json").write_text("{}")
    races = RecordedRaces(tmp_path)
    assert races.choices == [("chat \u00b7 leaves", "b"), ("loses \u00b7 digits", "a")]
    handlers = page(ScriptedSource(), tmp_path)
    assert handlers.first_value()["head"]["origin"] == "recorded"
    with pytest.raises(gr.Error, match="no such"):
        handlers.pick("../b", RaceRecord(), Visit())  # type: ignore[arg-type]


def test_without_recorded_races_the_page_is_idle(tmp_path: Path) -> None:
    assert page(ScriptedSource(), tmp_path).first_value()["state"] == "idle"


def test_a_head_trusts_no_type() -> None:
    odd = {"prompt": 5, "drafter": None, "settings": [1], "x": {}}
    head = race_head(Trace("t\ud800", "c", odd, {"device": ["x"]}, ()), "file")
    assert (head["prompt"], head["drafter"], head["k"], head["machine"]) == ("t?", "", 4, "")


def test_the_menu_of_drafters_speaks_chinese_and_a_note_stays_behind_its_name(tmp_path: Path) -> None:
    _, menu, _ = page(ScriptedSource(), tmp_path).engine(None, Visit("zh-TW"))  # type: ignore[arg-type]
    assert menu.choices[0] == (DRAFTERS["zh-TW"]["quantized"], "quantized")
    assert menu.choices[0][0].startswith("4 \u4f4d\u5143\u76ee\u6a19\u6a21\u578b\uff1a")
    assert menu.info == "n-gram\uff1ano weights"


def test_why_a_drafter_is_not_the_default_is_said_in_the_visitors_language(tmp_path: Path) -> None:
    class Slow(ScriptedSource):
        def drafters(self) -> tuple[DrafterInfo, ...]:
            return (DrafterInfo("ngram", "n-gram: copies", drafter_note("note_too_dear", cost="0.93")),)

    infos = [page(Slow(), tmp_path).engine(None, Visit(code))[1].info for code in ("en", "zh-CN", "zh-HK")]  # type: ignore[arg-type]
    assert infos[0].startswith("n-gram: a pass of the four-bit drafter costs 0.93 of a target pass")
    for info, words in zip(infos[1:], ("\u4e0d\u5212\u7b97", "\u524d\u5411\u8a08\u7b97"), strict=True):
        assert words in info
        assert "0.93" in info
