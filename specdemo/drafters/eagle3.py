"""`eagle3`: one layer that reads three of the target's hidden states (EAGLE-3, Li et al. 2503.01840), official layout.

The layer sees embedding and features side by side and hands on its output before the norm. Shapes: T rows, D hidden
size, S hidden states read side by side.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from transformers import LlamaConfig

from specdemo.drafters.checkpoint import Checkpoint, Parts
from specdemo.drafters.feature_chain import FeatureChainDrafter
from specdemo.drafters.layers import LAYER_TENSORS, Layer, WordHead
from specdemo.int8_linear import Int8Linear
from specdemo.llama_layers import RotaryTable, normalize
from specdemo.target import Target

NAME = "eagle3"
_LAYER = "midlayer."
_REQUIRED = {
    *(f"{_LAYER}{name}" for name in (*LAYER_TENSORS, "input_layernorm.weight", "hidden_norm.weight")),
    *("fc.weight", "norm.weight", "lm_head.weight"),
}
_OPTIONAL = {"d2t", "t2d", "embed_tokens.weight"}
_NOT_THE_LAYERS = ("architectures", "draft_vocab_size", "eagle_config")


@dataclass(frozen=True, slots=True)
class Eagle3Cell:
    """See feature_chain.FeatureCell. `norms`: of the embedding, of the feature, before the head."""

    embedding: Tensor
    fc: Int8Linear
    norms: tuple[Tensor, Tensor, Tensor]
    layer: Layer
    head: WordHead

    @property
    def feature_bytes(self) -> int:
        """See FeatureCell."""
        return self.fc.pass_bytes

    @property
    def pass_bytes(self) -> int:
        """See FeatureCell."""
        return self.layer.pass_bytes + self.head.rows.pass_bytes + sum(norm.nbytes for norm in self.norms)

    @property
    def memory_bytes(self) -> int:
        """See FeatureCell."""
        linears = self.fc.memory_bytes + self.head.rows.memory_bytes
        return linears + self.layer.memory_bytes + sum(norm.nbytes for norm in self.norms)

    def read_features(self, features: Tensor) -> Tensor:
        """See FeatureCell. features (T, S * D) -> (T, D)."""
        return self.fc(features)

    def combine(self, embedded: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """See FeatureCell. Attention reads both side by side, (T, 2 D)."""
        epsilon = self.layer.epsilon
        both = normalize(embedded, self.norms[0], epsilon), normalize(inputs, self.norms[1], epsilon)
        return torch.cat(both, -1), inputs

    def finish(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """See FeatureCell."""
        return x, self.head(normalize(x, self.norms[2], self.layer.epsilon))


def load_eagle3(folder: Path, target: Target) -> FeatureChainDrafter:
    """Read config.json and weights of the official layout. Raises ModelError where they do not fit the target."""
    checkpoint = Checkpoint.read(folder, "official EAGLE-3")
    checkpoint.check_names(_REQUIRED, _OPTIONAL)
    layers, fc = checkpoint.features(_feature_layers(checkpoint, target), target)
    if "embed_tokens.weight" not in checkpoint.tensors:
        checkpoint.check_width(len(fc), 1, target)
    config = LlamaConfig(**{key: value for key, value in checkpoint.values.items() if key not in _NOT_THE_LAYERS})
    whole, layer = Parts({**checkpoint.tensors, "fc.weight": fc}, target), Parts(checkpoint.tensors, target, _LAYER)
    cell = Eagle3Cell(
        embedding=whole.embedding(),
        fc=whole.linear("fc"),
        norms=(layer.tensor("input_layernorm"), layer.tensor("hidden_norm"), whole.tensor("norm")),
        layer=Layer.from_parts(layer, config.head_dim, config.rms_norm_eps),
        head=WordHead.from_checkpoint(checkpoint, target),
    )
    return FeatureChainDrafter(NAME, cell, layers, RotaryTable(config, target.lm.device, target.lm.dtype))


def _feature_layers(checkpoint: Checkpoint, target: Target) -> list[int]:
    """Which hidden states, as transformers counts them; the official files say nothing and mean these three."""
    num_layers = int(target.model.config.get_text_config().num_hidden_layers)
    official = [2, num_layers // 2, num_layers - 3]
    return list(checkpoint.values.get("eagle_config", {}).get("eagle_aux_hidden_state_layer_ids", official))
