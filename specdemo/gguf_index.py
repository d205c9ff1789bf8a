"""Where the tensors of a GGUF file lie. Knows nothing of what they mean.

The file's header holds the whole vocabulary and takes seconds to parse; an index beside the file takes none.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from gguf import GGUFReader
from torch import Tensor


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One tensor: its quantisation by GGUF's name, and its bytes as rows of the output dimension."""

    kind: str
    offset: int
    shape: tuple[int, ...]

    def read(self, path: Path) -> Tensor:
        """The raw bytes, uint8 (N, bytes of a row)."""
        count = int(np.prod(self.shape))
        return torch.from_numpy(np.fromfile(path, np.uint8, count, offset=self.offset).reshape(self.shape))


def read_index(path: Path) -> dict[str, StoredTensor]:
    """Tensors by name, from the index if there is one, else from the file's header."""
    if not _index_path(path).is_file():
        return _parse(path)
    entries = json.loads(_index_path(path).read_text(encoding="utf-8"))
    return {name: StoredTensor(item["kind"], item["offset"], tuple(item["shape"])) for name, item in entries.items()}


def write_index(path: Path) -> None:
    """Write the index beside the file."""
    entries = {name: asdict(tensor) for name, tensor in _parse(path).items()}
    _index_path(path).write_text(json.dumps(entries), encoding="utf-8")


def _index_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.index.json")


def _parse(path: Path) -> dict[str, StoredTensor]:
    return {
        tensor.name: StoredTensor(tensor.tensor_type.name, int(tensor.data_offset), tuple(map(int, tensor.data.shape)))
        for tensor in GGUFReader(path).tensors
    }
