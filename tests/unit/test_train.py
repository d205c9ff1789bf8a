"""Training without the embedded target: text that grows, labels, losses, students and their files, on a tiny Llama."""

import json
import random
from argparse import Namespace
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F  # noqa: N812
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from specdemo.prompts import load_prompts
from specdemo.train import draft_model, eagle3, evaluation, medusa, mtp
from specdemo.train.batches import Batch, Batches, choose_vocabulary, places_of
from specdemo.train.conversation import Format, Growing, cut_passage
from specdemo.train.corpus import Conversation, count_tokens, read_shard, repeated_tail, write_shard
from specdemo.train.fit import Run, train
from specdemo.train.held_out import held_out_prompts
from specdemo.train.losses import distance, tokens_per_round
from specdemo.train.openings import CATEGORIES, OPENINGS, draw_opening
from specdemo.train.teacher import Teacher, top_candidates
from specdemo.train.unrolled import UnrolledStudent

VOCABULARY = torch.arange(0, 90, 2)
NUM_LAYERS = 4


@pytest.fixture(scope="module")
def target() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=96,
        hidden_size=48,
        intermediate_size=64,
        num_hidden_layers=NUM_LAYERS,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=128,
        initializer_range=0.3,
        tie_word_embeddings=True,
        eos_token_id=2,
    )
    return LlamaForCausalLM(config).eval().requires_grad_(False)


def conversations(target: LlamaForCausalLM, lengths: tuple[int, ...] = (14, 9, 20)) -> list[Conversation]:
    """Random text with the target's own labels and hidden states."""
    torch.manual_seed(1)
    made = []
    for length in lengths:
        ids = torch.randint(0, 96, (length,))
        states = target.model(ids[None], output_hidden_states=True).hidden_states
        hidden = torch.stack([states[i][0] for i in (1, 2, 3, 4)], 1)
        top_ids, logits = top_candidates(hidden[:, -1], target.lm_head.weight, 16)
        made.append(Conversation(ids, 5, 0.0, 0, top_ids, logits.softmax(-1).half(), hidden))
    return made


def one_batch(made: list[Conversation]) -> Batch:
    return Batches(places_of(VOCABULARY, 96), 64, 64, 3, with_hidden=True).make(made, None)


# --- text ---


def test_the_teacher_reads_as_the_model_does_whatever_places_its_rows_are_at(target: LlamaForCausalLM) -> None:
    ids = torch.randint(0, 96, (2, 12))
    states = target.model(ids, output_hidden_states=True).hidden_states
    teacher = Teacher(target, num_rows=2, num_slots=16, kept=(1, NUM_LAYERS))
    for step in range(15):
        positions = torch.tensor([min(step, 11), max(0, step - 3)])  # the second row starts three steps later
        found = teacher.step(ids.gather(1, positions[:, None])[:, 0], positions)
        for row, position in enumerate(positions.tolist()):
            for kept, index in enumerate((1, NUM_LAYERS)):
                torch.testing.assert_close(found[row, kept], states[index][row, position], rtol=1e-4, atol=1e-4)


def test_candidates_come_in_the_order_of_exact_logits() -> None:
    torch.manual_seed(0)
    hidden, head = torch.randn(3, 8), torch.randn(40, 8)
    ids, logits = top_candidates(hidden, head, 5)
    expected = (hidden @ head.T).topk(5)
    assert ids.tolist() == expected.indices.tolist()
    torch.testing.assert_close(logits, expected.values)


FORM = Format(end_of_turn=2, before_answer=(7, 8), max_user_tokens=3, max_answer_tokens=200, max_tokens=220)


@pytest.mark.parametrize(
    ("drawn", "expected"),
    [((4, 2), [1, 5, 4, 2, 7, 8]), ((4, 4, 4), [1, 5, 4, 4, 4, 2, 7, 8])],
    ids=["ends its turn", "is cut at the most"],
)
def test_a_user_turn_ends_and_the_answer_is_opened(drawn: tuple[int, ...], expected: list[int]) -> None:
    row = Growing([1, 5], 0, 0.0, opening_end=2, fed=1)
    for token_id in drawn:
        row.take(token_id, FORM)
    assert row.ids == expected
    assert row.answer_start == len(expected)
    assert not row.is_done


def test_an_answer_ends_with_its_turn_and_a_loop_is_cut_short() -> None:
    row = Growing([1, 5], 0, 0.0, opening_end=2, fed=1, answer_start=2)
    row.take(2, FORM)
    assert row.is_done
    loop = Growing([1, 5], 0, 0.0, opening_end=2, fed=1, answer_start=2)
    while not loop.is_done:
        loop.take((10, 11, 12)[len(loop.ids) % 3], FORM)
    assert len(loop.ids) - 2 == 96
    assert loop.useful_length() < 40


def test_repeated_tail_finds_the_period() -> None:
    assert repeated_tail([9, 8, 1, 2, 3, 1, 2, 3, 1, 2, 3]) == (6, 3)
    assert repeated_tail([1, 2, 3, 4]) == (0, 1)


