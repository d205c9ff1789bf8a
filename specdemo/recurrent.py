"""Layers with a recurrent state (gated delta nets, short convolutions): how they forget rejected drafts.

A state is of constant size and holds all that was read; no row of it belongs to a token. So a pass leaves the state it
began with, and what each such layer read. Taking drafts back puts that state in its place and has the recurrent layers
alone read the accepted tokens again: no attention, no MLP and no head. Layers with keys and values are cropped as ever.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from transformers import Cache, DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer, LinearAttentionLayer

_MIXERS = {
    "Qwen3_5GatedDeltaNet",
    "Qwen3_5MoeGatedDeltaNet",
    "Qwen3NextGatedDeltaNet",
    "Lfm2ShortConv",
}
"""Modules of transformers that make a new state of the old one and what they are given; each is tested.

Mamba's is not among them: its pass of several tokens begins with an empty state, its pass of one writes into the old.
"""


@dataclass(frozen=True, slots=True)
class _State:
    """Of one layer. The tensors are those of the layer, which are replaced and never written to."""

    conv: dict[int, Tensor | None]
    recurrent: dict[int, Tensor | None]
    has_previous: dict[int, bool]


class KeptStates(LinearAttentionLayer):
    """transformers' cache of such a layer, but a new state is another tensor: keeping the old one costs no copy."""

    def __init__(self, number_of_states: int) -> None:
        super().__init__(number_of_states=number_of_states)
        # So that a layer hands over its state below and does not overwrite it itself.
        self.record_past = True

    def update_conv_state(
        self, conv_states: Tensor, state_idx: int = 0, conv_kernel_size: int | None = None, **kwargs: Any
    ) -> Tensor:
        """Returns what the convolution reads: the tokens before, then the new ones, at least as many as it is wide."""
        size = conv_kernel_size or conv_states.shape[-1]
        before = self.conv_states[state_idx] if self.has_previous_state[state_idx] else None
        full = conv_states if before is None else torch.cat([before, conv_states], -1)
        full = F.pad(full, (max(0, size - full.shape[-1]), 0))
        self.conv_states[state_idx] = full[..., -size:].clone()
        self.conv_kernel_size[state_idx] = size
        self.has_previous_state[state_idx] = self.is_conv_states_initialized[state_idx] = True
        return full

    def update_recurrent_state(self, recurrent_states: Tensor, state_idx: int = 0, **kwargs: Any) -> Tensor:
        """Returns it."""
        self.recurrent_states[state_idx] = recurrent_states
        self.is_recurrent_states_initialized[state_idx] = True
        return recurrent_states

    def crop(self, tokens_to_remove: int) -> None:
        """RecurrentPast.rewind does it."""

    def state(self) -> _State:
        """What it holds."""
        return _State(dict(self.conv_states), dict(self.recurrent_states), dict(self.has_previous_state))

    def restore(self, state: _State) -> None:
        """Hold that again."""
        self.conv_states = dict(state.conv)
        self.recurrent_states = dict(state.recurrent)
        self.has_previous_state = dict(state.has_previous)


class RecurrentLayers:
    """Those of a model, as modules by the layer they stand in."""

    def __init__(self, model: PreTrainedModel, modules: dict[int, nn.Module]) -> None:
        self._config = model.config
        self.modules = modules
        self.weight_bytes = sum(weight.nbytes for module in modules.values() for weight in module.parameters())
        """Read to bring all their states up to date, whatever the number of tokens."""

    @classmethod
    def of(cls, model: PreTrainedModel) -> "RecurrentLayers | None":
        """None where a layer keeps anything but keys and values, or a state that is known to be replaced as a whole."""
        layers = DynamicCache(config=model.config).layers
        modules: dict[int, nn.Module] = {}
        for module in model.modules():
            if type(module).__name__ in _MIXERS:
                modules[int(module.layer_idx)] = module
        states = {index for index, layer in enumerate(layers) if type(layer) is LinearAttentionLayer}
        others = [layer for index, layer in enumerate(layers) if index not in states]
        can_crop = all(type(layer) in (DynamicLayer, DynamicSlidingWindowLayer) for layer in others)
        return cls(model, modules) if states and can_crop and states == set(modules) else None

    def new_cache(self) -> Cache:
        """An empty cache whose states are kept."""
        cache = DynamicCache(config=self._config)
        for index in self.modules:
            cache.layers[index] = KeptStates(cache.layers[index].number_of_states)
        return cache


@dataclass(frozen=True, slots=True)
class _Pass:
    """`states` before it, by layer; `inputs` (1, T, D) that each layer read, none of a pass of one token."""

    start: int
    states: dict[int, _State]
    inputs: dict[int, Tensor] = field(default_factory=dict)


class RecurrentPast:
    """The recurrent layers of one sequence: what its passes since the last crop began with and read."""

    def __init__(self, layers: RecurrentLayers, cache: Cache) -> None:
        self._layers, self._cache = layers, cache
        self._passes: list[_Pass] = []
        self.bytes_read = 0
        """Of weights, to read accepted tokens again: by the last rewind."""

    @contextmanager
    def keeping(self, start: int, num_tokens: int) -> Iterator[None]:
        """Around a pass over tokens that may be taken back; `start` tokens were read before."""
        entry = _Pass(start, {index: self._cache.layers[index].state() for index in self._layers.modules})
        with ExitStack() as hooks:
            # A single token stays or goes with its whole pass.
            for index, module in self._layers.modules.items() if num_tokens > 1 else ():
                hooks.enter_context(_recording(module, entry.inputs, index))
            yield
        self._passes.append(entry)

    def forget(self) -> None:
        """What was read so far stays."""
        self._passes.clear()

    @torch.inference_mode()
    def rewind(self, length: int, end: int) -> None:
        """The states after `length` of the `end` tokens that were read."""
        self.bytes_read = 0
        if length < end:
            entry = next((entry for entry in reversed(self._passes) if entry.start <= length), None)
            assert entry is not None, "what a prompt's passes read, and what a crop left, is never taken back"
            for index, state in entry.states.items():
                self._cache.layers[index].restore(state)
            if num_again := length - entry.start:
                self._read_again(entry.inputs, num_again)
        self.forget()

    def _read_again(self, inputs: dict[int, Tensor], num_tokens: int) -> None:
        for index, module in self._layers.modules.items():
            module(inputs[index][:, :num_tokens], cache=self._cache)
        self.bytes_read = self._layers.weight_bytes


@contextmanager
def _recording(module: nn.Module, inputs: dict[int, Tensor], index: int) -> Iterator[None]:
    """Put what the module is given under `index`."""

    def keep(_: nn.Module, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        inputs[index] = args[0] if args else kwargs["hidden_states"]

    handle = module.register_forward_pre_hook(keep, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()
