"""Products of a few rows of activations with many rows of weights, as vector code for whatever processor runs it.

Knows no model. The inner loop is written as LLVM vectors, which Numba compiles, because it must do two things that a
compiler leaves to chance: ask for weights ahead of their use, and add in one fixed order. So a row of a product has the
same bits at every number of rows, and weights in blocks of four or eight bits give the bits of their float32 expansion.
Shapes: T rows of activations, D inputs (a multiple of 32), N outputs (at least 2).
"""

from collections.abc import Callable
from dataclasses import dataclass

import llvmlite.binding as llvm
from llvmlite import ir
from numba import njit, prange, types
from numba.core import cgutils
from numba.extending import intrinsic

STEP = 32
"""Inputs of one step of the inner loop: a block of the quantised formats."""

Q4_1_BYTES, Q8_0_BYTES = 20, 34
"""Of a block of GGUF's formats."""

ROWS_PER_BLOCK = 2
_LANES = 16
_CACHE_LINE = 64
# From here on the activations outgrow the first cache, and the products of a tile of weights are taken turn by turn.
_MANY_TOKENS, _ROWS_PER_TILE = 18, 16
# As many sums as the vector registers hold; more tokens take several turns over weights that are in the first cache.
_MOST_TOKENS = 9 if llvm.get_host_cpu_features().get("avx512f") else 2
_FLOAT, _BYTE, _INT, _INDEX = ir.FloatType(), ir.IntType(8), ir.IntType(32), ir.IntType(64)
_FLOATS, _BYTES = ir.VectorType(_FLOAT, _LANES), ir.VectorType(_BYTE, _LANES)
_INTS = ir.VectorType(_INT, _LANES)

Builder = ir.IRBuilder
Value = ir.Value


@dataclass(frozen=True, slots=True)
class _Format:
    """How STEP weights of a row lie in memory, and how they become two vectors of float32.

    `ahead_bytes`: how far before its use a weight is asked for, measured best on a server's Xeon.
    """

    step_bytes: int
    ahead_bytes: int
    load: Callable[[Builder, Value], list[Value]]


def _at(builder: Builder, pointer: Value, offset: int, kind: ir.Type) -> Value:
    return builder.bitcast(builder.gep(pointer, [_INDEX(offset)]), kind.as_pointer())


def _load_float32(builder: Builder, pointer: Value) -> list[Value]:
    return [builder.load(_at(builder, pointer, offset, _FLOATS), align=4) for offset in (0, 4 * _LANES)]


def _load_q4_1(builder: Builder, pointer: Value) -> list[Value]:
    """GGUF Q4_1: scale and minimum in float16, then 16 bytes of codes, the first half of the block in the low bits."""
    scale, minimum = _load_half(builder, pointer, 0), _load_half(builder, pointer, 2)
    codes = builder.load(_at(builder, pointer, 4, _BYTES), align=1)
    low, high = builder.and_(codes, _BYTES([15] * _LANES)), builder.lshr(codes, _BYTES([4] * _LANES))
    floats = [builder.uitofp(builder.zext(half, _INTS), _FLOATS) for half in (low, high)]
    return [_multiply_add(builder, half, scale, minimum) for half in floats]


def _load_q8_0(builder: Builder, pointer: Value) -> list[Value]:
    """GGUF Q8_0: a scale in float16, then 32 signed codes."""
    scale = _load_half(builder, pointer, 0)
    codes = [builder.load(_at(builder, pointer, offset, _BYTES), align=1) for offset in (2, 2 + _LANES)]
    return [builder.fmul(builder.sitofp(builder.sext(half, _INTS), _FLOATS), scale) for half in codes]


_FORMATS = {
    types.float32: _Format(4 * STEP, 4608, _load_float32),
    types.uint8: _Format(Q4_1_BYTES, 1440, _load_q4_1),
    types.int8: _Format(Q8_0_BYTES, 2448, _load_q8_0),
}
"""By the element type of the array that holds the weights: (N, D) float32, (N, D / 32 * 20) uint8 for Q4_1 and
(N, D / 32 * 34) int8 for Q8_0."""