def test_a_passage_ends_with_a_sentence() -> None:
    assert cut_passage("One two. Three four five six.", 4) == "One two."
    assert cut_passage("no end here", 4) == ""


def test_openings_are_varied_and_hold_no_prompt_that_measures() -> None:
    source = random.Random(0)
    drawn = {draw_opening(source, ["A passage."]) for _ in range(400)}
    assert {category for category, _ in drawn} == set(CATEGORIES)
    assert len(drawn) > 150
    assert all("{" not in text for _, text in drawn)
    measuring = [entry.prompt for entry in (*held_out_prompts(), *load_prompts())]
    assert not {text for texts in OPENINGS.values() for text in texts} & set(measuring)


def test_held_out_prompts_are_eight_of_each_of_eight_categories_and_no_example_of_the_page() -> None:
    prompts = held_out_prompts()
    categories = [entry.category for entry in prompts]
    assert {categories.count(name) for name in set(categories)} == {8}
    assert len(set(categories)) == 8
    assert not {entry.prompt for entry in prompts} & {entry.prompt for entry in load_prompts()}


def test_a_shard_comes_back_as_it_was_written(target: LlamaForCausalLM, tmp_path: Path) -> None:
    made = conversations(target)
    write_shard(tmp_path / "a.safetensors", made)
    found = read_shard(tmp_path / "a.safetensors", with_hidden=True)
    assert count_tokens([tmp_path / "a.safetensors"]) == 43
    for one, other in zip(made, found, strict=True):
        assert one.ids.tolist() == other.ids.tolist()
        assert (one.answer_start, one.temperature) == (other.answer_start, other.temperature)
        torch.testing.assert_close(other.hidden, one.hidden.bfloat16())
    assert read_shard(tmp_path / "a.safetensors", with_hidden=False)[0].hidden.numel() == 0


# --- labels and losses ---


def test_the_vocabulary_is_what_answers_hold_most_often(target: LlamaForCausalLM) -> None:
    made = conversations(target)
    chosen = choose_vocabulary(made, 20, [2])
    assert 2 in chosen
    assert chosen.tolist() == sorted(chosen.tolist())


def test_labels_name_the_token_before_and_candidates_as_draft_words(target: LlamaForCausalLM) -> None:
    made = conversations(target)
    labels = one_batch(made).labels
    assert len(labels.rows) == sum(len(c.ids) - c.answer_start for c in made)
    row, column = int(labels.rows[0]), int(labels.columns[0])
    assert (row, column) == (0, made[0].answer_start - 1)
    for place, prob, id_ in zip(labels.candidates[0, 1], labels.probs[0, 1], made[0].top_ids[column + 1], strict=True):
        assert prob == 0 or VOCABULARY[place] == id_
        assert (prob == 0) == (int(id_) not in VOCABULARY.tolist())


def test_every_conversation_is_met_once_an_epoch(target: LlamaForCausalLM) -> None:
    made = conversations(target, (14, 9, 20, 30, 12, 18))
    batches = list(Batches(places_of(VOCABULARY, 96), 40, 8, 1, with_hidden=False).epoch(made, seed=3))
    assert sum(len(batch.ids) for batch in batches) == 6
    assert all(batch.ids.numel() <= 40 and len(batch.labels.rows) <= 8 for batch in batches)


def test_distance_is_least_where_the_laws_agree(target: LlamaForCausalLM) -> None:
    labels = one_batch(conversations(target)).labels
    candidates, probs = labels.step(0)
    law = torch.zeros(len(probs), len(VOCABULARY)).scatter_add(1, candidates, probs)
    right = (law / law.sum(-1, keepdim=True).clamp_min(1e-6)).clamp_min(1e-9).log()
    assert distance(right, candidates, probs, 1.0, 1.0) == pytest.approx(0.0, abs=1e-3)
    assert distance(right.flip(0), candidates, probs, 1.0, 1.0) > 0.3
    assert distance(right, candidates, probs, 1.0, 0.0) < distance(right.flip(0), candidates, probs, 1.0, 0.0)


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [([2, 2, 2, 2, 1, 0], (6, 2)), ([0, 0, 0], (3, 3)), ([1, 0, 2, 1], (4, 2)), ([], (0, 0))],
    ids=["all", "none", "some", "an empty answer"],
)
def test_rounds_follow_from_what_is_accepted_at_each_place(accepted: list[int], expected: tuple[int, int]) -> None:
    assert tokens_per_round(accepted) == expected


# --- students ---


def options(folder: Path, **changes: object) -> Namespace:
    values = {
        "layers": [0, 3],
        "start": None,
        "unrolled": 2,
        "blocks": 2,
        "weight_decay": 0.0,
        "run": folder,
        "minutes": 0.01,
        "learning_rate": 3e-3,
        "device": "cpu",
        "sharpness": 1.5,
        "tv_share": 0.5,
        "evaluate_every": 100.0,
    }
    return Namespace(**{**values, **changes})


