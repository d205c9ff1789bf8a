"""Many requests at once: each row of a batch is its run alone, whatever stands beside it."""

import json
from argparse import Namespace
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from specdemo.decoding import DecodeRequest, decode, decode_batch
from specdemo.drafters import make_drafter
from specdemo.drafters.base import Drafter
from specdemo.drafters.null import NullDrafter
from specdemo.errors import ModelError
from specdemo.events import Event, Finished, Round, Started
from specdemo.llama import LlamaLM
from specdemo.llama_session import LlamaSession
from specdemo.metrics import summarize
from specdemo.settings import DecodeSettings
from specdemo.target import Target
from specdemo.train import eagle3, mtp
from tests.fakes import answer, ending_at, guesses, make_model, make_target, plain, rounds_of, wrap

PLAIN = "none"
SPECS = (
    *(PLAIN, "ngram:1-3", "quantized", "early-exit:1", "other", "hybrid:quantized", "eagle3", "mtp", "hybrid:eagle3"),
    *("guesses",),
)
VOCAB_SIZE = 16


@pytest.fixture(scope="module")
def drafters(small_target: Target, folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict:
    """One of each family that drafts for several rows at once, and others that do not."""
    words = torch.arange(VOCAB_SIZE)
    named = {"other": f"draft-model:{folders['other']}"}
    for name, family in (("eagle3", eagle3), ("mtp", mtp)):
        torch.manual_seed(0)
        folder = tmp_path_factory.mktemp(name)
        family.make(small_target.model, words, Namespace(unrolled=4)).save(folder)
        if name == "eagle3":
            path = folder / "config.json"
            values = json.loads(path.read_text())
            path.write_text(json.dumps({**values, "eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 2]}}))
        named[name] = f"{name}:{folder}"
    named["hybrid:eagle3"] = f"hybrid:{named['eagle3']}"
    made: dict[str, Drafter] = {s: make_drafter(named.get(s, s), small_target) for s in SPECS if s != "guesses"}
    return {**made, "guesses": guesses(3, (), 0, VOCAB_SIZE)}


def in_batches(
    target: Target, drafter: Drafter, requests: Iterable[DecodeRequest], size: int
) -> tuple[dict[int, list[Event]], list[list[Round]]]:
    """The events of each request, and the rounds of each step."""
    events: dict[int, list[Event]] = {}
    together = []
    for step in decode_batch(target, drafter, requests, size):
        for number, event in step:
            events.setdefault(number, []).append(event)
        if rounds := [event for _, event in step if isinstance(event, Round)]:
            together.append(rounds)
    return events, together


def without_clock(events: Iterable[Event]) -> list[Event]:
    def still(event: Event) -> Event:
        if isinstance(event, Round):
            return replace(event, draft_seconds=0.0, verify_seconds=0.0, overhead_seconds=0.0)
        return replace(event, prefill_seconds=0.0) if isinstance(event, Started) else event

    return [still(event) for event in events]


REQUESTS = st.builds(
    lambda prompt, **chosen: DecodeRequest(prompt, DecodeSettings(**chosen)),
    prompt=st.lists(st.integers(0, VOCAB_SIZE - 1), min_size=1, max_size=24),
    max_new_tokens=st.integers(1, 14),
    num_draft_tokens=st.integers(1, 6),
    temperature=st.sampled_from([0.0, 0.7, 1.5]),
    rule=st.sampled_from(["coupled", "rejection", "block"]),
    seed=st.integers(0, 5),
    repetition_penalty=st.sampled_from([1.0, 1.2]),
    schedule=st.sampled_from(["constant", "adaptive"]),
    evidence=st.booleans(),
)


@pytest.mark.parametrize("spec", SPECS)
@given(requests=st.lists(REQUESTS, min_size=1, max_size=6), size=st.integers(1, 5), eos=st.none() | st.integers(0, 15))
@hypothesis_settings(max_examples=8)
def test_each_row_is_its_run_alone(
    small_target: Target, drafters: dict[str, Drafter], spec: str, requests: list, size: int, eos: int | None
) -> None:
    """To the last event: ids, drafts, counts, bytes, evidence; only the clock is the batch's."""
    target, drafter = small_target if eos is None else ending_at(small_target, eos), drafters[spec]
    found, together = in_batches(target, drafter, requests, size)
    assert sorted(found) == list(range(len(requests)))
    for number, request in enumerate(requests):
        alone = decode(target, drafter, request.prompt_ids, request.settings)
        assert without_clock(found[number]) == without_clock(alone)
        summary = summarize(found[number])
        assert summary.num_drafted == summary.num_accepted + summary.num_rejected + summary.num_unused
    for rounds in together:
        assert len(rounds) <= size
        assert len({(event.draft_seconds, event.verify_seconds, event.overhead_seconds) for event in rounds}) == 1


@cache
def without_compiled_pass() -> Target:
    return wrap(make_model("llama", 1, vocab_size=VOCAB_SIZE, head_dim=16))


@pytest.mark.parametrize("spec", [PLAIN, "ngram:1-3", "early-exit:1", "quantized"])
def test_rows_are_alone_on_the_pass_in_torch_too(spec: str) -> None:
    """Up to rounding, which decides nothing here."""
    target = without_compiled_pass()
    assert isinstance(target.lm, LlamaLM)
    assert target.lm.compiled is None
    drafter = make_drafter(spec, target)
    requests = [
        DecodeRequest(list(range(start, VOCAB_SIZE)), DecodeSettings(max_new_tokens=9 + start)) for start in range(5)
    ]
    found, _ = in_batches(target, drafter, requests, 3)
    for number, request in enumerate(requests):
        assert answer(found[number]) == plain(target, request.prompt_ids, max_new_tokens=9 + number)


def test_rows_accept_different_numbers_in_one_round_and_leave_when_they_end() -> None:
    target = make_target("llama", 0, VOCAB_SIZE)
    requests = [DecodeRequest([start, 9, 7], DecodeSettings(max_new_tokens=6 * (start + 1))) for start in range(3)]
    known = {start: plain(target, [start, 9, 7], max_new_tokens=18)[0] for start in range(3)}

    def always_or_never(start: int) -> Drafter:
        return guesses(start, known[start], 3, VOCAB_SIZE)

    class Mixed:
        name, memory_bytes, feature_layers = "mixed", 0, ()

        def open(self, target_session, prompt_ids, sampler):  # type: ignore[no-untyped-def]
            return always_or_never(prompt_ids[0]).open(target_session, prompt_ids, sampler)

    found, together = in_batches(target, Mixed(), requests, 3)  # type: ignore[arg-type]
    assert any(len({event.num_accepted for event in rounds}) > 1 for rounds in together)
    widths = [len(rounds) for rounds in together]
    assert widths == sorted(widths, reverse=True)
    assert (widths[0], widths[-1]) == (3, 1)
    assert [len(answer(found[number])[0]) for number in range(3)] == [6, 12, 18]


def test_where_a_row_has_ended_the_next_request_takes_its_place() -> None:
    target = make_target("llama", 0, VOCAB_SIZE)
    requests = [DecodeRequest([3], DecodeSettings(max_new_tokens=2 + number % 3)) for number in range(7)]
    taken = []

    def queue() -> Iterable[DecodeRequest]:
        for number, request in enumerate(requests):
            taken.append(number)
            yield request

    widths, num_ended = [], 0
    for step in decode_batch(target, NullDrafter(), queue(), 2):
        num_ended += sum(isinstance(event, Finished) for _, event in step)
        if any(isinstance(event, Round) for _, event in step):
            widths.append(sum(isinstance(event, Round) for _, event in step))
        assert len(taken) <= num_ended + 2, "nobody is taken before there is a place"
    assert (num_ended, taken) == (7, list(range(7)))
    # Full until nobody waits.
    assert widths == sorted(widths, reverse=True)
    assert sum(widths) == sum(request.settings.max_new_tokens for request in requests)


@pytest.mark.parametrize("num_steps", [1, 3, 6])
def test_closing_frees_every_cache(monkeypatch: pytest.MonkeyPatch, num_steps: int) -> None:
    target = make_target("llama", 0, VOCAB_SIZE)
    closed, opened = [], []
    open_one, close_one = LlamaLM.open, LlamaSession.close
    monkeypatch.setattr(LlamaLM, "open", lambda self, layers=(): opened.append(1) or open_one(self, layers))
    monkeypatch.setattr(LlamaSession, "close", lambda self: closed.append(1) or close_one(self))
    drafter = make_drafter("quantized", target)
    requests = [DecodeRequest([3, 4], DecodeSettings(max_new_tokens=30)) for _ in range(3)]
    steps = decode_batch(target, drafter, requests, 3)
    for _ in range(num_steps):
        next(steps)
    steps.close()  # type: ignore[attr-defined]
    assert len(opened) == len(closed) == 2 * min(num_steps, 3)


def test_a_target_that_serves_one_at_a_time_says_so_in_a_sentence_and_still_runs_alone() -> None:
    target = make_target("qwen2", 0, VOCAB_SIZE)
    requests = [DecodeRequest([3, 4], DecodeSettings(max_new_tokens=5)) for _ in range(2)]
    with pytest.raises(ModelError, match="one request at a time") as caught:
        next(iter(decode_batch(target, NullDrafter(), requests, 2)))
    assert "\n" not in str(caught.value)
    found, _ = in_batches(target, NullDrafter(), requests, 1)
    assert [answer(found[number]) for number in range(2)] == [plain(target, [3, 4], max_new_tokens=5)] * 2


def test_a_pass_over_several_sequences_has_the_bits_of_each_alone_beyond_any_width() -> None:
    lm = make_target().lm
    assert isinstance(lm, LlamaLM)
    prompts = [[(31 * i + 7 * n) % 259 for i in range(3 + 5 * n)] for n in range(8)]
    fed = [[(17 * i + n) % 259 for i in range(1 + (5 * n) % 18)] for n in range(8)]
    together, alone = [lm.open() for _ in prompts], [lm.open() for _ in prompts]
    for ids, *sessions in zip(prompts, together, alone, strict=True):
        for session in sessions:
            session.forward(ids, 0)
    found = lm.forward_many(together, fed, [len(ids) for ids in fed])
    for n, ids in enumerate(fed):
        assert torch.equal(found[n], alone[n].forward(ids, len(ids)))
        assert torch.equal(together[n].keys_and_values(), alone[n].keys_and_values())


def test_a_row_of_one_is_what_decode_yields(small_target: Target) -> None:
    drafter = make_drafter("quantized", small_target)
    settings = DecodeSettings(max_new_tokens=12)
    found, _ = in_batches(small_target, drafter, [DecodeRequest([5, 9, 7], settings)], 4)
    assert without_clock(found[0]) == without_clock(decode(small_target, drafter, [5, 9, 7], settings))
    assert [event.index for event in rounds_of(found[0])] == list(range(len(rounds_of(found[0]))))
