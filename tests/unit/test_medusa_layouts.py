"""Medusa heads in the published layout and in ours: drafts are as defined, and planted ones are all accepted."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from specdemo.drafters.medusa import load_medusa
from specdemo.errors import ModelError
from specdemo.sampling import Sampler
from specdemo.settings import DecodeSettings
from specdemo.target import Target
from tests.fakes import VOCAB_SIZE, answer, make_model, make_target, plain, rounds_of, run, wrap

SIZE = 128
PROMPT = tuple(range(10, 40))


@torch.no_grad()
def last_hidden(target: Target, ids: tuple[int, ...]) -> Tensor:
    """Behind the final norm, by transformers' own pass."""
    return target.model.model(torch.tensor([ids]), output_hidden_states=True).hidden_states[-1][0]


def publish(folder: Path, tensors: dict[str, Tensor], file_name: str = "medusa_lm_head.pt") -> Path:
    """Write heads as they are published; the numbers in config.json are not those of the tensors, as happens."""
    folder.mkdir(exist_ok=True)
    values = {"medusa_num_heads": 2, "medusa_num_layers": 1, "base_model_name_or_path": "somewhere/tiny"}
    (folder / "config.json").write_text(json.dumps(values))
    if file_name.endswith(".pt"):
        torch.save(tensors, folder / file_name)
    else:
        save_file(tensors, folder / file_name)
    return folder


def published_heads(num_heads: int, num_blocks: int, vocab_size: int = VOCAB_SIZE) -> dict[str, Tensor]:
    """Random heads under the published names."""
    torch.manual_seed(5)
    tensors = {}
    for head in range(num_heads):
        for block in range(num_blocks):
            tensors[f"{head}.{block}.linear.weight"] = 0.05 * torch.randn(SIZE, SIZE)
            tensors[f"{head}.{block}.linear.bias"] = 0.5 * torch.randn(SIZE)
        tensors[f"{head}.{num_blocks}.weight"] = 0.15 * torch.randn(vocab_size, SIZE)
    return tensors


@pytest.mark.parametrize("num_blocks", [0, 1, 2])
@pytest.mark.parametrize("file_name", ["medusa_lm_head.pt", "medusa_lm_head.safetensors"])
def test_published_heads_give_the_drafts_they_should(file_name: str, num_blocks: int, tmp_path: Path) -> None:
    """Against the definition, in plain operations on transformers' own hidden states."""
    tensors = published_heads(3, num_blocks)
    target = make_target()
    drafter = load_medusa(publish(tmp_path, tensors, file_name), target)
    events = run(target, drafter, PROMPT, num_draft_tokens=3, max_new_tokens=20)
    found, _ = answer(events)
    assert found == plain(target, PROMPT, max_new_tokens=20)[0]
    ids, num_same, num_drafts = PROMPT, 0, 0
    for event in rounds_of(events):
        feature = last_hidden(target, ids)[len(ids) - 2]  # the newest token is committed, but not read yet
        for head, token_id in enumerate(event.draft_token_ids):
            x = feature
            for block in range(num_blocks):
                weight, bias = (tensors[f"{head}.{block}.linear.{name}"] for name in ("weight", "bias"))
                x = x + F.silu(weight @ x + bias)
            logits = tensors[f"{head}.{num_blocks}.weight"] @ x
            assert logits[token_id] > logits.max() - 0.1 * logits.std(), "beyond what eight bits round away"
            num_same += int(logits.argmax()) == token_id
            num_drafts += 1
        ids = (*ids, *event.emitted_token_ids)
    assert num_same > 0.8 * num_drafts


def test_shared_words_multiplied_out_are_the_published_layout(tmp_path: Path) -> None:
    target, num_heads, num_words = make_target(), 3, 200
    shared = published_heads(num_heads, 1, SIZE) | {
        "lm_head.weight": torch.randn(num_words, SIZE),
        "d2t": torch.arange(num_words) // 4,  # every fifth word is left out
    }
    ids = torch.arange(num_words) + shared["d2t"]
    multiplied = {name: tensor for name, tensor in shared.items() if name[0].isdecimal()}
    for head in range(num_heads):
        rows = torch.zeros(VOCAB_SIZE, SIZE)
        rows[ids] = shared["lm_head.weight"] @ shared[f"{head}.1.weight"]
        multiplied[f"{head}.1.weight"] = rows
    feature = last_hidden(target, PROMPT)[-1:]
    found, expected = (
        load_medusa(publish(tmp_path / name, tensors), target).logits(feature, num_heads)
        for name, tensors in (("shared", shared), ("multiplied", multiplied))
    )
    assert (found - expected)[:, ids].std() / expected[:, ids].std() < 0.03, "eight bits round either"
    assert found.isfinite().sum() == num_heads * num_words


