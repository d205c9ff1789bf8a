"""The trained exit: what is saved, what is refused, and drafts that are what was trained; the target stays itself."""

from argparse import Namespace
from pathlib import Path

import pytest
import torch

from specdemo.drafters.early_exit import EarlyExitDrafter, load_early_exit
from specdemo.errors import ModelError, SettingsError
from specdemo.train.batches import Batch
from specdemo.train.early_exit import EarlyExit, make
from tests.fakes import VOCAB_SIZE, make_target, rounds_of, run
from tests.students import (
    change_config,
    change_tensors,
    check_accepted,
    check_sampled,
    labelled,
    learn_first_choices,
    read_tensors,
)

EXIT_LAYER = 1
VOCABULARY = torch.arange(0, VOCAB_SIZE - 9)  # all but a few words
PROMPT = tuple(range(10, 40))


@pytest.fixture(scope="module")
def student() -> EarlyExit:
    """Knows one answer by heart, so that its drafts are accepted."""
    torch.manual_seed(0)
    made = make(make_target().model, VOCABULARY, Namespace(exit_layer=EXIT_LAYER, width=64))
    learn_first_choices(made, known(), 120)
    return made


@pytest.fixture
def folder(student: EarlyExit, tmp_path: Path) -> Path:
    student.save(tmp_path)
    return tmp_path


def known() -> Batch:
    return labelled(PROMPT, [3], VOCABULARY, 1)


@pytest.mark.parametrize("k", [1, 3, 7])
def test_every_round_accepts_what_the_trained_exit_says(k: int, student: EarlyExit, folder: Path) -> None:
    expected = student.accepted_lengths(known(), k).tolist()
    check_accepted(load_early_exit(folder, make_target()), PROMPT, expected, k, most=k)


@pytest.mark.parametrize("rule", ["coupled", "rejection", "block"])
def test_sampled_answers_come_from_honest_laws(rule: str, folder: Path) -> None:
    check_sampled(load_early_exit(folder, make_target()), PROMPT, rule)


def test_training_leaves_the_targets_layers_as_they_are(student: EarlyExit, folder: Path) -> None:
    assert not any(weight.requires_grad for weight in student.body.parameters())
    fresh = make_target().model
    for name, tensor in student.body.layers.state_dict().items():
        assert torch.equal(tensor, fresh.model.layers.state_dict()[name])
    assert set(read_tensors(folder)) == {
        *(f"mlp.{name}_proj.weight" for name in ("gate", "up", "down")),
        *("input_norm.weight", "norm.weight", "d2t"),
    }


def test_an_exit_begins_as_the_targets_own_norm_and_head() -> None:
    fresh = make(make_target().model, VOCABULARY, Namespace(exit_layer=EXIT_LAYER, width=64))
    batch, drafter = known(), EarlyExitDrafter(make_target().lm, EXIT_LAYER)
    session = make_target().lm.open()
    session.forward(batch.ids[0, : len(PROMPT) - 1].tolist(), 0)
    own = drafter.draft_logits(session, PROMPT[-1])[0, VOCABULARY]
    # The student's head is in bfloat16: the first choice is the same where the two best are not as near as that.
    torch.testing.assert_close(fresh(batch)[0], own, atol=0.05, rtol=0.05)


def test_a_draft_costs_the_first_layers_and_the_exit(folder: Path) -> None:
    drafter = load_early_exit(folder, make_target())
    lm = make_target().lm
    exit_bytes = drafter.way_out.pass_bytes
    assert drafter.pass_bytes == EXIT_LAYER * lm.layer_bytes + exit_bytes
    assert exit_bytes < lm.head_bytes
    for event in rounds_of(run(make_target(), drafter, PROMPT, num_draft_tokens=3, max_new_tokens=20)):
        assert event.draft_bytes == len(event.draft_token_ids) * drafter.pass_bytes


def test_a_layer_that_the_target_lacks_is_refused(folder: Path) -> None:
    for layer, error, words in ((3, SettingsError, "from 1 to 2"), ("one", ModelError, "exit_layer 'one'")):
        change_config(folder, exit_layer=layer)
        with pytest.raises(error, match=words):
            load_early_exit(folder, make_target())


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("norm.weight", None, r"missing \['norm.weight'\]"),
        ("extra.weight", torch.zeros(1), r"unexpected \['extra.weight'\]"),
        ("mlp.down_proj.weight", torch.zeros(5, 64), "this target needs"),
        ("norm.weight", torch.zeros(7), "this target needs"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(
    name: str, tensor: torch.Tensor | None, message: str, folder: Path
) -> None:
    change_tensors(folder, **{name: tensor})
    with pytest.raises(ModelError, match=message):
        load_early_exit(folder, make_target())
