"""Multi-token prediction as Qwen3-Next and Qwen3.5 publish it, beside their targets, whose state is recurrent."""

import copy
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from specdemo.drafters.feature_chain import FeatureChainDrafter
from specdemo.drafters.mtp import load_mtp
from specdemo.errors import ModelError
from specdemo.target import Target
from tests.fakes import answer, make_model, plain, rounds_of, run, wrap
from tests.students import change_tensors, read_tensors

KINDS = ("qwen3_5", "qwen3_next")
NUM_WORDS, SIZE, HEADS, GROUPS, HEAD, INNER = 16, 128, 4, 2, 32, 64
PROMPT = tuple((7 * index) % NUM_WORDS for index in range(24))
BLOCK = "mtp.layers.0"
SHAPES = {
    "mtp.fc": (SIZE, 2 * SIZE),
    "mtp.pre_fc_norm_embedding": (SIZE,),
    "mtp.pre_fc_norm_hidden": (SIZE,),
    "mtp.norm": (SIZE,),
    f"{BLOCK}.input_layernorm": (SIZE,),
    f"{BLOCK}.post_attention_layernorm": (SIZE,),
    f"{BLOCK}.self_attn.q_proj": (2 * HEADS * HEAD, SIZE),
    f"{BLOCK}.self_attn.k_proj": (GROUPS * HEAD, SIZE),
    f"{BLOCK}.self_attn.v_proj": (GROUPS * HEAD, SIZE),
    f"{BLOCK}.self_attn.o_proj": (SIZE, HEADS * HEAD),
    f"{BLOCK}.self_attn.q_norm": (HEAD,),
    f"{BLOCK}.self_attn.k_norm": (HEAD,),
    f"{BLOCK}.mlp.gate_proj": (INNER, SIZE),
    f"{BLOCK}.mlp.up_proj": (INNER, SIZE),
    f"{BLOCK}.mlp.down_proj": (SIZE, INNER),
}


def make_gated(kind: str) -> Target:
    return wrap(make_model(kind, vocab_size=NUM_WORDS))


def write(folder: Path, target: Target, tensors: dict[str, Tensor]) -> None:
    """Inside the target's own files and by its config.json, as both families publish them."""
    config = json.loads(target.model.config.to_json_string())
    whole = {name: tensor.clone().contiguous() for name, tensor in target.model.state_dict().items()}
    if config["model_type"] == "qwen3_5_text":
        config = {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "text_config": config}
        whole = {name.replace("model.", "model.language_model.", 1): tensor for name, tensor in whole.items()}
    (folder / "config.json").write_text(json.dumps(config))
    save_file(whole | tensors, folder / "model.safetensors")


def by_chance() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {f"{name}.weight": 0.15 * torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}


def first_step(drafter: FeatureChainDrafter, hidden: Tensor) -> Tensor:
    """What the chain goes on from behind the prompt, from the target's hidden states (T, D)."""
    cell, ids = drafter.cell, torch.tensor(PROMPT)
    rows, residual = cell.combine(cell.embedding[ids[1:]], hidden[:-1])
    query, keys, values = cell.layer.heads(rows, drafter.rotary.rows(0, len(rows)))
    return cell.finish(cell.layer.finish(residual[-1:], query[:, -1:], keys, values))[0][0]


def transformers_step(target: Target, tensors: dict[str, Tensor], hidden: Tensor) -> Tensor:
    """The same by transformers' own decoder layer and norm with the published tensors, which must be all it has."""
    model, ids = target.model.model, torch.tensor(PROMPT)
    block = copy.deepcopy(next(layer for layer in model.layers if hasattr(layer, "self_attn")))
    inside = {k.removeprefix(f"{BLOCK}."): v for k, v in tensors.items() if k.startswith(BLOCK)}
    block.load_state_dict(inside, strict=True)

    def normed(name: str, x: Tensor) -> Tensor:
        norm = copy.deepcopy(model.norm)
        norm.load_state_dict({"weight": tensors[f"mtp.{name}.weight"]})
        return norm(x)

    embedded = model.embed_tokens(ids[1:])
    both = normed("pre_fc_norm_embedding", embedded), normed("pre_fc_norm_hidden", hidden[:-1])
    x = F.linear(torch.cat(both, -1), tensors["mtp.fc.weight"].to(hidden.dtype))[None]
    rotary = model.rotary_emb(x, torch.arange(x.shape[1])[None])
    mask = torch.full((x.shape[1],) * 2, float("-inf"), dtype=x.dtype).triu(1)[None, None]
    return normed("norm", block(x, position_embeddings=rotary, attention_mask=mask))[0, -1]


