"""Weights in GGUF's block formats: Q4_1 (four bits) and Q8_0 (eight), read from a file or rounded from float32.

Knows no model. A block is 32 weights of one row. Q4_1: scale and minimum in float16, then 16 bytes of codes;
weight = scale * code + minimum, code 0..15, the first half of the block in the low bits. Q8_0: a scale in float16, then
32 signed codes; weight = scale * code. Shapes: N rows, D inputs (a multiple of 32), B = D / 32 blocks a row.
"""

from pathlib import Path

import torch
from torch import Tensor

from specdemo.errors import ModelError
from specdemo.gguf_index import StoredTensor

BLOCK = 32
_DTYPES = {"Q4_1": torch.uint8, "Q8_0": torch.int8}


def read_blocks(path: Path, name: str, tensors: dict[str, StoredTensor], kind: str) -> Tensor:
    """A tensor's blocks as they lie in the file: (N, 20 B) uint8 for Q4_1, (N, 34 B) int8 for Q8_0."""
    tensor = tensors.get(name)
    if tensor is None or tensor.kind != kind:
        found = "is missing" if tensor is None else f"is {tensor.kind}"
        raise ModelError(f"the GGUF file's {name} {found}; the quantized drafter reads {kind}. Fetch the target again.")
    return tensor.read(path).view(_DTYPES[kind])


def to_q4_1(weight: Tensor) -> Tensor:
    """Nearest blocks of a weight (N, D): (N, 20 B) uint8."""
    grouped = weight.float().unflatten(1, (-1, BLOCK))
    minima = grouped.amin(-1, keepdim=True).half()
    scales = ((grouped.amax(-1, keepdim=True) - minima.float()) / 15).clamp_(min=1e-7).half()
    codes = ((grouped - minima.float()) / scales.float()).round_().clamp_(0, 15).to(torch.uint8)
    packed = codes[..., : BLOCK // 2] | codes[..., BLOCK // 2 :] << 4
    return torch.cat([scales.view(torch.uint8), minima.view(torch.uint8), packed], -1).flatten(1)


def to_q8_0(weight: Tensor) -> Tensor:
    """Nearest blocks of a weight (N, D): (N, 34 B) int8."""
    grouped = weight.float().unflatten(1, (-1, BLOCK))
    scales = (grouped.abs().amax(-1, keepdim=True) / 127).clamp_(min=1e-7).half()
    codes = (grouped / scales.float()).round_().clamp_(-127, 127).to(torch.int8)
    return torch.cat([scales.view(torch.int8), codes], -1).flatten(1)


def undo_permutation(blocks: Tensor, num_heads: int) -> Tensor:
    """GGUF interleaves the two halves of each rotary head of q and k (llama.cpp, convert_hf_to_gguf.py `permute`)."""
    return blocks.view(num_heads, -1, 2, blocks.shape[-1]).transpose(1, 2).reshape(blocks.shape)
