"""`eagle3`: one layer that reads three of the target's hidden states (EAGLE-3, Li et al. 2503.01840), official layout.

Row i of the drafter holds the target's features of token i with the embedding of token i + 1 and expects token i + 2;
behind the newest features it goes on from its own output. Shapes: T rows, D hidden of the drafter, H query heads,
G key/value heads, E head size, C draft words, V the target's vocabulary.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F  # noqa: N812
from transformers import LlamaConfig

from specdemo.acceptance import Draft
from specdemo.causal_lm import LONGEST_PART, CausalLMSession
from specdemo.drafters.chain import draw_chain
from specdemo.errors import ModelError
from specdemo.int8_linear import Int8Linear
from specdemo.llama_layers import RotaryTable, normalize
from specdemo.sampling import Sampler
from specdemo.target import Target

NAME = "eagle3"
_LAYER = "midlayer."
_NORMS = ("input_layernorm", "hidden_norm", "post_attention_layernorm")
_LINEARS = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj")
_MLP = ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
_REQUIRED = {
    *(f"{_LAYER}{name}.weight" for name in (*_NORMS, *_LINEARS, *_MLP)),
    *("fc.weight", "norm.weight", "lm_head.weight"),
}
_OPTIONAL = {"d2t", "t2d", "embed_tokens.weight"}
_GROWTH = 256


@dataclass(frozen=True, slots=True)
class Eagle3Weights:
    """The layer; rows of q, k and v, and of gate and up, stand below each other. `token_ids` (C,) in the target."""

    embedding: Tensor
    fc: Int8Linear
    norms: tuple[Tensor, Tensor, Tensor]  # of the embedding, of the feature, before the MLP
    qkv: Int8Linear
    output: Int8Linear
    gate_up: Int8Linear
    down: Int8Linear
    norm: Tensor
    head: Int8Linear
    token_ids: Tensor

    @property
    def pass_bytes(self) -> int:
        """What one step reads, the projection of the target's features apart."""
        return sum(linear.pass_bytes for linear in self._linears) + self._norm_bytes

    @property
    def memory_bytes(self) -> int:
        """What is held besides the target's own weights, for passes of few rows and of many."""
        return self.fc.memory_bytes + sum(linear.memory_bytes for linear in self._linears) + self._norm_bytes

    @property
    def _linears(self) -> tuple[Int8Linear, ...]:
        return self.qkv, self.output, self.gate_up, self.down, self.head

    @property
    def _norm_bytes(self) -> int:
        return sum(norm.nbytes for norm in (*self.norms, self.norm))


class Eagle3Drafter:
    """See drafters.base.Drafter."""

    name = NAME

    def __init__(
        self, config: LlamaConfig, weights: Eagle3Weights, feature_layers: Sequence[int], target: Target
    ) -> None:
        self.config, self.weights = config, weights
        self.feature_layers = tuple(feature_layers)
        self.vocab_size = target.lm.vocab_size
        self.memory_bytes = weights.memory_bytes
        self.rotary = RotaryTable(config, target.lm.device, target.lm.dtype)

    def open(self, target_session: CausalLMSession, prompt_ids: Sequence[int], sampler: Sampler) -> "Eagle3Session":
        """See drafters.base.Drafter.open."""
        features = target_session.features if len(prompt_ids) > 1 else None
        return Eagle3Session(self, features, prompt_ids, sampler)


