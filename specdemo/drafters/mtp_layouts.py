"""The layouts in which multi-token-prediction layers are published, brought to one set of names.

The names are Qwen's without their prefix `mtp.`; DeepSeek and GLM store the layer behind the target's last one, and
the library speculators (`src/speculators/convert/mtp/converter.py`) renames Qwen's. Their files are often the
target's own, which holds all other layers too. The layer of Qwen3-Next and Qwen3.5 has attention with a gate, rotary
positions in a part of each head, and norms that multiply by 1 + weight.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor
from transformers import LlamaConfig

from specdemo.drafters.checkpoint import Checkpoint
from specdemo.drafters.layers import HEAD_NORMS, LAYER_TENSORS, layer_config
from specdemo.errors import ModelError
from specdemo.target import Target

BLOCK = "layers.0."
_REQUIRED = {
    *(f"{BLOCK}{name}" for name in (*LAYER_TENSORS, "input_layernorm.weight")),
    *("fc.weight", "pre_fc_norm_embedding.weight", "pre_fc_norm_hidden.weight", "norm.weight"),
}
_OPTIONAL = {
    *(f"{BLOCK}{name}" for name in HEAD_NORMS),
    *("lm_head.weight", "d2t", "t2d", "embed_tokens.weight"),
}
_SPECULATORS = {
    "input_proj": "fc",
    "token_layernorm": "pre_fc_norm_embedding",
    "hidden_layernorm": "pre_fc_norm_hidden",
    "final_layernorm": "norm",
}
_DEEPSEEK = {
    "eh_proj": "fc",
    "enorm": "pre_fc_norm_embedding",
    "hnorm": "pre_fc_norm_hidden",
    "shared_head.norm": "norm",
    "shared_head.head": "lm_head",
    "embed_tokens": "embed_tokens",
}
_REFUSED = {
    r"self_attn\.kv_a_proj": "multi-head latent attention",
    r"mlp\.(experts|gate|shared_experts?)\.": "a mixture of experts",
    r"self_attn\.\w+\.bias$": "attention with biases",
    r"^(mtp_)?layers\.[1-9]": "others behind it",
}


_GATED = ("qwen3_next", "qwen3_5")
"""Beginnings of `model_type`, with and without `_text`."""
_SHARE = "partial_rotary_factor"
_SHARE_OF_GATED = 0.25  # where config.json does not say


def read_mtp(folder: Path, target: Target) -> tuple[Checkpoint, LlamaConfig, LlamaConfig]:
    """The layer by Qwen's names, checked against the target; its sizes; those of its rotary positions.

    Raises ModelError where it cannot run.
    """
    found = Checkpoint.read(folder, "multi-token prediction")
    num_layers = int(target.model.config.get_text_config().num_hidden_layers)
    checkpoint = replace(found, tensors=_by_qwens_names(found, num_layers))
    values = found.values.get("transformer_layer_config") or found.values.get("text_config") or found.values
    _refuse_other_blocks(checkpoint, values)
    checkpoint.check_names(_REQUIRED, _OPTIONAL, layout="multi-token-prediction")
    config = layer_config(values)
    is_gated = _is_gated(values)
    _check_sizes(checkpoint, config, target, is_gated=is_gated)
    if is_gated:
        # As transformers' Qwen3_5RMSNorm does at every pass.
        norms = {name: 1.0 + tensor.float() for name, tensor in checkpoint.tensors.items() if "norm" in name}
        checkpoint = replace(checkpoint, tensors=checkpoint.tensors | norms)
    return checkpoint, config, _rotary_config(config, values, is_gated=is_gated)


def _is_gated(values: dict[str, Any]) -> bool:
    return str(values.get("model_type")).startswith(_GATED)


def _rotary_share(values: dict[str, Any], *, is_gated: bool) -> float:
    """Of each head's numbers, how many are rotated."""
    rotary = values.get("rope_parameters") or values.get("rope_scaling") or {}
    return float(rotary.get(_SHARE, values.get(_SHARE)) or (_SHARE_OF_GATED if is_gated else 1.0))


def _rotary_config(config: LlamaConfig, values: dict[str, Any], *, is_gated: bool) -> LlamaConfig:
    """Heads as large as their rotated part. Of a text all axes of a multimodal position are the same."""
    if not is_gated:
        return config
    rotary = {key: value for key, value in config.rope_parameters.items() if key in ("rope_type", "rope_theta")}
    size = int(config.head_dim * _rotary_share(values, is_gated=True))
    return LlamaConfig(**{**config.to_dict(), "head_dim": size, "rope_parameters": rotary})


