"""Drafting in another vocabulary: real tokenizers, models that know a text by heart, and models that know nothing."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from specdemo.causal_lm import TransformersLM
from specdemo.drafters import make_drafter
from specdemo.drafters.base import Drafter
from specdemo.drafters.retokenize import Codec
from specdemo.drafters.universal import UniversalDrafter, UniversalSession
from specdemo.errors import ModelError
from specdemo.llama import LlamaLM
from specdemo.metrics import summarize
from specdemo.target import Target
from tests.fakes import answer, make_model, plain, rounds_of, run
from tests.fakes_text import (
    CONTROLS,
    END,
    FOREIGN_CONTROLS,
    QUESTION,
    STORY,
    TEXTS,
    drafter_tokenizer,
    target_tokenizer,
)

SHAPE = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
    "bos_token_id": None,
    "eos_token_id": None,
}


def train_model(ids: Sequence[int], vocab_size: int, seed: int) -> LlamaForCausalLM:
    """A Llama that knows one sequence by heart."""
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**SHAPE, vocab_size=vocab_size, tie_word_embeddings=True))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    batch = torch.tensor([list(ids)])
    for _ in range(120):
        loss = model(batch, labels=batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    assert float(loss.detach()) < 0.05
    return model.eval()


def as_ids(tokenizer: PreTrainedTokenizerFast, parts: Sequence[str]) -> list[int]:
    """Parts of a conversation; a part that is written as a control token is one, or is left out."""
    controls = Codec(tokenizer).control_ids
    found: list[int] = []
    for part in parts:
        if part in controls:
            found.append(controls[part])
        elif not part.startswith("<|"):
            found += Codec(tokenizer).encode(part)["input_ids"]
    return found


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def target() -> Target:
    """Knows the story by heart, ends with it."""
    tokenizer = target_tokenizer()
    ids = as_ids(tokenizer, [*QUESTION, STORY, END])
    model = train_model(ids, len(tokenizer), 0)
    return Target.from_model("story", model, tokenizer, revision="test", gguf_path=None)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Drafters of another vocabulary: with the target's control tokens, and with others."""
    root = tmp_path_factory.mktemp("drafters")
    made = {"alike": CONTROLS, "foreign": FOREIGN_CONTROLS}
    for name, controls in made.items():
        tokenizer = drafter_tokenizer(controls)
        ids = as_ids(tokenizer, [*QUESTION, STORY, controls[-1]])
        train_model(ids, len(tokenizer), 1).save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
    return {name: str(root / name) for name in made}


@pytest.fixture(scope="module")
def drafters(target: Target, folders: dict[str, str]) -> dict[str, Drafter]:
    return {name: make_drafter(f"universal:{folder}", target) for name, folder in folders.items()}


def prompt_ids(target: Target) -> list[int]:
    return as_ids(target.tokenizer, QUESTION)


# --- decoding ---


@pytest.mark.parametrize("name", ["alike", "foreign"])
@pytest.mark.parametrize("k", range(1, 9))
def test_greedy_ids_are_plain_decodings(target: Target, drafters: dict[str, Drafter], name: str, k: int) -> None:
    ids = prompt_ids(target)
    expected = plain(target, ids, max_new_tokens=200)
    assert (target.decode_text(expected[0]), expected[1]) == (STORY + END, "eos")
    events = run(target, drafters[name], ids, num_draft_tokens=k, max_new_tokens=200)
    assert answer(events) == expected
    # Emoji are where the two vocabularies part characters differently; everywhere else the drafter knows the text.
    assert len(rounds_of(events)) < 1.4 * len(expected[0]) / (k + 1) + 4


@pytest.mark.parametrize("name", ["alike", "foreign"])
def test_a_drafter_that_knows_the_answer_is_accepted_k_of_k(
    target: Target, drafters: dict[str, Drafter], name: str
) -> None:
    events = run(target, drafters[name], prompt_ids(target), num_draft_tokens=3, max_new_tokens=40)
    assert [(event.num_accepted, event.next_token_kind) for event in rounds_of(events)] == [(3, "bonus")] * 10


@pytest.mark.parametrize("name", ["alike", "foreign"])
def test_the_drafters_end_of_text_is_the_targets(target: Target, drafters: dict[str, Drafter], name: str) -> None:
    """Also where it is written otherwise."""
    ids = prompt_ids(target)
    events = run(target, drafters[name], ids, num_draft_tokens=16, max_new_tokens=200)
    last = rounds_of(events)[-1]
    assert last.draft_token_ids[last.num_accepted - 1] == target.tokenizer.eos_token_id
    assert len(last.draft_token_ids) < 16


