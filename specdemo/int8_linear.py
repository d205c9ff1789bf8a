"""A drafter's matrix product: from eight-bit blocks where few rows are multiplied on a CPU, which is a draft step.

Shapes: T rows, D inputs, N outputs.
"""

from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from specdemo.blocks import to_q8_0
from specdemo.kernels.llama import MOST_ROWS, fits, product


class Int8Linear:
    """A weight (N, D) that multiplies. What a draft token costs is the bytes that are read for it."""

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight
        self._blocks = to_q8_0(weight).numpy() if fits(weight, weight.shape[1]) else None
        self.pass_bytes = weight.nbytes if self._blocks is None else self._blocks.nbytes
        """Read by a product of few rows."""
        self.memory_bytes = weight.nbytes + (0 if self._blocks is None else self._blocks.nbytes)

    def __call__(self, x: Tensor) -> Tensor:
        """x (T, D) -> (T, N)."""
        if self._blocks is None or len(x) > MOST_ROWS:
            return F.linear(x, self.weight)
        return product(x.contiguous(), self._blocks)
