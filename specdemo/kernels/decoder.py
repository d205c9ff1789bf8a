"""The decoder layers of a Llama for a few new tokens at a time, without a call into Python between them.

Knows weights only as arrays. Every row is computed by itself and in one order, so it has the same bits however many
rows are fed at once, and whichever sequences they belong to: a row says where the keys and values of its own stand. So
it has in a tree, where what a row sees of this pass's rows is its own branch.
Shapes: L layers, T new tokens, D hidden, F inner width of the feed-forward part, H query heads, G key/value heads,
E head size, N positions with keys and values; all arrays C-contiguous, float32 but for weights.
"""

# ruff: noqa: ANN001, ANN201, ANN202 - Numba infers the types
import math
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import carray, njit, prange, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from specdemo.kernels.dot import ROWS_PER_BLOCK, STEP, multiply, multiply_rows

Array = NDArray[np.generic]
_REORDER = {"reassoc", "contract", "nsz", "nnan"}  # enough to sum and compare in vectors; keeps infinities
_LOG2_E = np.float32(1.4426950408889634)
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
_LOWEST_EXPONENT = np.float32(-87.0)
_POSITIONS_AT_ONCE = 4
FIRST_BRANCH_COLUMN = 5
"""Of `places`; see run_layers."""
# e^-40 of the largest weight changes no sum in float32, and its products would be denormal: a hundred times slower.
_NEGLIGIBLE = np.float32(-40.0)


class LayerWeights(NamedTuple):
    """All layers stacked. Each matrix is in one of the formats of `dot`; the rows of q, k and v, and those of gate and
    up, stand below each other.
    """

    input_norm: Array  # (L, D)
    qkv: Array  # (L, (H + 2 G) E, ...)
    output: Array  # (L, D, ...)
    post_norm: Array  # (L, D)
    gate_up: Array  # (L, 2 F, ...)
    down: Array  # (L, D, ...)
    epsilon: float


