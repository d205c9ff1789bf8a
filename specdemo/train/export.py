"""Weights as a folder of small safetensors shards with an index, floating point in half precision."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import LlamaConfig

_MAX_SHARD_BYTES = 9_450_000


def write_folder(folder: Path, config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """Write config.json and the tensors; earlier weights in the folder are removed."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.safetensors"):
        path.unlink()
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    halves = {name: _half(tensor) for name, tensor in tensors.items()}
    shards = _split(halves)
    places = {}
    for number, names in enumerate(shards, 1):
        file_name = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        save_file({name: halves[name] for name in names}, folder / file_name)
        places |= dict.fromkeys(names, file_name)
    index = {
        "metadata": {"total_size": sum(t.nbytes for t in halves.values())},
        "weight_map": dict(sorted(places.items())),
    }
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")


def layer_values(config: LlamaConfig) -> dict[str, Any]:
    """What a published configuration says of layers of the target's sizes."""
    names = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim")
    names += ("rms_norm_eps", "vocab_size", "max_position_embeddings")
    return {**{name: getattr(config, name) for name in names}, "rope_theta": config.rope_parameters["rope_theta"]}


def word_offsets(vocabulary: Tensor) -> dict[str, Tensor]:
    """Draft words (C,) to the target's: `d2t` (C,) holds offsets, target id less draft id, as EAGLE-3 has it."""
    return {"d2t": vocabulary - torch.arange(len(vocabulary), device=vocabulary.device)}


def word_map(vocabulary: Tensor, vocab_size: int) -> dict[str, Tensor]:
    """As EAGLE-3's files have it, with the way back: `t2d` (V,) says which of the target's words are drafted."""
    known = torch.zeros(vocab_size, dtype=torch.bool, device=vocabulary.device)
    known[vocabulary] = True
    return {**word_offsets(vocabulary), "t2d": known}


def _half(tensor: Tensor) -> Tensor:
    tensor = tensor.detach().cpu()
    return (tensor.half() if tensor.is_floating_point() else tensor).contiguous()


def _split(tensors: dict[str, Tensor]) -> list[list[str]]:
    """Names in order, as many in a shard as fit."""
    shards: list[list[str]] = [[]]
    size = 0
    for name, tensor in tensors.items():
        if shards[-1] and size + tensor.nbytes > _MAX_SHARD_BYTES:
            shards.append([])
            size = 0
        shards[-1].append(name)
        size += tensor.nbytes
    return shards
