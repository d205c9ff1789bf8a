"""Matrix products of a pass: several weights as one, in the layout that this processor multiplies fastest.

Knows no model. Few rows against a large weight is all that decoding does; MKL's plain product is made for many rows,
and a weight packed once for few rows is read at nearly the speed of memory at every width from 1 to 17.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

Linear = Callable[[Tensor], Tensor]
_PACKED_FOR_ROWS = 4
"""Measured best over widths 1 to 17 among packings for 1, 2, 4, 5, 6 and 8 rows; any packing serves any width."""


def fuse(*linears: torch.nn.Linear) -> Linear:
    """One product for several layers without bias that read the same input; their outputs stand side by side."""
    weight = (
        torch.cat([linear.weight.detach() for linear in linears]) if len(linears) > 1 else linears[0].weight.detach()
    )
    if can_pack(weight):
        return PackedLinear(weight)
    if len(linears) > 1:
        _make_views(linears, weight)
    return lambda hidden: F.linear(hidden, weight)


def can_pack(weight: Tensor) -> bool:
    """Whether torch was built with MKL and the weight is what its packed product takes: float32 on the CPU."""
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and torch.backends.mkl.is_available()


class PackedLinear:
    """hidden (T, D) to (T, N) through MKL's packed product."""

    def __init__(self, weight: Tensor) -> None:
        self._packed = torch.ops.mkl._mkl_reorder_linear_weight(weight.contiguous(), _PACKED_FOR_ROWS)
        # The kernel asks the unpacked weight for its shape alone, so an empty one of that shape saves its memory.
        self._shape = torch.empty(1).expand(weight.shape)

    def __call__(self, hidden: Tensor) -> Tensor:
        return torch.ops.mkl._mkl_linear(hidden, self._packed, self._shape, None, len(hidden))


def _make_views(linears: tuple[torch.nn.Linear, ...], weight: Tensor) -> None:
    """Let the originals be views of the fused weight, so that fusing adds no memory."""
    start = 0
    for linear in linears:
        linear.weight.data = weight[start : start + linear.out_features]
        start += linear.out_features
