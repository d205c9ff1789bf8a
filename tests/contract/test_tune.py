"""Sweeps and advice on a real engine with a tiny target."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from specdemo.advice import Advice, AdviceRequest, AdviceStep
from specdemo.engine import Engine
from specdemo.errors import SpecdemoError
from specdemo.events import Finished, Started
from specdemo.metrics import emitted_token_ids
from specdemo.points import points
from specdemo.prompt_set import SweepPrompt
from specdemo.race import RaceRequest
from specdemo.sweeps import PLAIN, HeatResult, SweepProgress, SweepRequest, SweepUpdate
from specdemo.tune import advise, run_sweep
from tests.contract.test_cli import document_of, run_main

PROMPTS = (SweepPrompt("a", "en", "one two one two"), SweepPrompt("b", "en", "two one"))
REQUEST = SweepRequest(prompts=PROMPTS, drafters=("ngram", "early-exit:1"), ks=(1, 3), max_new_tokens=10)


@pytest.fixture(scope="module")
def engine(folder: str) -> Engine:
    """Over a tiny target."""
    return Engine.load(folder, lambda message, share: None)


def heats(updates: Iterator[SweepUpdate]) -> list[HeatResult]:
    """The finished ones."""
    return [update for update in updates if isinstance(update, HeatResult)]


@pytest.mark.parametrize(("temperature", "rule"), [(0.0, "auto"), (0.8, "coupled")])
def test_every_lane_of_a_heat_is_the_same_answer_as_alone(engine: Engine, temperature: float, rule: str) -> None:
    request = SweepRequest(
        prompts=PROMPTS[:1], drafters=REQUEST.drafters, ks=REQUEST.ks, temperatures=(temperature,), rules=(rule,)
    )
    for result in heats(run_sweep(engine, request)):
        asked = RaceRequest(prompt=PROMPTS[0].prompt, drafter="none", settings=request.settings(result.heat, PLAIN))
        alone = emitted_token_ids(engine.lane(asked, engine.encode(asked), "none"))
        assert set(result.lanes) == {PLAIN, 1, 3}
        for events in result.lanes.values():
            assert isinstance(events[0], Started)
            assert isinstance(events[-1], Finished)
            assert emitted_token_ids(events) == alone
    assert all(point.num_identical == 1 for point in points(request, heats(run_sweep(engine, request))))


def test_a_sweep_says_how_long_it_takes_and_goes_on_where_it_was_left(engine: Engine) -> None:
    updates = run_sweep(engine, REQUEST)
    foreseen = next(u.seconds_left for u in updates if isinstance(u, SweepProgress) if u.seconds_left is not None)
    assert foreseen > 0
    first = next(u for u in updates if isinstance(u, HeatResult))
    updates.close()  # type: ignore[attr-defined]
    rest = list(run_sweep(engine, REQUEST, (first,)))
    assert [first.heat, *(result.heat for result in rest if isinstance(result, HeatResult))] == list(REQUEST.heats())
    assert rest[0] == SweepProgress(1, 4)
    assert rest[-1] == SweepProgress(4, 4, 0.0)


def test_a_sweep_keeps_to_its_time(engine: Engine) -> None:
    updates = list(run_sweep(engine, REQUEST, (), 0.0))
    assert heats(iter(updates)) == []
    last = updates[-1]
    assert isinstance(last, SweepProgress)
    assert (last.num_done, last.num_all) == (0, 4)
    assert last.seconds_left


def test_what_cannot_be_run_is_said_before_anything_is_measured(engine: Engine) -> None:
    for changes in (
        {"drafters": ("ngram", "early-exit:99")},
        {"prompts": (PROMPTS[0], SweepPrompt("a", "", "x" * 9000))},
    ):
        request = SweepRequest(**{"prompts": PROMPTS, "drafters": ("ngram",), **changes})  # type: ignore[arg-type]
        with pytest.raises(SpecdemoError):
            next(run_sweep(engine, request))


def test_advice_names_what_was_measured_and_leaves_out_what_cannot_be_had(engine: Engine) -> None:
    request = AdviceRequest(
        prompts=tuple(prompt.prompt for prompt in PROMPTS),
        drafters=("ngram", "early-exit:1", "early-exit:99"),
        max_new_tokens=24,
        seconds=5,
    )
    *steps, advice = advise(engine, request)
    assert all(isinstance(step, AdviceStep) and 0 <= step.share <= 1 for step in steps)
    assert isinstance(advice, Advice)
    assert [drafter for drafter, _ in advice.failures] == ["early-exit:99"]
    assert (
        {one.drafter for one in advice.estimates} == {"ngram", "early-exit:1"} == {p.drafter for p in advice.measured}
    )
    assert [(one.drafter, one.k) for one in advice.every] == [
        (drafter, k) for drafter in ("ngram", "early-exit:1") for k in range(1, 9)
    ]
    best = max(advice.measured, key=lambda point: point.speedup or 0.0)
    assert (advice.drafter, advice.k) in {("none", 0), (best.drafter, best.k)}
    assert (advice.drafter == "none") == (advice.reason != "pays")
    assert all(point.num_identical == point.num_prompts for point in advice.measured)
    json.dumps(advice.to_dict(), allow_nan=False)


def test_advice_without_any_drafter_is_a_sentence(engine: Engine) -> None:
    with pytest.raises(SpecdemoError, match="no drafter can be had here; the first says: the exit layer is 99"):
        list(advise(engine, AdviceRequest(prompts=("one",), drafters=("early-exit:99",))))


def test_a_sweep_on_the_command_line_goes_on_from_its_file(
    capsys: pytest.CaptureFixture[str], folder: str, tmp_path: Path
) -> None:
    kept, report, prompts = tmp_path / "sweep.jsonl", tmp_path / "report.md", tmp_path / "prompts.txt"
    prompts.write_text("one two one\ntwo two one\n", encoding="utf-8")
    options = ["bench", "--sweep", "--target", folder, "--drafter", "ngram", "--k", "2", "--temperature", "0"]
    options += ["--prompts", str(prompts), "--max-new-tokens", "6", "-o", str(kept)]
    code, _, _ = run_main(capsys, *options, "--minutes", "0.00001")
    assert code == 0
    assert len(kept.read_text(encoding="utf-8").splitlines()) == 1
    code, output, _ = run_main(capsys, *options, "--report", str(report), "--json")
    document = json.loads(output)
    assert (code, document["num_heats"], document["num_all_heats"]) == (0, 2, 2)
    assert document["rows"][0]["identical"] == "2/2"
    assert "| ngram | 2 |" in report.read_text(encoding="utf-8")
    before = kept.read_bytes()
    again = document_of(run_main(capsys, *options)[1])
    assert again["rows"] == document["rows"]
    assert kept.read_bytes() == before


def test_advice_on_the_command_line(capsys: pytest.CaptureFixture[str], folder: str) -> None:
    options = ["advise", "one two one two", "--target", folder, "--drafter", "ngram", "--seconds", "5"]
    code, output, _ = run_main(capsys, *options, "--max-new-tokens", "12")
    assert code == 0
    assert "ngram" in output
    code, output, _ = run_main(capsys, *options, "--max-new-tokens", "12", "--json")
    assert (code, json.loads(output)["estimates"][0]["drafter"]) == (0, "ngram")


@pytest.mark.parametrize(
    "arguments",
    [
        ["bench", "--sweep", "--language", "xx"],
        ["bench", "--sweep", "--prompt-set", "none-such"],
        ["bench", "--prompts", "/no/such/file"],
        ["bench", "--sweep", "-o", "/no/such/folder/sweep.jsonl"],
        ["bench", "--report", "/no/such/folder/report.md"],
        ["advise", "--seconds", "0"],
        ["advise", "--drafter", "magic"],
        ["advise", "one", "--rule", "magic"],
    ],
    ids=" ".join,
)
def test_what_cannot_be_tuned_is_one_line(
    capsys: pytest.CaptureFixture[str], folder: str, arguments: list[str]
) -> None:
    code, output, error = run_main(capsys, *arguments, "--target", folder)
    assert (code, output) == (2, "")
    assert len(error.splitlines()) == 1