@njit(cache=True)
def run_layers(hidden, weights, places, shape, rotary, layers):
    """Put `hidden` (T, D) through the layers (first, one after the last), in place.

    `places` (T, 5 + B), int64: of each row the address of its sequence's cache, a float32 array (2, L, G, N, E), its
    N, the row's position, the slot of the cache that takes its keys and values, and how many positions stand in the
    slots of their own number: all that the row sees, or in a tree those before its branch. Then the slots of the
    positions from there on, ascending, its own last. `shape` (L, G, E); `rotary` (2, T, E / 2): cosines and sines of
    the rows' positions.
    """
    num_tokens, num_groups, size = len(hidden), shape[1], shape[2]
    normed = np.empty_like(hidden)
    added = np.empty_like(hidden)
    projected = np.empty((num_tokens, weights.qkv.shape[1]), np.float32)
    num_heads = weights.qkv.shape[1] // size - 2 * num_groups
    mixed = np.empty((num_tokens, num_heads, size), np.float32)
    inner = np.empty((num_tokens, weights.gate_up.shape[1]), np.float32)
    gated = np.empty((num_tokens, weights.gate_up.shape[1] // 2), np.float32)
    longest = (np.max(places[:, 3]) // STEP + 1) * STEP
    scores = np.empty((num_tokens * num_groups, num_heads // num_groups, longest), np.float32)
    for layer in range(layers[0], layers[1]):
        normalize(hidden, weights.input_norm[layer], weights.epsilon, normed)
        multiply(normed, weights.qkv[layer], projected)
        heads = projected.reshape(num_tokens, -1, size)
        _place(heads, rotary, places, shape, layer)
        _attend(heads, places, shape, layer, scores, mixed)
        multiply(mixed.reshape(num_tokens, -1), weights.output[layer], added)
        _add(hidden, added)
        normalize(hidden, weights.post_norm[layer], weights.epsilon, normed)
        multiply(normed, weights.gate_up[layer], inner)
        _gate(inner, gated)
        multiply(gated, weights.down[layer], added)
        _add(hidden, added)


@intrinsic
def _pointer(typing_context, address):  # type: ignore[no-untyped-def]
    """An address as a pointer."""

    def generate(context, builder, signature, values):  # type: ignore[no-untyped-def]
        return builder.inttoptr(values[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generate


@njit(cache=True, inline="always")
def _cached(place, shape, layer, group):
    """Keys and values, each (N, E), of one head in the cache that a row's place names."""
    num_layers, num_groups, size = shape
    matrix_bytes = place[1] * size * 4
    keys = place[0] + (layer * num_groups + group) * matrix_bytes
    values = keys + num_layers * num_groups * matrix_bytes
    return (
        carray(_pointer(keys), (place[1], size), np.float32),
        carray(_pointer(values), (place[1], size), np.float32),
    )


@njit(cache=True, fastmath=_REORDER)
def normalize(hidden, weight, epsilon, normed):
    """normed (T, D) = hidden / sqrt(mean(hidden^2) + epsilon) * weight (D,)."""
    num_tokens, width = hidden.shape
    for token in range(num_tokens):
        total = np.float32(0)
        for i in range(width):
            total += hidden[token, i] * hidden[token, i]
        scale = np.float32(1) / np.float32(math.sqrt(total / np.float32(width) + np.float32(epsilon)))
        for i in range(width):
            normed[token, i] = hidden[token, i] * scale * weight[i]


@njit(cache=True, fastmath=_REORDER)
def _add(hidden, added):
    for token in range(hidden.shape[0]):
        for i in range(hidden.shape[1]):
            hidden[token, i] += added[token, i]


@njit(cache=True, fastmath=_REORDER)
def _place(projected, rotary, places, shape, layer):
    """Rotate the queries of `projected` (T, H + 2 G, E) in place.

    Its rotated keys, and its values, go into the caches, each row's into its slot.
    """
    num_groups, size = shape[1], shape[2]
    num_tokens, half = len(projected), size // 2
    num_heads = projected.shape[1] - 2 * num_groups
    for token in range(num_tokens):
        cos, sin = rotary[0, token], rotary[1, token]
        for head in range(num_heads + num_groups):
            low, high = projected[token, head, :half], projected[token, head, half:]
            for i in range(half):
                first, second = low[i], high[i]
                low[i] = first * cos[i] - second * sin[i]
                high[i] = second * cos[i] + first * sin[i]
        slot = places[token, 3]
        for group in range(num_groups):
            keys, values = _cached(places[token], shape, layer, group)
            keys[slot] = projected[token, num_heads + group]
            values[slot] = projected[token, num_heads + num_groups + group]


@njit(cache=True, parallel=True)
def _attend(projected, places, shape, layer, scores, mixed):
    """mixed (T, H, E): values up to each row's own position, weighed by softmax(query key / sqrt(E))."""
    num_tokens, num_heads, size = mixed.shape
    num_groups = shape[1]
    per_group = num_heads // num_groups
    scale = np.float32(1 / math.sqrt(size))
    for unit in prange(num_tokens * num_groups):
        token, group = unit // num_groups, unit % num_groups
        keys, values = _cached(places[token], shape, layer, group)
        visible, num_slots, num_straight = places[token, 2] + 1, places[token, 3] + 1, places[token, 4]
        heads = slice(group * per_group, (group + 1) * per_group)
        for slot in range(0, num_slots, ROWS_PER_BLOCK):
            multiply_rows(projected[token, heads], keys, scores[unit], slot)
        branch = places[token, FIRST_BRANCH_COLUMN:]
        whole = num_straight - num_straight % _POSITIONS_AT_ONCE if num_straight < visible else visible
        tail = _gather(values, branch, whole, num_straight, visible)
        for head in range(per_group):
            for position in range(num_straight, visible):
                scores[unit, head, position] = scores[unit, head, branch[position - num_straight]]
            weights = scores[unit, head, :visible]
            _softmax(weights, scale)
            into = mixed[token, group * per_group + head]
            into[:] = np.float32(0)
            _mix(weights[:whole], values, into)
            _mix(weights[whole:], tail, into)


@njit(cache=True)
def _gather(values, branch, first, num_straight, visible):
    """The values (N, E) of the positions first..visible - 1 below each other, those of a branch from its slots."""
    gathered = np.empty((visible - first, values.shape[1]), np.float32)
    for position in range(first, visible):
        slot = position if position < num_straight else branch[position - num_straight]
        gathered[position - first] = values[slot]
    return gathered


@njit(cache=True, fastmath=_REORDER)
def _softmax(scores, scale):
    """scores (N,) become exp(scale * score) over their sum, in place."""
    highest = scores[0]
    for score in scores:
        highest = max(highest, score)
    total = np.float32(0)
    for position in range(len(scores)):
        below = (scores[position] - highest) * scale
        scores[position] = _exp(below) if below > _NEGLIGIBLE else np.float32(0)
        total += scores[position]
    for position in range(len(scores)):
        scores[position] /= total


@njit(cache=True, fastmath=_REORDER)
def _mix(weights, values, mixed):
    """mixed (E,) += weights (N,) times values (N, E); four positions a turn, so that sums stay longer in registers."""
    num_positions, width = len(weights), len(mixed)
    in_fours = num_positions - num_positions % _POSITIONS_AT_ONCE
    for first in range(0, in_fours, _POSITIONS_AT_ONCE):
        weight, value = weights[first : first + 4], values[first : first + 4]
        for i in range(width):
            mixed[i] += (
                weight[0] * value[0, i] + weight[1] * value[1, i] + weight[2] * value[2, i] + weight[3] * value[3, i]
            )
    for position in range(in_fours, num_positions):
        for i in range(width):
            mixed[i] += weights[position] * values[position, i]


@njit(cache=True, fastmath=_REORDER, parallel=True)
def _gate(inner, gated):
    """gated (T, F) = silu(gate) * up, from inner (T, 2 F)."""
    width = gated.shape[1]
    for token in prange(len(gated)):
        gate, up, row = inner[token, :width], inner[token, width:], gated[token]
        for i in range(width):
            row[i] = gate[i] / (np.float32(1) + _exp(-gate[i])) * up[i]


@intrinsic
def _power_of_two(typing_context, exponent):  # type: ignore[no-untyped-def]
    """2^exponent of a whole number in float32: the number's exponent bits, set directly."""

    def generate(context, builder, signature, values):  # type: ignore[no-untyped-def]
        integer = ir.IntType(32)
        biased = builder.add(builder.fptosi(values[0], integer), integer(127))
        return builder.bitcast(builder.shl(biased, integer(23)), ir.FloatType())

    return types.float32(types.float32), generate


@njit(cache=True, fastmath=_REORDER, inline="always")
def _exp(x):
    """e^x in float32 for loops that run in vectors, where the C library's own would be called number by number.

    x = n ln 2 + r with |r| <= ln 2 / 2, then the power series of e^r to its seventh term; relative error below 2e-7.
    """
    x = min(max(x, _LOWEST_EXPONENT), -_LOWEST_EXPONENT)
    n = np.floor(x * _LOG2_E + np.float32(0.5))
    r = x - n * _LN2_HIGH - n * _LN2_LOW
    series = np.float32(1 / 5040)
    for term in (1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0, 1.0):
        series = series * r + np.float32(term)
    return series * _power_of_two(n)


@njit(cache=True)
def run_products(hidden, weights):
    """The matrix products of every layer (float32) and nothing else: what part of a pass they are."""
    num_tokens = len(hidden)
    projected = np.empty((num_tokens, weights.qkv.shape[1]), np.float32)
    mixed = np.zeros((num_tokens, weights.output.shape[2]), np.float32)
    inner = np.empty((num_tokens, weights.gate_up.shape[1]), np.float32)
    gated = np.zeros((num_tokens, weights.down.shape[2]), np.float32)
    added = np.empty_like(hidden)
    for layer in range(len(weights.qkv)):
        multiply(hidden, weights.qkv[layer], projected)
        multiply(mixed, weights.output[layer], added)
        multiply(hidden, weights.gate_up[layer], inner)
        multiply(gated, weights.down[layer], added)