def _load_half(builder: Builder, pointer: Value, offset: int) -> Value:
    half = builder.load(_at(builder, pointer, offset, ir.HalfType()), align=1)
    single = builder.insert_element(_FLOATS(ir.Undefined), builder.fpext(half, _FLOAT), _INT(0))
    return builder.shuffle_vector(single, _FLOATS(ir.Undefined), _INTS([0] * _LANES))


def _multiply_add(builder: Builder, a: Value, b: Value, c: Value) -> Value:
    kind = ir.FunctionType(_FLOATS, [_FLOATS] * 3)
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{_LANES}f32"), [a, b, c])


def _prefetch(builder: Builder, pointer: Value) -> None:
    kind = ir.FunctionType(ir.VoidType(), [_BYTE.as_pointer(), _INT, _INT, _INT])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(function, [pointer, _INT(0), _INT(3), _INT(1)])  # to read, keep in every cache, data


def _sum_lanes(builder: Builder, vector: Value) -> Value:
    """Halves onto each other, so that the order of additions is fixed."""
    width = _LANES
    while width > 1:
        width //= 2
        kind = ir.VectorType(_INT, width)
        first, second = (kind(list(range(start, start + width))) for start in (0, width))
        vector = builder.fadd(
            builder.shuffle_vector(vector, vector, first), builder.shuffle_vector(vector, vector, second)
        )
    return builder.extract_element(vector, _INT(0))


@dataclass(frozen=True, slots=True)
class _Operands:
    """Addresses of the rows at hand, and where the sum of each pair goes."""

    weights: list[Value]
    activations: list[Value]
    sums: dict[tuple[int, int], Value]
    num_steps: Value


def _emit_loop(builder: Builder, form: _Format, operands: _Operands) -> None:
    """Loop over the steps with one vector of sums for each pair of a weight row and an activation row."""
    entry, loop, after = builder.block, builder.append_basic_block("steps"), builder.append_basic_block("sums")
    builder.branch(loop)
    builder.position_at_end(loop)
    step = builder.phi(_INDEX)
    sums = {pair: builder.phi(_FLOATS) for pair in operands.sums}
    added = _emit_step(builder, form, operands, step, sums)
    following = builder.add(step, _INDEX(1))
    step.add_incoming(_INDEX(0), entry)
    step.add_incoming(following, loop)
    for pair, phi in sums.items():
        phi.add_incoming(_FLOATS([0.0] * _LANES), entry)
        phi.add_incoming(added[pair], loop)
    builder.cbranch(builder.icmp_unsigned("<", following, operands.num_steps), loop, after)
    builder.position_at_end(after)
    for pair, address in operands.sums.items():
        builder.store(_sum_lanes(builder, added[pair]), address)


def _emit_step(
    builder: Builder, form: _Format, operands: _Operands, step: Value, sums: dict[tuple[int, int], Value]
) -> dict[tuple[int, int], Value]:
    """The sums after one more step."""
    added = dict(sums)
    weights = []
    for row in operands.weights:
        here = builder.gep(row, [builder.mul(step, _INDEX(form.step_bytes))])
        for line in range(0, form.step_bytes, _CACHE_LINE):
            _prefetch(builder, builder.gep(here, [_INDEX(form.ahead_bytes + line)]))
        weights.append(form.load(builder, here))
    for t, row in enumerate(operands.activations):
        here = builder.gep(row, [builder.mul(step, _INDEX(4 * STEP))])
        for half, activations in enumerate(_load_float32(builder, here)):
            for r in range(len(weights)):
                added[r, t] = _multiply_add(builder, weights[r][half], activations, added[r, t])
    return added


@dataclass(frozen=True, slots=True)
class _Matrices:
    """Addresses and sizes of a product's three matrices."""

    activations: Value
    weights: Value
    products: Value
    num_steps: Value
    num_outputs: Value

    def operands(self, builder: Builder, form: _Format, row: Value, token: Value, num_tokens: int) -> _Operands:
        """The rows of weights from `row`, the rows of activations from `token`."""

        def address(base: Value, first: Value, index: int, row_bytes: Value) -> Value:
            return builder.gep(base, [builder.mul(builder.add(first, _INDEX(index)), row_bytes)])

        weight_bytes = builder.mul(self.num_steps, _INDEX(form.step_bytes))
        activation_bytes = builder.mul(self.num_steps, _INDEX(4 * STEP))
        product_bytes = builder.mul(self.num_outputs, _INDEX(4))
        sums = {}
        for t in range(num_tokens):
            products = address(self.products, token, t, product_bytes)
            for r in range(ROWS_PER_BLOCK):
                sums[r, t] = builder.bitcast(address(products, row, r, _INDEX(4)), _FLOAT.as_pointer())
        return _Operands(
            [address(self.weights, row, r, weight_bytes) for r in range(ROWS_PER_BLOCK)],
            [address(self.activations, token, t, activation_bytes) for t in range(num_tokens)],
            sums,
            self.num_steps,
        )


