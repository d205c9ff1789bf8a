"""`eagle3`: one layer that reads some of the target's hidden states (EAGLE-3, Li et al. 2503.01840).

The layer sees embedding and features side by side and hands on its output. Read as published by its authors (also
AngelSlim and SpecForge), by speculators and by DeepSpec; which one a folder is, its config says, never its name. Key
names as in SafeAILab/EAGLE `eagle/model/cnets.py`, speculators `models/eagle3`, DeepSpec `deepspec/modeling/eagle3`.
Shapes: T rows, D hidden size, S hidden states read side by side.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig

from specdemo.detection import Found
from specdemo.drafters.checkpoint import Checkpoint, Parts, in_order
from specdemo.drafters.feature_chain import FeatureChainDrafter
from specdemo.drafters.layers import HEAD_NORMS, LAYER_TENSORS, Layer, WordHead, layer_config
from specdemo.errors import ModelError
from specdemo.int8_linear import Int8Linear
from specdemo.llama_layers import RotaryTable, normalize
from specdemo.target import Target

NAME = "eagle3"


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a layout keeps the layer, which hidden states it reads, and what it does differently."""

    name: str
    prefix: str
    layer_values: Mapping[str, Any]
    feature_layers: Sequence[int] | None
    norm_before_residual: bool = False
    norm_output: bool = False


