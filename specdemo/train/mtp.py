"""The `mtp` family (multi-token prediction): one layer on the target's last hidden state, in Qwen's layout.

DeepSeek-V3 (2412.19437) has such a layer for one token ahead; learning to go on from its own output is FastMTP's
(2509.18362). B conversations, T tokens, D hidden size. See unrolled for how it learns.
"""

from argparse import Namespace
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from specdemo.train.export import word_offsets
from specdemo.train.unrolled import Layer, UnrolledStudent, copy_norm

READS_HIDDEN = True
_FEATURE = -1  # of corpus.DEFAULT_HIDDEN: the last, behind the target's final norm
_NUM_SAMPLED = 64


def num_steps(options: Namespace) -> int:
    """How many tokens a place is learnt from."""
    return int(options.unrolled)


def make(target: LlamaForCausalLM, vocabulary: Tensor, options: Namespace) -> "Mtp":
    """A student whose first step begins as the target's last layer, on what came out of it."""
    return Mtp(target, vocabulary, options.unrolled)


class Mtp(UnrolledStudent):
    """Names of weights as in Qwen's files, behind their prefix `mtp.`."""

    def __init__(self, target: LlamaForCausalLM, vocabulary: Tensor, num_unrolled: int) -> None:
        super().__init__(target, vocabulary, num_unrolled)
        config, size = target.config, target.config.hidden_size
        self.fc = nn.Linear(2 * size, size, bias=False)
        self.fc.weight.data = torch.cat([torch.zeros(size, size), torch.eye(size)], 1)
        self.pre_fc_norm_embedding = LlamaRMSNorm(size, config.rms_norm_eps)
        self.pre_fc_norm_hidden = LlamaRMSNorm(size, config.rms_norm_eps)
        layer = Layer(target, num_inputs=1)
        layer.input_layernorm = copy_norm(target.model.layers[-1].input_layernorm)
        self.layers = nn.ModuleList([layer])
        feature_scale, input_scale = _scales(target, vocabulary[:_NUM_SAMPLED])
        # Takes the final norm's weight back, which leaves the direction that stood before it, as long as the layer's
        # inputs are. An embedding as long is heard as soon as `fc` learns to read it.
        self.pre_fc_norm_hidden.weight.data = input_scale * feature_scale / target.model.norm.weight.float()
        self.pre_fc_norm_embedding.weight.data.fill_(input_scale)

    @property
    def layer(self) -> Layer:
        """See UnrolledStudent."""
        return self.layers[0]

    def read_features(self, hidden: Tensor) -> Tensor:
        """See UnrolledStudent."""
        return hidden[:, :, _FEATURE]

    def combine(self, embedded: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """See UnrolledStudent. One input, (B, T, D)."""
        both = torch.cat([self.pre_fc_norm_embedding(embedded), self.pre_fc_norm_hidden(inputs)], -1)
        joined = self.fc(both)
        return self.layer.input_layernorm(joined), joined

    def finish(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """See UnrolledStudent. The chain goes on behind the norm, as the target's own hidden state stands."""
        normed = self.norm(x)
        return normed, normed

    def save(self, folder: Path) -> None:
        """Write Qwen's layout; the head stays the target's rows of the draft words."""
        tensors = {f"mtp.{name}": tensor for name, tensor in self.state_dict().items()}
        del tensors["mtp.vocabulary"], tensors["mtp.lm_head.weight"]
        self.write(folder, {"mtp_num_hidden_layers": 1}, tensors | word_offsets(self.vocabulary))


@torch.no_grad()
def _scales(target: LlamaForCausalLM, token_ids: Tensor) -> tuple[float, float]:
    """How long hidden states are behind the final norm and before the last layer: root mean squares, the median of
    some tokens (N,), as the first of a text is far longer than all others."""
    states = target.model(token_ids[None], output_hidden_states=True).hidden_states
    feature, layer_input = (states[i][0].float().square().mean(-1).sqrt().median().item() for i in (-1, -2))
    return feature, layer_input
