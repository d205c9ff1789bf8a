"""EAGLE-3 checkpoints in the official layout: what is read, what is refused, and drafts that are what was trained."""

from argparse import Namespace
from pathlib import Path

import pytest
import torch

from specdemo.drafters.eagle3 import load_eagle3
from specdemo.errors import ModelError
from specdemo.train.eagle3 import Eagle3, make
from tests.checkpoints import change_config, change_tensors, labelled
from tests.fakes import VOCAB_SIZE, answer, make_target, plain, rounds_of, run

LAYERS = [0, 1, 2]
VOCABULARY = torch.arange(0, VOCAB_SIZE - 9)  # all but a few words
PROMPT = tuple(range(10, 40))
NUM_TOKENS = 32


@pytest.fixture(scope="module")
def student() -> Eagle3:
    """Knows one answer by heart, so that its drafts are accepted; weights as exact as half precision keeps them."""
    torch.manual_seed(0)
    made = make(make_target().model, VOCABULARY, Namespace(unrolled=4))
    made._embedding = made._embedding.float()
    batch = labelled(PROMPT, plain(make_target(), PROMPT, max_new_tokens=NUM_TOKENS)[0], VOCABULARY, LAYERS)
    optimizer = torch.optim.AdamW(made.parameters(), lr=3e-3)
    for _ in range(90):
        made.loss(batch, 1.5, 0.0).backward()
        optimizer.step()
        optimizer.zero_grad()
    for weight in made.parameters():
        weight.data = weight.half().float()
    return made


@pytest.fixture
def folder(student: Eagle3, tmp_path: Path) -> Path:
    student.save(tmp_path)
    change_config(tmp_path, eagle_config={"eagle_aux_hidden_state_layer_ids": LAYERS})
    return tmp_path


@pytest.mark.parametrize("k", [1, 3, 4])
def test_every_round_accepts_what_the_trained_layer_says(k: int, student: Eagle3, folder: Path) -> None:
    settings = {"num_draft_tokens": k, "max_new_tokens": NUM_TOKENS}
    events = run(make_target(), load_eagle3(folder, make_target()), PROMPT, **settings)
    found, _ = answer(events)
    assert found == plain(make_target(), PROMPT, max_new_tokens=NUM_TOKENS)[0]
    expected = student.accepted_lengths(labelled(PROMPT, found, VOCABULARY, LAYERS), k).tolist()
    place = 0
    for event in rounds_of(events):
        num_wanted = len(event.draft_token_ids)  # at the cap a round asks for fewer drafts
        assert event.num_accepted == min(expected[place], num_wanted)
        place += len(event.emitted_token_ids)
    assert sum(accepted == k for accepted in expected) > NUM_TOKENS // 4, "what it knows by heart is accepted"


@pytest.mark.parametrize("rule", ["coupled", "rejection", "block"])
def test_sampled_answers_come_from_honest_laws(rule: str, folder: Path) -> None:
    drafter = load_eagle3(folder, make_target())
    settings = {"temperature": 1.0, "rule": rule, "max_new_tokens": 24, "seed": 3}
    found, reason = answer(run(make_target(), drafter, PROMPT, **settings))
    assert (len(found), reason) == (24, "length")
    if rule == "coupled":
        assert found == plain(make_target(), PROMPT, **settings)[0]


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


REFUSED = {
    "no folder": (lambda folder: (folder / "config.json").unlink(), "no config.json"),
    "a missing tensor": (lambda folder: change_tensors(folder, **{"norm.weight": None}), "missing ['norm.weight']"),
    "an unknown tensor": (lambda folder: change_tensors(folder, extra=torch.zeros(1)), "unexpected ['extra']"),
    "other widths": (lambda folder: change_tensors(folder, **{"fc.weight": torch.zeros(128, 96)}), "reads 96 numbers"),
    "no map": (lambda folder: change_tensors(folder, d2t=None), "no map"),
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
