"""Pairs that fit, and pairs wrong in many ways: all of it is said, a sentence each, before a weight is read."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import PreTrainedTokenizerFast

from specdemo.catalog import EMBEDDED_TARGET, TARGETS
from specdemo.cli import main
from specdemo.drafters import make_drafter
from specdemo.errors import SettingsError
from specdemo.findings import Report
from specdemo.preflight import machine, preflight
from specdemo.weights import is_fetched, target_folder
from tests.fakes import CHAT_TEMPLATE, answer, make_model, make_target, make_tokenizer, plain, run
from tests.published import change, change_tensors, random, write, write_dflash, write_eagle3, write_medusa

NO_SYSTEM_ROLE = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + CHAT_TEMPLATE
)
THINKING = CHAT_TEMPLATE + "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"


@dataclass(frozen=True)
class Pair:
    """Folders of a target and of drafters in several layouts."""

    target: Path
    eagle3: Path
    dflash: Path
    medusa: Path
    model: Path


def save(folder: Path, tokenizer: PreTrainedTokenizerFast | None = None, **changes: object) -> Path:
    make_model("llama", **changes).save_pretrained(folder)  # type: ignore[arg-type]
    (tokenizer or make_tokenizer()).save_pretrained(folder)
    return folder


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    torch.manual_seed(0)
    return Pair(
        save(tmp_path / "target"),
        write_eagle3(tmp_path / "one"),
        write_dflash(tmp_path / "two"),
        write_medusa(tmp_path / "three"),
        save(tmp_path / "four", num_hidden_layers=1),
    )


def checks(report: Report, grade: str) -> set[str]:
    return {finding.check for finding in report.findings if finding.grade == grade}


def test_pairs_that_fit_are_told_by_their_files_and_run(pair: Pair) -> None:
    expected = {pair.eagle3: "eagle3", pair.dflash: "dflash", pair.medusa: "medusa", pair.model: "draft-model"}
    target = make_target()
    for folder, family in expected.items():
        report = preflight(str(pair.target), str(folder))
        assert not report.is_refused, report.findings
        assert report.family == family
        drafter = make_drafter(str(folder), target)
        assert drafter.name == family
        events = run(target, drafter, tuple(range(10, 20)), max_new_tokens=8, num_draft_tokens=3)
        assert answer(events) == plain(target, tuple(range(10, 20)), max_new_tokens=8)
    # A family that was named is checked as one that was found.
    assert (
        preflight(str(pair.target), f"eagle3:{pair.eagle3}").findings
        == preflight(str(pair.target), str(pair.eagle3)).findings
    )


def eagle3_config(**values: object) -> Callable[[Pair], Path]:
    def damage(pair: Pair) -> Path:
        change(pair.eagle3, **values)
        return pair.eagle3

    return damage


def eagle3_tensors(**tensors: torch.Tensor) -> Callable[[Pair], Path]:
    def damage(pair: Pair) -> Path:
        change_tensors(pair.eagle3, **tensors)
        return pair.eagle3

    return damage


def dflash_config(**values: object) -> Callable[[Pair], Path]:
    def damage(pair: Pair) -> Path:
        change(pair.dflash, **values)
        return pair.dflash

    return damage


def another_tokenizer(pair: Pair) -> Path:
    """Of the same size, in which two bytes have changed places."""
    path = pair.eagle3
    make_tokenizer().save_pretrained(path)
    values = json.loads((path / "tokenizer.json").read_text(encoding="utf-8"))
    words = values["model"]["vocab"]
    words["A"], words["B"] = words["B"], words["A"]
    (path / "tokenizer.json").write_text(json.dumps(values), encoding="utf-8")
    return path


def medusa_of_another_width(pair: Pair) -> Path:
    change_tensors(pair.medusa, **{"0__0__linear__weight": random(96, 96)})
    return pair.medusa


def an_eagle_of_the_first_kind(pair: Pair) -> Path:
    values = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
    return write(
        pair.eagle3, values, {"fc.weight": random(128, 256), "layers.0.self_attn.q_proj.weight": random(128, 128)}
    )


def no_config(pair: Pair) -> Path:
    (pair.eagle3 / "config.json").unlink()
    return pair.eagle3


def a_torn_file(pair: Pair) -> Path:
    (pair.eagle3 / "model.safetensors").write_bytes(b"\xff" * 40)
    return pair.eagle3


def layers(*ids: int) -> dict[str, object]:
    return {"eagle_config": {"eagle_aux_hidden_state_layer_ids": list(ids)}}


WRONG: dict[str, tuple[Callable[[Pair], Path], str, str]] = {
    "width of the features": (
        eagle3_tensors(fc__weight=random(128, 192)),
        "hidden_size",
        "192 numbers; 3 hidden states",
    ),
    "layers that are not there": (eagle3_config(**layers(0, 1, 9)), "layers", "[0, 1, 9]; this target has 0 to 2"),
    "fewer layers than it reads": (eagle3_config(**layers(0, 1)), "hidden_size", "2 hidden states"),
    "another vocabulary size": (eagle3_config(vocab_size=1000), "vocabulary", "1,000 token ids; this target has 259"),
    "another vocabulary of that size": (another_tokenizer, "vocabulary", "another vocabulary than the target"),
    "a map of another vocabulary": (eagle3_tensors(t2d=torch.ones(300) > 0), "vocabulary", "300 token ids"),
    "a map beyond the vocabulary": (eagle3_tensors(d2t=torch.full((64,), 900)), "draft_vocabulary", "from 900 to 963"),
    "a map with a word twice": (eagle3_tensors(d2t=-torch.arange(64)), "draft_vocabulary", "64 words to 1 ids"),
    "a head without a map": (eagle3_tensors(d2t=torch.zeros(7).long()), "draft_vocabulary", "a map of 7 words"),
    "a mask token that is not there": (
        dflash_config(dflash_config={"target_layer_ids": [0, 1], "mask_token_id": 151669}),
        "mask_token",
        "151,669; this target has ids 0 to 258",
    ),
    "no mask token": (dflash_config(dflash_config={"target_layer_ids": [0, 1]}), "config", "'mask_token_id'"),
    "another target's depth": (dflash_config(num_target_layers=36), "num_target_layers", "36 layers; this one has 3"),
    "blocks of one": (dflash_config(block_size=1), "block", "at least 2"),
    "heads of another width": (medusa_of_another_width, "hidden_size", "96 numbers"),
    "another network": (an_eagle_of_the_first_kind, "family", "EAGLE-1 or EAGLE-2"),
    "no config": (no_config, "drafter", "no config.json"),
    "a torn file": (a_torn_file, "drafter", "no readable safetensors"),
}


@pytest.mark.parametrize(("damage", "check", "words"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_pair_is_refused_in_a_sentence(
    damage: Callable[[Pair], Path], check: str, words: str, pair: Pair
) -> None:
    folder = damage(pair)
    report = preflight(str(pair.target), str(folder))
    said = [finding.sentence for finding in report.findings if (finding.grade, finding.check) == ("refusal", check)]
    assert any(words in sentence for sentence in said), report.findings
    assert all("\n" not in finding.sentence and finding.sentence.endswith(".") for finding in report.findings)


def test_all_that_is_wrong_is_said_at_once(pair: Pair) -> None:
    change(pair.eagle3, vocab_size=1000, num_target_layers=36, target_hidden_size=4096, **layers(0, 1, 9))
    change_tensors(pair.eagle3, fc__weight=random(128, 192), d2t=torch.full((64,), 900))
    (pair.target / "tokenizer.json").unlink()
    report = preflight(str(pair.target), str(pair.eagle3))
    wrong = {"tokenizer", "vocabulary", "num_target_layers", "target_hidden_size", "layers", "hidden_size"}
    assert wrong | {"draft_vocabulary"} <= checks(report, "refusal")
    assert [finding.grade for finding in report.findings] == sorted(
        (finding.grade for finding in report.findings), key=["refusal", "warning", "ok"].index
    )


def test_vocabularies_are_compared_by_their_strings(pair: Pair, tmp_path: Path) -> None:
    longer = save(tmp_path / "longer", make_tokenizer(("<extra>",)), vocab_size=320, num_hidden_layers=1)
    report = preflight(str(pair.target), str(longer))
    assert report.family == "draft-model"
    assert any("ids 0 to 258; of 320 rows" in finding.sentence for finding in report.findings)
    other = save(tmp_path / "other", num_hidden_layers=1)
    values = json.loads((other / "tokenizer.json").read_text(encoding="utf-8"))
    words = values["model"]["vocab"]
    words["A"], words["B"] = words["B"], words["A"]
    (other / "tokenizer.json").write_text(json.dumps(values), encoding="utf-8")
    report = preflight(str(pair.target), str(other))
    assert (report.family, report.is_refused) == ("universal", False)
    assert "vocabulary" in checks(report, "warning")
    assert make_drafter(str(other), make_target()).name == "universal"
    assert "vocabulary" in checks(preflight(str(pair.target), f"draft-model:{other}"), "refusal")
    small = save(tmp_path / "small", make_tokenizer(("<a>", "<b>")))
    assert "tokenizer" in checks(preflight(str(small)), "refusal")


def test_how_the_target_is_spoken_to_is_said(tmp_path: Path) -> None:
    plain_spoken = preflight(str(save(tmp_path / "a", make_tokenizer((), NO_SYSTEM_ROLE))))
    assert "system" in checks(plain_spoken, "warning")
    assert not plain_spoken.is_refused
    thinks = preflight(str(save(tmp_path / "b", make_tokenizer((), THINKING))))
    assert {"system", "thinking"} <= checks(thinks, "ok")


def test_a_mode_that_the_drafter_was_not_trained_for_is_said(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thinking = save(tmp_path / "thinks", make_tokenizer((), THINKING))
    monkeypatch.chdir(tmp_path)
    write_dflash(tmp_path / "z-lab" / "Qwen3-4B-DFlash-b16")
    for mode, grade in ((None, "warning"), (True, "warning"), (False, "ok")):
        report = preflight(str(thinking), "z-lab/Qwen3-4B-DFlash-b16", thinking=mode)
        assert not report.is_refused
        assert ("thinking" in checks(report, "warning")) == (grade == "warning")
    assert not checks(preflight(str(pair.target), "z-lab/Qwen3-4B-DFlash-b16"), "warning")


def test_a_drafter_is_no_target_and_a_context_may_be_short(pair: Pair) -> None:
    assert "target" in checks(preflight(str(pair.dflash)), "refusal")
    assert "target" in checks(preflight(str(pair.target / "nothing")), "refusal")
    change(pair.eagle3, max_position_embeddings=64)
    assert "context" in checks(preflight(str(pair.target), str(pair.eagle3)), "warning")
    change(pair.target, model_type="not-yet-invented")
    assert "target" in checks(preflight(str(pair.target)), "refusal")


def test_a_family_that_is_named_wrongly_is_told_apart(pair: Pair) -> None:
    report = preflight(str(pair.target), f"eagle3:{pair.dflash}")
    assert any("is a DFlash" in finding.sentence for finding in report.findings if finding.grade == "refusal")
    assert "layers" in checks(preflight(str(pair.target), "early-exit:7"), "refusal")
    assert "drafter" in checks(preflight(str(pair.target), "eagle3"), "refusal")
    with pytest.raises(SettingsError, match="the drafter is 'magic'"):
        preflight(str(pair.target), "magic")


def test_memory_is_estimated_by_shapes(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = sum(parameter.nbytes for parameter in make_target().model.parameters())
    for free, grade in ((weights // 2, "refusal"), (100 * weights, "ok")):
        monkeypatch.setattr(machine, "free_bytes", lambda free=free: free)
        assert "memory" in checks(preflight(str(pair.target)), grade)


def test_the_command_prints_it_and_exits_by_it(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preflight", "--target", str(pair.target), "--drafter", str(pair.eagle3)]) == 0
    assert "is an EAGLE-3" in capsys.readouterr().out
    change(pair.eagle3, vocab_size=1000)
    assert main(["preflight", "--target", str(pair.target), "--drafter", str(pair.eagle3), "--json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["is_refused"]
    assert document["findings"][0]["grade"] == "refusal"


@pytest.mark.skipif(not is_fetched(TARGETS[EMBEDDED_TARGET]), reason="needs the embedded target")
def test_what_ships_fits_the_embedded_target() -> None:
    assert target_folder(TARGETS[EMBEDDED_TARGET]).is_dir()
    for family in (
        "eagle3",
        "dspark",
        "medusa",
        "mtp",
        "draft-model",
        "universal",
        "early-exit",
        "hybrid",
        "quantized",
    ):
        report = preflight(EMBEDDED_TARGET, family)
        assert not report.is_refused, (family, report.findings)


def test_pickled_tensors_are_told_by_their_shapes_and_nothing_else_is_unpickled(pair: Pair) -> None:
    tensors = load_file(pair.medusa / "model.safetensors")
    (pair.medusa / "model.safetensors").unlink()
    change(pair.medusa, medusa_num_heads=None)
    torch.save(tensors, pair.medusa / "medusa_lm_head.pt")
    report = preflight(str(pair.target), str(pair.medusa))
    assert (report.family, report.is_refused) == ("medusa", False)
    assert "pickle" in checks(report, "warning")
    torch.save({"0.0.linear.weight": Path.cwd}, pair.medusa / "medusa_lm_head.pt")
    assert "drafter" in checks(preflight(str(pair.target), str(pair.medusa)), "refusal")
