"""Multi-token-prediction checkpoints: every layout that is read is the same drafter, and what is refused."""

import json
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from specdemo.drafters.feature_chain import FeatureChainDrafter
from specdemo.drafters.mtp import load_mtp
from specdemo.errors import ModelError
from specdemo.train.mtp import make
from tests.fakes import VOCAB_SIZE, answer, make_target, plain, rounds_of, run
from tests.students import change_config, change_tensors, read_tensors, write_tensors

VOCABULARY = torch.arange(0, VOCAB_SIZE - 9)  # all but a few words
PROMPT = tuple(range(10, 40))
NORM = torch.ones(128)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A layer that has learnt nothing and hears both of its inputs; no two weights are alike."""
    torch.manual_seed(0)
    student = make(make_target().model, VOCABULARY, Namespace(unrolled=4))
    for weight in student.parameters():
        weight.data += 0.1 * torch.rand_like(weight)
    student.save(tmp_path)
    return tmp_path


def in_qwens(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {f"mtp.{name}": tensor for name, tensor in tensors.items()}


def in_speculators(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    names = {"fc": "input_proj", "norm": "final_layernorm"}
    names |= {"pre_fc_norm_hidden": "hidden_layernorm", "pre_fc_norm_embedding": "token_layernorm"}
    renamed = {name.removeprefix("layers.0."): tensor for name, tensor in tensors.items()}
    stems = {name: name.removesuffix(".weight") for name in renamed}
    return {f"mtp_layers.0.{names.get(stems[name], stems[name])}.weight": tensor for name, tensor in renamed.items()}


def in_deepseeks(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Inside the target's own files, with copies of its embedding and head."""
    names = {
        "fc": "eh_proj",
        "norm": "shared_head.norm",
        "pre_fc_norm_hidden": "hnorm",
        "pre_fc_norm_embedding": "enorm",
    }
    model = make_target().model
    whole = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    copies = {"shared_head.head": model.lm_head.weight, "embed_tokens": model.model.embed_tokens.weight}
    whole |= {f"model.layers.3.{name}.weight": tensor.detach().clone() for name, tensor in copies.items()}
    for name, tensor in tensors.items():
        stem = name.removeprefix("layers.0.").removesuffix(".weight")
        whole[f"model.layers.3.{names.get(stem, stem)}.weight"] = tensor
    return whole


LAYOUTS: dict[str, Callable[[dict[str, Tensor]], dict[str, Tensor]]] = {
    "qwen": in_qwens,
    "speculators": in_speculators,
    "deepseek": in_deepseeks,
}


def bare_tensors(folder: Path) -> dict[str, Tensor]:
    """Those of the layer alone, by Qwen's names without the prefix."""
    return {k.removeprefix("mtp."): v for k, v in read_tensors(folder).items() if k.startswith("mtp.")}


def first_logits(drafter: FeatureChainDrafter) -> Tensor:
    """What the drafter's first two steps give behind the prompt, from the target's own hidden states."""
    cell, ids = drafter.cell, torch.tensor(PROMPT)
    with torch.inference_mode():
        features = make_target().model.model(ids[None]).last_hidden_state[0]
        rows, residual = cell.combine(cell.embedding[ids[1:]], cell.read_features(features[:-1]))
        query, keys, values = cell.layer.heads(rows, drafter.rotary.rows(0, len(rows)))
        goes_on, logits = cell.finish(cell.layer.finish(residual[-1:], query[:, -1:], keys, values))
        return torch.cat([goes_on, logits], -1)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_the_same_drafter(layout: str, folder: Path) -> None:
    tensors = bare_tensors(folder)
    write_tensors(folder, in_qwens(tensors))
    reference = load_mtp(folder, make_target())
    write_tensors(folder, LAYOUTS[layout](tensors))
    if layout == "speculators":
        inner = json.loads((folder / "config.json").read_text())
        outer = {"speculators_model_type": "mtp", "transformer_layer_config": inner, "num_nextn_predict_layers": 1}
        (folder / "config.json").write_text(json.dumps(outer))
    found = load_mtp(folder, make_target())
    assert found.feature_layers == (3,)
    assert torch.equal(first_logits(found), first_logits(reference))
    assert found.memory_bytes == reference.memory_bytes, "what is the target's own is shared with it"
    settings = {"num_draft_tokens": 4, "max_new_tokens": 24}
    events, expected = (run(make_target(), drafter, PROMPT, **settings) for drafter in (found, reference))
    drafted = [event.draft_token_ids for event in rounds_of(events)]
    assert drafted == [event.draft_token_ids for event in rounds_of(expected)]
    assert answer(events) == plain(make_target(), PROMPT, max_new_tokens=24)


