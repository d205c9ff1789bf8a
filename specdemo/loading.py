"""A target by name: fetched if it is the embedded one, else from a folder or the Hub. Knows no drafter."""

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from specdemo.catalog import TARGETS
from specdemo.conversion import quiet_libraries
from specdemo.errors import ModelError
from specdemo.target import Target
from specdemo.weights import Progress, fetch

_KNOWN = f"known are {', '.join(TARGETS)}, or give the folder or the repository (OWNER/NAME) of a causal language model"


def load_named_target(name: str, progress: Progress) -> Target:
    """The target of a catalogue name (fetched where needed), a local folder or a Hub repository.

    Float32 on the CPU, bfloat16 on CUDA. Raises ModelError in one sentence.
    """
    if name not in TARGETS:
        return _load_folder(name, name, "unpinned", None)
    entry = TARGETS[name]
    folder = fetch(entry, progress)
    progress(f"Loading {entry.title}.", None)
    return _load_folder(name, str(folder), f"sha256:{entry.sha256}", folder / entry.file_name)


def _load_folder(name: str, source: str, revision: str, gguf_path: Path | None) -> Target:
    if "/" not in source and not Path(source).is_dir():
        raise ModelError(f"the target is {name!r}; {_KNOWN}.")
    quiet_libraries()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    try:
        model = AutoModelForCausalLM.from_pretrained(source, dtype=dtype).to(device)
        tokenizer = AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError) as error:
        first_line = str(error).strip().splitlines()[0].rstrip(".")
        raise ModelError(f"the target {name!r} cannot be loaded: {first_line}; {_KNOWN}.") from error
    return Target.from_model(name, model, tokenizer, revision=revision, gguf_path=gguf_path)
