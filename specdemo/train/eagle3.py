"""The `eagle3` family: one layer on three of the target's hidden states, in the layout of the official EAGLE-3 files.

B conversations, T tokens, D hidden size. See unrolled for how it learns.
"""

from argparse import Namespace
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from specdemo.train.corpus import DEFAULT_HIDDEN
from specdemo.train.export import word_map
from specdemo.train.unrolled import Layer, UnrolledStudent, copy_norm

READS_HIDDEN = True
_FEATURES = DEFAULT_HIDDEN[:3]
_NUM_FEATURES = len(_FEATURES)


def num_steps(options: Namespace) -> int:
    """How many tokens a place is learnt from."""
    return int(options.unrolled)


def make(target: LlamaForCausalLM, vocabulary: Tensor, options: Namespace) -> "Eagle3":
    """A student whose layer begins as the target's last, reading the highest of the three features."""
    return Eagle3(target, vocabulary, options.unrolled)


class Eagle3(UnrolledStudent):
    """Names of weights as in the official files."""

    def __init__(self, target: LlamaForCausalLM, vocabulary: Tensor, num_unrolled: int) -> None:
        super().__init__(target, vocabulary, num_unrolled)
        config, size = target.config, target.config.hidden_size
        self.fc = nn.Linear(_NUM_FEATURES * size, size, bias=False)
        self.fc.weight.data = torch.cat([torch.zeros(size, (_NUM_FEATURES - 1) * size), torch.eye(size)], 1)
        self.midlayer = Layer(target, num_inputs=2)
        self.midlayer.input_layernorm = LlamaRMSNorm(size, config.rms_norm_eps)
        self.midlayer.hidden_norm = copy_norm(target.model.layers[-1].input_layernorm)

    @property
    def layer(self) -> Layer:
        """See UnrolledStudent."""
        return self.midlayer

    def read_features(self, hidden: Tensor) -> Tensor:
        """See UnrolledStudent."""
        return self.fc(hidden[:, :, :_NUM_FEATURES].flatten(2))

    def combine(self, embedded: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """See UnrolledStudent. Attention reads both side by side, (B, T, 2 D)."""
        return torch.cat([self.midlayer.input_layernorm(embedded), self.midlayer.hidden_norm(inputs)], -1), inputs

    def finish(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """See UnrolledStudent."""
        return x, self.norm(x)

    def save(self, folder: Path) -> None:
        """Write the official layout; the head stays the target's rows of the draft words."""
        values = {
            "architectures": ["LlamaForCausalLMEagle3"],
            "eagle_config": {"eagle_aux_hidden_state_layer_ids": list(_FEATURES), "use_aux_hidden_state": True},
        }
        tensors = self.state_dict()
        del tensors["vocabulary"], tensors["lm_head.weight"]
        self.write(folder, values, tensors | word_map(self.vocabulary, self.config.vocab_size))