@intrinsic
def _block(typing_context, activations, weights, products, where):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Fill products[token : token + num_tokens, row : row + ROWS_PER_BLOCK], where being (row, token, num_tokens).

    num_tokens is at most _MOST_TOKENS.
    """
    form = _FORMATS[weights.dtype]

    def generate(context, builder, signature, values):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        arrays = [context.make_array(signature.args[i])(context, builder, values[i]) for i in range(3)]
        row, token, num_tokens = (builder.extract_value(values[3], i) for i in range(3))
        addresses = [builder.bitcast(array.data, _BYTE.as_pointer()) for array in arrays]
        num_inputs, num_outputs = (cgutils.unpack_tuple(builder, arrays[i].shape)[1] for i in (0, 2))
        matrices = _Matrices(*addresses, builder.udiv(num_inputs, _INDEX(STEP)), num_outputs)
        done = builder.append_basic_block("done")
        switch = builder.switch(num_tokens, done)
        for count in range(1, _MOST_TOKENS + 1):
            case = builder.append_basic_block(f"tokens{count}")
            switch.add_case(_INDEX(count), case)
            with builder.goto_block(case):
                _emit_loop(builder, form, matrices.operands(builder, form, row, token, count))
                builder.branch(done)
        builder.position_at_end(done)
        return context.get_dummy_value()

    return types.void(activations, weights, products, types.UniTuple(types.int64, 3)), generate


@njit(cache=True)
def multiply_rows(activations, weights, products, row):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """The columns row..row + ROWS_PER_BLOCK - 1 of `multiply`."""
    num_tokens = activations.shape[0]
    per_turn = _tokens_per_turn(num_tokens)
    for token in range(0, num_tokens, per_turn):
        _block(activations, weights, products, (row, token, min(per_turn, num_tokens - token)))


@njit(parallel=True, cache=True)
def multiply(activations, weights, products):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """products (T, N) = activations (T, D) times the rows of weights (N, ...), in any format; all C-contiguous."""
    num_tokens, num_outputs = products.shape
    if num_tokens >= _MANY_TOKENS:
        _multiply_tiles(activations, weights, products)
        return
    for block in prange((num_outputs + ROWS_PER_BLOCK - 1) // ROWS_PER_BLOCK):
        # The last block of an odd number of rows begins a row earlier: that row is written twice, with the same bits.
        multiply_rows(activations, weights, products, min(ROWS_PER_BLOCK * block, num_outputs - ROWS_PER_BLOCK))


@njit(parallel=True, cache=True)
def _multiply_tiles(activations, weights, products):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The same for many rows: each tile of weights is read from memory once, and a turn's activations once a tile."""
    num_tokens, num_outputs = products.shape
    per_turn = _tokens_per_turn(num_tokens)
    for tile in prange((num_outputs + _ROWS_PER_TILE - 1) // _ROWS_PER_TILE):
        first, end = tile * _ROWS_PER_TILE, min((tile + 1) * _ROWS_PER_TILE, num_outputs)
        for token in range(0, num_tokens, per_turn):
            for row in range(first, end, ROWS_PER_BLOCK):
                where = min(row, num_outputs - ROWS_PER_BLOCK), token, min(per_turn, num_tokens - token)
                _block(activations, weights, products, where)


@njit(cache=True)
def _tokens_per_turn(num_tokens):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """As even as the turns can be."""
    num_turns = (num_tokens + _MOST_TOKENS - 1) // _MOST_TOKENS
    return (num_tokens + num_turns - 1) // num_turns
