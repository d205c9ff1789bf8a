"""Weights in four bits for torch's own CPU kernels: exact from GGUF's Q4_1 blocks, or rounded from any other model.

Knows no cache and no drafting. A group of 32 weights shares a scale d and a minimum m: weight = d * code + m, code
0..15. torch's kernel computes (code - 8) * scale + zero, so scale = d and zero = m + 8 d. Shapes: N output rows, D
inputs, B = D / 32 groups.
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from transformers import LlamaForCausalLM, PreTrainedModel

from specdemo.causal_lm import TransformersLM
from specdemo.errors import ModelError
from specdemo.gguf_index import StoredTensor, read_index
from specdemo.llama import LlamaHead, LlamaLayer, LlamaLM, RMSNorm

GROUP = 32
_INNER_K_TILES = 2
_GGUF_NAMES = {"qkv": ("attn_q", "attn_k", "attn_v"), "output": ("attn_output",)}
_GGUF_NAMES |= {"gate_up": ("ffn_gate", "ffn_up"), "down": ("ffn_down",)}
_BLOCK_BYTES = 20  # two float16 (scale, minimum) and 32 codes of four bits


@dataclass(frozen=True, slots=True)
class Groups:
    """Codes (N, D) of 0..15, scales (N, B) and minima (N, B)."""

    codes: Tensor
    scales: Tensor
    minima: Tensor

    def dequantize(self) -> Tensor:
        """The weights the codes stand for, (N, D), float32."""
        grouped = self.codes.view(*self.scales.shape, GROUP)
        return (grouped * self.scales[..., None] + self.minima[..., None]).flatten(1)


class Int4Linear(torch.nn.Module):
    """hidden (T, D) in bfloat16 to (T, N) through torch's packed four-bit kernel."""

    def __init__(self, groups: Groups) -> None:
        super().__init__()
        codes = groups.codes.to(torch.int32).contiguous()
        self.out_features = codes.shape[0]
        packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, _INNER_K_TILES)
        zeros = groups.minima + 8 * groups.scales
        self.register_buffer("packed", packed)
        self.register_buffer(
            "scales_and_zeros", torch.stack([groups.scales, zeros], -1).transpose(0, 1).bfloat16().contiguous()
        )
        self.weight_bytes = self.packed.nbytes + self.scales_and_zeros.nbytes

    def forward(self, hidden: Tensor) -> Tensor:
        """See the class."""
        rows = hidden.reshape(-1, hidden.shape[-1])
        product = torch.ops.aten._weight_int4pack_mm_for_cpu(rows, self.packed, GROUP, self.scales_and_zeros)
        return product.view(*hidden.shape[:-1], self.out_features)


class Int8Linear:
    """hidden (T, D) in bfloat16 to (T, N) with one scale a row.

    For the head, whose rows are read whole for every draft token.
    """

    def __init__(self, weight: Tensor) -> None:
        scales = weight.float().abs().amax(1).clamp_(min=1e-12) / 127
        self._codes = (weight.float() / scales[:, None]).round_().to(torch.int8)
        self._scales = scales.bfloat16()
        self.weight_bytes = self._codes.nbytes + self._scales.nbytes

    def __call__(self, hidden: Tensor) -> Tensor:
        return torch.ops.aten._weight_int8pack_mm(hidden, self._codes, self._scales)


def round_to_groups(weight: Tensor) -> Groups:
    """Nearest codes for a weight (N, D) whose D is a multiple of 32."""
    grouped = weight.float().view(weight.shape[0], -1, GROUP)
    minima = grouped.amin(-1)
    scales = ((grouped.amax(-1) - minima) / 15).clamp_(min=1e-12)
    codes = ((grouped - minima[..., None]) / scales[..., None]).round_().clamp_(0, 15)
    return Groups(codes.flatten(1).to(torch.uint8), scales, minima)


def from_gguf(path: Path, model: LlamaForCausalLM) -> LlamaLM:
    """The target's own four-bit blocks as a model; norms, embedding and head come from the loaded target."""
    tensors = read_index(path)

    def read(index: int, kind: str) -> Groups:
        parts = []
        for name in _GGUF_NAMES[kind]:
            full_name = f"blk.{index}.{name}.weight"
            groups = _read_q4_1(path, full_name, tensors.get(full_name))
            num_heads = _num_heads(model, name)
            parts.append(groups if num_heads is None else _undo_permutation(groups, num_heads))
        return _stack(parts)

    return _assemble(model, read)


