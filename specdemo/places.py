"""Where a model is, a folder or a repository of the Hub, and what its small files say.

A repository is OWNER/NAME or OWNER/NAME@REVISION.

Reads no weights: of tensors only their names, types and shapes.
"""

import json
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import HfApi

from specdemo import hub, pairs
from specdemo.catalog import is_place, read_tree_setting, reads_a_folder
from specdemo.errors import ModelError
from specdemo.weights import Progress

_REPOSITORY = re.compile(r"^(?P<repository>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?$")
_MOST_HEADER_BYTES = 100_000_000
_BITS = {"F64": 64, "I64": 64, "F32": 32, "I32": 32, "F16": 16, "BF16": 16, "I16": 16, "BOOL": 8}
"""Bits of safetensors' types; the others have eight or fewer."""


@dataclass(frozen=True, slots=True)
class Header:
    """A tensor before it is read; `dtype` by safetensors' name."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def num_elements(self) -> int:
        """Of all dimensions."""
        return prod(self.shape)

    @property
    def is_float(self) -> bool:
        """Whether loading turns it into the type that the model runs in."""
        return "F" in self.dtype

    @property
    def num_bytes(self) -> int:
        """As stored."""
        return self.num_elements * _BITS.get(self.dtype, 8) // 8


@dataclass(frozen=True, slots=True)
class Seen:
    """What stands at a place. `folder` holds the small files; `headers` is None where only a download would tell.

    `missing_bytes` are still to be downloaded, None where the Hub does not say.
    """

    name: str
    folder: Path
    values: Mapping[str, Any]
    headers: Mapping[str, Header] | None
    is_remote: bool = False
    revision: str = "unpinned"
    missing_bytes: int | None = 0
    licence: str = ""
    is_gated: bool = False
    pickles: tuple[str, ...] = field(default=())

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """As detection reads them."""
        return {name: header.shape for name, header in (self.headers or {}).items()}


def split_place(place: str) -> tuple[str, str | None] | None:
    """Repository and revision, the catalogue's where none is named; None for a folder. Raises ModelError."""
    if Path(place).is_dir():
        return None
    match = _REPOSITORY.match(place)
    if match is None or not is_remote(place):
        raise ModelError(f"there is no folder {place}; give a folder, or a repository of the Hub as OWNER/NAME.")
    repository = match["repository"]
    return repository, match["revision"] or pairs.pinned_revision(repository)


def is_remote(place: str) -> bool:
    """Whether it is a repository's name and no folder of that name is here."""
    return _REPOSITORY.match(place) is not None and not place.startswith(".") and not Path(place).is_dir()


def local_folder(place: str, progress: Progress) -> Path:
    """The folder itself, or where the repository lies once it is downloaded. Raises ModelError in one sentence."""
    found = split_place(place)
    return Path(place) if found is None else hub.fetch_repository(*found, progress)


def drafter_folder(spec: str, progress: Progress) -> Path | None:
    """Where the files of a drafter lie that names a place, downloaded where needed; None where it names none.

    Raises ModelError in one sentence.
    """
    name, _, setting = spec.partition(":")
    if is_place(spec):
        return local_folder(spec, progress)
    if name == "hybrid" and setting:
        return drafter_folder(setting, progress)
    return local_folder(read_tree_setting(setting)[1], progress) if reads_a_folder(spec) else None


def revision_of(folder: Path) -> str:
    """The commit that a folder of the Hub's cache holds, "unpinned" for any other."""
    return folder.name if folder.parent.name == "snapshots" else "unpinned"


def look(place: str) -> Seen:
    """Read the small files of a place. Raises ModelError in one sentence."""
    found = split_place(place)
    return look_at_folder(Path(place), place) if found is None else _look_at_repository(*found)


def look_at_folder(folder: Path, name: str) -> Seen:
    """The same of a folder, called `name`."""
    names = sorted(path.name for path in folder.iterdir())
    weights = hub.weight_files(names)
    headers: dict[str, Header] = {}
    for file in weights:
        path = folder / file
        headers |= _headers_of(path) if path.suffix == ".safetensors" else _unpickled_headers(path)
    return Seen(
        name, folder, read_config(folder, name), headers, pickles=_pickles(weights), revision=revision_of(folder)
    )


def read_config(folder: Path, name: str) -> dict[str, Any]:
    """config.json. Raises ModelError where it is missing or no object."""
    path = folder / "config.json"
    if not path.is_file():
        raise ModelError(f"{name} has no config.json, so what it is cannot be told; give a model as it was published.")
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"the config.json of {name} is not JSON ({error}); copy it there again.") from None
    if not isinstance(values, dict):
        raise ModelError(f"the config.json of {name} holds a {type(values).__name__}; copy it there again.")
    return values


def _look_at_repository(repository: str, revision: str | None) -> Seen:
    try:
        info = hub.repository_info(repository, revision)
    except hub.NoNetworkError:
        return look_at_folder(hub.cached_folder(repository, revision), repository)
    sizes = hub.file_sizes(info)
    weights = hub.weight_files(sizes)
    folder = hub.fetch_files(repository, revision, hub.small_files(sizes))
    headers: dict[str, Header] | None = {}
    for file in weights:
        if file.endswith(".safetensors"):
            headers = (headers or {}) | _remote_headers(repository, info.sha or revision, file)
        else:
            headers = None
    missing = [sizes[file] for file in weights if not (folder / file).is_file()]
    return Seen(
        name=repository,
        folder=folder,
        values=read_config(folder, repository),
        headers=headers,
        is_remote=True,
        revision=info.sha or "unpinned",
        missing_bytes=None if None in missing else sum(size or 0 for size in missing),
        licence=str(getattr(info.card_data, "license", None) or ""),
        is_gated=bool(info.gated),
        pickles=_pickles(weights),
    )


def _pickles(weights: list[str]) -> tuple[str, ...]:
    return tuple(name for name in weights if not name.endswith(".safetensors"))


def _remote_headers(repository: str, revision: str | None, file: str) -> dict[str, Header]:
    """By a request for the first part of the file."""
    with hub.explained(repository):
        found = HfApi().parse_safetensors_file_metadata(repository, file, revision=revision)
    return {name: Header(one.dtype, tuple(one.shape)) for name, one in found.tensors.items()}


def _headers_of(path: Path) -> dict[str, Header]:
    try:
        with path.open("rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            if size > _MOST_HEADER_BYTES:
                raise ValueError("its header is too long")
            values = json.loads(file.read(size))
        values.pop("__metadata__", None)
        return {name: Header(str(one["dtype"]), tuple(one["shape"])) for name, one in values.items()}
    except (ValueError, KeyError, TypeError, struct.error, AttributeError, OSError) as error:
        raise ModelError(f"{path} is no readable safetensors file ({error}); copy it there again.") from None


def _unpickled_headers(path: Path) -> dict[str, Header]:
    """Of a file of pickled tensors, of which nothing but tensors is unpickled, and no weights are read."""
    try:
        found = torch.load(path, map_location="meta", weights_only=True)
        names = {"torch.float32": "F32", "torch.float16": "F16", "torch.bfloat16": "BF16", "torch.int64": "I64"}
        return {name: Header(names.get(str(one.dtype), "I8"), tuple(one.shape)) for name, one in found.items()}
    except Exception as error:  # noqa: BLE001 - a foreign pickle fails in any way it likes
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        raise ModelError(f"{path} holds no plain tensors ({first_line}); it is not read.") from None
