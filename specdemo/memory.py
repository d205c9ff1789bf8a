"""What speculation costs besides time: bytes of weights and caches by their shapes, and the most that was ever in use.

Weights and caches are computed: what a device's allocator or the libraries need besides is not among them. The peak is
measured: of the device where the target is on CUDA, else of this process, everything in it included.
"""

import sys
from pathlib import Path

import torch

from specdemo.causal_lm import CausalLM
from specdemo.engine import Engine
from specdemo.llama import LlamaLM
from specdemo.memory_use import MemoryUse

try:
    import resource
except ImportError:  # Windows has none
    resource = None  # type: ignore[assignment]

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_CLEAR_PEAK = "5"  # sets the highest resident size back to the present one; see proc(5)


def memory_of(engine: Engine, drafter: str, num_tokens: int) -> MemoryUse:
    """Makes the drafter where it is not made yet; raises ModelError or SettingsError where it cannot be had."""
    lm, made = engine.target.lm, engine.drafter(drafter)
    peak = peak_bytes(lm.device)
    before = max(0, num_tokens - 1)
    return MemoryUse(
        drafter=drafter,
        num_tokens=num_tokens,
        target_bytes=_held_bytes(lm),
        drafter_bytes=made.memory_bytes,
        target_cache_bytes=lm.cache_bytes(num_tokens),
        target_cache_bytes_per_token=lm.cache_bytes(num_tokens) - lm.cache_bytes(before),
        drafter_cache_bytes=made.cache_bytes(num_tokens),
        drafter_cache_bytes_per_token=made.cache_bytes(num_tokens) - made.cache_bytes(before),
        peak_bytes=peak,
        peak_of="" if peak is None else "device" if lm.device.type == "cuda" else "process",
    )


def peak_bytes(device: torch.device) -> int | None:
    """The most that was in use: allocated on a CUDA device, else resident of this process; None where none can say."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    try:
        lines = _STATUS.read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        if resource is None:
            return None
        # In bytes on macOS, in kilobytes elsewhere.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def reset_peak(device: torch.device) -> bool:
    """Let the peak begin anew from what is in use now; False where the system does not let it."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return True
    try:
        _CLEAR.write_text(_CLEAR_PEAK, encoding="utf-8")
    except OSError:
        return False
    return True


def _held_bytes(lm: CausalLM) -> int:
    """Weights of a target. One in blocks reads long texts with the weights as they were, so both are held."""
    if not isinstance(lm, LlamaLM) or lm.compiled is None or lm.compiled.is_float32:
        return lm.memory_bytes
    whole = lm.layers.layer_bytes * len(lm.layers) + lm.head.weight.nbytes + lm.head.norm.nbytes
    is_tied = lm.head.weight.data_ptr() == lm.embedding.data_ptr()
    return lm.memory_bytes + whole + (0 if is_tied else lm.embedding.nbytes)
