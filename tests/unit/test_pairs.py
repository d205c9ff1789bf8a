"""The list of published pairs: what it says of itself, what its check refuses, how it is printed."""

import json
from pathlib import Path
from typing import Any

import pytest

from specdemo.catalog import DRAFTER_LABELS
from specdemo.cli import main
from specdemo.errors import ModelError
from specdemo.pairs import NOT_CHECKED, SHIPPED_PAIRS, load_pairs

KNOWN = {*DRAFTER_LABELS, None}


def test_every_drafter_is_of_a_family_and_for_a_target_of_the_list() -> None:
    pairs = load_pairs()
    assert len(pairs.targets) >= 20
    assert {entry.family for entry in pairs.drafters} <= KNOWN
    assert {name for entry in pairs.targets for name in entry.families} <= KNOWN
    lonely = [entry.repository for entry in pairs.targets if not pairs.drafters_of(entry.repository)]
    # These draft from themselves: by n-grams, their first layers or a layer of their own.
    expected = {
        "SmolLM2-135M-Instruct",
        "SmolLM3-3B",
        "Qwen3-0.6B",
        "Qwen3.5-0.8B",
        "Qwen3.5-2B",
        "layerskip-llama3.2-1B",
    }
    assert {name.partition("/")[2] for name in lonely} == expected


def test_the_modes_of_the_papers_are_there() -> None:
    pairs = load_pairs()
    modes = {name: pairs.drafter(name) for name in ("z-lab/Qwen3-4B-DFlash-b16", "z-lab/Qwen3.5-4B-DFlash")}
    assert [entry and entry.thinking for entry in modes.values()] == [False, True]


def broken(change: Any) -> dict[str, Any]:
    values = json.loads(SHIPPED_PAIRS.read_text(encoding="utf-8"))
    change(values)
    return dict(values)


BROKEN = {
    "an invented revision": (lambda values: values["targets"][0].update(revision="main"), "targets.0.revision"),
    "no name": (lambda values: values["drafters"][1].update(repository="Qwen3"), "drafters.1.repository"),
    "an unknown key": (lambda values: values["targets"][0].update(stars=5), "targets.0.stars"),
    "a missing key": (lambda values: values["drafters"][0].pop("thinking"), "drafters.0.thinking"),
    "a number as text": (lambda values: values["targets"][0].update(num_bytes="8 GB"), "targets.0.num_bytes"),
    "a target that is not listed": (
        lambda values: values["drafters"][0].update(targets=["a/b"]),
        "a/b, which is no target",
    ),
    "one twice": (lambda values: values["targets"].append(values["targets"][0]), "stands there twice"),
    "another format": (lambda values: values.update(format=2), "format"),
}


@pytest.mark.parametrize(("change", "sentence"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_list_is_refused_in_a_sentence(change: Any, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "pairs.json"
    path.write_text(json.dumps(broken(change)), encoding="utf-8")
    with pytest.raises(ModelError) as caught:
        load_pairs(path)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_it_is_printed_with_what_was_not_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pairs", "--target", "Qwen/Qwen3-4B"]) == 0
    text = capsys.readouterr().out
    assert "z-lab/Qwen3-4B-DFlash-b16" in text
    assert "thinking off" in text
    assert "gemma" not in text
    assert NOT_CHECKED in text
    assert main(["pairs", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["targets"]) == len(load_pairs().targets)
    assert {entry["revision"] for entry in document["drafters"]} == {None}
