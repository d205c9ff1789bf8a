"""A target by name: fetched if it is the embedded one, else from a folder or the Hub. Knows no drafter.

Nothing that a model brings along is run: neither its code nor a pickle's.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer

from specdemo.catalog import TARGETS
from specdemo.conversion import quiet_libraries
from specdemo.errors import ModelError
from specdemo.places import local_folder, revision_of, split_place
from specdemo.target import Target
from specdemo.weights import Progress, fetch

_KNOWN = f"known are {', '.join(TARGETS)}, or give the folder or the repository (OWNER/NAME) of a causal language model"
_SHARE_OF_A_GPU = 0.8
"""That weights may take of what is free on one, so that caches, a drafter and a pass have room."""

_LARGEST = (".safetensors", ".bin")


def load_named_target(name: str, progress: Progress) -> Target:
    """The target of a catalogue name (fetched where needed), a local folder or a Hub repository.

    Float32 on the CPU, bfloat16 on CUDA, over several GPUs and the machine's memory where one GPU does not hold it.
    Raises ModelError in one sentence.
    """
    if name in TARGETS:
        entry = TARGETS[name]
        folder = fetch(entry, progress)
        progress(f"Loading {entry.title}.", None)
        return load_target(name, folder, f"sha256:{entry.sha256}", folder / entry.file_name)
    try:
        split_place(name)
    except ModelError as error:
        raise ModelError(f"the target {name!r} cannot be loaded: {str(error).partition(';')[0]}; {_KNOWN}.") from None
    folder = local_folder(name, progress)
    progress(f"Loading {name}.", None)
    return load_target(name, folder, revision_of(folder), None)


def load_target(
    name: str, folder: Path, revision: str, gguf_path: Path | None, placement: Mapping[str, Any] | None = None
) -> Target:
    """Load a folder. `placement` is what transformers takes to place weights; None is what this machine asks for."""
    quiet_libraries()
    dtype = torch.bfloat16 if torch.cuda.is_available() else torch.float32
    placement = placement_of(folder) if placement is None else placement
    try:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, trust_remote_code=False, **placement)
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError, KeyError, ImportError, SafetensorError) as error:
        first_line = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise ModelError(f"the target {name!r} cannot be loaded: {first_line}; {_KNOWN}.") from error
    except (torch.cuda.OutOfMemoryError, MemoryError):
        raise ModelError(
            f"the target {name!r} does not fit in the memory that is free; choose a smaller one."
        ) from None
    return Target.from_model(name, model, tokenizer, revision=revision, gguf_path=gguf_path)


def placement_of(folder: Path) -> dict[str, Any]:
    """One GPU where it holds the weights, else accelerate's share for each GPU and the machine's memory."""
    if not torch.cuda.is_available():
        return {}
    stored = sum(path.stat().st_size for path in folder.iterdir() if path.suffix in _LARGEST)
    free = [torch.cuda.mem_get_info(index)[0] for index in range(torch.cuda.device_count())]
    best = max(range(len(free)), key=free.__getitem__)
    fits = stored <= _SHARE_OF_A_GPU * free[best]
    return {"device_map": {"": best} if fits else "auto"}