@pytest.mark.parametrize("name", ["alike", "foreign"])
@pytest.mark.parametrize("temperature", [0.7, 2.0])
def test_coupled_ids_are_plain_samplings(
    target: Target, drafters: dict[str, Drafter], name: str, temperature: float
) -> None:
    """At the higher temperature the answer is parted as no tokenizer would, often not even into whole characters."""
    for seed in range(4):
        chosen = {"temperature": temperature, "seed": seed, "rule": "coupled", "max_new_tokens": 40}
        expected = plain(target, prompt_ids(target), **chosen)
        for k in (1, 4, 7):
            assert answer(run(target, drafters[name], prompt_ids(target), num_draft_tokens=k, **chosen)) == expected


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_a_draft_has_no_law_and_is_judged_as_given(target: Target, drafters: dict[str, Drafter], rule: str) -> None:
    assert UniversalSession(drafters["alike"], prompt_ids(target)).propose(3).probs is None
    chosen = {"temperature": 1.0, "rule": rule, "max_new_tokens": 30, "num_draft_tokens": 3}
    summary = summarize(rounds_of(run(target, drafters["alike"], prompt_ids(target), **chosen)))
    assert summary.num_drafted == summary.num_accepted + summary.num_rejected + summary.num_unused
    assert summary.num_accepted > 0


@given(parts=st.lists(TEXTS | st.integers(0, 362).map(lambda token_id: [token_id]), min_size=1, max_size=6))
@hypothesis_settings(max_examples=25)
@example(parts=[[362]])
@example(parts=[[361, 362, 360]])
@example(parts=["你好" * 60])
def test_any_prompt_is_lossless_text_or_not(
    target: Target, drafters: dict[str, Drafter], parts: list[str | list[int]]
) -> None:
    """Texts and single ids side by side, control tokens and parts of characters among them."""
    ids = [
        i
        for part in parts
        for i in (list(Codec(target.tokenizer).encode(part)["input_ids"]) if isinstance(part, str) else part)
    ] or [0]
    expected = plain(target, ids, max_new_tokens=24)
    for drafter in drafters.values():
        assert answer(run(target, drafter, ids, num_draft_tokens=5, max_new_tokens=24)) == expected


@pytest.mark.parametrize("kind", ["llama", "mistral", "gpt-neox"])
def test_each_round_drafts_what_a_fresh_session_would(target: Target, folders: dict[str, str], kind: str) -> None:
    """The cache holds the text as it is encoded now, whatever was drafted and rejected before.

    Letter by letter a word is parted anew each time, further back than what the last round has read; mistral's window
    is shorter than the text.
    """
    tokenizer = AutoTokenizer.from_pretrained(folders["alike"])
    model = make_model(kind, 0, vocab_size=len(tokenizer), max_position_embeddings=1024)
    lm = LlamaLM.from_transformers(model) if kind == "llama" else TransformersLM(model)
    drafter = UniversalDrafter(lm, Codec(tokenizer), Codec(target.tokenizer), 0)
    ids = prompt_ids(target)
    session = UniversalSession(drafter, ids)
    for letter in " Returning believing unbearable":
        assert UniversalSession(drafter, ids).propose(2).token_ids == session.propose(2).token_ids
        added = Codec(target.tokenizer).encode(letter)["input_ids"]
        session.commit(added, None)
        ids += added


@pytest.mark.parametrize("context", [20, 60])
def test_where_the_drafters_context_ends_decoding_goes_on_without_it(
    target: Target, folders: dict[str, str], context: int
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folders["alike"])
    lm = TransformersLM(make_model("llama", 0, vocab_size=len(tokenizer), max_position_embeddings=context))
    drafter = UniversalDrafter(lm, Codec(tokenizer), Codec(target.tokenizer), 0)
    events = run(target, drafter, prompt_ids(target), max_new_tokens=200)
    assert answer(events) == plain(target, prompt_ids(target), max_new_tokens=200)
    assert f"context of {context} tokens is full" in events[-1].message
    assert rounds_of(events)[-1].draft_token_ids == ()


# --- folders ---


def test_a_folder_that_cannot_draft_is_refused_in_a_sentence(
    target: Target, folders: dict[str, str], tmp_path: Path
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folders["alike"])
    make_model("llama", 0, vocab_size=len(tokenizer) - 1).save_pretrained(tmp_path / "short")
    tokenizer.save_pretrained(tmp_path / "short")
    make_model("llama", 0).save_pretrained(tmp_path / "speechless")
    make_model("mamba", 0, vocab_size=len(tokenizer)).save_pretrained(tmp_path / "recurrent")
    tokenizer.save_pretrained(tmp_path / "recurrent")
    expected = {
        "short": f"knows {len(tokenizer)} tokens, and the model there {len(tokenizer) - 1}",
        "speechless": "no draft model could be loaded",
        "recurrent": "cannot be shortened",
        "absent": "there is no folder",
    }
    for name, message in expected.items():
        with pytest.raises(ModelError, match=message) as caught:
            make_drafter(f"universal:{tmp_path / name}", target)
        assert "\n" not in str(caught.value)
    with pytest.raises(ModelError, match="name one: universal:FOLDER"):
        make_drafter("universal", target)
