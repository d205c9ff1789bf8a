"""The `draft-model` family: a few of the target's layers, under its embeddings and a cut of its head.

B conversations, T tokens, P places whose next token is learnt, C draft words, D hidden size.
"""

import copy
import json
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F  # noqa: N812
from transformers import LlamaForCausalLM, LlamaModel

from specdemo.train.batches import Batch
from specdemo.train.export import write_folder
from specdemo.train.next_token import NextTokenStudent

READS_HIDDEN = False
_FIRST_LAYERS = [0, 1, 28, 29]


def num_steps(options: Namespace) -> int:
    """How many tokens a place is learnt from."""
    return 1


def make(target: LlamaForCausalLM, vocabulary: Tensor, options: Namespace) -> "DraftModel":
    """A student that begins as the target's own layers, or as the weights that an earlier run saved."""
    if options.start is None:
        return DraftModel(target, options.layers or _FIRST_LAYERS, vocabulary)
    config = json.loads((options.start / "config.json").read_text(encoding="utf-8"))
    student = DraftModel(target, range(config["num_hidden_layers"]), vocabulary)
    tensors = {k: v for path in options.start.glob("*.safetensors") for k, v in load_file(path).items()}
    student.body.load_state_dict({k.removeprefix("model."): v for k, v in tensors.items() if k != "draft_vocab"})
    return student


class DraftModel(NextTokenStudent):
    """Embeddings and head stay the target's and frozen; layers and final norm learn."""

    def __init__(self, target: LlamaForCausalLM, layers: Sequence[int], vocabulary: Tensor) -> None:
        super().__init__()
        config = copy.deepcopy(target.config)
        config.num_hidden_layers = len(layers)
        config.use_cache = False
        self.body = LlamaModel(config).float()
        del self.body.embed_tokens
        source = target.model
        for layer, index in zip(self.body.layers, layers, strict=True):
            layer.load_state_dict(source.layers[index].state_dict())
        self.body.norm.load_state_dict(source.norm.state_dict())
        embedding = target.get_input_embeddings().weight.detach()
        self.register_buffer("embedding", embedding.bfloat16(), persistent=False)
        self.register_buffer("head", embedding[vocabulary].bfloat16(), persistent=False)
        self.register_buffer("vocabulary", vocabulary)

    def forward(self, batch: Batch) -> Tensor:
        """See NextTokenStudent."""
        embedded = F.embedding(batch.ids, self.embedding)
        # Conversations are padded behind, where a causal pass never looks: no mask is needed.
        hidden = self.body(inputs_embeds=embedded).last_hidden_state
        return F.linear(hidden[batch.labels.rows, batch.labels.columns].bfloat16(), self.head).float()

    def save(self, folder: Path) -> None:
        """Write the layout that specdemo.drafters.draft_model reads."""
        config = self.body.config
        values = {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "vocab_size": config.vocab_size,
            "hidden_size": config.hidden_size,
            "intermediate_size": config.intermediate_size,
            "num_hidden_layers": config.num_hidden_layers,
            "num_attention_heads": config.num_attention_heads,
            "num_key_value_heads": config.num_key_value_heads,
            "head_dim": config.head_dim,
            "rms_norm_eps": config.rms_norm_eps,
            "rope_theta": config.rope_parameters["rope_theta"],
            "tie_word_embeddings": True,
            "bos_token_id": config.bos_token_id,
            "eos_token_id": config.eos_token_id,
            "embeddings_from_target": True,
            "draft_vocab_size": len(self.vocabulary),
        }
        tensors = {f"model.{name}": tensor for name, tensor in self.body.state_dict().items()}
        write_folder(folder, values, {**tensors, "draft_vocab": self.vocabulary.int()})
