"""Every lossless rule leaves the target's distribution as it is: checked by exact integration, then with real noise."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from specdemo.acceptance import TYPICAL_DELTA, TYPICAL_EPSILON, Draft, Verdict, accept, residual
from specdemo.sampling import PositionNoise, Sampler
from specdemo.settings import DecodeSettings
from tests.exact import Choices, ExactNoise, expectation, law, random_law

V = 3
RESIDUAL_RULES = ("rejection", "block")
LOSSLESS_RULES = ("rejection", "block", "coupled")
START = 10  # absolute position of the first draft
Law = Callable[[tuple[int, ...]], Tensor]
SEEDS = st.integers(0, 10**6)


def tree(seed: int, size: int = V, zeros: bool = False) -> Law:
    """A distribution for each prefix; with `zeros`, one token of each is impossible."""

    def at(prefix: tuple[int, ...]) -> Tensor:
        probs = random_law(hash((seed, prefix)) % 2**31, size, 1.5)
        if zeros:
            probs[(seed + len(prefix) + sum(prefix)) % size] = 0.0
        return probs / probs.sum()

    return at


def rows(at: Law, token_ids: Sequence[int], count: int) -> Tensor:
    return torch.stack([at(tuple(token_ids[:index])) for index in range(count)])


def joint(at: Law, length: int) -> dict[tuple[int, ...], float]:
    """The law of the first `length` tokens of plain sampling."""
    total = {}
    for tokens in itertools.product(range(len(at(()))), repeat=length):
        total[tokens] = math.prod(float(at(tokens[:index])[token]) for index, token in enumerate(tokens))
    return total


def judge(choices: Choices, rule: str, target: Law, token_ids: tuple[int, ...], probs: Tensor | None) -> Verdict:
    target_probs = rows(target, token_ids, len(token_ids) + 1)
    noise: Any = ExactNoise(choices)
    return accept(rule, Draft(token_ids, probs), target_probs, noise, START)


def draft_tokens(choices: Choices, drafter: Law, count: int) -> tuple[int, ...]:
    tokens: tuple[int, ...] = ()
    for _ in range(count):
        tokens += (choices.choose(drafter(tokens).tolist()),)
    return tokens


def emitted(choices: Choices, verdict: Verdict, token_ids: tuple[int, ...]) -> tuple[int, ...]:
    return (*token_ids[: verdict.num_accepted], choices.choose(verdict.next_probs.tolist()))


def completed(choices: Choices, tokens: tuple[int, ...], target: Law, length: int) -> tuple[int, ...]:
    """Plain sampling from where a round ended."""
    while len(tokens) < length:
        tokens += (choices.choose(target(tokens).tolist()),)
    return tokens


def one_round(rule: str, target: Law, drafter: Law, count: int) -> Callable[[Choices], tuple[int, ...]]:
    """A round of a stochastic drafter, the rest plain."""

    def program(choices: Choices) -> tuple[int, ...]:
        drafts = draft_tokens(choices, drafter, count)
        verdict = judge(choices, rule, target, drafts, rows(drafter, drafts, count) if count else None)
        return completed(choices, emitted(choices, verdict, drafts), target, count + 1)

    return program


def assert_same_law(found: dict[tuple[int, ...], float], expected: dict[tuple[int, ...], float]) -> None:
    assert sum(found.values()) == pytest.approx(1.0)
    for tokens, probability in expected.items():
        assert found.get(tokens, 0.0) == pytest.approx(probability, abs=1e-9), tokens


@pytest.mark.parametrize("rule", RESIDUAL_RULES)
@pytest.mark.parametrize("count", [0, 1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_a_round_leaves_the_joint_law_as_it_is(rule: str, count: int, seed: int) -> None:
    target, drafter = tree(seed), tree(seed + 100)
    assert_same_law(law(one_round(rule, target, drafter, count)), joint(target, count + 1))


@pytest.mark.parametrize("rule", RESIDUAL_RULES)
@pytest.mark.parametrize("has_zeros", [(True, False), (False, True), (True, True)], ids=["target", "draft", "both"])
def test_impossible_tokens_change_nothing(rule: str, has_zeros: tuple[bool, bool]) -> None:
    for seed in range(3):
        target, drafter = tree(seed, 4, has_zeros[0]), tree(seed + 7, 4, has_zeros[1])
        assert_same_law(law(one_round(rule, target, drafter, 2)), joint(target, 3))


@pytest.mark.parametrize("rule", RESIDUAL_RULES)
def test_a_deterministic_draft_leaves_the_joint_law_as_it_is(rule: str) -> None:
    target = tree(5)
    for drafts in itertools.product(range(V), repeat=2):

        def program(choices: Choices, drafts: tuple[int, ...] = drafts) -> tuple[int, ...]:
            verdict = judge(choices, rule, target, drafts, None)
            return completed(choices, emitted(choices, verdict, drafts), target, 3)

        assert_same_law(law(program), joint(target, 3))


@pytest.mark.parametrize("rule", RESIDUAL_RULES)
@pytest.mark.parametrize("seed", range(3))
def test_rounds_that_share_the_noise_of_their_positions_leave_the_joint_law_as_it_is(rule: str, seed: int) -> None:
    """Two rounds with the noise of the whole generation: no number that a decision depended on may be used again."""
    target = tree(seed, 2)
    laws = (torch.tensor([0.25, 0.75]), torch.tensor([0.5, 0.5]), torch.tensor([0.75, 0.25]))

    def drafter_logits(prefix: tuple[int, ...]) -> Tensor:
        return laws[(seed + 2 * len(prefix) + sum(prefix)) % 3].double().log()

    def program(choices: Choices) -> tuple[int, ...]:
        sampler = Sampler(DecodeSettings(temperature=1.0, rule=rule), 2)
        noise: Any = ExactNoise(choices)
        sampler.noise = noise
        tokens: tuple[int, ...] = ()
        for count in (2, 1):
            if len(tokens) >= 2:
                break
            drafts: tuple[int, ...] = ()
            probs = []
            committed = [0] * START + list(tokens)
            for _ in range(count):
                token_id, row = sampler.choose_draft(drafter_logits(tokens + drafts), committed, drafts)
                drafts += (token_id,)
                probs.append(row)
            target_probs = torch.stack([target(tokens + drafts[:index]) for index in range(count + 1)])
            draft = Draft(drafts, torch.stack(probs).double())  # type: ignore[arg-type]
            tokens += emitted(choices, accept(rule, draft, target_probs, noise, len(committed)), drafts)
        return completed(choices, tokens, target, 2)[:2]

    found, expected = law(program), joint(target, 2)
    for tokens, probability in expected.items():
        assert found[tokens] == pytest.approx(probability, abs=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_block_accepts_at_least_as_much_as_rejection_on_average(seed: int) -> None:
    target, drafter = tree(seed), tree(seed + 100)

    def accepted_by(rule: str) -> float:
        def program(choices: Choices) -> float:
            drafts = draft_tokens(choices, drafter, 3)
            return judge(choices, rule, target, drafts, rows(drafter, drafts, 3)).num_accepted

        return expectation(program)

    assert accepted_by("block") >= accepted_by("rejection") - 1e-9


def test_block_accepts_more_than_rejection_where_it_can() -> None:
    """The worked example of 2403.10444: target (1/3, 2/3), drafter (2/3, 1/3), both independent of the prefix."""
    third = torch.tensor([1 / 3, 2 / 3], dtype=torch.float64)

    def accepted_by(rule: str) -> float:
        def program(choices: Choices) -> float:
            drafts = draft_tokens(choices, lambda prefix: third.flip(0), 2)
            return judge(choices, rule, lambda prefix: third, drafts, torch.stack([third.flip(0)] * 2)).num_accepted

        return expectation(program)

    assert accepted_by("rejection") == pytest.approx(10 / 9)
    assert accepted_by("block") == pytest.approx(11 / 9)


@pytest.mark.parametrize("rule", LOSSLESS_RULES)
@given(seed=SEEDS, count=st.integers(1, 3))
def test_a_drafter_equal_to_the_target_is_accepted_whole(rule: str, seed: int, count: int) -> None:
    target = tree(seed)
    noise = PositionNoise(seed, V)
    sampler = Sampler(DecodeSettings(temperature=1.0, rule=rule, seed=seed), V)
    committed, drafts = [0] * START, ()
    for _ in range(count):
        drafts += (sampler.choose_draft(target(drafts).log(), committed, drafts)[0],)
    verdict = accept(rule, Draft(drafts, rows(target, drafts, count)), rows(target, drafts, count + 1), noise, START)
    assert (verdict.num_accepted, verdict.next_token_kind) == (count, "bonus")


@given(seed=SEEDS, drafts=st.lists(st.integers(0, V - 1), max_size=4).map(tuple))
def test_greedy_keeps_exactly_the_targets_own_most_probable_tokens(seed: int, drafts: tuple[int, ...]) -> None:
    target = tree(seed)
    verdict = accept("greedy", Draft(drafts), rows(target, drafts, len(drafts) + 1), PositionNoise(0, V), START)
    tokens: tuple[int, ...] = ()
    while len(tokens) < verdict.num_accepted + 1:
        tokens += (int(target(tokens).argmax()),)
    assert (*drafts[: verdict.num_accepted], verdict.next_token_id) == tokens
    assert verdict.num_accepted == len(drafts) or drafts[verdict.num_accepted] != verdict.next_token_id


@given(seed=SEEDS, drafts=st.lists(st.integers(0, V - 1), min_size=1, max_size=4).map(tuple))
def test_coupled_says_what_plain_coupled_sampling_says_whatever_the_draft(seed: int, drafts: tuple[int, ...]) -> None:
    target, noise = tree(seed), PositionNoise(seed, V)
    verdict = accept("coupled", Draft(drafts), rows(target, drafts, len(drafts) + 1), noise, START)
    found = (*drafts[: verdict.num_accepted], verdict.next_token_id)
    plain: tuple[int, ...] = ()
    while len(plain) < len(found):
        plain += (accept("coupled", Draft(()), target(plain)[None], noise, START + len(plain)).next_token_id,)
    assert found == plain


@pytest.mark.parametrize("rule", ["greedy", *LOSSLESS_RULES, "typical"])
@given(seed=SEEDS, count=st.integers(0, 4))
def test_a_verdict_judges_each_draft_up_to_the_first_that_failed_and_a_block_as_a_whole(
    rule: str, seed: int, count: int
) -> None:
    target, drafter = tree(seed), tree(seed + 1)
    drafts = tuple(int(drafter((index,)).argmax()) for index in range(count))
    draft = Draft(drafts, rows(drafter, drafts, count) if count and seed % 2 else None)
    verdict = accept(rule, draft, rows(target, drafts, count + 1), PositionNoise(seed, V), START)
    assert len(verdict.trials) == (count if rule == "block" else min(verdict.num_accepted + 1, count))
    kind = "plain" if not count else "bonus" if verdict.num_accepted == count else "corrected"
    assert verdict.next_token_kind == kind
    assert float(verdict.next_probs[verdict.next_token_id]) > 0.0
    assert all(0.0 <= trial.accept_prob <= 1.0 for trial in verdict.trials)


def test_rejection_accepts_with_the_ratio_of_the_probabilities() -> None:
    target, drafter = torch.tensor([[0.2, 0.8], [0.5, 0.5]]), torch.tensor([[0.5, 0.5]])
    verdict = accept("rejection", Draft((0,), drafter), target, PositionNoise(1, 2), START)
    (trial,) = verdict.trials
    assert trial.accept_prob == pytest.approx(0.4)
    assert trial.uniform is not None
    assert (verdict.num_accepted == 1) == (trial.uniform < 0.4)


@given(seed=SEEDS)
def test_the_residual_is_what_the_target_has_beyond_the_draft(seed: int) -> None:
    target, drafter = random_law(seed, 5), random_law(seed + 1, 5)
    left = [max(0.0, float(t) - float(d)) for t, d in zip(target, drafter, strict=True)]
    assert residual(target, drafter).tolist() == pytest.approx([value / sum(left) for value in left])
    assert residual(target, target).tolist() == target.tolist()


def test_typical_changes_the_law() -> None:
    """What is probable enough always stays, however often it is proposed: 1/3 of the time instead of 0.15."""
    target = torch.tensor([0.8, 0.15, 0.05], dtype=torch.float64)
    third = torch.full((3,), 1 / 3, dtype=torch.float64)
    found = law(one_round("typical", lambda prefix: target, lambda prefix: third, 1))
    first = [sum(share for tokens, share in found.items() if tokens[0] == token) for token in range(3)]
    assert first == pytest.approx([1 / 3 + 0.8 / 3, 1 / 3 + 0.15 / 3, 0.05 / 3])


@given(seed=SEEDS, concentration=st.floats(0.2, 4))
def test_the_typical_threshold_is_the_published_formula(seed: int, concentration: float) -> None:
    probs = random_law(seed, 6, concentration)
    entropy = -sum(float(p) * math.log(float(p)) for p in probs if p > 0)
    threshold = min(TYPICAL_EPSILON, TYPICAL_DELTA * math.exp(-entropy))
    for token_id in range(6):
        verdict = accept("typical", Draft((token_id,)), torch.stack([probs, probs]), PositionNoise(seed, 6), START)
        assert verdict.trials[0].target_score == pytest.approx(threshold)
        assert (verdict.num_accepted == 1) == (float(probs[token_id]) > threshold)


@pytest.mark.parametrize("rule", LOSSLESS_RULES)
def test_with_the_real_noise_two_tokens_follow_the_joint_law(rule: str) -> None:
    """Chi-square over fixed seeds: two drafts a round, drawn and judged by position-keyed noise."""
    target, drafter = tree(3), tree(4)
    counts = dict.fromkeys(itertools.product(range(V), repeat=2), 0)
    num_draws = 3000
    for seed in range(num_draws):
        sampler = Sampler(DecodeSettings(temperature=1.0, rule=rule, seed=seed), V)
        tokens: tuple[int, ...] = ()
        while len(tokens) < 2:
            drafts: tuple[int, ...] = ()
            while len(drafts) < 2:
                logits = drafter(tokens + drafts).log()
                drafts += (sampler.choose_draft(logits, [0] * START + list(tokens), drafts)[0],)
            probs = torch.stack([drafter(tokens + drafts[:index]) for index in range(2)])
            target_probs = torch.stack([target(tokens + drafts[:index]) for index in range(3)])
            verdict = accept(rule, Draft(drafts, probs), target_probs, sampler.noise, START + len(tokens))
            tokens += (*drafts[: verdict.num_accepted], verdict.next_token_id)
        counts[tokens[:2]] += 1
    assert chi_square(counts, joint(target, 2)) < 30.0  # 8 degrees of freedom: exceeded once in 5,000


def chi_square(counts: dict[tuple[int, ...], int], expected: dict[tuple[int, ...], float]) -> float:
    total = sum(counts.values())
    return sum((counts[key] - total * share) ** 2 / (total * share) for key, share in expected.items())
