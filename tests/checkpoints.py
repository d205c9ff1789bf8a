"""A drafter's folder, changed by hand, and the tiny target's answers as training reads them."""

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from specdemo.train.batches import Batch, Batches, places_of
from specdemo.train.corpus import Conversation
from specdemo.train.teacher import top_candidates
from tests.fakes import VOCAB_SIZE, make_target


def change_config(folder: Path, **changes: object) -> None:
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**values, **changes}))


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


def labelled(prompt: Sequence[int], answer: Sequence[int], vocabulary: Tensor, layers: Sequence[int]) -> Batch:
    """Prompt and answer with the target's hidden states at `layers` and its choices, of which it learns four ahead."""
    model, ids = make_target().model, torch.tensor([*prompt, *answer])
    with torch.no_grad():
        states = model.model(ids[None], output_hidden_states=True).hidden_states
        top_ids, logits = top_candidates(states[-1][0], model.lm_head.weight, 16)
    hidden = torch.stack([states[i][0] for i in layers], 1)
    made = Conversation(ids, len(prompt), 0.0, 0, top_ids, logits.softmax(-1), hidden)
    batch = Batches(places_of(vocabulary, VOCAB_SIZE), 1000, 1000, 4, with_hidden=True).make([made], None)
    return Batch(batch.ids, batch.labels, hidden[None])
