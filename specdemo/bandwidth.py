"""What a pass waits for: bytes of weights over its time, beside what copying memory reaches on the same device.

A pass of one token reads every weight once. Near the bandwidth of a copy it is memory-bound: only fewer bytes make it
faster. Far below it most of its time is something else, on a GPU the starting of its kernels.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch

from specdemo.events import Round
from specdemo.points import Point
from specdemo.sweeps import PLAIN, HeatResult
from specdemo.target import Target

MEMORY_BOUND = 0.5
"""From this share of a copy's bandwidth on, most of a pass's time is reading: the rest of it is less."""

_COPIED_BYTES = {"cpu": 64 << 20, "cuda": 256 << 20}  # more than a device's caches hold
_TURNS = 7
COLUMNS = ("target_bound", "draft_bound")
CAPTION = (
    "; bound: memory where the weights that plain passes and drafting read, over their time, reach half the bandwidth "
    "of a copy in this run, else launch: starting kernels on a GPU, computing and calls on a CPU"
)


def copy_task(target: Target) -> tuple[int, Callable[[], object]]:
    """(bytes that a copy moves, read and written; the copy) on the target's device."""
    device = target.lm.device
    source = torch.ones(_COPIED_BYTES.get(device.type, _COPIED_BYTES["cpu"]), dtype=torch.uint8, device=device)
    place = torch.empty_like(source)
    return 2 * source.nbytes, lambda: place.copy_(source)


def copy_bandwidth(target: Target) -> float:
    """Bytes a second: the median of a few copies, after a first that is not counted."""
    num_bytes, copy = copy_task(target)
    seconds = []
    for _ in range(_TURNS + 1):
        start = target.clock()
        copy()
        seconds.append(target.clock() - start)
    return num_bytes / sorted(seconds[1:])[_TURNS // 2]


def bound(share: float | None) -> str | None:
    """The word for a share of the copy's bandwidth; None where nothing was read."""
    if share is None:
        return None
    return "memory" if share >= MEMORY_BOUND else "launch"


def bound_row(point: Point, results: Iterable[HeatResult], bandwidth: float) -> dict[str, Any]:
    """Of a point's heats: the plain lane's passes, and the drafting of the lane with the point's K."""
    heats = [result for result in results if _is_of(point, result)]
    plain = [event for result in heats for event in result.lanes[PLAIN] if isinstance(event, Round)]
    drafted = [event for result in heats for event in result.lanes.get(point.k, ()) if isinstance(event, Round)]
    shares = {
        "target": _share(((event.verify_bytes, event.verify_seconds) for event in plain), bandwidth),
        "draft": _share(((event.draft_bytes, event.draft_seconds) for event in drafted), bandwidth),
    }
    return {f"{name}_of_copy_bandwidth": share for name, share in shares.items()} | {
        f"{name}_bound": bound(share) for name, share in shares.items()
    }


def _is_of(point: Point, result: HeatResult) -> bool:
    heat = result.heat
    is_same = (heat.drafter, heat.temperature) == (point.drafter, point.temperature)
    return is_same and heat.rule in ("auto", point.rule)


def _share(passes: Iterable[tuple[int, float]], bandwidth: float) -> float | None:
    """Bytes over seconds of all of them, over `bandwidth`; None where no byte was read."""
    num_bytes, seconds = (sum(values) for values in zip(*passes, strict=True)) if (passes := list(passes)) else (0, 0.0)
    return num_bytes / seconds / bandwidth if num_bytes and seconds else None
