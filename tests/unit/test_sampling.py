"""Both lanes draw from the same distributions: transformers' processors at every position, noise keyed by position."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from transformers import GenerationConfig

from specdemo.sampling import PositionNoise, Sampler, draw
from specdemo.settings import DecodeSettings
from tests.exact import random_law
from tests.fakes import make_target

V = 12
TOKENS = st.integers(0, V - 1)
SEEDS = st.integers(0, 10**6)
SAMPLING = st.builds(
    DecodeSettings,
    temperature=st.sampled_from([0.3, 0.7, 1.0, 1.5]),
    top_k=st.sampled_from([0, 1, 3, 100]),
    top_p=st.sampled_from([1.0, 0.9, 0.4]),
    min_p=st.sampled_from([0.0, 0.05, 0.3]),
    repetition_penalty=st.sampled_from([1.0, 1.3, 0.8]),
    rule=st.sampled_from(["rejection", "coupled", "block", "typical"]),
)
ANY_SETTINGS = SAMPLING | st.builds(DecodeSettings, repetition_penalty=st.sampled_from([1.0, 1.3]))


def random_logits(seed: int, rows: int) -> Tensor:
    return 3 * torch.randn(rows, V, generator=torch.Generator().manual_seed(seed))


@given(
    settings=ANY_SETTINGS,
    seed=SEEDS,
    prefix=st.lists(TOKENS, min_size=1, max_size=6),
    drafts=st.lists(TOKENS, max_size=4),
)
def test_each_row_is_what_a_round_of_one_token_with_its_own_prefix_gives(
    settings: DecodeSettings, seed: int, prefix: list[int], drafts: list[int]
) -> None:
    sampler = Sampler(settings, V)
    logits = random_logits(seed, len(drafts) + 1)
    together = sampler.probs(sampler.scores(logits, prefix, drafts))
    for index in range(len(drafts) + 1):
        alone = sampler.probs(sampler.scores(logits[index : index + 1], [*prefix, *drafts[:index]], ()))
        torch.testing.assert_close(together[index], alone[0])


@given(settings=SAMPLING, seed=SEEDS, prefix=st.lists(TOKENS, min_size=1, max_size=6))
def test_the_distribution_is_the_one_generate_draws_from(
    settings: DecodeSettings, seed: int, prefix: list[int]
) -> None:
    config = GenerationConfig(
        do_sample=True,
        temperature=settings.temperature,
        top_k=settings.top_k,
        top_p=settings.top_p,
        min_p=settings.min_p or None,
        repetition_penalty=settings.repetition_penalty,
    )
    model: Any = make_target().model
    processors = model._get_logits_processor(config, len(prefix), None, None, [], device="cpu")
    logits = random_logits(seed, 1)
    sampler = Sampler(settings, V)
    found = sampler.probs(sampler.scores(logits, prefix, ()))
    torch.testing.assert_close(found, processors(torch.tensor([prefix]), logits).softmax(-1))


@given(settings=ANY_SETTINGS, seed=SEEDS, prefix=st.lists(TOKENS, min_size=1, max_size=6))
def test_a_drafters_law_is_processed_as_the_targets_is(settings: DecodeSettings, seed: int, prefix: list[int]) -> None:
    sampler = Sampler(settings, V)
    (logits,) = random_logits(seed, 1)
    token_id, law = sampler.choose_draft(logits, prefix[:1], prefix[1:])
    expected = sampler.probs(sampler.scores(logits[None], prefix, ()))[0]
    assert float(expected[token_id]) > 0.0
    if settings.resolved_rule == "greedy":
        assert law is None
    else:
        assert law is not None
        torch.testing.assert_close(law, expected)


@given(seed=SEEDS)
def test_temperature_zero_is_one_hot_at_the_largest_logit_whatever_the_filters(seed: int) -> None:
    sampler = Sampler(DecodeSettings(temperature=0.0, top_k=3, top_p=0.5, min_p=0.2), V)
    logits = random_logits(seed, 3)
    probs = sampler.probs(sampler.scores(logits, [0], [1, 2]))
    assert probs.argmax(-1).tolist() == logits.argmax(-1).tolist()
    assert probs.sum(-1).tolist() == [1.0] * 3 == probs.max(-1).values.tolist()


@given(position=st.integers(0, 10**5), seed=st.integers(0, 2**63 - 1))
def test_noise_depends_on_seed_and_position_and_not_on_what_was_asked_before(position: int, seed: int) -> None:
    one, other = PositionNoise(seed, V), PositionNoise(seed, V)
    for earlier in range(70):  # more than are kept
        other.gumbel(earlier)
        other.uniform(earlier, "next")
    assert one.uniform(position, "next") == other.uniform(position, "next")
    assert one.gumbel(position).tolist() == other.gumbel(position).tolist()
    different = PositionNoise((seed + 1) % 2**63, V)
    assert different.gumbel(position).tolist() != one.gumbel(position).tolist() != one.gumbel(position + 1).tolist()
    assert different.uniform(position, "next") != one.uniform(position, "next") != one.uniform(position + 1, "next")


def test_streams_and_positions_are_uncorrelated_and_fill_the_unit_interval() -> None:
    noise = PositionNoise(5, V)
    count = 4000
    streams = ("accept/0", "accept/1", "draft/0", "next")
    values = torch.tensor([[noise.uniform(p, s) for p in range(count)] for s in streams], dtype=torch.float64)
    assert 0 <= float(values.min()) <= float(values.max()) < 1
    neighbours = values.roll(1, 1)
    correlations = torch.corrcoef(torch.cat([values, neighbours])) - torch.eye(8, dtype=torch.float64)
    assert float(correlations.abs().max()) < 5 / count**0.5
    for row in values:
        counts = torch.histc(row, 20, 0, 1)
        assert float(((counts - count / 20) ** 2 / (count / 20)).sum()) < 50  # 19 degrees of freedom


def test_gumbel_noise_draws_tokens_by_their_probabilities() -> None:
    probs = random_law(3, V)
    counts = torch.zeros(V)
    num_draws = 10_000
    for position in range(num_draws):
        counts[int((probs.log() + PositionNoise(11, V).gumbel(position)).argmax())] += 1
    expected = num_draws * probs
    assert float(((counts - expected) ** 2 / expected).sum()) < 35  # 11 degrees of freedom


@given(seed=SEEDS, uniform=st.floats(0, 1, exclude_max=True), zero=st.sets(TOKENS, max_size=V - 1))
def test_draw_picks_the_token_whose_stretch_holds_the_number_and_never_an_impossible_one(
    seed: int, uniform: float, zero: set[int]
) -> None:
    probs = random_law(seed, V).index_fill(0, torch.tensor(sorted(zero), dtype=torch.long), 0.0)
    token_id = draw(probs, uniform)
    assert float(probs[token_id]) > 0.0
    total = float(probs.sum())
    below, through = float(probs[:token_id].sum()) / total, float(probs[: token_id + 1].sum()) / total
    assert below - 1e-9 <= uniform <= through + 1e-9


@pytest.mark.parametrize("uniform", [0.0, 0.25, 0.5, 1 - 2**-53])
def test_draw_at_the_edges_of_stretches(uniform: float) -> None:
    probs = torch.tensor([0.0, 0.25, 0.0, 0.25, 0.5, 0.0])
    assert draw(probs, uniform) == {0.0: 1, 0.25: 3, 0.5: 4}.get(uniform, 4)
