"""Gemma 4's assistants: what they read is the target's own, of the committed text alone; published names, strictly."""

import json
from pathlib import Path

import pytest
import torch
from transformers import (
    Gemma4AssistantConfig,
    Gemma4AssistantForCausalLM,
    Gemma4ForCausalLM,
    Gemma4TextConfig,
    PreTrainedModel,
)

from specdemo.causal_lm import TransformersSession
from specdemo.decoding import decode
from specdemo.drafters import make_drafter
from specdemo.drafters.gemma_assistant import GemmaAssistantDrafter
from specdemo.errors import ModelError
from specdemo.events import Round
from specdemo.settings import DecodeSettings
from specdemo.target import Target
from tests.fakes import WatchedDrafter, answer, make_target, plain, rounds_of, run, wrap
from tests.students import change_tensors, read_tensors

NUM_WORDS, SIZE, OWN_SIZE, WINDOW = 16, 64, 32, 8
PROMPT = [(7 * index) % NUM_WORDS for index in range(20)]
_ATTENTION = {
    "vocab_size": NUM_WORDS,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "global_head_dim": 32,
    "sliding_window": WINDOW,
    "max_position_embeddings": 256,
    "initializer_range": 0.15,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
    "num_kv_shared_layers": 2,
}


def make_gemma(seed: int = 0) -> Target:
    """As E2B is built: the last layers have no keys and values of their own, and each layer an embedding of its own."""
    torch.manual_seed(seed)
    config = Gemma4TextConfig(
        **_ATTENTION,
        hidden_size=SIZE,
        num_hidden_layers=4,
        layer_types=["sliding_attention", "full_attention"] * 2,
        hidden_size_per_layer_input=8,
        vocab_size_per_layer_input=NUM_WORDS,
        tie_word_embeddings=False,
    )
    return wrap(Gemma4ForCausalLM(config).eval())


def make_assistant(**changes: object) -> Gemma4AssistantForCausalLM:
    torch.manual_seed(1)
    text = Gemma4TextConfig(
        **_ATTENTION | changes.pop("text", {}),  # type: ignore[operator]
        hidden_size=OWN_SIZE,
        num_hidden_layers=2,
        layer_types=["sliding_attention", "full_attention"],
        hidden_size_per_layer_input=0,
        vocab_size_per_layer_input=0,
    )
    config = Gemma4AssistantConfig(text_config=text, backbone_hidden_size=SIZE, **changes)
    return Gemma4AssistantForCausalLM(config).eval()


def load(folder: Path, target: Target, assistant: PreTrainedModel) -> GemmaAssistantDrafter:
    assistant.save_pretrained(folder)
    drafter = make_drafter(f"mtp:{folder}", target)
    assert isinstance(drafter, GemmaAssistantDrafter)
    return drafter


def test_it_reads_the_keys_and_values_of_the_committed_text_and_no_more(tmp_path: Path) -> None:
    target = make_gemma()
    drafter = load(tmp_path, target, make_assistant())
    assert drafter.layers == {"sliding_attention": 0, "full_attention": 1}
    watched, ids = WatchedDrafter(drafter), list(PROMPT)
    for event in decode(target, watched, PROMPT, DecodeSettings(num_draft_tokens=4, max_new_tokens=14)):
        if not isinstance(event, Round):
            continue
        ids += event.emitted_token_ids
        assert isinstance(watched.target_session, TransformersSession)
        fresh = target.lm.open()
        assert isinstance(fresh, TransformersSession)
        fresh.forward(ids[:-1], 0)
        found, expected = drafter.shared(watched.target_session), drafter.shared(fresh)
        assert found["sliding_attention"][0].shape[2] == WINDOW - 1
        assert found["full_attention"][0].shape[2] == len(ids) - 1
        for kind, both in expected.items():
            for own, wanted in zip(found[kind], both, strict=True):
                torch.testing.assert_close(own, wanted, atol=1e-4, rtol=0)


@pytest.mark.parametrize("prompt", [PROMPT, [3]], ids=len)
@pytest.mark.parametrize(
    "chosen",
    [{}, {"temperature": 1.0, "rule": "coupled", "seed": 2}, {"temperature": 1.0, "rule": "rejection", "seed": 2}],
    ids=["greedy", "coupled", "rejection"],
)
def test_ids_are_plain_decodings(chosen: dict[str, object], prompt: list[int], tmp_path: Path) -> None:
    target = make_gemma()
    drafter = load(tmp_path, target, make_assistant())
    expected = plain(target, prompt, max_new_tokens=16, **chosen)
    for k in (1, 5):
        events = run(target, drafter, prompt, num_draft_tokens=k, max_new_tokens=16, **chosen)
        assert answer(events)[1] == "length"
        if chosen.get("rule") != "rejection":
            assert answer(events) == expected
        assert sum(len(event.draft_token_ids) for event in rounds_of(events)) > 0


def successor_of(word: int) -> int:
    return (5 * word + 3) % NUM_WORDS


