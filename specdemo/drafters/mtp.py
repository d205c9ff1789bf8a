"""`mtp`: one ordinary layer on the target's last hidden state (multi-token prediction, DeepSeek-V3, 2412.19437).

Embedding and hidden state, each behind a norm of its own, are joined to what the layer reads; the chain goes on from
what stands behind the layer's final norm. The one layer drafts every token (FastMTP, 2509.18362). Shapes: T rows, D
hidden size, V the target's vocabulary.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from transformers import LlamaConfig

from specdemo.drafters.checkpoint import Checkpoint, Parts
from specdemo.drafters.feature_chain import FeatureChainDrafter
from specdemo.drafters.layers import Layer, WordHead
from specdemo.drafters.mtp_layouts import BLOCK, read_mtp
from specdemo.int8_linear import Int8Linear
from specdemo.llama_layers import RotaryTable, normalize
from specdemo.target import Target

NAME = "mtp"


@dataclass(frozen=True, slots=True)
class MtpCell:
    """See feature_chain.FeatureCell. `norms`: of the embedding, of the hidden state, before attention, final."""

    embedding: Tensor
    embedding_bytes: int  # besides the target's
    fc: Int8Linear
    norms: tuple[Tensor, Tensor, Tensor, Tensor]
    layer: Layer
    head: WordHead

    feature_bytes = 0

    @property
    def pass_bytes(self) -> int:
        """See FeatureCell."""
        linears = self.fc.pass_bytes + self.head.rows.pass_bytes
        return linears + self.layer.pass_bytes + sum(norm.nbytes for norm in self.norms)

    @property
    def memory_bytes(self) -> int:
        """See FeatureCell."""
        words = self.embedding_bytes + self.head.memory_bytes
        return words + self.fc.memory_bytes + self.layer.memory_bytes + sum(norm.nbytes for norm in self.norms)

    def read_features(self, features: Tensor) -> Tensor:
        """See FeatureCell. The hidden states as they are, (T, D)."""
        return features

    def combine(self, embedded: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """See FeatureCell."""
        epsilon = self.layer.epsilon
        both = normalize(embedded, self.norms[0], epsilon), normalize(inputs, self.norms[1], epsilon)
        joined = self.fc(torch.cat(both, -1))
        return normalize(joined, self.norms[2], epsilon), joined

    def finish(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """See FeatureCell."""
        normed = normalize(x, self.norms[3], self.layer.epsilon)
        return normed, self.head(normed)


def load_mtp(folder: Path, target: Target) -> FeatureChainDrafter:
    """Read a layer in any layout of mtp_layouts. Raises ModelError where it does not fit the target."""
    checkpoint, config, rotary_config = read_mtp(folder, target)
    last = int(target.model.config.get_text_config().num_hidden_layers)
    rotary = RotaryTable(rotary_config, target.lm.device, target.lm.dtype)
    return FeatureChainDrafter(NAME, _cell(checkpoint, config, target), [last], rotary)


def _cell(checkpoint: Checkpoint, config: LlamaConfig, target: Target) -> MtpCell:
    whole, block = Parts(checkpoint.tensors, target), Parts(checkpoint.tensors, target, BLOCK)
    embedding, embedding_bytes = whole.embedding()
    return MtpCell(
        embedding=embedding,
        embedding_bytes=embedding_bytes,
        fc=whole.linear("fc"),
        norms=(
            *(whole.tensor(f"pre_fc_norm_{name}") for name in ("embedding", "hidden")),
            block.tensor("input_layernorm"),
            whole.tensor("norm"),
        ),
        layer=Layer.from_parts(block, config.head_dim, config.rms_norm_eps),
        head=WordHead.from_checkpoint(checkpoint, target),
    )
