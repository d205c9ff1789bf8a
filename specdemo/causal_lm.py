"""A language model with its KV cache: token ids in, logits out, and a way back.

Knows no text, no drafter and no rule. Target and drafters both stand on this seam. Shapes: T tokens, V vocabulary.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from transformers import Cache, DynamicCache, DynamicLayer, PreTrainedModel

from specdemo.branches import Parents, is_prefix, paths_of
from specdemo.errors import ModelError
from specdemo.recurrent import RecurrentLayers, RecurrentPast

LONGEST_PART = 512
"""Tokens of a prompt that are read at once. A longer one is read in parts: a person can stop between them, and each
attends to what stands before it and not to a masked rest, which is half."""


class CausalLMSession(Protocol):
    """The state of one sequence in one model."""

    @property
    def length(self) -> int:
        """Number of tokens whose keys and values are cached."""

    features: Tensor | None
    """Hidden states of the last pass's tokens at the layers asked for, side by side: (T, number of them * D)."""

    def forward(self, token_ids: Sequence[int], num_logits: int, parents: Parents = ()) -> Tensor:
        """Append the tokens; returns the logits after each of the last `num_logits` of them, (num_logits, V).

        In a tree each token but the first stands behind its parent and sees no other branch; `parents` are theirs, as
        indices among them (see `branches`).
        """

    def keep(self, rows: Sequence[int]) -> None:
        """Keep of the last pass these rows, one behind the other, and forget the rest; so do the features."""

    def crop(self, length: int) -> None:
        """Shorten the cache to `length` tokens."""

    def close(self) -> None:
        """Free the cache."""


class CausalLM(Protocol):
    """Weights; shared by every session that is opened on them."""

    vocab_size: int
    context_length: int
    device: torch.device
    dtype: torch.dtype
    weight_bytes: int
    """Bytes of weights that one pass reads, whatever its width."""

    memory_bytes: int
    """Bytes of weights held, the input embedding included."""

    can_crop: bool
    """Whether sessions can be shortened exactly, back to any token behind the prompt and the last crop."""

    can_branch: bool
    """Whether one pass can read a tree."""

    def open(self, feature_layers: Sequence[int] = ()) -> CausalLMSession:
        """A fresh, empty sequence.

        `feature_layers`, ascending, as transformers counts hidden states: 0 is the embedding, i the output of the i-th
        layer, the last one behind the final norm.
        """

    def cache_bytes(self, num_tokens: int) -> int:
        """Bytes of the keys and values of so many tokens, without the room that a session keeps for more."""


@runtime_checkable
class BatchLM(Protocol):
    """A model of which one pass serves several sequences: the weights, which are most of its cost, are read once."""

    def forward_many(
        self,
        sessions: Sequence[CausalLMSession],
        token_ids: Sequence[Sequence[int]],
        num_logits: Sequence[int],
        parents: Sequence[Parents] = (),
    ) -> list[Tensor]:
        """Append to each session its tokens, any number; the logits after the last `num_logits` of each.

        `parents` of each as in CausalLMSession.forward, none for chains.
        """


