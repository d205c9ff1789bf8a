"""Scripted curves over the batch size for tests of the page: the gain shrinks as the batch grows and crosses 1."""

from collections.abc import Iterator

from specdemo.batches import BatchPoint, BatchRequest, BatchUpdate
from specdemo.proofs import Step

SPEEDUPS = {1: 2.4, 2: 2.1, 4: 1.7, 8: 1.2, 16: 0.8}
NUM_ROWS = 16


def scripted_batches(request: BatchRequest) -> Iterator[BatchUpdate]:
    """A point for each size, and two steps before it."""
    num_all = 2 * len(request.batch_sizes)
    for index, size in enumerate(request.batch_sizes):
        yield from (Step(2 * index + half, num_all) for half in (1, 2))
        yield scripted_point(size, SPEEDUPS.get(size, 1.0))


def scripted_point(size: int, speedup: float) -> BatchPoint:
    plain = 30.0 * size**0.75
    return BatchPoint(
        batch_size=size,
        plain_tokens_per_second=plain,
        tokens_per_second=plain * speedup,
        plain_seconds_per_token=size / plain,
        seconds_per_token=size / (plain * speedup),
        speedup=speedup,
        low=0.95 * speedup,
        high=1.05 * speedup,
        tokens_per_round=3.2,
        num_identical=NUM_ROWS,
        num_rows=NUM_ROWS,
    )