def test_the_laws_that_are_handed_over_are_each_heads_own(tmp_path: Path) -> None:
    target = make_target()
    drafter = load_medusa(publish(tmp_path, published_heads(3, 1)), target)
    settings = DecodeSettings(temperature=0.7, rule="rejection", seed=4)
    session = target.open(drafter.feature_layers)
    assert list(session.prefill(PROMPT[:-1])) == [len(PROMPT) - 1]
    draft = drafter.open(session.session, PROMPT, Sampler(settings, VOCAB_SIZE)).propose(3)
    expected = drafter.logits(last_hidden(target, PROMPT)[-2:-1], 3).div(0.7).softmax(-1)
    torch.testing.assert_close(draft.probs, expected, rtol=1e-2, atol=1e-4)
    assert min(draft.token_probs()) > 0


CYCLE = 16


def cyclic_target() -> Target:
    """After token i it always says token (5 i + 3) mod 16, whose period is 16: its layers add nothing."""
    model = make_model("llama", vocab_size=CYCLE)
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight.data.zero_()
        layer.mlp.down_proj.weight.data.zero_()
    model.model.embed_tokens.weight.data = torch.eye(CYCLE, SIZE)
    model.lm_head.weight.data = F.pad(successors(1), (0, SIZE - CYCLE))
    return wrap(model)


def successors(steps: int) -> Tensor:
    """A 1 at (what follows token i in so many steps, i). -> (16, 16)."""
    step = torch.zeros(CYCLE, CYCLE)
    ids = torch.arange(CYCLE)
    step[(5 * ids + 3) % CYCLE, ids] = 1.0
    return torch.matrix_power(step, steps)


def planted(layout: str, num_heads: int) -> dict[str, Tensor]:
    """Heads that know the cycle; from the newest token that was read, head k looks k + 2 steps ahead."""
    tensors = {}
    for head in range(num_heads):
        tensors |= {f"{head}.0.linear.weight": torch.zeros(SIZE, SIZE), f"{head}.0.linear.bias": torch.zeros(SIZE)}
        ahead = F.pad(successors(head + 2), (0, SIZE - CYCLE))
        tensors[f"{head}.1.weight"] = ahead if layout == "published" else F.pad(ahead, (0, 0, 0, SIZE - CYCLE))
    if layout == "shared":
        ids = torch.arange(CYCLE)
        backwards = ids.flip(0)
        tensors |= {"lm_head.weight": torch.eye(CYCLE, SIZE)[backwards], "d2t": backwards - ids}
    return tensors


@pytest.mark.parametrize("layout", ["published", "shared"])
@pytest.mark.parametrize("k", [1, 2, 4, 8])
def test_heads_that_know_the_answer_have_every_draft_accepted(k: int, layout: str, tmp_path: Path) -> None:
    target = cyclic_target()
    drafter = load_medusa(publish(tmp_path, planted(layout, 8)), target)
    prompt = (0, 3, 2)
    events = run(target, drafter, prompt, num_draft_tokens=k, max_new_tokens=40)
    assert answer(events) == plain(target, prompt, max_new_tokens=40)
    assert len(set(answer(events)[0])) == CYCLE
    for event in rounds_of(events):
        assert event.num_accepted == len(event.draft_token_ids)
    assert len(rounds_of(events)[0].draft_token_ids) == k


def test_heads_for_another_vocabulary_are_refused(tmp_path: Path) -> None:
    publish(tmp_path, published_heads(2, 1, VOCAB_SIZE + 5))
    with pytest.raises(ModelError, match=r"0\.1\.weight of shape \[264, 128\]; this target needs \[259, 128\]"):
        load_medusa(tmp_path, make_target())


def test_a_file_that_holds_more_than_tensors_is_not_unpickled(tmp_path: Path) -> None:
    publish(tmp_path, {"0.0.weight": Path("run me")})  # type: ignore[dict-item]
    with pytest.raises(ModelError, match="cannot be read"):
        load_medusa(tmp_path, make_target())