class Eagle3Session:
    """See drafters.base.DraftSession. Between rounds the cache holds rows of true features only."""

    note = ""

    def __init__(
        self, drafter: Eagle3Drafter, features: Tensor | None, prompt_ids: Sequence[int], sampler: Sampler
    ) -> None:
        self._drafter, self._sampler = drafter, sampler
        self._ids = list(prompt_ids)
        self._cache = drafter.weights.norm.new_empty(0)
        self._length = 0
        self._newest = self._cache  # output of the last row (1, D), from which the chain goes on
        self.bytes_read = 0
        # The last row of the prompt is left for the first proposal, which needs what the layer makes of it.
        self._unread = [] if features is None else [features[-1:]]
        if features is not None:
            self._read(features[:-1])

    @torch.inference_mode()
    def _read(self, features: Tensor) -> None:
        for part in features.split(LONGEST_PART):
            inputs = self._drafter.weights.fc(part)
            self._extend(self._ids[self._length + 1 : self._length + 1 + len(part)], inputs)

    @torch.inference_mode()
    def propose(self, max_tokens: int) -> Draft:
        """Read the features that came in, then go on from the layer's own output."""
        if not self._unread:
            return Draft(())  # a prompt of one token: the target has read nothing yet
        features = torch.cat(self._unread)
        self._unread.clear()
        weights = self._drafter.weights
        self.bytes_read += weights.fc.pass_bytes
        inputs = weights.fc(features)
        num_true = self._length + len(inputs)

        def next_logits(token_ids: Sequence[int]) -> Tensor:
            is_first = len(token_ids) == len(self._ids)
            return self._run(token_ids[self._length + 1 :], inputs if is_first else self._newest)

        draft = draw_chain(self._sampler, self._ids, max_tokens, next_logits)
        self._length = num_true
        return draft

    def commit(self, token_ids: Sequence[int], features: Tensor | None) -> None:
        """Remember tokens and features."""
        assert features is not None, "the decode loop hands over the features that feature_layers asks for"
        self._ids += token_ids
        self._unread.append(features)

    def close(self) -> None:
        """Free the cache."""
        self._cache = self._newest = self._cache.new_empty(0)

    def _run(self, token_ids: Sequence[int], inputs: Tensor) -> Tensor:
        """Rows (T, D), each with the token after it; returns the logits (1, V) behind the last."""
        drafter, weights = self._drafter, self._drafter.weights
        epsilon = drafter.config.rms_norm_eps
        query = self._extend(token_ids, inputs)
        keys, values = self._cache[:, None, :, : self._length]
        mixed = F.scaled_dot_product_attention(query, keys, values, enable_gqa=True)
        x = inputs[-1:] + weights.output(mixed.flatten()[None])
        gate, up = weights.gate_up(normalize(x, weights.norms[2], epsilon)).chunk(2, -1)
        x = x + weights.down(F.silu(gate) * up)
        self._newest = x
        self.bytes_read += weights.pass_bytes
        logits = weights.head(normalize(x, weights.norm, epsilon))
        full = logits.new_full((1, drafter.vocab_size), float("-inf"))
        return full.index_copy_(1, weights.token_ids, logits)

    def _extend(self, token_ids: Sequence[int], inputs: Tensor) -> Tensor:
        """Append keys and values of some rows; the query of the last (1, H, 1, E): no other row's output is needed."""
        config, weights = self._drafter.config, self._drafter.weights
        start, end = self._length, self._length + len(inputs)
        ids = torch.tensor(list(token_ids), device=inputs.device)
        embedded = normalize(F.embedding(ids, weights.embedding), weights.norms[0], config.rms_norm_eps)
        both = torch.cat([embedded, normalize(inputs, weights.norms[1], config.rms_norm_eps)], -1)
        groups, size = config.num_key_value_heads, config.head_dim
        heads = weights.qkv(both).view(len(both), -1, size).transpose(0, 1)
        turned = _rotate(heads[:-groups], self._drafter.rotary.rows(start, end))
        self._make_room(end, groups, size)
        self._cache[0, :, start:end], self._cache[1, :, start:end] = turned[-groups:], heads[-groups:]
        self._length = end
        return turned[None, :-groups, -1:]

    def _make_room(self, length: int, groups: int, size: int) -> None:
        if self._cache.numel() == 0 or self._cache.shape[2] < length:
            grown = self._drafter.weights.norm.new_empty((2, groups, length + _GROWTH, size))
            if self._cache.numel():
                grown[:, :, : self._length] = self._cache[:, :, : self._length]
            self._cache = grown


def _rotate(states: Tensor, rotary: Tensor) -> Tensor:
    """states (heads, T, E), rotary (2, T, E) with the first half of the sines negative; see RotaryTable."""
    half = states.shape[-1] // 2
    swapped = torch.cat([states[..., half:], states[..., :half]], -1)
    return states * rotary[0] + swapped * rotary[1]


