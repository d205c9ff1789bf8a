"""Linear layers in four bits through torch's own CPU kernel, for models that run through transformers' own pass.

A group of 32 weights shares a scale d and a minimum m: weight = d * code + m, code 0..15. The kernel computes
(code - 8) * scale + zero, so scale = d and zero = m + 8 d. Shapes: N output rows, D inputs, B = D / 32 groups.
"""

import torch
from torch import Tensor
from transformers import PreTrainedModel

GROUP = 32
_INNER_K_TILES = 2


class Int4Linear(torch.nn.Module):
    """hidden (T, D) in bfloat16 to (T, N), with the nearest codes for a weight (N, D)."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        grouped = weight.float().unflatten(1, (-1, GROUP))
        minima = grouped.amin(-1)
        scales = ((grouped.amax(-1) - minima) / 15).clamp_(min=1e-12)
        codes = ((grouped - minima[..., None]) / scales[..., None]).round_().clamp_(0, 15)
        self.out_features = len(weight)
        packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes.flatten(1).to(torch.int32), _INNER_K_TILES)
        affine = torch.stack([scales, minima + 8 * scales], -1).transpose(0, 1).bfloat16().contiguous()
        self.register_buffer("packed", packed)
        self.register_buffer("scales_and_zeros", affine)

    def forward(self, hidden: Tensor) -> Tensor:
        """See the class."""
        rows = hidden.reshape(-1, hidden.shape[-1])
        product = torch.ops.aten._weight_int4pack_mm_for_cpu(rows, self.packed, GROUP, self.scales_and_zeros)
        return product.view(*hidden.shape[:-1], self.out_features)


def replace_linears(module: PreTrainedModel) -> PreTrainedModel:
    """Put four-bit layers in place of every linear one that the kernel can hold, but the head."""
    head = module.get_output_embeddings()
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            is_fit = isinstance(child, torch.nn.Linear) and child is not head and child.bias is None
            if is_fit and child.in_features % GROUP == 0 and child.out_features % 16 == 0:
                setattr(parent, name, Int4Linear(child.weight.detach()))
    return module