class TransformersLM:
    """Any causal language model of transformers, through its own forward pass and cache."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model.eval()
        config = model.config.get_text_config()
        self.vocab_size = int(config.vocab_size)
        self.context_length = int(getattr(config, "max_position_embeddings", 0) or 2**31)
        self.device = model.device
        self.dtype = model.dtype
        self.weight_bytes = pass_bytes(model)
        self.memory_bytes = sum(_tensor_bytes(model).values())
        self._recurrent = RecurrentLayers.of(model)
        cache = DynamicCache(config=model.config)
        self.can_crop = self._recurrent is not None or (not model._is_stateful and cache.is_croppable)
        self.can_branch = self.can_crop and {type(layer) for layer in cache.layers} == {DynamicLayer}

    def open(self, feature_layers: Sequence[int] = ()) -> "TransformersSession":
        """A fresh, empty sequence; see CausalLM.open."""
        if not self.can_crop:
            return TransformersSession(self.model, None, feature_layers)
        cache = self._recurrent.new_cache() if self._recurrent else DynamicCache(config=self.model.config)
        # Without this a sliding-window layer drops what a later crop would have to bring back.
        cache.activate_past_recording()
        past = RecurrentPast(self._recurrent, cache) if self._recurrent else None
        return TransformersSession(self.model, cache, feature_layers, past)

    def cache_bytes(self, num_tokens: int) -> int:
        """See CausalLM.cache_bytes; costs a pass over one token, for only the model knows the shapes of its cache."""
        session = self.open()
        session.forward([0], 0)
        return session.cache_bytes(num_tokens)


class TransformersSession:
    """One sequence in a TransformersLM. The cache is transformers' own, whose `crop` takes negative counts (5.24).

    A model whose cache cannot be cropped makes its own kind at the first pass. `past` is that of recurrent layers.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        cache: Cache | None,
        feature_layers: Sequence[int] = (),
        past: RecurrentPast | None = None,
    ) -> None:
        self._model = model
        self._past = past
        self._feature_layers = tuple(feature_layers)
        self.features: Tensor | None = None
        self._cache = cache
        self._can_crop = cache is not None
        self._num_rows = 0  # of the last pass
        self.length = 0

    @torch.inference_mode()
    def forward(self, token_ids: Sequence[int], num_logits: int, parents: Parents = ()) -> Tensor:
        """See CausalLMSession.forward."""
        ids = torch.tensor([list(token_ids)], device=self._model.device)
        keep = max(num_logits, 1)
        wanted = self._feature_layers
        with self._keeping(len(token_ids), is_prompt=num_logits == 0):
            output = self._model(
                input_ids=ids,
                cache=self._cache,
                use_cache=True,
                logits_to_keep=keep,
                output_hidden_states=bool(wanted),
                **(self._tree(parents) if parents else {}),
            )
        if wanted:
            self.features = torch.cat([output.hidden_states[layer][0] for layer in wanted], -1)
        self._cache = output.cache
        self._num_rows = len(token_ids)
        self.length += self._num_rows
        return output.logits[0, output.logits.shape[1] - num_logits :]

    @torch.inference_mode()
    def keep(self, rows: Sequence[int]) -> None:
        """See CausalLMSession.keep."""
        first = self.length - self._num_rows
        if not is_prefix(rows):
            assert self._cache is not None
            kept = [*range(first), *(first + row for row in rows)]
            for layer in self._cache.layers:
                layer.keys, layer.values = layer.keys[..., kept, :], layer.values[..., kept, :]
            self.length = len(kept)
        elif self._can_crop:
            self.crop(first + len(rows))
        self.features = None if self.features is None else self.features[list(rows)]

    def _tree(self, parents: Parents) -> dict[str, Tensor]:
        """Mask (1, 1, T, length + T) and positions (1, T) of the rows of a tree, as transformers' models take them."""
        seen = tree_mask(parents, self.length)
        mask = torch.zeros(seen.shape, dtype=self._model.dtype).masked_fill_(~seen, torch.finfo(self._model.dtype).min)
        positions = torch.tensor([self.length + len(path) for path in paths_of(parents)])
        device = self._model.device
        return {"attention_mask": mask[None, None].to(device), "position_ids": positions[None].to(device)}

    def crop(self, length: int) -> None:
        """See CausalLMSession.crop."""
        assert self._can_crop and self._cache is not None and 0 <= length <= self.length
        if self._past is not None:
            self._past.rewind(length, self.length)
        # Also with nothing to remove: a sliding-window layer trims its recorded past here.
        self._cache.crop(length - self.length)
        self.length = length

    def close(self) -> None:
        """See CausalLMSession.close."""
        self._cache = self._past = self.features = None

    def layer_cache(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer with attention, (1, G, length, E) each."""
        assert self._cache is not None
        return self._cache.layers[layer].keys, self._cache.layers[layer].values

    @property
    def crop_bytes(self) -> int:
        """Weights that the last crop read: none, but where recurrent layers read accepted tokens again."""
        return 0 if self._past is None else self._past.bytes_read

    def _keeping(self, num_tokens: int, *, is_prompt: bool) -> AbstractContextManager[None]:
        """Around a pass: recurrent layers keep what it may have to be taken back to. Of a prompt nothing is."""
        if self._past is None:
            return nullcontext()
        if is_prompt:
            self._past.forget()
            return nullcontext()
        return self._past.keeping(self.length, num_tokens)

    def cache_bytes(self, num_tokens: int) -> int:
        """Keys and values of so many tokens, by what one token has in each layer.

        A window keeps one token less than its width: the next one is in it too. A recurrent layer's state is not
        counted; its size is the same for every text.
        """
        assert self._cache is not None and self.length
        layers = [layer for layer in self._cache.layers if getattr(layer, "keys", None) is not None]
        most = [(getattr(layer, "sliding_window", None) or num_tokens + 1) - 1 for layer in layers]
        one_token = [layer.keys[..., :1, :].nbytes + layer.values[..., :1, :].nbytes for layer in layers]
        return sum(size * min(num_tokens, num_kept) for size, num_kept in zip(one_token, most, strict=True))


def pass_bytes(model: torch.nn.Module) -> int:
    """Bytes of weights that one pass reads.

    All of them, but of an input embedding only its rows unless the head shares it.
    """
    seen = _tensor_bytes(model)
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    is_tied = head is not None and head.weight.data_ptr() == embedding.weight.data_ptr()
    return sum(seen.values()) - (0 if is_tied else embedding.weight.nbytes)


def _tensor_bytes(model: torch.nn.Module) -> dict[int, int]:
    """Bytes by address, so that tied weights count once; four-bit weights are buffers."""
    return {tensor.data_ptr(): tensor.nbytes for tensor in (*model.parameters(), *model.buffers())}


def tree_mask(parents: Parents, start: int) -> Tensor:
    """What the rows of a tree see of the slots, theirs being those from `start` on: (T, start + T), on the CPU."""
    paths = paths_of(parents)
    seen = torch.zeros((len(paths), start + len(paths)), dtype=torch.bool)
    seen[:, : start + 1] = True
    for row, path in enumerate(paths):
        seen[row, [start + 1 + index for index in path]] = True
    return seen


def require_rollback(lm: CausalLM, name: str) -> None:
    """Raise ModelError when drafts could not be taken back exactly after a rejection."""
    if not lm.can_crop:
        raise ModelError(
            f"the cache of {name} cannot be shortened (a recurrent state like Mamba's, or a quantised one), so "
            "rejected drafts could not be taken back; speculative decoding needs an ordinary attention cache, or gated "
            "delta nets like Qwen3.5's. Plain decoding works."
        )


def require_branches(lm: CausalLM, name: str) -> None:
    """Raise ModelError when one pass of it cannot read a tree."""
    if not lm.can_branch:
        raise ModelError(
            f"the cache of {name} holds a window or a recurrent state, so that one pass cannot read a tree of drafts; "
            "draft a chain: the same drafter without `tree`."
        )


def require_batches(lm: CausalLM, name: str) -> None:
    """Raise ModelError when a pass serves one sequence only."""
    if not isinstance(lm, BatchLM):
        raise ModelError(
            f"{name} runs through transformers' own pass, which serves one request at a time here; "
            "batches need a target of the Llama architecture."
        )