def test_a_draft_model_of_all_layers_is_accepted_wherever_it_has_the_words(
    target: LlamaForCausalLM, tmp_path: Path
) -> None:
    student = draft_model.make(target, VOCABULARY, options(tmp_path, layers=list(range(NUM_LAYERS))))
    batch = one_batch(conversations(target))
    has_word = (batch.labels.probs[..., 0] > 0).long().cumprod(1).sum(1)
    found = student.accepted_lengths(batch, 3)
    assert (found == has_word).float().mean() > 0.8  # its head stands in bfloat16


def one_chain(student: UnrolledStudent, hidden: Tensor, ids: Tensor, start: int, num_steps: int) -> Tensor:
    """Logits of the last of some steps from `start`, as decoding computes them, in plain operations."""
    layer, inputs = student.layer, student.read_features(hidden[None, : start + 1])
    for step in range(num_steps):
        length = start + 1 + step
        rows, residual = student.combine(student._embedding[ids[1 : length + 1]][None], inputs)
        rotation = student._rotary(inputs, torch.arange(length)[None])
        heads = [layer.self_attn._heads(getattr(layer.self_attn, f"{name}_proj")(rows)) for name in "qkv"]
        q, k = apply_rotary_pos_emb(heads[0], heads[1], *rotation)
        mixed = F.scaled_dot_product_attention(q, k, heads[2], is_causal=True, enable_gqa=True)
        x = residual + layer.self_attn.o_proj(mixed.transpose(1, 2).flatten(2))
        goes_on, finished = student.finish(x + layer.mlp(layer.post_attention_layernorm(x)))
        inputs = torch.cat([inputs, goes_on[:, -1:]], 1)
    return student.lm_head(finished[0, -1])


@pytest.mark.parametrize("family", [eagle3, mtp], ids=["eagle3", "mtp"])
def test_unrolled_steps_are_what_decoding_would_compute(
    family: ModuleType, target: LlamaForCausalLM, tmp_path: Path
) -> None:
    student = family.make(target, VOCABULARY, options(tmp_path))
    student._embedding = student._embedding.float()
    for weight in student.parameters():
        weight.data += 0.1 * torch.randn_like(weight)
    made = conversations(target)
    batch = one_batch(made)
    batch = Batch(batch.ids, batch.labels, batch.hidden.float())
    found = student(batch, 3)
    for index, (row, column) in enumerate(zip(batch.labels.rows, batch.labels.columns, strict=True)):
        for step in range(min(3, len(made[row].ids) - int(column))):
            expected = one_chain(student, batch.hidden[row], made[row].ids, int(column) - 1, step + 1)
            torch.testing.assert_close(found[step][index], expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("family", [draft_model, eagle3, medusa, mtp], ids=["draft-model", "eagle3", "medusa", "mtp"])
def test_fitting_lowers_the_loss_resumes_and_saves(family: object, target: LlamaForCausalLM, tmp_path: Path) -> None:
    made = conversations(target, (14, 9, 20, 30))
    batches = Batches(places_of(VOCABULARY, 96), 64, 64, 2, with_hidden=family.READS_HIDDEN)
    run = Run(family.make(target, VOCABULARY, options(tmp_path)), options(tmp_path))
    first = run.step(next(batches.epoch(made, seed=0)))
    # By steps and not by the clock, which decides how many of them train() takes.
    last = [run.step(next(batches.epoch(made, seed=0))) for _ in range(30)][-1]
    assert last < first
    rate = partial(evaluation.expected_tokens_per_round, run.student, batches, made, 4, "cpu")
    train(run, partial(batches.epoch, made), rate)
    again = Run(family.make(target, VOCABULARY, options(tmp_path)), options(tmp_path))
    assert (again.num_steps, again.num_tokens) == (run.num_steps, run.num_tokens)
    curve = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert curve[-1]["tokens"] == run.num_tokens
    assert (tmp_path / "best" / "config.json").exists()


def test_eagle3_is_saved_in_the_official_layout(target: LlamaForCausalLM, tmp_path: Path) -> None:
    eagle3.make(target, VOCABULARY, options(tmp_path)).save(tmp_path)
    tensors = {k: v for path in tmp_path.glob("*.safetensors") for k, v in load_file(path).items()}
    attention = {f"midlayer.self_attn.{name}_proj.weight" for name in "qkvo"}
    mlp = {f"midlayer.mlp.{name}_proj.weight" for name in ("gate", "up", "down")}
    norms = {f"midlayer.{name}.weight" for name in ("hidden_norm", "input_layernorm", "post_attention_layernorm")}
    assert set(tensors) == attention | mlp | norms | {"fc.weight", "norm.weight", "d2t", "t2d"}
    assert (torch.arange(len(VOCABULARY)) + tensors["d2t"]).tolist() == VOCABULARY.tolist()
    assert tensors["t2d"].nonzero()[:, 0].tolist() == VOCABULARY.tolist()
    assert tensors["fc.weight"].dtype == torch.float16
