"""Medusa heads as trained here: what is saved, what is refused, and drafts that are what was trained."""

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch

from specdemo.drafters import make_drafter
from specdemo.drafters.medusa import load_medusa
from specdemo.errors import ModelError
from specdemo.events import Finished
from specdemo.train.batches import Batch
from specdemo.train.medusa import Medusa, make
from tests.fakes import VOCAB_SIZE, answer, make_target, plain, rounds_of, run
from tests.students import change_tensors, check_accepted, check_sampled, labelled, learn_first_choices, read_tensors

NUM_HEADS, NUM_BLOCKS = 4, 2
VOCABULARY = torch.arange(0, VOCAB_SIZE - 9)  # all but a few words
PROMPT = tuple(range(10, 40))


@pytest.fixture(scope="module")
def student() -> Medusa:
    """Knows one answer by heart, so that its drafts are accepted."""
    torch.manual_seed(0)
    made = make(make_target().model, VOCABULARY, Namespace(unrolled=NUM_HEADS, blocks=NUM_BLOCKS))
    learn_first_choices(made, known(), 60)
    return made


@pytest.fixture
def folder(student: Medusa, tmp_path: Path) -> Path:
    student.save(tmp_path)
    return tmp_path


def known() -> Batch:
    return labelled(PROMPT, [3, 3, 3, 3], VOCABULARY, NUM_HEADS)  # only the last of the four is read


@pytest.mark.parametrize("k", [1, 3, 4, 7])
def test_every_round_accepts_what_the_trained_heads_say(k: int, student: Medusa, folder: Path) -> None:
    expected = student.accepted_lengths(known(), k).tolist()
    check_accepted(load_medusa(folder, make_target()), PROMPT, expected, k, most=min(k, NUM_HEADS))


@pytest.mark.parametrize("k", [4, 7])
def test_a_round_has_no_more_drafts_than_heads_and_says_so(k: int, folder: Path) -> None:
    events = run(make_target(), load_medusa(folder, make_target()), PROMPT, num_draft_tokens=k, max_new_tokens=20)
    assert len(rounds_of(events)[0].draft_token_ids) == NUM_HEADS
    last = events[-1]
    assert isinstance(last, Finished)
    assert last.message == ("" if k <= NUM_HEADS else "the drafter has 4 heads, so that no round has more drafts.")


@pytest.mark.parametrize("rule", ["coupled", "rejection", "block"])
def test_sampled_answers_come_from_honest_laws(rule: str, folder: Path) -> None:
    check_sampled(load_medusa(folder, make_target()), PROMPT, rule)


@pytest.mark.parametrize("rule", ["greedy", "coupled"])
def test_as_a_tree_each_head_goes_on_from_all_that_the_one_before_says(rule: str, folder: Path) -> None:
    target = make_target()
    settings: dict[str, Any] = {"max_new_tokens": 24, "seed": 3}
    settings |= {"temperature": 1.0, "rule": rule} if rule == "coupled" else {}
    events = run(target, make_drafter(f"medusa:tree:{folder}", target), PROMPT, num_draft_tokens=9, **settings)
    assert answer(events) == plain(target, PROMPT, **settings)
    assert any(one.num_drafted_deep < len(one.draft_token_ids) for one in rounds_of(events)), "it forks"
    assert max(one.num_drafted_deep for one in rounds_of(events)) <= NUM_HEADS


def test_a_prompt_of_one_token_begins_without_drafts(folder: Path) -> None:
    events = run(make_target(), load_medusa(folder, make_target()), (10,), max_new_tokens=12)
    assert rounds_of(events)[0].draft_token_ids == ()
    assert rounds_of(events)[1].draft_token_ids != ()
    assert answer(events) == plain(make_target(), (10,), max_new_tokens=12)


def test_the_words_that_heads_share_are_read_once_a_round(folder: Path) -> None:
    drafter = load_medusa(folder, make_target())
    shared = drafter.words.rows.pass_bytes
    each = drafter.heads[0].pass_bytes
    for event in rounds_of(run(make_target(), drafter, PROMPT, num_draft_tokens=3, max_new_tokens=20))[:-1]:
        assert event.draft_bytes == shared + len(event.draft_token_ids) * each


def test_heads_begin_as_the_targets_own() -> None:
    model = make_target().model
    batch = known()
    rows, columns = batch.labels.rows, batch.labels.columns
    expected = batch.hidden[rows, columns - 1, -1] @ model.lm_head.weight[VOCABULARY].T
    for logits in make(model, VOCABULARY, Namespace(unrolled=3, blocks=2))(batch, 3):
        torch.testing.assert_close(logits, expected)


def test_saved_are_the_published_names_and_the_shared_words(folder: Path) -> None:
    tensors = read_tensors(folder)
    blocks = {f"{block}.linear.{name}" for block in range(NUM_BLOCKS) for name in ("weight", "bias")}
    heads = {f"{head}.{name}" for head in range(NUM_HEADS) for name in (*blocks, f"{NUM_BLOCKS}.weight")}
    assert set(tensors) == heads | {"d2t"}
    assert (torch.arange(len(VOCABULARY)) + tensors["d2t"]).tolist() == VOCABULARY.tolist()
    config = json.loads((folder / "config.json").read_text())
    assert (config["medusa_num_heads"], config["medusa_num_layers"]) == (NUM_HEADS, NUM_BLOCKS)


REFUSED = {
    "no folder": (lambda folder: (folder / "config.json").unlink(), "no config.json"),
    "a missing bias": (
        lambda folder: change_tensors(folder, **{"2.1.linear.bias": None}),
        "missing ['2.1.linear.bias']",
    ),
    "a missing head": (lambda folder: change_tensors(folder, **{"1.2.weight": None}), "missing ['1.2.weight']"),
    "an unknown tensor": (lambda folder: change_tensors(folder, extra=torch.zeros(1)), "unexpected ['extra']"),
    "another width": (
        lambda folder: change_tensors(folder, **{"0.0.linear.weight": torch.zeros(96, 96)}),
        "0.0.linear.weight of shape [96, 96]; this target needs [128, 128]",
    ),
    "words of another width": (
        lambda folder: change_tensors(folder, **{"lm_head.weight": torch.zeros(len(VOCABULARY), 96)}),
        "lm_head.weight of shape [250, 96]",
    ),
    "no map": (lambda folder: change_tensors(folder, d2t=None, **{"lm_head.weight": torch.zeros(250, 128)}), "no map"),
    "ids in place of offsets": (
        lambda folder: change_tensors(folder, d2t=torch.arange(10, VOCAB_SIZE + 1)),
        "must hold offsets",
    ),
}


@pytest.mark.parametrize(("damage", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_what_does_not_fit_is_refused_in_a_sentence(damage: object, sentence: str, folder: Path) -> None:
    damage(folder)  # type: ignore[operator]
    with pytest.raises(ModelError) as caught:
        load_medusa(folder, make_target())
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
