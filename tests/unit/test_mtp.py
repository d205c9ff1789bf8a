"""Multi-token-prediction layers: drafts are what was trained, and a layer that knows all is always accepted."""

from argparse import Namespace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812
from transformers import LlamaForCausalLM

from specdemo.drafters.mtp import load_mtp
from specdemo.target import Target
from specdemo.train.batches import Batch
from specdemo.train.mtp import Mtp, make
from tests.fakes import VOCAB_SIZE, answer, make_model, make_target, plain, rounds_of, run, wrap
from tests.students import change_tensors, check_accepted, check_sampled, labelled, learn_first_choices, read_tensors

LAYERS = [3]  # the tiny target's last, behind its final norm
VOCABULARY = torch.arange(0, VOCAB_SIZE - 9)  # all but a few words
PROMPT = tuple(range(10, 40))
NORM = torch.ones(128)


def known() -> Batch:
    return labelled(PROMPT, LAYERS, VOCABULARY, 4)


@pytest.fixture(scope="module")
def student() -> Mtp:
    """Knows one answer by heart, so that its drafts are accepted."""
    torch.manual_seed(0)
    made = make(make_target().model, VOCABULARY, Namespace(unrolled=4))
    made._embedding = made._embedding.float()
    learn_first_choices(made, known(), 150)
    return made


@pytest.fixture
def folder(student: Mtp, tmp_path: Path) -> Path:
    student.save(tmp_path)
    return tmp_path


# --- drafts ---


@pytest.mark.parametrize("k", [1, 3, 4])
def test_every_round_accepts_what_the_trained_layer_says(k: int, student: Mtp, folder: Path) -> None:
    check_accepted(load_mtp(folder, make_target()), PROMPT, student.accepted_lengths(known(), k).tolist(), k, most=k)


def test_it_computes_what_was_trained_and_goes_on_from_behind_its_norm(student: Mtp, folder: Path) -> None:
    cell = load_mtp(folder, make_target()).cell
    embedded, x = torch.randn(2, 64, 128)  # so many rows that the weights are not rounded to eight bits
    torch.testing.assert_close(cell.combine(embedded, x), student.combine(embedded, x), rtol=1e-4, atol=1e-4)
    expected = F.rms_norm(x, (128,), student.norm.weight, student.config.rms_norm_eps)
    goes_on, logits = cell.finish(x)
    torch.testing.assert_close(goes_on, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(student.finish(x)[0], expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(logits[:, VOCABULARY], student.lm_head(expected), rtol=1e-4, atol=1e-3)
    assert logits[:, len(VOCABULARY) :].isneginf().all()


@pytest.mark.parametrize("rule", ["coupled", "rejection", "block"])
def test_sampled_answers_come_from_honest_laws(rule: str, folder: Path) -> None:
    check_sampled(load_mtp(folder, make_target()), PROMPT, rule)


@pytest.mark.parametrize("kind", ["qwen2", "gemma2"])
def test_any_target_of_the_same_sizes_keeps_its_answer(kind: str, folder: Path) -> None:
    target = make_target(kind)
    drafter = load_mtp(folder, target)
    assert answer(run(target, drafter, PROMPT, max_new_tokens=24)) == plain(target, PROMPT, max_new_tokens=24)


def test_a_prompt_of_one_token_begins_without_drafts(folder: Path) -> None:
    events = run(make_target(), load_mtp(folder, make_target()), (10,), max_new_tokens=12)
    assert rounds_of(events)[0].draft_token_ids == ()
    assert answer(events) == plain(make_target(), (10,), max_new_tokens=12)


def walking_target(steps: Tensor) -> Target:
    """Says steps[x] behind x: its layers add nothing, and what it knows stands in embedding (one-hot) and head."""
    model = make_model("llama", 0, vocab_size=len(steps))
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight.data.zero_()
        layer.mlp.down_proj.weight.data.zero_()
    model.model.embed_tokens.weight.data = torch.eye(len(steps), 128)
    model.lm_head.weight.data = torch.eye(len(steps), 128)[steps.argsort()]
    return wrap(model)


@pytest.mark.parametrize("reads", ["embedding", "hidden"])
def test_a_planted_layer_is_always_accepted(reads: str, student: Mtp, tmp_path: Path) -> None:
    """Whichever of its two inputs it goes by: the order in which they are joined, and what a step hands to the next."""
    steps = (5 * torch.arange(16) + 3) % 16  # visits all sixteen words
    prompt = (2, 13, 4)  # already on that way, as hidden states lag by a token
    walk = torch.zeros(128, 128)
    walk[steps, torch.arange(16)] = 1.0  # takes the one-hot x to steps[x]
    halves = [torch.eye(128), torch.zeros(128, 128)] if reads == "embedding" else [torch.zeros(128, 128), walk]
    student.save(tmp_path)
    norms = ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm", "layers.0.input_layernorm")
    change_tensors(
        tmp_path,
        **{f"mtp.{name}.weight": NORM.clone() for name in norms},
        **{"mtp.fc.weight": torch.cat(halves, 1), "lm_head.weight": None, "d2t": None},
        **{"mtp.layers.0.self_attn.o_proj.weight": torch.zeros(128, 128)},
        **{"mtp.layers.0.mlp.down_proj.weight": torch.zeros(128, 64)},
    )
    target = walking_target(steps)
    for k in (1, 3, 7):
        events = run(target, load_mtp(tmp_path, target), prompt, num_draft_tokens=k, max_new_tokens=40)
        assert answer(events) == plain(target, prompt, max_new_tokens=40)
        assert all(event.num_accepted == len(event.draft_token_ids) > 0 for event in rounds_of(events)[:-1])


# --- the student ---


def test_it_is_saved_in_qwens_layout_and_drafts_with_the_targets_own_rows(folder: Path) -> None:
    tensors = read_tensors(folder)
    attention = {f"mtp.layers.0.self_attn.{name}_proj.weight" for name in "qkvo"}
    mlp = {f"mtp.layers.0.mlp.{name}_proj.weight" for name in ("gate", "up", "down")}
    norms = {f"mtp.layers.0.{name}_layernorm.weight" for name in ("input", "post_attention")}
    own = {f"mtp.{name}.weight" for name in ("fc", "norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden")}
    assert set(tensors) == attention | mlp | norms | own | {"d2t"}
    drafter = load_mtp(folder, make_target())
    assert torch.equal(drafter.cell.head.rows.weight, make_target().model.lm_head.weight[VOCABULARY])


def test_a_new_student_hands_its_layer_what_stood_before_the_final_norm_as_long_as_the_last_layers_inputs() -> None:
    model = make_model()
    assert isinstance(model, LlamaForCausalLM)
    torch.manual_seed(1)
    model.model.norm.weight.data.uniform_(0.5, 2.0)
    model.model.layers[-1].mlp.down_proj.weight.data *= 5  # behind the last layer they are much longer than before it
    unnormed: list[Tensor] = []
    model.model.norm.register_forward_pre_hook(lambda module, inputs: unnormed.append(inputs[0][0]))
    with torch.no_grad():
        states = model.model(torch.tensor([PROMPT]), output_hidden_states=True).hidden_states
        inputs = make(model, VOCABULARY, Namespace(unrolled=4)).combine(torch.zeros_like(states[-1]), states[-1])[1][0]
    cosines = torch.cosine_similarity(inputs, unnormed[0], dim=-1)
    assert cosines.min() > 0.999
    lengths, wanted = inputs.norm(dim=-1).median(), states[-2][0].norm(dim=-1).median()
    assert 0.8 < lengths / wanted < 1.25
