"""The decode loop gives plain decoding's answer, whatever proposes: ids, reason and counts, under every stop."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from specdemo.drafters import make_drafter
from specdemo.drafters.base import Drafter
from specdemo.events import Round
from specdemo.metrics import summarize
from specdemo.settings import MAX_DRAFT_TOKENS
from specdemo.target import Target
from tests.fakes import (
    answer,
    ending_at,
    guesses,
    knows,
    make_model,
    make_target,
    plain,
    proposes_nothing,
    rounds_of,
    run,
    wrap,
)

SPECS = (
    "ngram:1-3",
    "ngram:hashed",
    "ngram:map",
    "quantized",
    "early-exit:1",
    "early-exit:2",
    "same",
    "other",
    "hybrid:quantized",
)
PROMPT = [5, 9, 7, 5, 9, 7, 5, 9]
LOSSLESS = ("rejection", "coupled", "block")
RULES = ("auto", *LOSSLESS, "typical")


@pytest.fixture(scope="session")
def drafters(small_target: Target, folders: dict[str, Path]) -> dict[str, Drafter]:
    specs = {spec: f"draft-model:{folders[spec]}" if spec in folders else spec for spec in SPECS}
    return {name: make_drafter(spec, small_target) for name, spec in specs.items()}


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("k", range(1, 9))
def test_greedy_ids_are_plain_decodings(small_target: Target, drafters: dict[str, Drafter], spec: str, k: int) -> None:
    for prompt in (PROMPT, [3], [0, 1, 2, 14, 7, 7]):
        expected = plain(small_target, prompt, max_new_tokens=41)
        assert answer(run(small_target, drafters[spec], prompt, num_draft_tokens=k, max_new_tokens=41)) == expected


@pytest.mark.parametrize("kind", ["qwen2", "gpt-neox", "mistral", "gemma2"])
def test_greedy_ids_are_plain_decodings_for_other_architectures(kind: str) -> None:
    target = make_target(kind, 0, 16)
    expected = plain(target, PROMPT, max_new_tokens=40)
    for drafter in (make_drafter("ngram:1-3", target), make_drafter("quantized", target), guesses(3, expected[0], 8)):
        for k in (1, 4, 7):
            assert answer(run(target, drafter, PROMPT, num_draft_tokens=k, max_new_tokens=40)) == expected


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    "sampling",
    [
        {"temperature": 0.5},
        {"temperature": 1.0, "top_p": 0.8},
        {"temperature": 1.5, "top_k": 6, "min_p": 0.05},
        {"temperature": 0.7, "repetition_penalty": 1.3},
        {"temperature": 2.0, "repetition_penalty": 0.8, "top_p": 0.95},
    ],
    ids=str,
)
def test_coupled_ids_are_plain_samplings(
    small_target: Target, drafters: dict[str, Drafter], spec: str, seed: int, sampling: dict[str, float]
) -> None:
    chosen = {**sampling, "seed": seed, "rule": "coupled", "max_new_tokens": 30}
    expected = plain(small_target, PROMPT, **chosen)
    for k in (1, 3, 8):
        assert answer(run(small_target, drafters[spec], PROMPT, num_draft_tokens=k, **chosen)) == expected


@given(
    seed=st.integers(0, 1000),
    eos=st.none() | st.integers(0, 15),
    stop=st.none() | st.tuples(st.integers(0, 20), st.integers(1, 4)),
    k=st.integers(1, 12),
    max_new_tokens=st.integers(1, 25),
    rule=st.sampled_from(["greedy", "coupled"]),
)
@hypothesis_settings(max_examples=150)
def test_every_stop_ends_at_the_same_token_for_the_same_reason(
    seed: int, eos: int | None, stop: tuple[int, int] | None, k: int, max_new_tokens: int, rule: str
) -> None:
    """Stops are chosen from what plain decoding says, so that they lie inside accepted drafts and cross tokens."""
    base = make_target("llama", 0, 16)
    chosen: dict[str, object] = {"max_new_tokens": max_new_tokens, "seed": seed}
    chosen |= {} if rule == "greedy" else {"temperature": 1.0, "rule": "coupled"}
    free = plain(base, PROMPT, **{**chosen, "max_new_tokens": 25})[0]
    target = base if eos is None else ending_at(base, eos)
    if stop is not None:
        chosen["stop"] = (base.decode_text(free[stop[0] : stop[0] + stop[1]]) or "!",)
    expected = plain(target, PROMPT, **chosen)
    assert expected[0] == free[: len(expected[0])]
    for drafter in (guesses(seed, free, len(PROMPT)), knows(PROMPT, free), knows(PROMPT, free, wrong_every=3)):
        events = run(target, drafter, PROMPT, num_draft_tokens=k, **chosen)
        assert answer(events) == expected
        assert_counts_add_up(rounds_of(events), k)


def assert_counts_add_up(rounds: list[Round], highest: int) -> None:
    summary = summarize(rounds)
    assert summary.num_drafted == summary.num_accepted + summary.num_rejected + summary.num_unused
    parts = summary.num_accepted + summary.num_corrected + summary.num_bonus + summary.num_plain
    assert summary.num_tokens == parts
    assert all(len(event.draft_token_ids) <= highest for event in rounds)
    assert [event.index for event in rounds] == list(range(len(rounds)))
    assert all(event.num_unused == 0 for event in rounds[:-1])


@given(
    seed=st.integers(0, 10**6), rule=st.sampled_from(RULES), k=st.integers(1, 16), temperature=st.sampled_from([0, 1])
)
@hypothesis_settings(max_examples=60)
def test_counts_add_up_whatever_is_proposed(seed: int, rule: str, k: int, temperature: int) -> None:
    target = make_target("llama", 0, 16)
    expected = plain(target, PROMPT, max_new_tokens=30)[0]
    chosen = {"temperature": temperature, "rule": rule, "seed": seed, "max_new_tokens": 30}
    events = run(target, guesses(seed, expected, len(PROMPT)), PROMPT, num_draft_tokens=k, **chosen)
    assert_counts_add_up(rounds_of(events), k)
    assert len(answer(events)[0]) == 30


@pytest.mark.parametrize("k", [1, 4, 8])
def test_a_perfect_drafter_is_accepted_k_of_k_every_round(k: int) -> None:
    target = make_target()
    num_tokens = 4 * (k + 1)
    expected, _ = plain(target, PROMPT, max_new_tokens=num_tokens)
    rounds = rounds_of(run(target, knows(PROMPT, expected), PROMPT, num_draft_tokens=k, max_new_tokens=num_tokens))
    assert [(event.num_accepted, event.next_token_kind) for event in rounds] == [(k, "bonus")] * 4


@pytest.mark.parametrize(
    ("rule", "temperature"), [*((rule, 0.0) for rule in RULES), *((rule, 0.8) for rule in ("auto", *LOSSLESS))]
)
def test_the_target_as_its_own_drafter_is_accepted_k_of_k_under_every_lossless_rule(
    small_target: Target, drafters: dict[str, Drafter], rule: str, temperature: float
) -> None:
    chosen = {"temperature": temperature, "rule": rule, "num_draft_tokens": 4, "max_new_tokens": 25}
    for seed in range(4):
        rounds = rounds_of(run(small_target, drafters["same"], PROMPT, seed=seed, **chosen))
        assert [(len(event.draft_token_ids), event.num_accepted) for event in rounds] == [(4, 4)] * 5


@pytest.mark.parametrize("max_new_tokens", [1, 2, 3, 7])
def test_the_length_cap_is_met_exactly_and_nothing_is_drafted_beyond_it(max_new_tokens: int) -> None:
    target = make_target()
    expected, _ = plain(target, PROMPT, max_new_tokens=10)
    events = run(target, knows(PROMPT, expected), PROMPT, num_draft_tokens=10, max_new_tokens=max_new_tokens)
    assert answer(events) == (expected[:max_new_tokens], "length")
    assert sum(len(event.draft_token_ids) for event in rounds_of(events)) == max_new_tokens - 1


@pytest.mark.parametrize("index", range(1, 7))
def test_an_end_of_text_inside_accepted_drafts_is_the_last_token_and_the_rest_is_unused(index: int) -> None:
    base = make_target()
    free, _ = plain(base, PROMPT, max_new_tokens=8)
    target = ending_at(base, free[index])
    first = free.index(free[index])
    events = run(target, knows(PROMPT, free), PROMPT, num_draft_tokens=7, max_new_tokens=20)
    assert answer(events) == (free[: first + 1], "eos")
    (event,) = rounds_of(events)
    assert (event.num_accepted, event.num_rejected, event.num_unused) == (first + 1, 0, 7 - first - 1)


@pytest.mark.parametrize("spec", SPECS)
def test_the_context_limit_ends_both_lanes_at_the_same_token(folders: dict[str, Path], spec: str) -> None:
    model = make_model("llama", 0, vocab_size=16, max_position_embeddings=20)
    target = wrap(model)
    drafter = make_drafter(f"draft-model:{folders[spec]}" if spec in folders else spec, target)
    expected = plain(target, PROMPT, max_new_tokens=100)
    assert (len(expected[0]), expected[1]) == (20 - len(PROMPT), "context")
    for k in (1, 5, 16):
        assert answer(run(target, drafter, PROMPT, num_draft_tokens=k, max_new_tokens=100)) == expected


@pytest.mark.parametrize("rule", LOSSLESS)
@pytest.mark.parametrize("spec", ["ngram:1-3", "quantized", "other"])
def test_the_same_seed_says_the_same_twice_and_another_seed_something_else(
    small_target: Target, drafters: dict[str, Drafter], rule: str, spec: str
) -> None:
    def say(seed: int) -> tuple[tuple[int, ...], str]:
        chosen = {"temperature": 1.0, "rule": rule, "max_new_tokens": 30}
        return answer(run(small_target, drafters[spec], PROMPT, seed=seed, **chosen))

    assert say(1) == say(1) != say(2)


@pytest.mark.parametrize("spec", SPECS)
def test_adaptive_k_stays_in_range_and_changes_nothing_but_the_drafts(
    small_target: Target, drafters: dict[str, Drafter], spec: str
) -> None:
    expected = plain(small_target, PROMPT, max_new_tokens=60)
    events = run(small_target, drafters[spec], PROMPT, schedule="adaptive", num_draft_tokens=3, max_new_tokens=60)
    assert answer(events) == expected
    k = 3
    for event in rounds_of(events):
        assert len(event.draft_token_ids) <= k <= MAX_DRAFT_TOKENS
        if event.num_rejected:
            k = max(1, (min(k, len(event.draft_token_ids)) + event.num_accepted) // 2)
        elif len(event.draft_token_ids) == k:
            k = min(MAX_DRAFT_TOKENS, k + 1)


def test_adaptive_k_grows_while_all_is_accepted_and_falls_to_one_while_nothing_is() -> None:
    target = make_target()
    expected, _ = plain(target, PROMPT, max_new_tokens=80)
    chosen = {"schedule": "adaptive", "num_draft_tokens": 4, "max_new_tokens": 80}
    grown = rounds_of(run(target, knows(PROMPT, expected), PROMPT, **chosen))
    assert [len(event.draft_token_ids) for event in grown][:5] == [4, 5, 6, 7, 8]
    fallen = rounds_of(run(target, knows(PROMPT, expected, wrong_every=1), PROMPT, **chosen))
    assert [len(event.draft_token_ids) for event in fallen][:4] == [4, 2, 1, 1]


def test_a_drafter_that_proposes_nothing_is_plain_decoding() -> None:
    target = make_target()
    events = run(target, proposes_nothing(), PROMPT, max_new_tokens=12)
    assert answer(events) == plain(target, PROMPT, max_new_tokens=12)
    assert {event.next_token_kind for event in rounds_of(events)} == {"plain"}
    assert summarize(events).acceptance_rate is None


def test_filtered_tokens_never_appear_as_accepted_corrected_or_bonus(
    small_target: Target, drafters: dict[str, Drafter]
) -> None:
    """Top-k 1 leaves one token at each position, so that sampling at any temperature is greedy decoding."""
    expected = plain(small_target, PROMPT, max_new_tokens=40)
    for spec in SPECS:
        for rule in LOSSLESS:
            chosen = {"temperature": 1.5, "top_k": 1, "rule": rule, "max_new_tokens": 40}
            assert answer(run(small_target, drafters[spec], PROMPT, **chosen)) == expected