def _by_qwens_names(found: Checkpoint, num_layers: int) -> dict[str, Tensor]:
    layouts: dict[str, tuple[str, dict[str, str]]] = {
        "mtp.fc.weight": ("mtp.", {}),
        "mtp_layers.0.input_proj.weight": ("mtp_layers.0.", _SPECULATORS),
        f"model.layers.{num_layers}.eh_proj.weight": (f"model.layers.{num_layers}.", _DEEPSEEK),
    }
    prefix, names = next((layout for first, layout in layouts.items() if first in found.tensors), ("", {}))
    if not prefix:
        raise ModelError(
            f"{found.folder.name} holds no multi-token-prediction layer for a target of {num_layers} layers: it has "
            f"none of {', '.join(layouts)}. Choose the target it was trained for."
        )
    tensors = {name: tensor for name, tensor in found.tensors.items() if not name.startswith((prefix, "model."))}
    inside = {name.removeprefix(prefix): tensor for name, tensor in found.tensors.items() if name.startswith(prefix)}
    return tensors | {_rename(name, names): tensor for name, tensor in inside.items()}


def _rename(name: str, names: dict[str, str]) -> str:
    stem, _, last = name.rpartition(".")
    if stem in names:
        return f"{names[stem]}.{last}"
    return BLOCK + name if names else name


def _refuse_other_blocks(checkpoint: Checkpoint, values: dict[str, Any]) -> None:
    """Raise ModelError where the layer computes what layers.Layer does not."""
    tensors = checkpoint.tensors
    kinds = [kind for pattern, kind in _REFUSED.items() if any(re.search(pattern, name) for name in tensors)]
    query, output = (tensors.get(f"{BLOCK}self_attn.{name}_proj.weight") for name in "qo")
    is_gated = query is not None and output is not None and len(query) == 2 * output.shape[1]
    if is_gated and not _is_gated(values):
        kinds.append(f"a gate beside its queries, which {values.get('model_type') or 'no model_type'} has not")
    if (values.get("num_nextn_predict_layers") or 1) > 1:
        kinds.append("others behind it")
    if not _is_gated(values) and _rotary_share(values, is_gated=False) != 1.0:
        kinds.append("rotary positions in a part of each head")
    if kinds:
        raise ModelError(
            f"the layer in {checkpoint.folder.name} has {' and '.join(kinds)}; mtp runs a dense layer as Llama, "
            "Qwen3, Qwen3-Next or Qwen3.5 has it. Choose another drafter for this target."
        )


def _check_sizes(checkpoint: Checkpoint, config: LlamaConfig, target: Target, *, is_gated: bool) -> None:
    """Raise ModelError unless all tensors have the sizes that the target and config.json ask for."""
    tensors, size = checkpoint.tensors, int(target.model.config.get_text_config().hidden_size)
    heads, groups = (n * config.head_dim for n in (config.num_attention_heads, config.num_key_value_heads))
    inner = len(tensors[f"{BLOCK}mlp.gate_proj.weight"])
    block = {
        "self_attn.q_proj": (2 * heads if is_gated else heads, size),
        "self_attn.k_proj": (groups, size),
        "self_attn.v_proj": (groups, size),
        "self_attn.o_proj": (size, heads),
        "self_attn.q_norm": (config.head_dim,),
        "self_attn.k_norm": (config.head_dim,),
        "mlp.gate_proj": (inner, size),
        "mlp.up_proj": (inner, size),
        "mlp.down_proj": (size, inner),
    }
    expected = {f"{BLOCK}{name}.weight": shape for name, shape in block.items()} | {
        "fc.weight": (size, 2 * size),
        "embed_tokens.weight": (target.lm.vocab_size, size),
        "lm_head.weight": (len(tensors.get("lm_head.weight", ())), size),
    }
    wrong = [
        f"{name} is {tuple(tensor.shape)} and not {expected[name]}"
        for name, tensor in tensors.items()
        if tuple(tensor.shape) != expected.get(name, (size,)) and name not in ("d2t", "t2d")
    ]
    if wrong:
        raise ModelError(
            f"{checkpoint.folder.name} does not fit this target and its own config.json: {'; '.join(wrong)}. Choose "
            "the target it was trained for."
        )
