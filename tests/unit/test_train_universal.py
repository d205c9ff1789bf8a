"""Training a drafter of another vocabulary: its text, its batches, and a folder that transformers and drafting load."""

import random
from argparse import Namespace
from functools import partial
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from specdemo.drafters import make_drafter
from specdemo.drafters.retokenize import Codec
from specdemo.target import Target
from specdemo.train.corpus import Conversation
from specdemo.train.fit import train
from specdemo.train.universal import (
    Student,
    TextBatch,
    TextRun,
    epoch,
    guessed,
    projected_embedding,
    train_tokenizer,
    translate,
)
from tests.fakes import START, answer, make_model, plain, run
from tests.fakes_text import END, OTHER, QUESTION, STORY, target_tokenizer

ANSWERS = (STORY, OTHER, STORY[:70])


@pytest.fixture(scope="module")
def target() -> Codec:
    return Codec(target_tokenizer())


def conversation(target: Codec, text: str) -> Conversation:
    ids: list[int] = []
    for part in (*QUESTION, text, END):
        ids += [target.control_ids[part]] if part in target.control_ids else target.encode(part)["input_ids"]
    start = len(ids) - 1 - len(target.encode(text)["input_ids"])
    return Conversation(torch.tensor(ids), start, 0.0, 0, *(torch.empty(len(ids), 0) for _ in range(3)))


@pytest.fixture(scope="module")
def drafter(target: Codec) -> Codec:
    return Codec(train_tokenizer(target, [conversation(target, text) for text in ANSWERS], 320))


def test_the_tokenizer_has_the_targets_control_tokens_and_words_of_its_own(target: Codec, drafter: Codec) -> None:
    assert drafter.control_ids.keys() == target.control_ids.keys()
    assert drafter.tokenizer.eos_token == END
    assert len(drafter.tokenizer) == 320
    assert drafter.encode(STORY)["input_ids"] != target.encode(STORY)["input_ids"]
    assert not any("im_" in token for token in drafter.tokenizer.get_vocab() if token not in drafter.control_ids)


@pytest.mark.parametrize("text", ANSWERS)
def test_a_translated_conversation_is_the_same_text(target: Codec, drafter: Codec, text: str) -> None:
    original = conversation(target, text)
    found = translate(target, drafter, original, None)
    assert drafter.decode(found.ids.tolist()) == target.decode(original.ids.tolist())
    assert drafter.decode(found.ids[found.answer_start :].tolist()) == text + END
    assert found.ids[0] == drafter.control_ids[START]


def test_an_embedding_begins_with_what_the_target_knows_of_each_word(target: Codec, drafter: Codec) -> None:
    known = target.tokenizer.get_vocab()
    embedding = torch.randn(target.num_tokens, 8, generator=torch.Generator().manual_seed(0))
    found = projected_embedding(embedding, target, drafter, 8)
    assert found.square().mean(1).median().sqrt() == pytest.approx(0.1, rel=1e-3)
    # Nothing is lost in as many directions as there are: two words stand to each other as in the target.
    shared = [(i, known[token]) for token, i in drafter.tokenizer.get_vocab().items() if token in known]
    mine, theirs = (torch.tensor(ids) for ids in zip(*shared, strict=True))
    assert len(mine) > 100
    distances = torch.pdist(found[mine]) / torch.pdist(embedding[theirs]).clamp_min(1e-6)
    assert distances.max() / distances.min() < 1.001


def test_a_parted_answer_is_the_same_text_in_which_words_begin_anew(target: Codec, drafter: Codec) -> None:
    original = conversation(target, "The unbelievable lighthouse keeper counted the waves. " * 8)
    whole = translate(target, drafter, original, None)
    parted = [translate(target, drafter, original, random.Random(seed)) for seed in range(10)]
    assert {drafter.decode(found.ids.tolist()) for found in parted} == {drafter.decode(whole.ids.tolist())}
    assert {found.answer_start for found in parted} == {whole.answer_start}
    assert any(found.ids.tolist() != whole.ids.tolist() for found in parted)


def test_answers_weigh_most_and_padding_nothing(target: Codec, drafter: Codec) -> None:
    made = [translate(target, drafter, conversation(target, text), None) for text in ANSWERS]
    batch = TextBatch.of(made)
    for row, c in enumerate(made):
        weights = batch.weights[row]
        assert (weights == 1.0).nonzero()[:, 0].tolist() == list(range(c.answer_start, len(c.ids)))
        assert weights[0] == 0.0
        assert 0.0 < weights[1] < 1.0
        assert not weights[len(c.ids) :].any()
        assert batch.ids[row, : len(c.ids)].tolist() == c.ids.tolist()


def test_padding_changes_no_loss(target: Codec, drafter: Codec) -> None:
    torch.manual_seed(0)
    student = Student(drafter.tokenizer, 64, 1, 256).requires_grad_(False)
    made = [translate(target, drafter, conversation(target, text), None) for text in ANSWERS]
    alone = [(float(student.loss(TextBatch.of([c]))), float(TextBatch.of([c]).weights.sum())) for c in made]
    expected = sum(loss * weight for loss, weight in alone) / sum(weight for _, weight in alone)
    assert float(student.loss(TextBatch.of(made))) == pytest.approx(expected, rel=1e-4)


def test_fitting_lowers_the_loss_resumes_and_saves_a_folder_that_drafts(
    target: Codec, drafter: Codec, tmp_path: Path
) -> None:
    options = Namespace(
        run=tmp_path,
        minutes=1.0,
        learning_rate=5e-3,
        weight_decay=0.0,
        batch_tokens=1024,
        evaluate_every=100.0,
        device="cpu",
    )
    torch.manual_seed(0)
    made = [translate(target, drafter, conversation(target, text), None) for text in ANSWERS]
    run_of_training = TextRun(Student(drafter.tokenizer, 64, 2, 512), options)
    before = guessed(run_of_training.student, made, 1024, "cpu")
    for _ in range(20):
        run_of_training.seconds = 6.0  # a tenth of the time, however long a step takes
        run_of_training.step(TextBatch.of(made))
    options.minutes = run_of_training.seconds / 60
    reached = partial(guessed, run_of_training.student, made, 1024, "cpu")
    train(run_of_training, lambda number: epoch(made, 1024, number), reached)
    after = guessed(run_of_training.student, made, 1024, "cpu")
    assert after["held_out_loss"] < before["held_out_loss"] - 1
    assert after["all"] > before["all"]
    assert TextRun(Student(drafter.tokenizer, 64, 2, 512), options).num_steps == run_of_training.num_steps
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "best", dtype=torch.float32)
    with torch.no_grad():
        expected = run_of_training.student.eval()(made[0].ids[None])
        torch.testing.assert_close(loaded(made[0].ids[None, :-1]).logits, expected, atol=2e-2, rtol=0)
    assert_drafts(target, tmp_path / "best")


def assert_drafts(target: Codec, folder: Path) -> None:
    model = make_model("llama", 0, vocab_size=len(target.tokenizer))
    made = Target.from_model("tiny", model, target.tokenizer, revision="random", gguf_path=None)
    ids = target.encode(STORY[:60])["input_ids"]
    events = run(made, make_drafter(f"universal:{folder}", made), ids, max_new_tokens=20)
    assert answer(events) == plain(made, ids, max_new_tokens=20)