def test_queries_and_keys_may_have_norms_of_their_own(folder: Path) -> None:
    before = first_logits(load_mtp(folder, make_target()))
    block = "mtp.layers.0.self_attn"
    change_tensors(folder, **{f"{block}.q_norm.weight": torch.ones(32), f"{block}.k_norm.weight": torch.ones(32)})
    drafter = load_mtp(folder, make_target())
    assert drafter.cell.layer.head_norms is not None
    assert not torch.equal(first_logits(drafter), before)


def test_embeddings_and_a_head_of_its_own_are_read_and_counted(folder: Path) -> None:
    write_tensors(folder, in_qwens(bare_tensors(folder)))
    shared = load_mtp(folder, make_target())
    model = make_target().model
    embedding, head = model.model.embed_tokens.weight.detach(), model.lm_head.weight.detach()
    change_tensors(folder, **{"embed_tokens.weight": embedding.flip(0), "lm_head.weight": head.flip(0).contiguous()})
    own = load_mtp(folder, make_target())
    assert torch.equal(own.cell.embedding, embedding.flip(0))
    assert torch.equal(own.cell.head.rows.weight, head.flip(0))
    assert own.memory_bytes == shared.memory_bytes + embedding.nbytes + head.nbytes


def rename(folder: Path, old: str, new: str) -> None:
    tensor = read_tensors(folder)[old]
    change_tensors(folder, **{old: None, new: tensor})


BLOCK = "mtp.layers.0"
REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "no folder": (lambda folder: (folder / "config.json").unlink(), "no config.json"),
    "no layer": (
        lambda folder: change_tensors(folder, **{"mtp.fc.weight": None}),
        "holds no multi-token-prediction layer",
    ),
    "a layer behind another target's last": (
        lambda folder: rename(folder, "mtp.fc.weight", "model.layers.4.eh_proj.weight"),
        "for a target of 3 layers",
    ),
    "a missing tensor": (lambda folder: change_tensors(folder, **{"mtp.norm.weight": None}), "missing ['norm.weight']"),
    "an unknown tensor": (lambda folder: change_tensors(folder, extra=NORM), "unexpected ['extra']"),
    "a head without a map": (
        lambda folder: change_tensors(folder, d2t=None, **{"lm_head.weight": torch.zeros(250, 128)}),
        "no map",
    ),
    "ids in place of offsets": (
        lambda folder: change_tensors(folder, d2t=torch.arange(10, VOCAB_SIZE + 1)),
        "must hold offsets",
    ),
    "another target's sizes": (
        lambda folder: change_tensors(folder, **{"mtp.fc.weight": torch.zeros(64, 128)}),
        "fc.weight is (64, 128) and not (128, 256)",
    ),
    "heads that config.json does not have": (
        lambda folder: change_config(folder, head_dim=16),
        "q_proj.weight is (128, 128) and not (64, 128)",
    ),
    "latent attention": (
        lambda folder: change_tensors(folder, **{f"{BLOCK}.self_attn.kv_a_proj_with_mqa.weight": NORM}),
        "multi-head latent attention",
    ),
    "experts": (
        lambda folder: change_tensors(folder, **{f"{BLOCK}.mlp.experts.0.up_proj.weight": NORM}),
        "a mixture of experts",
    ),
    "biases": (
        lambda folder: change_tensors(folder, **{f"{BLOCK}.self_attn.q_proj.bias": NORM}),
        "attention with biases",
    ),
    "a gate beside the queries": (
        lambda folder: change_tensors(folder, **{f"{BLOCK}.self_attn.q_proj.weight": torch.zeros(256, 128)}),
        "a gate beside its queries",
    ),
    "partial rotary": (
        lambda folder: change_config(folder, partial_rotary_factor=0.5),
        "rotary positions in a part of each head",
    ),
    "partial rotary, as transformers 5 writes it": (
        lambda folder: change_config(
            folder, rope_parameters={"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25}
        ),
        "rotary positions in a part of each head",
    ),
    "several layers": (
        lambda folder: change_tensors(folder, **{"mtp.layers.1.input_layernorm.weight": NORM}),
        "others behind it",
    ),
    "several layers by its config": (
        lambda folder: change_config(folder, num_nextn_predict_layers=2),
        "others behind it",
    ),
}


@pytest.mark.parametrize(("damage", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_what_does_not_fit_is_refused_in_a_sentence(
    damage: Callable[[Path], None], sentence: str, folder: Path
) -> None:
    damage(folder)
    with pytest.raises(ModelError) as caught:
        load_mtp(folder, make_target())
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
