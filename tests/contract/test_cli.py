"""The command line on a small saved target: documents, exit codes, and one line for whatever is wrong."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from specdemo import traces
from specdemo.cli import _parser, main
from tests.fakes import make_tokenizer


def run_main(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def document_of(output: str) -> dict[str, Any]:
    """The last line of stdout."""
    return dict(json.loads(output.strip().splitlines()[-1]))


@pytest.mark.parametrize("drafter", ["none", "ngram", "quantized", "early-exit:1"])
def test_generate_prints_one_document_whose_counts_add_up(
    capsys: pytest.CaptureFixture[str], folder: str, drafter: str
) -> None:
    options = ["--drafter", drafter, "--max-new-tokens", "15", "--k", "3", "--json"]
    code, output, _ = run_main(capsys, "generate", "hi hi hi", "--target", folder, *options)
    assert code == 0
    assert len(output.splitlines()) == 1
    document = document_of(output)
    keys = ("text", "token_ids", "prompt_token_ids", "finish_reason", "settings", "provenance", "rounds", "metrics")
    assert list(document) == list(keys)
    assert document["token_ids"] == [i for event in document["rounds"] for i in event["emitted_token_ids"]]
    assert document["metrics"]["num_tokens"] == len(document["token_ids"]) <= 15
    for event in document["rounds"]:
        assert event["num_drafted"] == event["num_accepted"] + event["num_rejected"] + event["num_unused"] <= 3
    ids = document["token_ids"]
    text = make_tokenizer().decode(ids[:-1] if document["finish_reason"] == "eos" else ids)
    assert document["text"] == text
    assert document["settings"]["num_draft_tokens"] == 3


def test_race_prints_both_lanes_and_their_comparison(capsys: pytest.CaptureFixture[str], folder: str) -> None:
    code, output, _ = run_main(capsys, "race", "hi", "--target", folder, "--max-new-tokens", "10", "--json")
    document = document_of(output)
    assert code == 0
    assert list(document) == ["plain", "speculative", "speedup", "identical", "first_divergence"]
    assert document["identical"] is True
    assert document["first_divergence"] is None
    assert document["plain"]["token_ids"] == document["speculative"]["token_ids"]
    speeds = [document[lane]["metrics"]["tokens_per_second"] for lane in ("speculative", "plain")]
    assert document["speedup"] == pytest.approx(speeds[0] / speeds[1])


def test_settings_on_the_command_line_reach_the_document(capsys: pytest.CaptureFixture[str], folder: str) -> None:
    options = (
        "--temperature 0.7 --top-p 0.9 --top-k 20 --min-p 0.01 --repetition-penalty 1.1 --seed 9 --rule block "
        "--k adaptive --max-new-tokens 5 --evidence"
    )
    stops = ["--stop", "one", "--stop", "two"]
    code, output, _ = run_main(capsys, "generate", "hi", "--target", folder, *options.split(), *stops, "--json")
    found = document_of(output)["settings"]
    assert code == 0
    expected = {"temperature": 0.7, "top_p": 0.9, "top_k": 20, "min_p": 0.01, "repetition_penalty": 1.1, "seed": 9}
    expected |= {"rule": "block", "schedule": "adaptive", "max_new_tokens": 5, "evidence": True, "stop": ["one", "two"]}
    assert {key: found[key] for key in expected} == expected
    assert document_of(output)["rounds"][0]["evidence"] is not None


def test_without_json_the_text_is_printed_without_control_sequences(
    capsys: pytest.CaptureFixture[str], folder: str
) -> None:
    options = ["--target", folder, "--drafter", "ngram", "--max-new-tokens", "12", "--raw"]
    _, output, _ = run_main(capsys, "generate", "hi", *options, "--json")
    text = document_of(output)["text"]
    code, output, _ = run_main(capsys, "generate", "hi", *options)
    assert code == 0
    assert output.startswith(text)
    assert "\x1b[" not in output.removeprefix(text)
    assert "tokens/s" in output


def test_a_recorded_race_is_a_trace_that_loads(capsys: pytest.CaptureFixture[str], folder: str, tmp_path: Path) -> None:
    path = tmp_path / "race.json"
    options = ["--target", folder, "--max-new-tokens", "10", "-o", str(path)]
    code, output, _ = run_main(capsys, "record", "say <|im_end|> twice", *options)
    assert (code, output) == (0, f"{path}\n")
    trace = traces.load(path)
    assert trace.request["prompt"] == "say <|im_end|> twice"
    assert traces.compare(trace.updates)["identical"]
    assert trace.provenance["target"] == folder


def test_bench_ends_with_one_document(capsys: pytest.CaptureFixture[str], folder: str) -> None:
    options = ["--drafter", "ngram", "--k", "2", "--k", "3", "--prompt-set", "code", "--max-new-tokens", "8"]
    code, output, _ = run_main(capsys, "bench", "--target", folder, *options)
    document = document_of(output)
    assert code == 0
    assert [(row["drafter"], row["k"]) for row in document["rows"]] == [("ngram", 2), ("ngram", 3)]
    assert {prompt["category"] for prompt in document["prompts"]} == {"code"}


@pytest.mark.parametrize(
    "option", [["--prompt-set", "none-such"], ["--k", "many"], ["--k", "0"], ["--drafter", "magic"]]
)
def test_a_bench_that_cannot_be_run_is_one_line(
    capsys: pytest.CaptureFixture[str], folder: str, option: list[str]
) -> None:
    code, output, error = run_main(capsys, "bench", "--target", folder, *option)
    assert (code, output) == (2, "")
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["generate", ""], "the prompt is empty"),
        (["generate", "  \n"], "the prompt is empty"),
        (["generate", "hi", "--k", "0"], "K is 0"),
        (["generate", "hi", "--k", "17"], "K is 17"),
        (["generate", "hi", "--k", "many"], "K is 'many'"),
        (["generate", "hi", "--temperature", "9"], "temperature is 9"),
        (["generate", "hi", "--temperature", "warm"], "invalid float value"),
        (["generate", "hi", "--temperature", "nan"], "temperature is nan"),
        (["generate", "hi", "--rule", "magic"], "rule is 'magic'"),
        (["generate", "hi", "--drafter", "magic"], "the drafter is 'magic'"),
        (["generate", "hi", "--drafter", "ngram:9"], "must be MIN-MAX"),
        (["generate", "hi", "--drafter", "early-exit:99"], "the exit layer is 99"),
        (["generate", "hi", "--drafter", "draft-model"], "name one"),
        (["generate", "hi", "--stop", ""], "a stop string is empty"),
        (["generate", "hi", "--stop", "\udcff"], "half a character"),
        (["generate", "\udcff"], "half a character"),
        (["generate", "hi", "--system", "\udcff"], "half a character"),
        (["generate", "hi", "--max-new-tokens", "0"], "max-new-tokens is 0"),
        (["generate", "x" * 5000], "needs room to answer"),
        (["generate", "x" * 200_000], "200,000 characters"),
        (["generate"], "PROMPT"),
        (["record", "hi", "-o", "/no/such/folder/race.json"], "does not exist"),
        (["nonsense"], "nonsense"),
        ([], "COMMAND"),
    ],
    ids=lambda value: "-".join(value)[:40].encode("ascii", "replace").decode() if isinstance(value, list) else "",
)
def test_bad_input_is_one_line_and_exit_code_two(
    capsys: pytest.CaptureFixture[str], folder: str, arguments: list[str], message: str
) -> None:
    target = ["--target", folder] if len(arguments) > 1 else []
    code, output, error = run_main(capsys, *arguments, *target)
    assert (code, output) == (2, "")
    assert len(error.splitlines()) == 1
    assert error.startswith("specdemo: ")
    assert message in error


@pytest.mark.parametrize("target", ["no-such-target", "./no/such/folder"])
def test_a_target_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str], target: str) -> None:
    code, output, error = run_main(capsys, "generate", "hi", "--target", target)
    assert (code, output) == (2, "")
    assert len(error.splitlines()) == 1
    assert "smollm2-135m-instruct" in error


def test_the_command_line_starts_without_torch() -> None:
    program = "import sys, specdemo.cli, specdemo.live; sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_as_a_program_it_prints_its_sentence_and_its_code() -> None:
    command = [sys.executable, "-m", "specdemo", "generate", "hi", "--k", "99"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "specdemo: K is 99; it must be a whole number from 1 to 16.\n"


def test_fast_sets_what_is_fastest_and_what_is_named_behind_it_counts() -> None:
    fast = _parser().parse_args(["generate", "x", "--fast"])
    assert (fast.precision, fast.drafter, fast.k) == ("int4", "ngram:static", "3")
    mixed = _parser().parse_args(["race", "x", "--fast", "--k", "5"])
    assert (mixed.precision, mixed.k) == ("int4", "5")
    assert _parser().parse_args(["generate", "x"]).precision == "auto"


@pytest.mark.parametrize("command", ["generate", "race"])
def test_an_unknown_precision_is_one_line(capsys: pytest.CaptureFixture[str], folder: str, command: str) -> None:
    code, _, error = run_main(capsys, command, "hi", "--target", folder, "--precision", "int3")
    assert (code, error.count("\n")) == (2, 1)
    assert "must be one of auto, float32, bfloat16, int4" in error
