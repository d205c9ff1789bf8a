"""The four-bit drafter computes with exactly the weights of the file; other models are rounded to the nearest ones."""

import copy
from pathlib import Path

import gguf
import pytest
import torch
from torch import Tensor
from transformers import LlamaForCausalLM

from specdemo import four_bit
from specdemo.blocks import to_q4_1, to_q8_0
from specdemo.causal_lm import CausalLM, TransformersLM
from specdemo.conversion import convert_gguf
from specdemo.errors import ModelError
from specdemo.gguf_index import read_index, write_index
from specdemo.int4_linear import Int4Linear
from specdemo.kernels.llama import CompiledLlama
from specdemo.llama import LlamaLM
from specdemo.llama_layers import LlamaHead
from specdemo.loading import load_named_target
from tests.fakes import make_model, make_target, make_tokenizer
from tests.gguf_files import F32, Q4_1, Q8_0, expand, snap_to_grid, write_gguf

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


@pytest.fixture(scope="module")
def target_lm(model: LlamaForCausalLM) -> LlamaLM:
    return LlamaLM.from_transformers(copy.deepcopy(model))


def compiled(lm: CausalLM) -> CompiledLlama:
    assert isinstance(lm, LlamaLM)
    assert lm.compiled is not None
    return lm.compiled


def test_blocks_of_a_file_become_exactly_the_weights_they_stand_for(
    model: LlamaForCausalLM, target_lm: LlamaLM, gguf_path: Path
) -> None:
    """Also where the file interleaves the rows of q and k."""
    found = compiled(four_bit.from_gguf(gguf_path, model, target_lm)).layers
    for kind in ("qkv", "output", "gate_up", "down"):
        for layer, blocks in enumerate(torch.from_numpy(getattr(found, kind))):
            assert torch.equal(expand(blocks, Q4_1), getattr(target_lm.layers, kind)[layer]), kind


def test_a_pass_from_blocks_has_the_bits_of_a_pass_from_their_float32_weights(
    model: LlamaForCausalLM, target_lm: LlamaLM, gguf_path: Path
) -> None:
    """With a head that its own blocks hold exactly too."""
    lm = four_bit.from_gguf(gguf_path, model, target_lm)
    head = expand(torch.from_numpy(compiled(lm).head), Q8_0)
    exact = LlamaLM(target_lm.config, target_lm.embedding, target_lm.layers, LlamaHead(target_lm.head.norm, head))
    ids = torch.randint(259, (12,), generator=torch.Generator().manual_seed(5)).tolist()
    assert torch.equal(lm.open().forward(ids, len(ids)), exact.open().forward(ids, len(ids)))


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


def test_a_file_in_another_format_is_refused_in_a_sentence(
    model: LlamaForCausalLM, target_lm: LlamaLM, tmp_path: Path
) -> None:
    write_gguf(model, TOKENIZER, tmp_path / "wide.gguf", kind=F32)
    with pytest.raises(ModelError, match=r"attn_q.weight is F32.* reads Q4_1"):
        four_bit.from_gguf(tmp_path / "wide.gguf", model, target_lm)


@pytest.mark.parametrize("shape", [(16, 32), (48, 96), (256, 64)])
def test_rounding_to_four_bits_moves_no_weight_by_more_than_a_step(shape: tuple[int, int]) -> None:
    """Half a step from the nearest code, and what float16 rounds off scale and minimum."""
    weight = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    step = (weight.unflatten(1, (-1, 32)).amax(-1) - weight.unflatten(1, (-1, 32)).amin(-1)) / 15
    found = expand(to_q4_1(weight), Q4_1)
    assert bool(((found - weight).abs() <= 0.6 * step.repeat_interleave(32, 1)).all())


def test_rounding_to_eight_bits_is_closer_still() -> None:
    weight = torch.randn(100, 64, generator=torch.Generator().manual_seed(3))
    assert float((expand(to_q8_0(weight), Q8_0) - weight).abs().max()) < float(weight.abs().max()) / 127


def test_rounding_what_is_on_the_grid_already_changes_nothing() -> None:
    codes = torch.arange(16).repeat(16, 4).float()
    weight = codes / 8 - 0.5
    assert torch.equal(expand(to_q4_1(weight), Q4_1), weight)


@pytest.mark.parametrize("num_rows", [0, 1, 2, 5, 17])
def test_torchs_kernel_multiplies_by_the_nearest_weights(num_rows: int) -> None:
    generator = torch.Generator().manual_seed(2)
    weight = expand(to_q4_1(torch.arange(96 * 64).reshape(64, 96) % 16 / 8 - 0.5), Q4_1)
    hidden = torch.randn(num_rows, 96, generator=generator).bfloat16()
    found = Int4Linear(weight)(hidden)
    expected = hidden.float() @ weight.T
    assert found.shape == (num_rows, 64)
    torch.testing.assert_close(found.float(), expected, atol=0.15, rtol=0.02)


def test_another_architecture_keeps_its_own_pass_with_four_bit_layers_and_the_original_is_untouched() -> None:
    target = make_target("mistral")
    model = target.model
    before = {name: value.clone() for name, value in model.state_dict().items()}
    lm = four_bit.from_weights(model, target.lm)
    assert isinstance(lm, TransformersLM)
    replaced = [module for module in lm.model.modules() if isinstance(module, Int4Linear)]
    assert len(replaced) == 7 * model.config.num_hidden_layers
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("kind", ["llama", "mistral"])
def test_a_rounded_model_predicts_nearly_what_the_model_predicts(kind: str) -> None:
    target = make_target(kind)
    model = target.model
    lm = four_bit.from_weights(model, target.lm)
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
