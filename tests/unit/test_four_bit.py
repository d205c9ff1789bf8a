"""The four-bit drafter computes with exactly the weights of the file; other models are rounded to the nearest ones."""

from pathlib import Path

import gguf
import pytest
import torch
from torch import Tensor, nn
from transformers import LlamaForCausalLM

from specdemo import four_bit
from specdemo.causal_lm import TransformersLM
from specdemo.conversion import convert_gguf
from specdemo.errors import ModelError
from specdemo.gguf_index import read_index, write_index
from specdemo.llama import LlamaLM
from specdemo.loading import load_named_target
from tests.fakes import make_model, make_tokenizer
from tests.gguf_files import F32, Q4_1, snap_to_grid, write_gguf

TOKENIZER = make_tokenizer(("th",))


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    made = make_model("llama", vocab_size=len(TOKENIZER))
    assert isinstance(made, LlamaForCausalLM)
    snap_to_grid(made)
    return made


@pytest.fixture(scope="module")
def gguf_path(model: LlamaForCausalLM, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    write_gguf(model, TOKENIZER, path)
    return path


def weight_of(linear: four_bit.Int4Linear, num_inputs: int) -> Tensor:
    """The weight that a linear layer multiplies by, (N, D)."""
    return linear(torch.eye(num_inputs).bfloat16()).T.float()


def fused(layer: nn.Module) -> dict[str, Tensor]:
    attention, mlp = layer.self_attn, layer.mlp
    return {
        "qkv": torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight]),
        "output": attention.o_proj.weight,
        "gate_up": torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]),
        "down": mlp.down_proj.weight,
    }


def test_blocks_of_a_file_become_exactly_the_weights_they_stand_for(model: LlamaForCausalLM, gguf_path: Path) -> None:
    """Also where the file interleaves the rows of q and k."""
    lm = four_bit.from_gguf(gguf_path, model)
    for ours, theirs in zip(lm.layers, model.model.layers, strict=True):
        for name, weight in fused(theirs).items():
            found = weight_of(getattr(ours, name), weight.shape[1])
            assert torch.equal(found, weight), name


def test_the_file_stands_for_the_same_weights_by_ggufs_own_dequantisation(
    model: LlamaForCausalLM, gguf_path: Path
) -> None:
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(gguf_path).tensors}
    for index, layer in enumerate(model.model.layers):
        found = gguf.quants.dequantize(tensors[f"blk.{index}.ffn_down.weight"].data, Q4_1)
        assert torch.equal(torch.from_numpy(found), layer.mlp.down_proj.weight)


def test_a_converted_file_is_an_ordinary_folder_with_the_same_model_and_tokenizer(
    model: LlamaForCausalLM, gguf_path: Path, tmp_path: Path
) -> None:
    convert_gguf(gguf_path, tmp_path)
    target = load_named_target(str(tmp_path), lambda message, share: None)
    ids = TOKENIZER("A thin é line.")["input_ids"]
    with torch.inference_mode():
        expected = model(torch.tensor([ids])).logits[0]
    torch.testing.assert_close(target.lm.open().forward(ids, len(ids)), expected, atol=1e-4, rtol=0)
    assert target.tokenizer("A thin é line.")["input_ids"] == ids
    assert target.decode_text(ids) == "A thin é line."
    assert TOKENIZER.eos_token_id in target.eos_token_ids
    assert target.tokenizer.chat_template == TOKENIZER.chat_template


def test_a_file_in_another_format_is_refused_in_a_sentence(model: LlamaForCausalLM, tmp_path: Path) -> None:
    write_gguf(model, TOKENIZER, tmp_path / "wide.gguf", kind=F32)
    with pytest.raises(ModelError, match=r"attn_q.weight is F32.* reads Q4_1"):
        four_bit.from_gguf(tmp_path / "wide.gguf", model)


@pytest.mark.parametrize("shape", [(16, 32), (48, 96), (256, 64)])
def test_rounding_moves_no_weight_by_more_than_half_a_step(shape: tuple[int, int]) -> None:
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    groups = four_bit.round_to_groups(weight)
    half_step = groups.scales.repeat_interleave(four_bit.GROUP, 1) / 2
    assert bool(((groups.dequantize() - weight).abs() <= half_step * 1.001).all())
    assert int(groups.codes.max()) == 15
    assert int(groups.codes.min()) == 0


def test_rounding_what_is_on_the_grid_already_changes_nothing() -> None:
    codes = torch.arange(16).repeat(16, 4).float()
    weight = codes / 8 - 0.5
    assert torch.equal(four_bit.round_to_groups(weight).dequantize(), weight)


@pytest.mark.parametrize("num_rows", [0, 1, 2, 5, 17])
def test_the_kernel_multiplies_by_the_weights_the_codes_stand_for(num_rows: int) -> None:
    generator = torch.Generator().manual_seed(2)
    groups = four_bit.round_to_groups(torch.randn(64, 96, generator=generator))
    hidden = torch.randn(num_rows, 96, generator=generator).bfloat16()
    found = four_bit.Int4Linear(groups)(hidden)
    expected = hidden.float() @ groups.dequantize().T
    assert found.shape == (num_rows, 64)
    torch.testing.assert_close(found.float(), expected, atol=0.15, rtol=0.02)


@pytest.mark.parametrize("num_rows", [1, 5])
def test_the_head_in_eight_bits_is_close_to_the_head(num_rows: int) -> None:
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(100, 64, generator=generator)
    hidden = torch.randn(num_rows, 64, generator=generator).bfloat16()
    found = four_bit.Int8Linear(weight)(hidden)
    torch.testing.assert_close(found.float(), hidden.float() @ weight.T, atol=0.3, rtol=0.02)


def test_another_architecture_keeps_its_own_pass_with_four_bit_layers_and_the_original_is_untouched() -> None:
    model = make_model("mistral")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    lm = four_bit.from_weights(model)
    assert isinstance(lm, TransformersLM)
    replaced = [module for module in lm.model.modules() if isinstance(module, four_bit.Int4Linear)]
    assert len(replaced) == 7 * model.config.num_hidden_layers
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("kind", ["llama", "mistral"])
def test_a_rounded_model_predicts_nearly_what_the_model_predicts(kind: str) -> None:
    model = make_model(kind)
    lm = four_bit.from_weights(model)
    ids = torch.randint(259, (60,), generator=torch.Generator().manual_seed(4)).tolist()
    with torch.inference_mode():
        found = lm.open().forward(ids, len(ids)).float().softmax(-1)
        expected = model(torch.tensor([ids])).logits[0].softmax(-1)
        other = make_model(kind, seed=1)(torch.tensor([ids])).logits[0].softmax(-1)

    def overlap(one: Tensor, other: Tensor) -> float:
        return float(torch.minimum(one, other).sum(-1).mean())

    # Random weights suffer more from rounding than trained ones; an unrelated model shows what chance gives.
    assert overlap(found, expected) > max(0.6, 2 * overlap(found, other))
    assert isinstance(lm, LlamaLM) == (kind == "llama")


def test_the_index_beside_a_file_says_what_its_header_says(gguf_path: Path, tmp_path: Path) -> None:
    copied = tmp_path / gguf_path.name
    copied.write_bytes(gguf_path.read_bytes())
    from_header = read_index(copied)
    write_index(copied)
    assert read_index(copied) == from_header
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(copied).tensors}
    name = "blk.0.ffn_down.weight"
    assert from_header[name].read(copied).tolist() == tensors[name].data.tolist()