@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_the_cell_is_transformers_own_layer(kind: str, tmp_path: Path) -> None:
    """In float64, where no product is taken from eight-bit blocks: gate, head norms, 1 + weight, partial rotary."""
    target, tensors = wrap(make_model(kind, vocab_size=NUM_WORDS).double()), by_chance()
    write(tmp_path, target, tensors)
    drafter = load_mtp(tmp_path, target)
    assert drafter.cell.layer.is_gated
    hidden = target.model.model(torch.tensor([PROMPT])).last_hidden_state[0]
    expected = transformers_step(target, tensors, hidden)
    torch.testing.assert_close(first_step(drafter, hidden), expected, atol=1e-5, rtol=0)
    session = target.open(drafter.feature_layers)
    list(session.prefill(PROMPT))
    torch.testing.assert_close(session.session.features, hidden, atol=1e-5, rtol=0)


def successor_of(word: int) -> int:
    return (5 * word + 3) % NUM_WORDS


def makes_successors(target: Target) -> Tensor:
    """Let the target say a word's successor, whatever stood before; returns the map of hidden states (D, D)."""
    model = target.model
    for name, weight in model.named_parameters():
        if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight")):
            weight.data.zero_()
    model.get_input_embeddings().weight.data = torch.eye(NUM_WORDS, SIZE)
    model.get_output_embeddings().weight.data = torch.zeros(NUM_WORDS, SIZE)
    step = torch.zeros(SIZE, SIZE)
    for word in range(NUM_WORDS):
        model.get_output_embeddings().weight.data[successor_of(word), word] = 1.0
        step[successor_of(word), word] = 1.0
    return step


@pytest.mark.parametrize("reads", ["embedding", "hidden state"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_planted_drafter_accepts_all_of_every_draft(kind: str, reads: str, tmp_path: Path) -> None:
    """From the newest word alone, or from the hidden state one place before it alone: so the halves stand right."""
    target = make_gated(kind)
    step = makes_successors(target)
    halves = [torch.eye(SIZE), torch.zeros(SIZE, SIZE)] if reads == "embedding" else [torch.zeros(SIZE, SIZE), step]
    tensors = {f"{name}.weight": torch.zeros(shape) for name, shape in SHAPES.items()}
    write(tmp_path, target, tensors | {"mtp.fc.weight": torch.cat(halves, 1)})
    drafter = load_mtp(tmp_path, target)
    # What the target would say, so that the word before the newest one says it too.
    prompt = [0]
    for _ in range(9):
        prompt.append(successor_of(prompt[-1]))
    expected = plain(target, prompt, max_new_tokens=21)
    for k in (1, 4, 7):
        events = run(target, drafter, prompt, num_draft_tokens=k, max_new_tokens=21)
        assert answer(events) == expected
        assert {len(event.draft_token_ids) - event.num_accepted for event in rounds_of(events)} == {0}
        assert len(rounds_of(events)) == -(-21 // (k + 1))


@pytest.mark.parametrize("chosen", [{}, {"temperature": 1.0, "rule": "coupled", "seed": 2}], ids=["greedy", "coupled"])
@pytest.mark.parametrize("kind", KINDS)
def test_ids_are_plain_decodings(kind: str, chosen: dict[str, object], tmp_path: Path) -> None:
    target = make_gated(kind)
    write(tmp_path, target, by_chance())
    drafter = load_mtp(tmp_path, target)
    expected = plain(target, PROMPT, max_new_tokens=20, **chosen)
    for k in (1, 4):
        events = run(target, drafter, PROMPT, num_draft_tokens=k, max_new_tokens=20, **chosen)
        assert answer(events) == expected
        assert any(event.num_accepted < len(event.draft_token_ids) for event in rounds_of(events))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({f"{BLOCK}.self_attn.q_proj.weight": torch.zeros(HEADS * HEAD, SIZE)}, "q_proj.weight is (128, 128) and not"),
        ({f"{BLOCK}.mlp.gate.weight": torch.zeros(4, SIZE)}, "a mixture of experts"),
        ({f"{BLOCK}.self_attn.q_norm.weight": torch.zeros(SIZE)}, "q_norm.weight is (128,) and not (32,)"),
        ({"mtp.norm.weight": None}, "missing ['norm.weight']"),
        ({"mtp.gate.weight": torch.zeros(1)}, "unexpected ['gate.weight']"),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Tensor | None], sentence: str, tmp_path: Path) -> None:
    target = make_gated("qwen3_5")
    write(tmp_path, target, by_chance())
    assert len([name for name in read_tensors(tmp_path) if name.startswith("mtp.")]) == 15
    change_tensors(tmp_path, **changes)
    with pytest.raises(ModelError) as caught:
        load_mtp(tmp_path, target)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
