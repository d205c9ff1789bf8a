"""Models in few bits as drafters: the target exactly from its GGUF file's blocks, others rounded from their weights.

Knows no cache and no drafting. From the file's own blocks the compiled pass computes bit for bit what it computes from
their float32 expansion, which is the target; it reads a sixth of the bytes.
"""

import copy
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from transformers import LlamaForCausalLM, PreTrainedModel

from specdemo.blocks import read_blocks, to_q4_1, to_q8_0, undo_permutation
from specdemo.causal_lm import CausalLM, TransformersLM
from specdemo.errors import ModelError
from specdemo.gguf_index import read_index
from specdemo.int4_linear import replace_linears
from specdemo.kernels.llama import CompiledLlama
from specdemo.llama import LlamaLM

_GGUF_NAMES = {
    "qkv": ("attn_q", "attn_k", "attn_v"),
    "output": ("attn_output",),
    "gate_up": ("ffn_gate", "ffn_up"),
    "down": ("ffn_down",),
}


def from_gguf(path: Path, model: LlamaForCausalLM, lm: CausalLM) -> CausalLM:
    """The target's own blocks; norms and what a prefill of many rows reads are the loaded target's."""
    if not (isinstance(lm, LlamaLM) and lm.compiled):
        return from_weights(model, lm)
    tensors = read_index(path)
    num_heads = {"attn_q": model.config.num_attention_heads, "attn_k": model.config.num_key_value_heads}

    def read(layer: int, kind: str) -> Tensor:
        parts = []
        for name in _GGUF_NAMES[kind]:
            blocks = read_blocks(path, f"blk.{layer}.{name}.weight", tensors, "Q4_1")
            parts.append(undo_permutation(blocks, num_heads[name]) if name in num_heads else blocks)
        return torch.cat(parts)

    head_name = "output.weight" if "output.weight" in tensors else "token_embd.weight"
    is_stored = tensors[head_name].kind == "Q8_0"
    return _assemble(lm, read, read_blocks(path, head_name, tensors, "Q8_0") if is_stored else to_q8_0(lm.head.weight))


def from_weights(model: PreTrainedModel, lm: CausalLM) -> CausalLM:
    """Any other model in four bits, rounded: Llama through the compiled pass, the rest with its linear layers replaced.

    `lm` is the same model as the target runs it.
    """
    if model.device.type != "cpu":
        raise ModelError(
            f"the quantized drafter runs on the CPU; the target is on {model.device}. Choose another drafter."
        )
    if not (isinstance(lm, LlamaLM) and lm.compiled):
        return TransformersLM(replace_linears(copy.deepcopy(model).to(torch.bfloat16)))
    return _assemble(lm, lambda layer, kind: to_q4_1(getattr(lm.layers, kind)[layer]), to_q8_0(lm.head.weight))


def in_eight_bits(lm: LlamaLM) -> LlamaLM:
    """A small model rounded to Q8_0 for passes of few rows: a quarter of the bytes, which is what a draft costs."""
    if lm.compiled is None:
        return lm
    return _assemble(lm, lambda layer, kind: to_q8_0(getattr(lm.layers, kind)[layer]), to_q8_0(lm.head.weight))


def _assemble(lm: LlamaLM, read: Callable[[int, str], Tensor], head: Tensor) -> LlamaLM:
    assert lm.compiled is not None
    stacked = {
        kind: torch.stack([read(layer, kind) for layer in range(len(lm.layers))]).numpy() for kind in _GGUF_NAMES
    }
    layers = lm.compiled.layers._replace(**stacked)
    compiled = CompiledLlama(layers, lm.compiled.head_norm, head.contiguous().numpy())
    return LlamaLM(lm.config, lm.embedding, lm.layers, lm.head, compiled)
