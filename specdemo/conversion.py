"""A GGUF file to an ordinary transformers folder. Knows no network and no catalogue."""

from pathlib import Path

import torch
from huggingface_hub.utils import logging as hub_logging
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from specdemo.gguf_index import write_index


def convert_gguf(path: Path, folder: Path) -> None:
    """Write float32 safetensors, config and tokenizer of the GGUF file `path` into `folder`, and index the file."""
    quiet_libraries()
    source, file_name = str(path.parent), path.name
    loaded = AutoModelForCausalLM.from_pretrained(source, gguf_file=file_name, dtype=torch.float32)
    config = AutoConfig.from_pretrained(source, gguf_file=file_name)
    config.dtype = torch.float32
    # The loaded model counts as quantised and refuses to be saved; a fresh one with the same weights does not.
    model = AutoModelForCausalLM.from_config(config)
    model.load_state_dict(loaded.state_dict())
    model.generation_config = loaded.generation_config
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source, gguf_file=file_name).save_pretrained(folder)
    write_index(path)


def quiet_libraries() -> None:
    """Silence transformers' and the Hub's own bars and advice, which would run between ours."""
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    hub_logging.set_verbosity_error()
