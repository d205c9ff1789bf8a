"""Writes a tiny Llama as a GGUF file, blocks and metadata as llama.cpp's converter writes them."""

from pathlib import Path

import gguf
import numpy as np
import torch
from torch import Tensor
from transformers import LlamaForCausalLM, PreTrainedTokenizerBase

Q4_1, F32 = gguf.GGMLQuantizationType.Q4_1, gguf.GGMLQuantizationType.F32
Q8_0 = gguf.GGMLQuantizationType.Q8_0
_LAYER_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
_OTHER_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def expand(blocks: Tensor, kind: gguf.GGMLQuantizationType) -> Tensor:
    """The weights that blocks (N, bytes of a row) stand for, (N, D) float32, by gguf's own dequantisation."""
    return torch.from_numpy(gguf.quants.dequantize(blocks.numpy().view(np.uint8), kind))


def snap_to_grid(model: LlamaForCausalLM) -> None:
    """Move the linear weights to values that Q4_1 blocks, float16 and bfloat16 hold exactly: multiples of 1/32."""
    for layer in model.model.layers:
        for module in layer.modules():
            if isinstance(module, torch.nn.Linear):
                codes = torch.randint(16, module.weight.shape)
                # Each block has its lowest and its highest code, so that quantising finds this very grid.
                codes.view(-1, 32)[:, :2] = torch.tensor([0, 15])
                module.weight.data = (codes - 6).float() / 32


def write_gguf(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, path: Path, *, kind: int = Q4_1) -> None:
    """Linear layers in blocks of `kind`, the rest in float32."""
    writer = gguf.GGUFWriter(path, "llama")
    _add_metadata(writer, model, tokenizer)
    for name, parameter in model.named_parameters():
        values = _permuted(model, name, parameter.detach()).numpy().astype(np.float32)
        stored = gguf.GGMLQuantizationType(kind) if "proj" in name else F32
        writer.add_tensor(_gguf_name(name), gguf.quants.quantize(values, stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _gguf_name(name: str) -> str:
    stem = name.removesuffix(".weight")
    if stem in _OTHER_NAMES:
        return f"{_OTHER_NAMES[stem]}.weight"
    index, _, rest = stem.removeprefix("model.layers.").partition(".")
    return f"blk.{index}.{_LAYER_NAMES[rest]}.weight"


def _permuted(model: LlamaForCausalLM, name: str, weight: Tensor) -> Tensor:
    """Rows of q and k as llama.cpp orders them: the two halves of a head interleaved."""
    heads = {"q_proj": model.config.num_attention_heads, "k_proj": model.config.num_key_value_heads}
    count = next((number for part, number in heads.items() if part in name), None)
    if count is None:
        return weight
    return weight.view(count, 2, -1, weight.shape[1]).transpose(1, 2).reshape(weight.shape)


def _add_metadata(writer: gguf.GGUFWriter, model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase) -> None:
    config = model.config
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("gpt2")
    tokens = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__)
    special = set(tokenizer.all_special_tokens)
    writer.add_token_list(tokens)
    writer.add_token_types([gguf.TokenType.CONTROL if t in special else gguf.TokenType.NORMAL for t in tokens])
    writer.add_token_merges(["t h"])  # at least one is needed; the vocabulary must hold its product
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_bos_token_id(tokenizer.convert_tokens_to_ids("<|im_start|>"))
    writer.add_chat_template(tokenizer.chat_template)