def plant(target: Target, assistant: Gemma4AssistantForCausalLM, reads: str) -> None:
    """Let both say a word's successor: the assistant from the newest word, or from the hidden state before it."""
    for name, weight in (*target.model.named_parameters(), *assistant.named_parameters()):
        if name.endswith(("o_proj.weight", "down_proj.weight", "per_layer_projection.weight")):
            weight.data.zero_()
    step = torch.zeros(OWN_SIZE, SIZE)
    heads = torch.zeros(NUM_WORDS, SIZE)
    for word in range(NUM_WORDS):
        step[successor_of(word), word] = heads[successor_of(word), word] = 1.0
    target.model.get_input_embeddings().weight.data = torch.eye(NUM_WORDS, SIZE)
    target.model.get_output_embeddings().weight.data = heads
    assistant.lm_head.weight.data = heads[:, :OWN_SIZE].clone()
    none = torch.zeros(OWN_SIZE, SIZE)
    halves = [torch.eye(OWN_SIZE, SIZE), none] if reads == "embedding" else [none, step]
    assistant.pre_projection.weight.data = torch.cat(halves, 1)
    assistant.post_projection.weight.data = torch.eye(SIZE, OWN_SIZE)


@pytest.mark.parametrize("reads", ["embedding", "hidden state"])
def test_a_planted_assistant_accepts_all_of_every_draft(reads: str, tmp_path: Path) -> None:
    target, assistant = make_gemma(), make_assistant()
    plant(target, assistant, reads)
    drafter = load(tmp_path, target, assistant)
    prompt = [0]
    for _ in range(9):
        prompt.append(successor_of(prompt[-1]))
    expected = plain(target, prompt, max_new_tokens=15)
    for k in (1, 4):
        events = run(target, drafter, prompt, num_draft_tokens=k, max_new_tokens=15)
        assert answer(events) == expected
        assert all(event.num_accepted == len(event.draft_token_ids) for event in rounds_of(events))
        assert len(rounds_of(events)) == -(-15 // (k + 1))


def test_words_that_were_not_scored_are_never_drafted(tmp_path: Path) -> None:
    target = make_gemma()
    assistant = make_assistant(use_ordered_embeddings=True, num_centroids=4, centroid_intermediate_top_k=2)
    assistant.masked_embedding.token_ordering = torch.randperm(NUM_WORDS)
    drafter = load(tmp_path, target, assistant)
    session = target.open(drafter.feature_layers)
    list(session.prefill(PROMPT))
    assert isinstance(session.session, TransformersSession)
    with torch.inference_mode():
        shared = drafter.shared(session.session)
        _, logits = drafter.step(3, session.session.features[-1:], len(PROMPT), shared)
    assert int(logits.isinf().sum()) == NUM_WORDS // 2
    chosen = {"temperature": 1.0, "rule": "coupled", "seed": 4, "max_new_tokens": 12}
    assert answer(run(target, drafter, PROMPT, **chosen)) == plain(target, PROMPT, **chosen)


def test_another_target_is_refused(tmp_path: Path) -> None:
    make_assistant().save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="the target here is a llama"):
        make_drafter(f"mtp:{tmp_path}", make_target())


def test_what_does_not_fit_is_refused_in_one_sentence(tmp_path: Path) -> None:
    target = make_gemma()
    make_assistant(text={"vocab_size": 20, "head_dim": 32, "sliding_window": 16}).save_pretrained(tmp_path / "sizes")
    make_assistant().save_pretrained(tmp_path / "names")
    change_tensors(tmp_path / "names", **{"pre_projection.weight": None, "extra.weight": torch.zeros(1)})
    make_assistant().save_pretrained(tmp_path / "shapes")
    change_tensors(tmp_path / "shapes", **{"post_projection.weight": torch.zeros(3, 3)})
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "config.json").write_text(json.dumps({"architectures": ["Gemma4AssistantForCausalLM"]}))
    sentences = {
        "sizes": "number of words 20 and not 16; window 16 and not 8; key/value heads of sliding_attention (2, 32)",
        "names": "missing ['pre_projection.weight'], unexpected ['extra.weight']",
        "shapes": "shapes",
        "torn": "torn",
    }
    for name, sentence in sentences.items():
        with pytest.raises(ModelError) as caught:
            make_drafter(f"mtp:{tmp_path / name}", target)
        assert sentence in str(caught.value)
        assert "\n" not in str(caught.value)


def test_the_published_names_are_all_there_is(tmp_path: Path) -> None:
    """Queries alone: no keys and no values."""
    load(tmp_path, make_gemma(), make_assistant())
    names = {name.partition("layers.0.")[2] for name in read_tensors(tmp_path) if "layers.0." in name}
    norms = ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm")
    attention = ("self_attn.q_proj", "self_attn.q_norm", "self_attn.o_proj")
    linears = (*attention, "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
    assert names == {"layer_scalar", *(f"{name}.weight" for name in (*norms, *linears))}
