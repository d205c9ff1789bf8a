"""EAGLE-3 checkpoints in the official layout: what is read, what is refused, and drafts that are what was trained."""

import json
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional as F  # noqa: N812

from specdemo.drafters.eagle3 import load_eagle3
from specdemo.errors import ModelError
from specdemo.train.batches import Batch
from specdemo.train.eagle3 import Eagle3, make
from tests.fakes import VOCAB_SIZE, answer, make_target, plain, rounds_of, run
from tests.students import (
    NUM_TOKENS,
    change_config,
    change_tensors,
    check_accepted,
    check_sampled,
    config_of,
    labelled,
    learn_first_choices,
)

LAYERS = [0, 1, 2]
VOCABULARY = torch.arange(0, VOCAB_SIZE - 9)  # all but a few words
PROMPT = tuple(range(10, 40))


def known() -> Batch:
    return labelled(PROMPT, LAYERS, VOCABULARY, 4)


@pytest.fixture(scope="module")
def student() -> Eagle3:
    """Knows one answer by heart, so that its drafts are accepted."""
    torch.manual_seed(0)
    made = make(make_target().model, VOCABULARY, Namespace(unrolled=4))
    made._embedding = made._embedding.float()
    learn_first_choices(made, known(), 90)
    return made


@pytest.fixture
def folder(student: Eagle3, tmp_path: Path) -> Path:
    student.save(tmp_path)
    change_config(tmp_path, eagle_config={"eagle_aux_hidden_state_layer_ids": LAYERS})
    return tmp_path


@pytest.mark.parametrize("k", [1, 3, 4])
def test_every_round_accepts_what_the_trained_layer_says(k: int, student: Eagle3, folder: Path) -> None:
    check_accepted(load_eagle3(folder, make_target()), PROMPT, student.accepted_lengths(known(), k).tolist(), k, most=k)


@pytest.mark.parametrize("rule", ["coupled", "rejection", "block"])
def test_sampled_answers_come_from_honest_laws(rule: str, folder: Path) -> None:
    check_sampled(load_eagle3(folder, make_target()), PROMPT, rule)


def test_a_prompt_of_one_token_begins_without_drafts(folder: Path) -> None:
    events = run(make_target(), load_eagle3(folder, make_target()), (10,), max_new_tokens=12)
    assert rounds_of(events)[0].draft_token_ids == ()
    assert answer(events) == plain(make_target(), (10,), max_new_tokens=12)


def test_features_may_be_named_in_any_order(student: Eagle3, folder: Path) -> None:
    blocks = student.fc.weight.detach().half().chunk(3, 1)
    change_tensors(folder, **{"fc.weight": torch.cat([blocks[2], blocks[0], blocks[1]], 1).contiguous()})
    change_config(folder, eagle_config={"eagle_aux_hidden_state_layer_ids": [2, 0, 1]})
    drafter = load_eagle3(folder, make_target())
    assert drafter.feature_layers == (0, 1, 2)
    torch.testing.assert_close(drafter.cell.fc.weight, student.fc.weight.detach())


def as_speculators(folder: Path, **flags: object) -> None:
    """The same weights as speculators names them."""
    rename(folder, "midlayer.", "layers.0.")
    values = config_of(folder)
    layer = {k: values.pop(k) for k in list(values) if k not in ("draft_vocab_size",)}
    written = {"speculators_model_type": "eagle3", "transformer_layer_config": layer, **values, **flags}
    (folder / "config.json").write_text(json.dumps({**written, "eagle_aux_hidden_state_layer_ids": LAYERS}))


def as_deepspec(folder: Path) -> None:
    """As DeepSpec names them, layers by their output, -1 the embedding; the words stay cut, which it never does."""
    rename(folder, "midlayer.", "layers.0.")
    ids = [layer - 1 for layer in LAYERS]
    change_config(folder, architectures=["Qwen3Eagle3Model"], target_layer_ids=ids, eagle_config=None)


def rename(folder: Path, old: str, new: str) -> None:
    tensors = {k: v for path in folder.glob("*.safetensors") for k, v in load_file(path).items()}
    renamed = {k.replace(old, new): v for k, v in tensors.items() if k.startswith(old)}
    change_tensors(folder, **renamed, **{k: None for k in tensors if k.startswith(old)})


