"""A prompt of several parts: a generation can be stopped between them, and nothing is read twice or lost."""

from dataclasses import replace

import pytest
import torch

from specdemo.causal_lm import LONGEST_PART
from specdemo.decoding import decode
from specdemo.drafters import make_drafter
from specdemo.drafters.autoregressive import AutoregressiveDrafter, AutoregressiveSession
from specdemo.drafters.null import NullDrafter
from specdemo.engine import Engine
from specdemo.events import Finished, Reading, Round, Started
from specdemo.llama import LlamaSession
from specdemo.race import RaceRequest
from specdemo.sampling import Sampler
from specdemo.settings import DecodeSettings
from specdemo.target import Target
from specdemo.traces import Trace, dumps, loads
from tests.fakes import VOCAB_SIZE, WatchedLM, answer, make_model, run, wrap

LENGTH = 2 * LONGEST_PART + 100
PROMPT = [(7 * i * i + 3 * i) % VOCAB_SIZE for i in range(LENGTH)]
SETTINGS = DecodeSettings(max_new_tokens=3)


@pytest.fixture(scope="module", params=["llama", "gpt-neox"])
def target(request: pytest.FixtureRequest) -> Target:
    return wrap(make_model(request.param, max_position_embeddings=2048))


def test_each_part_but_the_last_is_told(target: Target) -> None:
    kinds = [type(event) for event in run(target, NullDrafter(), PROMPT, max_new_tokens=3)]
    assert kinds == [Reading, Reading, Started, Round, Round, Round, Finished]
    reading = [event for event in decode(target, NullDrafter(), PROMPT, SETTINGS) if isinstance(event, Reading)]
    assert reading == [Reading(LONGEST_PART, LENGTH), Reading(2 * LONGEST_PART, LENGTH)]


def test_closing_between_two_parts_reads_no_more_and_frees_the_cache(target: Target) -> None:
    lm = WatchedLM(target.lm)
    events = decode(replace(target, lm=lm), NullDrafter(), PROMPT, SETTINGS)  # type: ignore[arg-type]
    next(events)
    events.close()
    (session,) = lm.sessions
    assert (session.token_ids, session.is_closed) == (PROMPT[:LONGEST_PART], True)


def test_the_parts_are_one_text(target: Target) -> None:
    """Logits and hidden states behind all parts are those of transformers' own pass over the whole."""
    with torch.inference_mode():
        expected = target.model(torch.tensor([PROMPT]), output_hidden_states=True)
    session = target.open([1, 3])
    list(session.prefill(PROMPT[:-1]))
    found = session.session.features
    torch.testing.assert_close(
        found, torch.cat([expected.hidden_states[i][0, :-1] for i in (1, 3)], -1), rtol=1e-3, atol=1e-3
    )
    torch.testing.assert_close(session.verify(PROMPT[-1:])[0], expected.logits[0, -1], rtol=1e-3, atol=1e-3)


def test_the_target_in_four_bits_takes_what_the_target_has_read() -> None:
    target = wrap(make_model("llama", max_position_embeddings=2048))
    drafter = make_drafter("quantized", target)
    assert isinstance(drafter, AutoregressiveDrafter)
    session = target.open()
    list(session.prefill(PROMPT[:-1]))
    drafting = drafter.open(session.session, PROMPT, Sampler(SETTINGS, VOCAB_SIZE, target.lm.device))
    assert isinstance(drafting, AutoregressiveSession)
    assert isinstance(session.session, LlamaSession)
    assert isinstance(drafting.session, LlamaSession)
    assert torch.equal(drafting.session.keys_and_values(), session.session.keys_and_values())
    drafting.propose(3)  # what it writes behind them is its own
    assert session.length == LENGTH - 1


@pytest.mark.parametrize("spec", ["ngram", "quantized", "early-exit"])
def test_the_answer_behind_a_long_prompt_is_plain_decodings(spec: str) -> None:
    target = wrap(make_model("llama", max_position_embeddings=2048))
    expected = answer(run(target, NullDrafter(), PROMPT, max_new_tokens=20))
    assert answer(run(target, make_drafter(spec, target), PROMPT, max_new_tokens=20)) == expected


def test_a_race_with_a_long_prompt_reads_one_lane_after_the_other_and_is_a_trace() -> None:
    engine = Engine(wrap(make_model("llama", max_position_embeddings=2048)))
    updates = list(engine.race(RaceRequest(prompt="long " * 250, drafter="ngram", settings=SETTINGS, raw=True)))
    lanes = [update.lane for update in updates if isinstance(update.event, Reading)]
    assert lanes == ["plain"] * 2 + ["speculative"] * 2
    trace = Trace("long", "test", {}, {}, tuple(updates))
    assert loads(dumps(trace)) == trace
