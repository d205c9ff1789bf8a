"""Targets whose layers hold a recurrent state: what rejected drafts leave behind is nothing."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from specdemo.causal_lm import TransformersLM, TransformersSession
from specdemo.decoding import decode
from specdemo.drafters import make_drafter
from specdemo.drafters.autoregressive import AutoregressiveDrafter
from specdemo.events import Round
from specdemo.recurrent import KeptStates, RecurrentLayers
from specdemo.settings import DecodeSettings
from tests.fakes import WatchedDrafter, answer, guesses, knows, make_model, make_target, plain, rounds_of, run
from tests.fakes_models import RECURRENT

PROMPT = [5, 9, 7, 5, 9, 7, 5, 9]
LONG = [(13 * index) % 259 for index in range(70)]  # more than a chunk of the delta rule
NEXT = [(7 * index + 3) % 259 for index in range(20)]
TOLERANCE = 2e-5
"""Of a state's largest entry, in float32: a pass sums a text in other pieces than a prefill, so not bit for bit."""


def states(session: TransformersSession) -> list[Tensor]:
    """All that a session holds, layer by layer."""
    found: list[Tensor] = []
    for layer in session._cache.layers:
        if isinstance(layer, KeptStates):
            found += [state for kind in (layer.conv_states, layer.recurrent_states) for state in kind.values()]
        else:
            found += [layer.keys, layer.values]
    return [state for state in found if state is not None]


def assert_same(found: list[Tensor], expected: list[Tensor], tolerance: float) -> None:
    assert [state.shape for state in found] == [state.shape for state in expected]
    for state, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(state, wanted, atol=tolerance * float(wanted.abs().max()), rtol=0)


def fed(lm: TransformersLM, *parts: list[int]) -> TransformersSession:
    """A prompt, then passes that are judged."""
    session = lm.open()
    for index, part in enumerate(parts):
        if part:
            session.forward(part, len(part) if index else 0)
    return session


@pytest.mark.parametrize("kind", RECURRENT)
@pytest.mark.parametrize(("prompt", "ks"), [([7], [3]), (PROMPT, range(1, 8)), (LONG, [6])], ids=["1", "8", "70"])
def test_after_every_partial_acceptance_the_state_is_a_prefills(
    kind: str, prompt: list[int], ks: Sequence[int]
) -> None:
    lm = make_target(kind).lm
    assert isinstance(lm, TransformersLM)
    assert lm.can_crop
    fresh = [fed(lm, prompt + NEXT[:num_accepted]) for num_accepted in range(max(ks) + 1)]
    for k in ks:
        for num_accepted in range(k + 1):
            session = fed(lm, prompt[:-1])
            session.forward([prompt[-1], *NEXT[:num_accepted], *range(200, 200 + k - num_accepted)], k + 1)
            session.crop(len(prompt) + num_accepted)
            assert session.length == fresh[num_accepted].length
            assert_same(states(session), states(fresh[num_accepted]), TOLERANCE)


@pytest.mark.parametrize("kind", RECURRENT)
def test_a_rejected_draft_leaves_the_same_bits_whatever_it_was(kind: str) -> None:
    """The recurrent layers read what they read in the pass: drafts behind the last accepted one do not count."""
    lm = make_target(kind).lm
    assert isinstance(lm, TransformersLM)
    left = []
    for wrong in (11, 222):
        session = fed(lm, PROMPT, [3, 1, wrong, wrong])
        session.crop(len(PROMPT) + 2)
        left.append(states(session))
    assert_same(left[0], left[1], 0.0)


@pytest.mark.parametrize("kind", RECURRENT)
def test_a_draft_of_single_passes_is_taken_back_to_any_of_them_bit_for_bit(kind: str) -> None:
    """As a drafter of this kind drafts: nothing is computed again, the state of that place was kept."""
    lm = make_target(kind).lm
    assert isinstance(lm, TransformersLM)
    for length in range(1, 6):
        session = fed(lm, PROMPT, *([token_id] for token_id in NEXT[:6]))
        session.crop(len(PROMPT) + length)
        expected = fed(lm, PROMPT, *([token_id] for token_id in NEXT[:length]))
        assert_same(states(session), states(expected), 0.0)
        assert session.crop_bytes == 0


