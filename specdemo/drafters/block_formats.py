"""Reads block drafters as they are published: z-lab DFlash, DeepSpec, speculators, SpecForge; one reader for all.

They differ in where the settings stand, in what a layer's number means, and in which slot predicts what; all becomes
transformers' count of hidden states and `first_slot`. Which one a folder is, its config says, never its name.
Key names as in z-lab/dflash `dflash/model.py`, DeepSpec `deepspec/modeling/dspark`, speculators `models/dflash` and
`models/dspark`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from transformers import LlamaConfig

from specdemo.catalog import drafter_note
from specdemo.detection import Found
from specdemo.drafters.block import BlockDrafter, BlockLayer, BlockWeights, MarkovHead
from specdemo.drafters.checkpoint import Checkpoint, Parts, in_order
from specdemo.drafters.layers import HEAD_NORMS, LAYER_TENSORS, Layer, WordHead, layer_config
from specdemo.drafters.slot_probe import first_slot_by_probe
from specdemo.errors import ModelError
from specdemo.llama_layers import RotaryTable
from specdemo.target import Target

_MARKOV = ("markov_head.markov_w1.weight", "markov_head.markov_w2.weight")
_CONFIDENCE = ("confidence_head.proj.weight", "confidence_head.proj.bias")
_RENAMED = {
    "logit_head.": "markov_head.",
    "markov_w1.": "markov_head.markov_w1.",
    "markov_w2.": "markov_head.markov_w2.",
}


@dataclass(frozen=True, slots=True)
class BlockSettings:
    """What a config comes to. `layer_values` describe the layers; `first_slot` None where the config leaves it open."""

    layout: str
    layer_values: Mapping[str, Any]
    feature_layers: list[int]
    block_size: int
    mask_token_id: int
    first_slot: int | None
    markov_head_type: str = "vanilla"
    windows_are_causal: bool = True


def load_block(folder: Path, target: Target) -> BlockDrafter:
    """Read a block drafter of any of the layouts. Raises ModelError where it does not fit the target."""
    checkpoint = Checkpoint.read(folder, "DFlash or DSpark")
    num_target_layers = int(target.model.config.get_text_config().num_hidden_layers)
    settings = read_settings(folder.name, checkpoint.values, checkpoint.detect(), num_target_layers)
    tensors = {_published(name): tensor for name, tensor in checkpoint.tensors.items()}
    checkpoint = replace(checkpoint, tensors=tensors)
    num_layers = int(settings.layer_values.get("num_hidden_layers", 0))
    _check(checkpoint, settings, num_layers, target)
    config = layer_config(settings.layer_values)
    layers, weights = _weights(checkpoint, settings, config, num_layers, target)
    name = "dflash" if weights.markov is None else "dspark"
    rotary = RotaryTable(config, target.lm.device, target.lm.dtype)
    drafter = BlockDrafter(name, weights, layers, rotary)
    return _probed(drafter, settings, target)


def read_settings(name: str, values: Mapping[str, Any], found: Found, num_target_layers: int) -> BlockSettings:
    """What the config of a checkpoint comes to that is `found` to be one of these. Raises ModelError where it is not.

    `num_target_layers` is used where the config does not say for how many it was made.
    """
    if found.family not in ("dflash", "dspark"):
        raise ModelError(
            f"{name} is another network, {found.title}: {found.because}; expected is DFlash or DSpark as published by "
            "z-lab, DeepSpec, speculators or SpecForge."
        )
    try:
        if found.layout == "speculators":
            return _of_speculators(values, found)
        if found.layout == "DeepSpec":
            return _of_deepspec(values)
        return _of_z_lab(values, found, num_target_layers)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(
            f"the config of {name} does not say {error}; a DFlash or DSpark drafter needs its block "
            "size, mask token and target layers. Take the config.json it was published with."
        ) from None


def _of_speculators(values: Mapping[str, Any], found: Found) -> BlockSettings:
    """Hidden states as transformers counts them; exports without `sample_from_anchor` exist of both kinds."""
    predicts = values.get("sample_from_anchor", None if found.family == "dspark" else False)
    return BlockSettings(
        layout="speculators",
        layer_values=values["transformer_layer_config"],
        feature_layers=list(values["aux_hidden_state_layer_ids"]),
        block_size=int(values["block_size"]),
        mask_token_id=int(values["mask_token_id"]),
        first_slot=None if predicts is None else 0 if predicts else 1,
        markov_head_type=str(values.get("markov_head_type", "vanilla")),
        windows_are_causal=not values.get("sliding_window_non_causal", False),
    )


def _of_deepspec(values: Mapping[str, Any]) -> BlockSettings:
    """Layers are named by their output, -1 for the embedding; the anchor's slot predicts."""
    return BlockSettings(
        layout="DeepSpec",
        layer_values=values,
        feature_layers=[int(layer) + 1 for layer in values["target_layer_ids"]],
        block_size=int(values["block_size"]),
        mask_token_id=int(values["mask_token_id"]),
        first_slot=0,
        markov_head_type=str(values.get("markov_head_type", "vanilla")),
    )


