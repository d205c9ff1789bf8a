"""Whether a pair fits this machine: memory by the shapes of its tensors, disk, device."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from huggingface_hub import constants

from specdemo.findings import Finding
from specdemo.places import Seen
from specdemo.preflight.facts import TargetFacts

_NUM_TOKENS = 4096
"""Of the text whose keys and values the estimate counts, where the context is as long."""

_TIGHT = 0.9
_MEMINFO = Path("/proc/meminfo")
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def check_device() -> Finding:
    """What it would run on."""
    if not torch.cuda.is_available():
        return Finding(
            "ok", "device", f"torch {torch.__version__} has no CUDA device here: it runs on the CPU, in float32."
        )
    names = ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
    return Finding("ok", "device", f"torch {torch.__version__} with CUDA {torch.version.cuda} on {names}: bfloat16.")


def check_memory(facts: TargetFacts | None, drafter: Seen | None) -> Iterator[Finding]:
    """An estimate beside what is free."""
    places = [seen for seen in (facts.seen if facts else None, drafter) if seen is not None and seen.headers]
    if not places:
        return
    needed = sum(weight_bytes(seen) for seen in places) + (_cache_bytes(facts) if facts else 0)
    on_gpu = torch.cuda.is_available()
    free = free_gpu_bytes() if on_gpu else free_bytes()
    if free is None:
        yield Finding(
            "ok", "memory", f"it takes about {_size(needed)} of memory; how much is free cannot be told here."
        )
        return
    where = "GPU memory" if on_gpu else "memory"
    sentence = f"it takes about {_size(needed)} of {where}, and {_size(free)} are free"
    if needed <= free:
        yield Finding("warning" if needed > _TIGHT * free else "ok", "memory", f"{sentence}.")
    elif on_gpu and needed <= free + (free_bytes() or 0):
        yield Finding("warning", "memory", f"{sentence}: some layers stay in the machine's memory, which is slow.")
    else:
        yield Finding("refusal", "memory", f"{sentence}; choose a smaller model or free some.")


def check_disk(places: Sequence[Seen]) -> Iterator[Finding]:
    """What is still to be downloaded beside what the disk has."""
    missing = [seen.missing_bytes for seen in places]
    if any(size is None for size in missing):
        yield Finding(
            "warning", "disk", "the Hub does not say how large the files are, so free space was not compared."
        )
        return
    needed = sum(size or 0 for size in missing)
    if not needed:
        return
    folder = Path(constants.HF_HUB_CACHE)
    free = shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.is_dir())).free
    sentence = f"{_size(needed)} are to be downloaded, and {folder} has {_size(free)} free"
    if needed > free:
        yield Finding("refusal", "disk", f"{sentence}; free some space or set HF_HOME to another disk.")
    else:
        yield Finding("ok", "disk", f"{sentence}.")


def weight_bytes(seen: Seen) -> int:
    """Of all tensors in the type that they would run in."""
    itemsize = 2 if torch.cuda.is_available() else 4
    headers = (seen.headers or {}).values()
    return sum(one.num_elements * itemsize if one.is_float else one.num_bytes for one in headers)


def free_bytes() -> int | None:
    """Of this machine's memory, and no more than a container may use; None where nothing can say."""
    try:
        lines = _MEMINFO.read_text(encoding="utf-8").splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None
    limits = [int(text) for path in _LIMITS if path.is_file() and (text := path.read_text().strip()).isdecimal()]
    return min([free, *limits])


def free_gpu_bytes() -> int:
    """Of all GPUs together."""
    return sum(torch.cuda.mem_get_info(index)[0] for index in range(torch.cuda.device_count()))


def _cache_bytes(facts: TargetFacts) -> int:
    config = facts.config
    heads = int(getattr(config, "num_attention_heads", 1))
    groups = int(getattr(config, "num_key_value_heads", None) or heads)
    size = int(getattr(config, "head_dim", None) or facts.hidden_size // heads)
    num_tokens = min(_NUM_TOKENS, facts.context_length or _NUM_TOKENS)
    return 2 * facts.num_layers * groups * size * num_tokens * (2 if torch.cuda.is_available() else 4)


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e8 else f"{num_bytes / 1e6:.1f} MB"