def test_what_a_prompt_read_is_not_kept() -> None:
    session = fed(make_target("qwen3_5").lm, PROMPT, [1, 2])
    session.forward(NEXT, 0)
    with pytest.raises(AssertionError, match="never taken back"):
        session.crop(len(PROMPT) + 1)


@pytest.mark.parametrize("kind", RECURRENT)
@pytest.mark.parametrize("chosen", [{}, {"temperature": 1.0, "rule": "coupled", "seed": 5}], ids=["greedy", "coupled"])
def test_ids_are_plain_decodings_and_states_a_prefills_after_every_round(kind: str, chosen: dict[str, object]) -> None:
    target = make_target(kind, 0, 16)
    lm = target.lm
    assert isinstance(lm, TransformersLM)
    expected = plain(target, PROMPT, max_new_tokens=20, **chosen)
    for k in (1, 5):
        drafter = WatchedDrafter(guesses(k, expected[0], len(PROMPT)))
        events, ids = [], list(PROMPT)
        for event in decode(target, drafter, PROMPT, DecodeSettings(num_draft_tokens=k, max_new_tokens=20, **chosen)):  # type: ignore[arg-type]
            events.append(event)
            if isinstance(event, Round):
                ids += event.emitted_token_ids
                session = drafter.target_session
                assert isinstance(session, TransformersSession)
                # Over thirty tokens rounding adds up in a state that forgets little.
                assert_same(states(session), states(fed(lm, ids[:-1])), 10 * TOLERANCE)
        assert answer(events) == expected
        drafts = [event for event in rounds_of(events) if event.draft_token_ids]
        assert any(0 < event.num_accepted < len(event.draft_token_ids) for event in drafts) or k == 1


@pytest.mark.parametrize("kind", RECURRENT)
def test_such_a_model_drafts_too(kind: str) -> None:
    target = make_target(kind, 0, 16)
    expected = plain(target, PROMPT, max_new_tokens=12)
    same = run(target, AutoregressiveDrafter("draft", target.lm, 0), PROMPT, num_draft_tokens=4, max_new_tokens=12)
    assert answer(same) == expected
    assert all(event.num_accepted == len(event.draft_token_ids) for event in rounds_of(same)), "a perfect drafter"
    other = AutoregressiveDrafter("draft", make_target(kind, 1, 16).lm, 0)
    assert answer(run(target, other, PROMPT, num_draft_tokens=4, max_new_tokens=12)) == expected


def test_the_weights_that_are_read_again_are_counted_where_a_draft_was_rejected() -> None:
    target = make_target("qwen3_5", 0, 16)
    layers = RecurrentLayers.of(target.model)
    assert layers is not None
    known = plain(target, PROMPT, max_new_tokens=12)[0]
    drafter = knows(PROMPT, known, wrong_every=3)
    for event in rounds_of(run(target, drafter, PROMPT, num_draft_tokens=4, max_new_tokens=12)):
        is_partial = event.num_accepted < len(event.draft_token_ids)
        assert event.verify_bytes == target.lm.weight_bytes + (layers.weight_bytes if is_partial else 0)


def test_a_mixture_of_experts_goes_back_the_same_way() -> None:
    target_model = make_model("qwen3_next", mlp_only_layers=[])
    session = fed(TransformersLM(target_model), PROMPT, NEXT[:5])
    session.crop(len(PROMPT) + 2)
    assert_same(states(session), states(fed(TransformersLM(target_model), PROMPT + NEXT[:2])), TOLERANCE)


def test_drafters_that_need_no_weights_run_beside_such_a_target() -> None:
    target = make_target("qwen3_5", 0, 16)
    expected = plain(target, PROMPT, max_new_tokens=16)
    for spec in ("ngram:1-3", "ngram:map"):
        assert (
            answer(run(target, make_drafter(spec, target), PROMPT, num_draft_tokens=4, max_new_tokens=16)) == expected
        )