def _of_z_lab(values: Mapping[str, Any], found: Found, num_target_layers: int) -> BlockSettings:
    """Layers are named by their output; the block size stands beside the settings or among them."""
    own = values.get("dflash_config") or {}
    is_dspark = found.layout == "SpecForge"
    return BlockSettings(
        layout=found.layout,
        layer_values=values,
        feature_layers=[int(layer) + 1 for layer in own.get("target_layer_ids") or _spread(values, num_target_layers)],
        block_size=int(own["block_size"] if "block_size" in own else values["block_size"]),
        mask_token_id=int(own["mask_token_id"]),
        # SpecForge's own generation and its labels disagree by one slot: what the weights say decides.
        first_slot=None if is_dspark else 1,
        markov_head_type=str(own.get("markov_head_type", "vanilla")),
    )


def _spread(values: Mapping[str, Any], num_target_layers: int) -> list[int]:
    """The layers of a config that names none: spread evenly, as z-lab's `build_target_layer_ids` does."""
    num_target = int(values.get("num_target_layers") or num_target_layers)
    num = int(values["num_hidden_layers"])
    if num == 1:
        return [num_target // 2]
    return [round(1 + i * (num_target - 4) / (num - 1)) for i in range(num)]


def _check(checkpoint: Checkpoint, settings: BlockSettings, num_layers: int, target: Target) -> None:
    """Raise ModelError where names, sizes or settings cannot be."""
    folder = checkpoint.folder.name
    names = (*LAYER_TENSORS, *HEAD_NORMS, "input_layernorm.weight")
    required = {f"layers.{index}.{name}" for index in range(num_layers) for name in names}
    optional = {"embed_tokens.weight", "lm_head.weight", "d2t", "t2d", *_MARKOV, *_CONFIDENCE}
    checkpoint.check_names(
        required | {"fc.weight", "hidden_norm.weight", "norm.weight"}, optional, layout=settings.layout
    )
    if settings.block_size < 2:
        raise ModelError(f"the block size of {folder} is {settings.block_size}; it must be at least 2.")
    if not 0 <= settings.mask_token_id < target.lm.vocab_size:
        raise ModelError(
            f"the mask token of {folder} is {settings.mask_token_id}; this target has ids 0 to "
            f"{target.lm.vocab_size - 1}. Choose the target it was trained for."
        )
    if settings.markov_head_type != "vanilla":
        raise ModelError(
            f"the Markov head of {folder} is of type {settings.markov_head_type!r}; only 'vanilla' is read."
        )
    halves = [name in checkpoint.tensors for name in (*_MARKOV, *_CONFIDENCE)]
    if halves[0] != halves[1] or halves[2] != halves[3]:
        raise ModelError(f"{folder} holds half of a Markov or confidence head; copy the files there again.")


def _weights(
    checkpoint: Checkpoint, settings: BlockSettings, config: LlamaConfig, num_layers: int, target: Target
) -> tuple[tuple[int, ...], BlockWeights]:
    layers, order = checkpoint.features(settings.feature_layers, target)
    checkpoint.check_width(len(checkpoint.tensors["norm.weight"]), 1, target)
    fc = in_order(checkpoint.tensors["fc.weight"], order)
    parts = Parts({**checkpoint.tensors, "fc.weight": fc}, target)
    has_markov, has_confidence = _MARKOV[0] in checkpoint.tensors, _CONFIDENCE[0] in checkpoint.tensors
    embedding, embedding_bytes = parts.embedding()
    return layers, BlockWeights(
        embedding=embedding,
        embedding_bytes=embedding_bytes,
        fc=parts.linear("fc"),
        hidden_norm=parts.tensor("hidden_norm"),
        layers=tuple(_layer(parts, settings, config, index) for index in range(num_layers)),
        norm=parts.tensor("norm"),
        head=WordHead.from_checkpoint(checkpoint, target),
        markov=_markov(parts) if has_markov else None,
        confidence=parts.vector("confidence_head.proj") if has_confidence else None,
        block_size=settings.block_size,
        mask_token_id=settings.mask_token_id,
        first_slot=settings.first_slot or 0,
    )


def _markov(parts: Parts) -> MarkovHead:
    return MarkovHead(parts.tensor("markov_head.markov_w1"), parts.linear("markov_head.markov_w2"))


def _layer(parts: Parts, settings: BlockSettings, config: LlamaConfig, index: int) -> BlockLayer:
    within = replace(parts, prefix=f"layers.{index}.")
    kinds = settings.layer_values.get("layer_types") or []
    has_window = index < len(kinds) and kinds[index] == "sliding_attention"
    window = settings.layer_values.get("sliding_window") if has_window else None
    layer = Layer.from_parts(within, config.head_dim, config.rms_norm_eps)
    return BlockLayer(within.tensor("input_layernorm"), layer, window, settings.windows_are_causal)


def _published(name: str) -> str:
    """Older exports call the Markov head otherwise, or put it at the top."""
    old = next((old for old in _RENAMED if name.startswith(old)), "")
    return _RENAMED.get(old, "") + name[len(old) :]


def _probed(drafter: BlockDrafter, settings: BlockSettings, target: Target) -> BlockDrafter:
    """The same drafter with the slot that the weights speak for, where the config leaves it open, or with a doubt."""
    better = first_slot_by_probe(drafter, target)
    if settings.first_slot is None:
        drafter.weights = replace(drafter.weights, first_slot=better or 0)
    elif better is not None and better != settings.first_slot:
        drafter.note = drafter_note("note_slot", found=better, said=settings.first_slot)
    return drafter
