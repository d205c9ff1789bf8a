"""Block drafters that know one answer by heart, and the layouts they are published in."""

import json
from argparse import Namespace
from functools import cache
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from specdemo.train.batches import Batch
from specdemo.train.block import BLOCK_SIZE, DFLASH, DSPARK, BlockStudent
from specdemo.train.losses import distance
from tests.fakes import VOCAB_SIZE, make_target
from tests.students import change_config, first_choices, labelled, learn

LAYERS = [0, 1, 2]
VOCABULARY = torch.arange(VOCAB_SIZE)
PROMPT = tuple(range(20, 50))


@cache
def block_student(kind: str) -> BlockStudent:
    """Knows one answer by heart, so that its drafts are accepted.

    "z-lab": slot k predicts the k-th token behind the newest, the newest token's own slot nothing.
    """
    torch.manual_seed(0)
    target = make_target().model
    family = DSPARK if kind == "dspark" else DFLASH
    made = family.make(target, VOCABULARY, Namespace(layers=[1, 2], start=None))
    made._embedding, made._head = target.get_input_embeddings().weight.detach(), target.lm_head.weight.detach()
    # The confidence head learns from the other choices too.
    batch = known() if kind == "dspark" else first_choices(known())
    learn(made, lambda: _z_lab_loss(made, batch) if kind == "z-lab" else made.loss(batch, 1.5, 0.0), 160)
    return made


def known() -> Batch:
    return labelled(PROMPT, LAYERS, VOCABULARY, BLOCK_SIZE)


def _z_lab_loss(student: BlockStudent, batch: Batch) -> Tensor:
    words = student(batch)[0].unbind(1)
    return sum(distance(words[k], *batch.labels.step(k - 1), 1.5, 0.0) for k in range(1, BLOCK_SIZE)) / BLOCK_SIZE


def saved(student: BlockStudent, folder: Path) -> Path:
    """In the layout of speculators, as training writes it."""
    student.save(folder)
    change_config(folder, aux_hidden_state_layer_ids=LAYERS)
    return folder


def tensors_of(student: BlockStudent) -> dict[str, Tensor]:
    return {k: v.detach().half().contiguous() for k, v in student.state_dict().items() if k != "vocabulary"}


def write(folder: Path, values: dict, tensors: dict[str, Tensor]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(values))
    save_file(tensors, folder / "model.safetensors")
    return folder


def layer_values(student: BlockStudent) -> dict:
    return dict(student._values("dflash")["transformer_layer_config"])  # type: ignore[call-overload]


def as_deepspec(student: BlockStudent, folder: Path) -> Path:
    """Layers by their output, -1 the embedding; the frozen embedding and head are stored."""
    model = make_target().model
    ids = [layer - 1 for layer in LAYERS]
    values = {
        **layer_values(student),
        "architectures": ["Qwen3DSparkModel"],
        "block_size": BLOCK_SIZE,
        "target_layer_ids": ids,
        "mask_token_id": student.mask_token_id,
        "num_anchors": 512,
        "markov_rank": 64,
        "markov_head_type": "vanilla",
        "enable_confidence_head": True,
        "confidence_head_with_markov": True,
        "num_target_layers": 3,
        "tie_word_embeddings": False,
    }
    own = {"embed_tokens.weight": model.get_input_embeddings().weight, "lm_head.weight": model.lm_head.weight}
    return write(folder, values, tensors_of(student) | {k: v.detach().clone() for k, v in own.items()})


def as_z_lab(student: BlockStudent, folder: Path) -> Path:
    """Neither embedding nor head; the settings of the block among `dflash_config`."""
    own = {
        "block_size": BLOCK_SIZE,
        "mask_token_id": student.mask_token_id,
        "target_layer_ids": [layer - 1 for layer in LAYERS],
    }
    values = {**layer_values(student), "architectures": ["DFlashDraftModel"], "dflash_config": own}
    return write(folder, values, tensors_of(student))


def as_specforge(student: BlockStudent, folder: Path) -> Path:
    """DSpark settings among `dflash_config`, the older name of the Markov head."""
    own = {
        "projector_type": "dspark",
        "mask_token_id": student.mask_token_id,
        "target_layer_ids": [layer - 1 for layer in LAYERS],
    }
    values = {
        **layer_values(student),
        "architectures": ["DSparkDraftModel"],
        "block_size": BLOCK_SIZE,
        "dflash_config": own,
    }
    tensors = {k.replace("markov_head.", "logit_head."): v for k, v in tensors_of(student).items()}
    return write(folder, values, tensors)
