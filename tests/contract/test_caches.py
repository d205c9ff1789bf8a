"""After every round each cache holds what a fresh prefill of the committed tokens would put there; closing frees it."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import LlamaForCausalLM

from specdemo.causal_lm import TransformersLM, require_rollback
from specdemo.decoding import decode
from specdemo.drafters import make_drafter
from specdemo.drafters.autoregressive import AutoregressiveDrafter
from specdemo.drafters.base import Drafter
from specdemo.drafters.null import NullDrafter
from specdemo.errors import ModelError
from specdemo.events import Round, Started
from specdemo.llama import LlamaLM, LlamaSession
from specdemo.settings import DecodeSettings
from specdemo.target import Target
from tests.fakes import WatchedDrafter, WatchedLM, guesses, make_model, make_target, plain, proposes_nothing, run
from tests.fakes_models import CONFIGS, CROPPABLE, NOT_CROPPABLE, RECURRENT

PROMPT = [5, 9, 7, 5, 9, 7, 5, 9]
SLIDING = ("mistral", "gemma2")


def prefill(lm: LlamaLM, token_ids: list[int]) -> Tensor:
    session = lm.open()
    session.forward(token_ids, 0)
    return session.keys_and_values()


def logits_of(lm: LlamaLM | TransformersLM, token_ids: list[int]) -> Tensor:
    return lm.open().forward(token_ids, len(token_ids))


@pytest.mark.parametrize("spec", ["none", "ngram:1-3", "quantized", "early-exit:1", "early-exit:2", "guesses"])
@pytest.mark.parametrize("k", [1, 4, 9])
def test_the_targets_cache_equals_a_fresh_prefill_after_every_round(small_target: Target, spec: str, k: int) -> None:
    known, _ = plain(small_target, PROMPT, max_new_tokens=30)
    drafter = WatchedDrafter(guesses(1, known, len(PROMPT)) if spec == "guesses" else make_drafter(spec, small_target))
    ids = list(PROMPT)
    for event in decode(small_target, drafter, PROMPT, DecodeSettings(num_draft_tokens=k, max_new_tokens=30)):
        session = drafter.target_session
        assert isinstance(session, LlamaSession)
        if isinstance(event, Round):
            ids += event.emitted_token_ids
        if isinstance(event, Started | Round):
            assert session.length == len(ids) - 1
            assert isinstance(small_target.lm, LlamaLM)
            expected = prefill(small_target.lm, ids[:-1])
            torch.testing.assert_close(session.keys_and_values(), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("seed", [0, 1], ids=["same", "other"])
@pytest.mark.parametrize("k", [1, 4, 9])
def test_a_drafters_cache_holds_the_sequence_and_no_rejected_token(small_target: Target, seed: int, k: int) -> None:
    """Once what the next proposal feeds is added: a drafter may not have read the newest tokens yet."""
    lm = WatchedLM(make_target("llama", seed, 16).lm)
    ids = list(PROMPT)
    settings = DecodeSettings(num_draft_tokens=k, max_new_tokens=30)
    for event in decode(small_target, AutoregressiveDrafter("draft", lm, 0), PROMPT, settings):
        if not isinstance(event, Started | Round):
            continue
        ids += event.emitted_token_ids if isinstance(event, Round) else ()
        (session,) = lm.sessions
        assert len(ids) - 2 <= session.length <= len(ids) - 1
        assert session.token_ids == ids[: session.length]
        assert isinstance(session.inner, LlamaSession)
        weights = make_target("llama", seed, 16).lm
        assert isinstance(weights, LlamaLM)
        expected = prefill(weights, ids[: session.length])
        torch.testing.assert_close(session.inner.keys_and_values(), expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize("num_events", [1, 2, 4])
def test_closing_early_closes_both_sessions(small_target: Target, num_events: int) -> None:
    lms = WatchedLM(small_target.lm), WatchedLM(small_target.lm)
    target = replace(small_target, lm=lms[0])  # type: ignore[arg-type]
    drafter = AutoregressiveDrafter("draft", lms[1], 0)  # type: ignore[arg-type]
    events = decode(target, drafter, PROMPT, DecodeSettings(max_new_tokens=40))
    for _ in range(num_events):
        next(events)
    assert [[session.is_closed for session in lm.sessions] for lm in lms] == [[False], [False]]
    events.close()
    assert [[session.is_closed for session in lm.sessions] for lm in lms] == [[True], [True]]


def test_a_drafter_that_fails_leaves_no_session_open(small_target: Target) -> None:
    lm = WatchedLM(small_target.lm)
    target = replace(small_target, lm=lm)  # type: ignore[arg-type]
    drafter = proposes_nothing()

    def fail(*_: object) -> None:
        raise RuntimeError("broken drafter")

    drafter.propose = fail  # type: ignore[assignment]
    with pytest.raises(RuntimeError, match="broken drafter"):
        run(target, drafter, PROMPT)
    assert [session.is_closed for session in lm.sessions] == [True]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tie_word_embeddings": True},
        {"num_key_value_heads": 4},
        {"num_key_value_heads": 1},
        {"head_dim": 16},
        {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}},
        {
            "rope_parameters": {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 32,
                "rope_theta": 5e5,
            }
        },
    ],
    ids=str,
)
def test_the_llama_pass_computes_what_transformers_computes(changes: dict[str, object]) -> None:
    reference = make_model("llama", 3, **changes)
    assert LlamaLM.fits(reference)
    copy = make_model("llama", 3, **changes)
    assert isinstance(copy, LlamaForCausalLM)
    lm = LlamaLM.from_transformers(copy)
    ids = torch.randint(259, (70,), generator=torch.Generator().manual_seed(1)).tolist()
    with torch.inference_mode():
        expected = reference(torch.tensor([ids])).logits[0]
        torch.testing.assert_close(logits_of(lm, ids), expected, atol=1e-4, rtol=0)
        # The model that was taken over keeps working, by its own pass and by the copy.
        torch.testing.assert_close(copy(torch.tensor([ids])).logits[0], expected, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    "changes", [{"attention_bias": True}, {"mlp_bias": True}, {"hidden_act": "gelu"}], ids=lambda c: next(iter(c))
)
def test_a_llama_that_the_pass_does_not_compute_goes_through_transformers(changes: dict[str, object]) -> None:
    assert not LlamaLM.fits(make_model("llama", **changes))


@given(steps=st.lists(st.tuples(st.integers(1, 6), st.integers(0, 6), st.integers(0, 3)), min_size=1, max_size=8))
@hypothesis_settings(max_examples=40)
def test_chunks_tokens_run_ahead_and_crops_do_not_change_the_logits(steps: list[tuple[int, int, int]]) -> None:
    """Each step: feed some tokens, of which the first few ran ahead through two layers, then take some back."""
    lm = make_target().lm
    assert isinstance(lm, LlamaLM)
    session = lm.open()
    ids: list[int] = []
    for index, (num_tokens, num_removed, num_ahead) in enumerate(steps):
        tokens = [(37 * index + 11 * offset) % 259 for offset in range(num_tokens)]
        for token_id in tokens[:num_ahead]:
            session.run_ahead(token_id, 2)
        ids += tokens
        found = session.forward(tokens, num_tokens)
        torch.testing.assert_close(found, logits_of(lm, ids)[-num_tokens:], atol=1e-4, rtol=0)
        del ids[max(0, len(ids) - num_removed) :]
        session.crop(len(ids))


@given(ahead=st.lists(st.integers(0, 258), min_size=1, max_size=5))
@hypothesis_settings(max_examples=20)
def test_what_ran_ahead_and_was_cropped_leaves_no_trace(ahead: list[int]) -> None:
    lm = make_target().lm
    assert isinstance(lm, LlamaLM)
    session = lm.open()
    session.forward(PROMPT, 0)
    for token_id in ahead:
        session.run_ahead(token_id, 1)
    session.crop(len(PROMPT))
    expected = logits_of(lm, [*PROMPT, 3, 4])[-2:]
    torch.testing.assert_close(session.forward([3, 4], 2), expected, atol=1e-4, rtol=0)


def test_logits_at_an_exit_are_those_of_a_model_cut_there() -> None:
    lm = make_target().lm
    assert isinstance(lm, LlamaLM)
    cut = LlamaLM(lm.config, lm.embedding, lm.layers.first(2), lm.head)
    session = lm.open()
    session.forward(PROMPT, 0)
    for count, token_id in enumerate([4, 8, 15]):
        expected = logits_of(cut, [*PROMPT, 4, 8, 15][: len(PROMPT) + count + 1])[-1:]
        torch.testing.assert_close(lm.logits(session.run_ahead(token_id, 2)), expected, atol=1e-4, rtol=0)


def test_a_cache_that_outgrows_its_buffer_keeps_what_it_held() -> None:
    lm = make_target().lm
    assert isinstance(lm, LlamaLM)
    ids = [(7 * index) % 259 for index in range(1200)]
    session = lm.open()
    for start in range(0, len(ids), 100):
        found = session.forward(ids[start : start + 100], 1)
    torch.testing.assert_close(found, logits_of(lm, ids)[-1:], atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", [kind for kind in CROPPABLE if kind != "llama"])
@given(steps=st.lists(st.tuples(st.integers(1, 12), st.integers(0, 9)), min_size=2, max_size=6))
@hypothesis_settings(max_examples=15)
def test_transformers_caches_crop_exactly_also_beyond_a_sliding_window(kind: str, steps: list[tuple[int, int]]) -> None:
    """A round takes back at most what it fed, as the decode loop does."""
    lm = make_target(kind).lm
    # The delta rule sums a text in chunks of its passes, and one token otherwise than several.
    tolerance = 1e-3 if kind in RECURRENT else 1e-4
    assert lm.can_crop
    session = lm.open()
    ids = [(13 * index) % 259 for index in range(20)]
    session.forward(ids, 0)
    session.crop(len(ids))
    for index, (num_tokens, num_removed) in enumerate(steps):
        tokens = [(37 * index + 11 * offset) % 259 for offset in range(num_tokens)]
        found = session.forward(tokens, num_tokens)
        ids += tokens
        assert isinstance(lm, TransformersLM)
        torch.testing.assert_close(found, logits_of(lm, ids)[-num_tokens:], atol=tolerance, rtol=0)
        del ids[len(ids) - min(num_removed, num_tokens - 1) :]
        session.crop(len(ids))
        assert session.length == len(ids)


@pytest.mark.parametrize("kind", SLIDING)
def test_a_sliding_window_is_shorter_than_what_the_tests_feed(kind: str) -> None:
    assert CONFIGS[kind]().sliding_window < 20


@pytest.mark.parametrize("kind", NOT_CROPPABLE)
def test_a_cache_that_cannot_be_shortened_is_refused_before_anything_is_yielded(kind: str) -> None:
    target = make_target(kind)
    assert not target.lm.can_crop
    drafter: Drafter = make_drafter("ngram", target)
    with pytest.raises(ModelError) as caught:
        next(decode(target, drafter, PROMPT, DecodeSettings()))
    assert "cannot be shortened" in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(ModelError, match="cannot be shortened"):
        require_rollback(target.lm, "it")


@pytest.mark.parametrize("kind", NOT_CROPPABLE)
def test_plain_decoding_still_runs_on_such_a_model(kind: str) -> None:
    target = make_target(kind)
    found, reason = plain(target, PROMPT, max_new_tokens=12)
    assert reason == "length"
    with torch.inference_mode():
        expected = target.model.generate(torch.tensor([PROMPT]), max_new_tokens=12, do_sample=False)
    assert list(found) == expected[0, len(PROMPT) :].tolist()


@pytest.mark.parametrize("kind", CROPPABLE)
@pytest.mark.parametrize("prompt", [[7], PROMPT], ids=len)
def test_plain_decoding_is_transformers_own_greedy_search(kind: str, prompt: list[int]) -> None:
    target = make_target(kind)
    with torch.inference_mode():
        expected = make_model(kind).generate(torch.tensor([prompt]), max_new_tokens=30, do_sample=False)
    assert list(plain(target, prompt, max_new_tokens=30)[0]) == expected[0, len(prompt) :].tolist()


def test_a_null_session_holds_the_same_cache(small_target: Target) -> None:
    drafter = WatchedDrafter(NullDrafter())
    list(decode(small_target, drafter, PROMPT, DecodeSettings(max_new_tokens=3)))
    assert drafter.target_session is not None
    assert drafter.target_session.length == len(PROMPT) + 2
