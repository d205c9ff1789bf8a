"""Small checkpoints in published layouts, by their published keys, for the tests' tiny target."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from tests.fakes import VOCAB_SIZE

SIZE, INNER, HEADS, GROUPS, HEAD = 128, 64, 4, 2, 32
_LAYER_VALUES = {
    "model_type": "llama",
    "hidden_size": SIZE,
    "intermediate_size": INNER,
    "num_hidden_layers": 1,
    "num_attention_heads": HEADS,
    "num_key_value_heads": GROUPS,
    "head_dim": HEAD,
    "rms_norm_eps": 1e-6,
    "vocab_size": VOCAB_SIZE,
    "max_position_embeddings": 256,
    "rope_theta": 10000.0,
}


def layer(prefix: str, reads: int = SIZE) -> dict[str, Tensor]:
    """A decoder layer that reads so many numbers."""
    shapes = {
        "self_attn.q_proj": (HEADS * HEAD, reads),
        "self_attn.k_proj": (GROUPS * HEAD, reads),
        "self_attn.v_proj": (GROUPS * HEAD, reads),
        "self_attn.o_proj": (SIZE, HEADS * HEAD),
        "mlp.gate_proj": (INNER, SIZE),
        "mlp.up_proj": (INNER, SIZE),
        "mlp.down_proj": (SIZE, INNER),
        "input_layernorm": (SIZE,),
        "post_attention_layernorm": (SIZE,),
    }
    return {f"{prefix}{name}.weight": random(*shape) for name, shape in shapes.items()}


def random(*shape: int) -> Tensor:
    """Small numbers; ones where a vector is asked for, which is a norm."""
    return torch.ones(shape) if len(shape) == 1 else 0.05 * torch.randn(shape)


def write(folder: Path, values: dict[str, Any], tensors: dict[str, Tensor]) -> Path:
    """A folder as a person downloads it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(values), encoding="utf-8")
    save_file(tensors, folder / "model.safetensors")
    return folder


def write_eagle3(folder: Path) -> Path:
    """As its authors publish it; the target's layers are too few for those that silence means."""
    own = {"eagle_aux_hidden_state_layer_ids": [0, 1, 2]}
    values = {**_LAYER_VALUES, "architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 64, "eagle_config": own}
    map_of_words = {"d2t": torch.zeros(64, dtype=torch.long), "t2d": torch.arange(VOCAB_SIZE) < 64}
    ends = {"fc.weight": random(SIZE, 3 * SIZE), "norm.weight": random(SIZE), "lm_head.weight": random(64, SIZE)}
    inside = layer("midlayer.", 2 * SIZE) | {"midlayer.hidden_norm.weight": random(SIZE)}
    return write(folder, values, {**map_of_words, **ends, **inside})


def write_dflash(folder: Path) -> Path:
    """As z-lab publishes it."""
    own = {"target_layer_ids": [0, 1], "mask_token_id": 5}
    values = {
        **_LAYER_VALUES,
        "model_type": "qwen3",
        "architectures": ["DFlashDraftModel"],
        "block_size": 4,
        "num_target_layers": 3,
        "dflash_config": own,
    }
    norms = {f"layers.0.self_attn.{name}_norm.weight": random(HEAD) for name in "qk"}
    ends = {"fc.weight": random(SIZE, 2 * SIZE), "norm.weight": random(SIZE), "hidden_norm.weight": random(SIZE)}
    return write(folder, values, {**layer("layers.0."), **norms, **ends})


def write_medusa(folder: Path) -> Path:
    """Two heads, in safetensors."""
    values = {"medusa_num_heads": 2, "medusa_num_layers": 1, "base_model_name_or_path": "a target"}
    tensors = {}
    for head in range(2):
        tensors |= {f"{head}.0.linear.weight": random(SIZE, SIZE), f"{head}.0.linear.bias": random(SIZE)}
        tensors[f"{head}.1.weight"] = random(VOCAB_SIZE, SIZE)
    return write(folder, values, tensors)


def change(folder: Path, **values: Any) -> None:
    """Other values in config.json; None takes one out."""
    path = folder / "config.json"
    changed = {**json.loads(path.read_text(encoding="utf-8")), **values}
    path.write_text(json.dumps({key: one for key, one in changed.items() if one is not None}), encoding="utf-8")


def change_tensors(folder: Path, **tensors: Tensor) -> None:
    """Other tensors; a name's dots are written as two underscores."""
    path = folder / "model.safetensors"
    named = {name.replace("__", "."): tensor for name, tensor in tensors.items()}
    save_file({**load_file(path), **named}, path)
