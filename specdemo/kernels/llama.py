"""Weights and caches as the compiled pass reads them: arrays that share memory with torch's tensors.

Knows no tokens. Shapes as in `decoder`; R rows of the head.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np
import torch
from torch import Tensor

from specdemo.kernels.decoder import FIRST_BRANCH_COLUMN, Array, LayerWeights, normalize, run_layers, run_products
from specdemo.kernels.dot import Q4_1_BYTES, Q8_0_BYTES, STEP, multiply

MOST_ROWS = 17
"""Of one sequence: more than a round of 16 drafts feeds go through torch, whose products are made for many."""

# Numba's simplest scheduler, used where no other is installed, ends the process when two threads enter it.
_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class Rows:
    """The new rows of one sequence, whose keys and values take the slots from `start` on.

    `cache` (2, L, G, N, E). `branches`: in a tree of each row the slots behind `start` that it sees, ascending, its own
    last; () for rows that stand one behind the other.
    """

    cache: Tensor
    start: int
    num_rows: int
    branches: Sequence[Sequence[int]] = ()

    @property
    def longest_branch(self) -> int:
        """Slots that the widest row of `branches` takes."""
        return max(map(len, self.branches), default=0)

    def write(self, places: Array) -> int:
        """Fill in the first of `places` as decoder.run_layers reads them; returns how many they are."""
        assert self.cache.is_contiguous() and self.start + self.num_rows <= self.cache.shape[3], "rows must fit"
        place = places[: self.num_rows]
        place[:, 0], place[:, 1] = self.cache.data_ptr(), self.cache.shape[3]
        place[:, 2] = place[:, 3] = np.arange(self.start, self.start + self.num_rows)
        place[:, 4] = place[:, 2] + 1
        for row, branch in enumerate(self.branches):
            place[row, 2], place[row, 4] = self.start + len(branch), self.start + 1
            place[row, FIRST_BRANCH_COLUMN : FIRST_BRANCH_COLUMN + len(branch)] = branch
        return self.num_rows


@dataclass(frozen=True, slots=True)
class CompiledLlama:
    """A model's weights; each matrix float32 or in one of the block formats of `dot`."""

    layers: LayerWeights
    head_norm: Array  # (D,)
    head: Array  # (R, ...)

    @property
    def is_float32(self) -> bool:
        """Whether the layers are, and not blocks."""
        return bool(self.layers.qkv.dtype == np.float32)

    @property
    def layer_bytes(self) -> int:
        """Bytes of one layer."""
        return sum(array.nbytes for array in self.layers if isinstance(array, np.ndarray)) // len(self.layers.qkv)

    @property
    def head_bytes(self) -> int:
        """Bytes of the head and its norm."""
        return self.head.nbytes + self.head_norm.nbytes

    def run(self, hidden: Tensor, spans: Sequence[Rows], rotary: Tensor, layers: range) -> None:
        """Put `hidden` (T, D) through some layers, in place; see decoder.run_layers. `rotary` (2, T, E).

        `spans` are the sequences that the rows belong to, one after the other.
        """
        half = np.ascontiguousarray(rotary.numpy()[..., rotary.shape[-1] // 2 :])
        places = np.empty((len(hidden), FIRST_BRANCH_COLUMN + max(span.longest_branch for span in spans)), np.int64)
        first = 0
        for span in spans:
            first += span.write(places[first:])
        shape = (spans[0].cache.shape[1], spans[0].cache.shape[2], spans[0].cache.shape[4])
        with _LOCK:
            _use_torchs_threads()
            run_layers(hidden.numpy(), self.layers, places, shape, half, (layers.start, layers.stop))

    def run_products(self, hidden: Tensor) -> None:
        """Only the matrix products of the layers, for `bench --profile`; float32 weights."""
        with _LOCK:
            _use_torchs_threads()
            run_products(hidden.numpy(), self.layers)

    def logits(self, hidden: Tensor) -> Tensor:
        """What the head makes of hidden states (T, D): (T, R)."""
        normed = torch.empty_like(hidden)
        normalize(hidden.numpy(), self.head_norm, self.layers.epsilon, normed.numpy())
        return product(normed, self.head)


def product(x: Tensor, weight: Array) -> Tensor:
    """x (T, D) times the rows of one weight (N, ...) in any format of `dot`: (T, N)."""
    products = torch.empty((len(x), len(weight)))
    with _LOCK:
        _use_torchs_threads()
        multiply(x.numpy(), weight, products.numpy())
    return products


def prepare() -> None:
    """Compile everything now, or load what was compiled before: ten seconds that the first race need not wait for."""
    norm, size = np.ones((1, STEP), np.float32), STEP
    for kind, head_kind, block_bytes, head_bytes in (
        (np.float32, np.float32, STEP, STEP),
        (np.uint8, np.int8, Q4_1_BYTES, Q8_0_BYTES),
    ):
        matrix = np.zeros((1, 3 * size, block_bytes), kind)
        square = np.zeros((1, size, block_bytes), kind)
        layers = LayerWeights(norm, matrix, square, norm, matrix[:, : 2 * size].copy(), square, 1e-5)
        model = CompiledLlama(layers, norm[0], np.zeros((2, head_bytes), head_kind))
        hidden = torch.zeros(1, size)
        model.run(hidden, [Rows(torch.zeros(2, 1, 1, 2, size), 0, 1)], torch.zeros(2, 1, size), range(1))
        model.logits(hidden)


def fits(weight: Tensor, *widths: int) -> bool:
    """Whether the compiled code takes such weights and widths: float32 on the CPU, whole steps of the inner loop."""
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and not any(width % STEP for width in widths)


def _use_torchs_threads() -> None:
    """As many threads as torch uses; the call also starts them, which code from the cache does not do by itself."""
    numba.set_num_threads(min(torch.get_num_threads(), numba.config.NUMBA_NUM_THREADS))
