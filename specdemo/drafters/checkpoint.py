"""Reads a drafter's folder: config.json and tensors, their names checked, and its words as ids of the target."""

import json
import pickle
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from specdemo.detection import Found, detect
from specdemo.errors import ModelError
from specdemo.hub import weight_files
from specdemo.int8_linear import Int8Linear
from specdemo.target import Target


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a folder holds: `values` of config.json, `tensors` by their published names."""

    folder: Path
    values: dict[str, Any]
    tensors: dict[str, Tensor]

    @classmethod
    def read(cls, folder: Path, layout: str) -> "Checkpoint":
        """Read a folder that should be in the layout of that name. Raises ModelError where it cannot be read."""
        path = folder / "config.json"
        if not path.is_file():
            raise ModelError(f"no {layout} drafter in {folder}: it has no config.json. Give a folder in that layout.")
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ModelError(f"{path} is not JSON ({error}); it must be the configuration of a drafter.") from None
        if not isinstance(values, dict):
            raise ModelError(f"{path} holds a {type(values).__name__}; it must be the configuration of a drafter.")
        return cls(folder, values, _read_tensors(folder))

    def detect(self) -> Found:
        """What it is, and in whose layout."""
        return detect(self.values, {name: tuple(tensor.shape) for name, tensor in self.tensors.items()})

    def check_names(self, required: Collection[str], optional: Collection[str], *, layout: str) -> None:
        """Raise ModelError unless the tensors are those of the layout, no fewer and no more."""
        found = set(self.tensors)
        missing, unexpected = sorted(set(required) - found), sorted(found - set(required) - set(optional))
        if missing or unexpected:
            raise ModelError(
                f"{self.folder.name} is not in the {layout} layout: missing {missing}, unexpected {unexpected}."
            )

    def check_shape(self, name: str, shape: tuple[int, ...]) -> None:
        """Raise ModelError unless a tensor has the shape that the target asks for."""
        found = tuple(self.tensors[name].shape)
        if found != shape:
            raise ModelError(
                f"{self.folder.name} holds {name} of shape {list(found)}; this target needs {list(shape)}. "
                "Choose the target it was trained for."
            )

    def word_ids(self, vocab_size: int) -> Tensor | None:
        """The target's id of each draft word (C,), None where they are its whole vocabulary.

        `d2t` holds offsets: target id less draft id. Raises ModelError where head, map and target do not fit.
        """
        head, offsets = self.tensors.get("lm_head.weight"), self.tensors.get("d2t")
        num_mapped = vocab_size if offsets is None else len(offsets)
        if head is not None and len(head) != num_mapped:
            raise ModelError(
                f"{self.folder.name} has a head of {len(head)} words and no map of as many to the target's."
            )
        if offsets is None:
            return None
        ids = torch.arange(num_mapped) + offsets.long()
        if int(ids.min()) < 0 or int(ids.max()) >= vocab_size or len(ids.unique()) != num_mapped:
            raise ModelError(
                f"{self.folder.name} maps its words to ids {int(ids.min())} to {int(ids.max())}, some perhaps twice; "
                f"this target has 0 to {vocab_size - 1}. `d2t` must hold offsets: target id less draft id."
            )
        return ids

    def features(self, layers: Sequence[int], target: Target) -> tuple[tuple[int, ...], list[int]]:
        """The hidden states that `fc.weight` reads, ascending, and where each of them stands in it.

        Raises ModelError where a layer does not exist before the target's final norm, or the widths differ.
        """
        num_layers = int(target.model.config.get_text_config().num_hidden_layers)
        if not layers or not all(isinstance(layer, int) and 0 <= layer < num_layers for layer in layers):
            raise ModelError(
                f"the drafter reads the hidden states {list(layers)}; this target has 0 to {num_layers - 1}."
            )
        self.check_width(self.tensors["fc.weight"].shape[1], len(layers), target)
        order = sorted(range(len(layers)), key=layers.__getitem__)
        return tuple(layers[i] for i in order), order

    def check_width(self, read: int, num_features: int, target: Target) -> None:
        """Raise ModelError unless `read` numbers a token are `num_features` hidden states of the target."""
        expected = num_features * int(target.model.config.get_text_config().hidden_size)
        if read != expected:
            raise ModelError(
                f"{self.folder.name} reads {read} numbers a token; {num_features} hidden states of this target are "
                f"{expected}. Choose the target it was trained for."
            )


@dataclass(frozen=True, slots=True)
class Parts:
    """Hands out tensors, by names behind `prefix`, on the target's device and in its type."""

    tensors: dict[str, Tensor]
    target: Target
    prefix: str = ""

    def tensor(self, *names: str) -> Tensor:
        """One tensor, or the rows of several below each other; `.weight` is added to the names."""
        found = [self.tensors[f"{self.prefix}{name}.weight"] for name in names]
        return torch.cat(found).to(self.target.lm.device, self.target.lm.dtype).contiguous()

    def vector(self, name: str) -> tuple[Tensor, Tensor]:
        """Weight (D,) and bias (1,) of a product that gives one number."""
        bias = self.tensors[f"{self.prefix}{name}.bias"]
        return self.tensor(name)[0], bias.to(self.target.lm.device, self.target.lm.dtype)

    def embedding(self) -> tuple[Tensor, int]:
        """The input embedding, and the bytes it takes besides the target's."""
        return self._own_or_shared("embed_tokens", self.target.model.get_input_embeddings().weight.detach())

    def head(self) -> tuple[Tensor, int]:
        """The rows of the whole head, and the bytes they take besides the target's."""
        return self._own_or_shared("lm_head", self.target.model.get_output_embeddings().weight.detach())

    def _own_or_shared(self, name: str, targets: Tensor) -> tuple[Tensor, int]:
        """The checkpoint's tensor, or the target's if it brings none or a copy: some store what they never trained."""
        if f"{name}.weight" in self.tensors:
            own = self.tensor(name)
            if not torch.equal(own, targets):
                return own, own.nbytes
        return targets, 0

    def linear(self, *names: str) -> Int8Linear:
        """The same as a product."""
        return Int8Linear(self.tensor(*names))


def in_order(tensor: Tensor, order: Sequence[int]) -> Tensor:
    """The equal parts of the last dimension in another order."""
    parts = tensor.chunk(len(order), -1)
    return torch.cat([parts[i] for i in order], -1)


def _read_tensors(folder: Path) -> dict[str, Tensor]:
    """All safetensors files, or else all `.bin` or `.pt` files, of which nothing but tensors is unpickled."""
    found: dict[str, Tensor] = {}
    try:
        for name in weight_files(sorted(path.name for path in folder.iterdir())):
            path = folder / name
            is_safe = path.suffix == ".safetensors"
            found |= load_file(path) if is_safe else torch.load(path, map_location="cpu", weights_only=True)
        return found
    except (SafetensorError, pickle.UnpicklingError, OSError, EOFError, RuntimeError, TypeError) as error:
        first = str(error).partition("\n")[0]
        raise ModelError(f"the weights in {folder} cannot be read ({first}); copy the files there again.") from None