def from_weights(model: PreTrainedModel) -> LlamaLM | TransformersLM:
    """Any other model in four bits, rounded: Llama through the short pass, the rest with its linear layers replaced."""
    if model.device.type != "cpu":
        raise ModelError(
            f"the quantized drafter runs on the CPU; the target is on {model.device}. Choose another drafter."
        )
    if not LlamaLM.fits(model):
        return TransformersLM(replace_linears(copy.deepcopy(model).to(torch.bfloat16)))

    def read(index: int, kind: str) -> Groups:
        layer = model.model.layers[index]
        attention, mlp = layer.self_attn, layer.mlp
        weights = {
            "qkv": (attention.q_proj, attention.k_proj, attention.v_proj),
            "output": (attention.o_proj,),
            "gate_up": (mlp.gate_proj, mlp.up_proj),
            "down": (mlp.down_proj,),
        }
        return _stack([round_to_groups(linear.weight.detach()) for linear in weights[kind]])

    return _assemble(model, read)


def _assemble(model, read) -> LlamaLM:
    layers = []
    for index, layer in enumerate(model.model.layers):
        linears = {kind: Int4Linear(read(index, kind)) for kind in _GGUF_NAMES}
        norms = [RMSNorm(norm, torch.bfloat16) for norm in (layer.input_layernorm, layer.post_attention_layernorm)]
        num_bytes = sum(linear.weight_bytes for linear in linears.values())
        layers.append(
            LlamaLayer(
                norms[0], linears["qkv"], linears["output"], norms[1], linears["gate_up"], linears["down"], num_bytes
            )
        )
    linear = Int8Linear(model.lm_head.weight.detach())
    head = LlamaHead(RMSNorm(model.model.norm, torch.bfloat16), linear, linear.weight_bytes)
    return LlamaLM(model.config, model.model.embed_tokens.weight.detach().bfloat16(), layers, head)


def replace_linears(module: PreTrainedModel) -> PreTrainedModel:
    """Put four-bit layers in place of every linear one that the kernel can hold, but the head."""
    head = module.get_output_embeddings()
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            is_fit = isinstance(child, torch.nn.Linear) and child is not head and child.bias is None
            if is_fit and child.in_features % GROUP == 0 and child.out_features % 16 == 0:
                setattr(parent, name, Int4Linear(round_to_groups(child.weight.detach())))
    return module


def _read_q4_1(path: Path, name: str, tensor: StoredTensor | None) -> Groups:
    if tensor is None or tensor.kind != "Q4_1":
        found = "is missing" if tensor is None else f"is {tensor.kind}"
        raise ModelError(f"the GGUF file's {name} {found}; the quantized drafter reads Q4_1. Fetch the target again.")
    raw = tensor.read(path).view(tensor.shape[0], -1, _BLOCK_BYTES)
    affine = raw[..., :4].contiguous().view(torch.float16).float()
    nibbles = raw[..., 4:]
    codes = torch.cat([nibbles & 15, nibbles >> 4], -1).flatten(1)
    return Groups(codes, affine[..., 0].contiguous(), affine[..., 1].contiguous())


def _undo_permutation(groups: Groups, num_heads: int) -> Groups:
    """GGUF interleaves the two halves of each rotary head of q and k (llama.cpp, convert_hf_to_gguf.py `permute`)."""

    def rows(values: Tensor) -> Tensor:
        return values.view(num_heads, -1, 2, values.shape[-1]).transpose(1, 2).reshape(values.shape)

    return Groups(rows(groups.codes), rows(groups.scales), rows(groups.minima))


def _num_heads(model: LlamaForCausalLM, name: str) -> int | None:
    return {"attn_q": model.config.num_attention_heads, "attn_k": model.config.num_key_value_heads}.get(name)


def _stack(parts: Sequence[Groups]) -> Groups:
    return Groups(*(torch.cat([getattr(part, field) for part in parts]) for field in ("codes", "scales", "minima")))