@pytest.mark.parametrize("write", [as_speculators, as_deepspec])
def test_other_layouts_of_the_same_weights_draft_the_same(write: Callable[[Path], None], folder: Path) -> None:
    settings = {"num_draft_tokens": 4, "max_new_tokens": NUM_TOKENS}
    expected = rounds_of(run(make_target(), load_eagle3(folder, make_target()), PROMPT, **settings))
    write(folder)
    found = rounds_of(run(make_target(), load_eagle3(folder, make_target()), PROMPT, **settings))
    assert [event.draft_token_ids for event in found] == [event.draft_token_ids for event in expected]


def test_the_flags_of_speculators_normalise_where_they_say(folder: Path) -> None:
    plain_cell = load_eagle3(folder, make_target()).cell
    as_speculators(folder, norm_before_residual=True, norm_output=True)
    scales = {f"fc_norm.{i}.weight": torch.full((128,), 1.0 + i).half() for i in range(3)}
    change_tensors(folder, **scales)
    cell = load_eagle3(folder, make_target()).cell
    x, features = torch.randn(2, 128), torch.randn(2, 3 * 128)
    normed = [F.rms_norm(part, (128,), eps=cell.layer.epsilon) for part in features.chunk(3, -1)]
    scaled = torch.cat([(1.0 + i) * part for i, part in enumerate(normed)], -1)
    torch.testing.assert_close(cell.read_features(features), plain_cell.fc(scaled), rtol=1e-3, atol=1e-3)
    rows, residual = cell.combine(x, x)
    torch.testing.assert_close(residual, rows[:, 128:])
    newest, logits = cell.finish(x)
    expected = F.rms_norm(x, (128,), cell.norms[2], cell.layer.epsilon)
    torch.testing.assert_close(newest, expected)
    assert torch.equal(plain_cell.finish(x)[0], x)
    assert torch.equal(plain_cell.finish(x)[1], logits)
    assert torch.equal(plain_cell.combine(x, x)[1], x)


def as_bin(folder: Path, content: object) -> None:
    for path in folder.glob("*.safetensors"):
        path.unlink()
    torch.save(content, folder / "pytorch_model.bin")


def test_weights_in_a_bin_file_are_read_as_well(folder: Path) -> None:
    expected = load_eagle3(folder, make_target()).cell.fc.weight
    as_bin(folder, {k: v for path in folder.glob("*.safetensors") for k, v in load_file(path).items()})
    torch.testing.assert_close(load_eagle3(folder, make_target()).cell.fc.weight, expected)


class Trap:
    """Runs what it likes where a pickle is loaded without care."""

    def __reduce__(self) -> tuple[object, ...]:
        return (exec, ("raise SystemExit('unpickled')",))


REFUSED = {
    "a pickle of more than tensors": (lambda folder: as_bin(folder, {"fc.weight": Trap()}), "cannot be read"),
    "a file cut short": (
        lambda folder: [path.write_bytes(path.read_bytes()[:100]) for path in folder.glob("*.safetensors")],
        "cannot be read",
    ),
    "another network": (
        lambda folder: change_config(folder, speculators_model_type="peagle"),
        "another network",
    ),
    "no JSON": (lambda folder: (folder / "config.json").write_text("{"), "is not JSON"),
    "a list in place of a configuration": (lambda folder: (folder / "config.json").write_text("[]"), "holds a list"),
    "no folder": (lambda folder: (folder / "config.json").unlink(), "no config.json"),
    "a missing tensor": (lambda folder: change_tensors(folder, **{"norm.weight": None}), "missing ['norm.weight']"),
    "an unknown tensor": (lambda folder: change_tensors(folder, extra=torch.zeros(1)), "unexpected ['extra']"),
    "other widths": (lambda folder: change_tensors(folder, **{"fc.weight": torch.zeros(128, 96)}), "reads 96 numbers"),
    "no map": (lambda folder: change_tensors(folder, d2t=None, **{"lm_head.weight": torch.zeros(250, 128)}), "no map"),
    "ids in place of offsets": (
        lambda folder: change_tensors(folder, d2t=torch.arange(10, VOCAB_SIZE + 1)),
        "must hold offsets",
    ),
    "a hidden state that is not there": (
        lambda folder: change_config(folder, eagle_config={"eagle_aux_hidden_state_layer_ids": [0, 1, 3]}),
        "0 to 2",
    ),
}


@pytest.mark.parametrize(("damage", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_what_does_not_fit_is_refused_in_a_sentence(damage: object, sentence: str, folder: Path) -> None:
    damage(folder)  # type: ignore[operator]
    with pytest.raises(ModelError) as caught:
        load_eagle3(folder, make_target())
    assert sentence in str(caught.value)