def load_eagle3(folder: Path, target: Target) -> Eagle3Drafter:
    """Read config.json and safetensors of the official layout. Raises ModelError where they do not fit the target."""
    if not (folder / "config.json").is_file():
        raise ModelError(
            f"no EAGLE-3 drafter in {folder}: it has no config.json. Give a folder in the official layout."
        )
    values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    tensors = {k: v for path in sorted(folder.glob("*.safetensors")) for k, v in load_file(path).items()}
    _check_names(folder, set(tensors))
    layers = _feature_layers(values, target)
    _check_shapes(folder, tensors, target, len(layers))
    known = {
        key: value for key, value in values.items() if key not in ("architectures", "draft_vocab_size", "eagle_config")
    }
    config = LlamaConfig(**known)
    order = sorted(range(len(layers)), key=layers.__getitem__)
    return Eagle3Drafter(config, _weights(tensors, order, target), [layers[i] for i in order], target)


def _feature_layers(values: dict[str, Any], target: Target) -> list[int]:
    """Which hidden states, as transformers counts them; the official files say nothing and mean these three."""
    num_layers = int(target.model.config.get_text_config().num_hidden_layers)
    official = [2, num_layers // 2, num_layers - 3]
    layers = list(values.get("eagle_config", {}).get("eagle_aux_hidden_state_layer_ids", official))
    if not all(0 <= layer < num_layers for layer in layers):
        raise ModelError(f"the drafter reads the hidden states {layers}; this target has 0 to {num_layers - 1}.")
    return layers


def _check_names(folder: Path, names: set[str]) -> None:
    missing, unexpected = sorted(_REQUIRED - names), sorted(names - _REQUIRED - _OPTIONAL)
    if missing or unexpected:
        raise ModelError(
            f"{folder.name} is not in the official EAGLE-3 layout: missing {missing}, unexpected {unexpected}."
        )


def _check_shapes(folder: Path, tensors: dict[str, Tensor], target: Target, num_features: int) -> None:
    """The drafter's widths against the target's, and the vocabulary map against both."""
    hidden_size = target.model.config.get_text_config().hidden_size
    size, read = tensors["fc.weight"].shape
    if read != num_features * hidden_size or ("embed_tokens.weight" not in tensors and size != hidden_size):
        raise ModelError(
            f"{folder.name} reads {read} numbers a token; {num_features} hidden states of this target are "
            f"{num_features * hidden_size}. Choose the target it was trained for."
        )
    num_words = len(tensors["lm_head.weight"])
    if num_words != (len(tensors["d2t"]) if "d2t" in tensors else target.lm.vocab_size):
        raise ModelError(f"{folder.name} has a head of {num_words} words and no map of as many to the target's.")
    ids = _token_ids(tensors)
    if int(ids.min()) < 0 or int(ids.max()) >= target.lm.vocab_size or len(ids.unique()) != num_words:
        raise ModelError(
            f"{folder.name} maps its words to ids {int(ids.min())} to {int(ids.max())}, some perhaps twice; this "
            f"target has 0 to {target.lm.vocab_size - 1}. `d2t` must hold offsets: target id less draft id."
        )


def _token_ids(tensors: dict[str, Tensor]) -> Tensor:
    """The target's id of each draft word: `d2t` holds offsets."""
    ids = torch.arange(len(tensors["lm_head.weight"]))
    return ids + tensors["d2t"].long() if "d2t" in tensors else ids


def _weights(tensors: dict[str, Tensor], order: Sequence[int], target: Target) -> Eagle3Weights:
    def ready(*parts: Tensor) -> Tensor:
        return torch.cat(parts).to(target.lm.device, target.lm.dtype).contiguous()

    def norm(name: str) -> Tensor:
        return ready(tensors[f"{_LAYER}{name}.weight"])

    def linear(*names: str) -> Int8Linear:
        return Int8Linear(ready(*(tensors[f"{_LAYER}{name}.weight"] for name in names)))

    blocks = tensors["fc.weight"].chunk(len(order), 1)
    embedding = tensors.get("embed_tokens.weight")
    return Eagle3Weights(
        embedding=target.model.get_input_embeddings().weight.detach() if embedding is None else ready(embedding),
        fc=Int8Linear(ready(torch.cat([blocks[i] for i in order], 1))),
        norms=(norm(_NORMS[0]), norm(_NORMS[1]), norm(_NORMS[2])),
        qkv=linear(*_LINEARS[:3]),
        output=linear(_LINEARS[3]),
        gate_up=linear(*_MLP[:2]),
        down=linear(_MLP[2]),
        norm=ready(tensors["norm.weight"]),
        head=Int8Linear(ready(tensors["lm_head.weight"])),
        token_ids=_token_ids(tensors).to(target.lm.device),
    )