@dataclass(frozen=True, slots=True)
class Eagle3Cell:
    """See feature_chain.FeatureCell. `norms`: of the embedding, of the feature, before the head.

    `feature_norms`: before `fc`, of all S hidden states as one or of each, none in the authors' own layout.
    `norm_before_residual`: attention is added to the normalised feature; `norm_output`: the chain goes on from the
    normalised output ("EAGLE-3.1", 2605.09992).
    """

    embedding: Tensor
    embedding_bytes: int  # besides the target's
    feature_norms: tuple[Tensor, ...]
    fc: Int8Linear
    norms: tuple[Tensor, Tensor, Tensor]
    layer: Layer
    head: WordHead
    norm_before_residual: bool
    norm_output: bool

    @property
    def feature_bytes(self) -> int:
        """See FeatureCell."""
        return self.fc.pass_bytes + sum(norm.nbytes for norm in self.feature_norms)

    @property
    def pass_bytes(self) -> int:
        """See FeatureCell."""
        return self.layer.pass_bytes + self.head.rows.pass_bytes + sum(norm.nbytes for norm in self.norms)

    @property
    def memory_bytes(self) -> int:
        """See FeatureCell."""
        norms = sum(norm.nbytes for norm in (*self.norms, *self.feature_norms))
        words = self.embedding_bytes + self.head.memory_bytes
        return words + self.fc.memory_bytes + self.layer.memory_bytes + norms

    def read_features(self, features: Tensor) -> Tensor:
        """See FeatureCell. features (T, S * D) -> (T, D)."""
        if self.feature_norms:
            both = zip(features.chunk(len(self.feature_norms), -1), self.feature_norms, strict=True)
            features = torch.cat([normalize(part, norm, self.layer.epsilon) for part, norm in both], -1)
        return self.fc(features)

    def combine(self, embedded: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """See FeatureCell. Attention reads both side by side, (T, 2 D)."""
        epsilon = self.layer.epsilon
        normed = normalize(inputs, self.norms[1], epsilon)
        both = torch.cat([normalize(embedded, self.norms[0], epsilon), normed], -1)
        return both, normed if self.norm_before_residual else inputs

    def finish(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """See FeatureCell."""
        normed = normalize(x, self.norms[2], self.layer.epsilon)
        return normed if self.norm_output else x, self.head(normed)


def load_eagle3(folder: Path, target: Target) -> FeatureChainDrafter:
    """Read config.json and weights of any of the layouts. Raises ModelError where they do not fit the target."""
    checkpoint = Checkpoint.read(folder, "official EAGLE-3")
    layout = read_layout(folder.name, checkpoint.values, checkpoint.detect())
    checkpoint.check_names(*_names(layout), layout=layout.name)
    num_layers = int(target.model.config.get_text_config().num_hidden_layers)
    layers, order = checkpoint.features(feature_layers(layout, num_layers), target)
    if "embed_tokens.weight" not in checkpoint.tensors:
        checkpoint.check_width(len(checkpoint.tensors["fc.weight"]), 1, target)
    config = layer_config(layout.layer_values)
    cell = _cell(checkpoint, layout, config, order, target)
    return FeatureChainDrafter(NAME, cell, layers, RotaryTable(config, target.lm.device, target.lm.dtype))


def read_layout(name: str, values: Mapping[str, Any], found: Found) -> Layout:
    """How a checkpoint is to be read that is `found` to be EAGLE-3. Raises ModelError where it is not."""
    if found.family != NAME:
        raise ModelError(f"{name} is another network than EAGLE-3, {found.title}: {found.because}.")
    if found.layout == "speculators":
        return Layout(
            "speculators",
            "layers.0.",
            values.get("transformer_layer_config", {}),
            values.get("eagle_aux_hidden_state_layer_ids"),
            bool(values.get("norm_before_residual")),
            bool(values.get("norm_output")),
        )
    if found.layout == "DeepSpec":
        # Layers are named by their output, -1 for the embedding.
        return Layout("DeepSpec", "layers.0.", values, [int(i) + 1 for i in values.get("target_layer_ids", [])])
    own = values.get("eagle_config") or {}
    return Layout("official EAGLE-3", "midlayer.", values, own.get("eagle_aux_hidden_state_layer_ids"))


def _names(layout: Layout) -> tuple[set[str], set[str]]:
    """Tensors that the layout must and may hold."""
    layer = (*LAYER_TENSORS, "input_layernorm.weight", "hidden_norm.weight")
    optional = {
        "d2t",
        "t2d",
        "embed_tokens.weight",
        "lm_head.weight",
        *(f"{layout.prefix}{name}" for name in HEAD_NORMS),
    }
    if layout.name == "speculators":
        optional |= {"input_norm.weight", *(f"fc_norm.{i}.weight" for i in range(len(layout.feature_layers or "123")))}
    return {f"{layout.prefix}{name}" for name in layer} | {"fc.weight", "norm.weight"}, optional


def feature_layers(layout: Layout, num_layers: int) -> list[int]:
    """Which hidden states of a target of so many layers, as transformers counts them; silence means these three."""
    return list(layout.feature_layers or [2, num_layers // 2, num_layers - 3])


def _cell(
    checkpoint: Checkpoint, layout: Layout, config: LlamaConfig, order: Sequence[int], target: Target
) -> Eagle3Cell:
    tensors = {**checkpoint.tensors, "fc.weight": in_order(checkpoint.tensors["fc.weight"], order)}
    if "input_norm.weight" in tensors:
        tensors["input_norm.weight"] = in_order(tensors["input_norm.weight"], order)
    whole, layer = Parts(tensors, target), Parts(tensors, target, layout.prefix)
    each = [f"fc_norm.{i}" for i in order if f"fc_norm.{i}.weight" in tensors]
    before = each or [name for name in ("input_norm",) if f"{name}.weight" in tensors]
    embedding, embedding_bytes = whole.embedding()
    return Eagle3Cell(
        embedding=embedding,
        embedding_bytes=embedding_bytes,
        feature_norms=tuple(whole.tensor(name) for name in before),
        fc=whole.linear("fc"),
        norms=(layer.tensor("input_layernorm"), layer.tensor("hidden_norm"), whole.tensor("norm")),
        layer=Layer.from_parts(layer, config.head_dim, config.rms_norm_eps),
        head=WordHead.from_checkpoint(checkpoint, target),
        norm_before_residual=layout.norm_before_residual,
        norm_output=layout.norm_output,
    )
