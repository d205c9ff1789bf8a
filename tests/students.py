"""What tests of trained drafters share: text with all that the target knows of it, and folders that are made wrong."""

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from specdemo.train.batches import Batch, Batches, places_of
from specdemo.train.corpus import Conversation
from specdemo.train.teacher import top_candidates
from tests.fakes import VOCAB_SIZE, make_target, plain

NUM_TOKENS = 32


def answer_to(prompt: tuple[int, ...]) -> tuple[int, ...]:
    """What the tiny target answers."""
    return plain(make_target(), prompt, max_new_tokens=NUM_TOKENS)[0]


def labelled(prompt: tuple[int, ...], layers: Sequence[int], vocabulary: Tensor, num_steps: int) -> Batch:
    """A prompt and its answer with the target's hidden states and choices, as the training reads it."""
    model, ids = make_target().model, torch.tensor((*prompt, *answer_to(prompt)))
    with torch.no_grad():
        states = model.model(ids[None], output_hidden_states=True).hidden_states
        top_ids, logits = top_candidates(states[-1][0], model.lm_head.weight, 16)
    hidden = torch.stack([states[i][0] for i in layers], 1)
    made = Conversation(ids, len(prompt), 0.0, 0, top_ids, logits.softmax(-1), hidden)
    batch = Batches(places_of(vocabulary, VOCAB_SIZE), 1000, 1000, num_steps, with_hidden=True).make([made], None)
    return Batch(batch.ids, batch.labels, hidden[None])


def config_of(folder: Path) -> dict:
    return json.loads((folder / "config.json").read_text())


def change_config(folder: Path, **changes: object) -> None:
    """Rewrite the configuration; None takes a key away."""
    values = {**config_of(folder), **changes}
    (folder / "config.json").write_text(json.dumps({k: v for k, v in values.items() if v is not None}))


def read_tensors(folder: Path) -> dict[str, Tensor]:
    return {k: v for path in folder.glob("*.safetensors") for k, v in load_file(path).items()}


def write_tensors(folder: Path, tensors: dict[str, Tensor]) -> None:
    """In one file, in place of all others."""
    for path in folder.glob("*.safetensors"):
        path.unlink()
    save_file(tensors, folder / "model.safetensors")


def change_tensors(folder: Path, **changes: Tensor | None) -> None:
    """None takes a tensor away."""
    merged = {**read_tensors(folder), **changes}
    write_tensors(folder, {k: v for k, v in merged.items() if v is not None})
