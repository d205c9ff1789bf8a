"""The right play leaves the pair's law as it is and every planted mistake changes it: by enumeration, then by draws."""

from typing import Any

import pytest
import torch
from torch import Tensor

from specdemo.experiment import DRAFTS_PER_ROUND, Experiment, PairLaws, states
from specdemo.goodness import total_variation
from specdemo.mistakes import Play, play_with
from specdemo.proofs import ALPHA, MISTAKES, RIGHT, SampleState
from specdemo.sampling import Sampler
from specdemo.settings import DecodeSettings
from tests.exact import Choices, ExactNoise, law, random_law

A = 3
T = 0.6
LOSSLESS = ("rejection", "block", "coupled")
# Draft laws in quarters are integrated exactly; two sure of themselves, so that a truncation drops some drafts.
QUARTERS = (torch.tensor([0.75, 0.25, 0.0]), torch.tensor([0.25, 0.25, 0.5]), torch.tensor([0.0, 0.25, 0.75]))


def enumerable_laws(seed: int) -> PairLaws:
    """Laws over three tokens, the drafter's in quarters."""
    return PairLaws(
        texts=("a", "b", "c"),
        first=random_law(seed, A).float(),
        second={x: random_law(seed * 10 + x + 1, A).float() for x in range(A)},
        drafted={(): QUARTERS[seed % 3], **{(x,): QUARTERS[(seed + x) % 3] for x in range(A)}},
        redrafted={x: QUARTERS[(seed + x + 1) % 3] for x in range(A)},
        position=7,
    )


def drawn_laws(size: int = 40, concentration: float = 3.0) -> PairLaws:
    """Laws over more tokens: a target, and a drafter that is right one time in ten."""

    def at(place: int, share: float) -> Tensor:
        right, other = (random_law(seed, size, concentration) for seed in (place, 1000 + place))
        return ((1 - share) * right + share * other).float()

    return PairLaws(
        texts=tuple(f"<{x}>" for x in range(size)),
        first=at(0, 0.0),
        second={x: at(x + 1, 0.0) for x in range(size)},
        drafted={(): at(0, 0.9), **{(x,): at(x + 1, 0.9) for x in range(size)}},
        redrafted={x: at(x + 1, 0.9) for x in range(size)},
        position=20,
    )


def played(laws: PairLaws, rule: str, play: Play) -> Tensor:
    """The exact law of the next token when a round of the rule gives it, (A,)."""

    def program(choices: Choices) -> int:
        noise: Any = ExactNoise(choices)
        sampler = Sampler(DecodeSettings(temperature=1.0, rule=rule), A)
        sampler.noise = noise
        draft = play.propose(sampler, lambda drafted: laws.drafted[tuple(drafted)], laws.position, DRAFTS_PER_ROUND)
        rows = laws.target_rows(draft.token_ids, len(draft.token_ids) + 1)
        verdict = play.judge(rule, draft, rows, noise, laws.position)
        return draft.token_ids[0] if verdict.num_accepted else choices.choose(verdict.next_probs.tolist())

    found = law(program)
    return torch.tensor([found.get(x, 0.0) for x in range(A)])


def distance(laws: PairLaws, play: Play, rule: str = "rejection") -> float:
    return total_variation(laws.first, played(laws, rule, play))


@pytest.mark.parametrize("rule", ["rejection", "block"])
@pytest.mark.parametrize("seed", range(3))
def test_the_right_play_leaves_the_law_as_it_is(rule: str, seed: int) -> None:
    assert distance(enumerable_laws(seed), play_with(RIGHT, T), rule) < 1e-6


@pytest.mark.parametrize("mistake", [name for name in MISTAKES if name != "one_number"])
def test_every_mistake_changes_the_law(mistake: str) -> None:
    """`one_number` is tried below: here the number of the next token is integrated by itself."""
    distances = [distance(enumerable_laws(seed), play_with(mistake, T)) for seed in range(3)]
    assert max(distances) > 0.05, "seen in a few hundred draws"


def test_one_temperature_on_both_sides_is_no_mistake() -> None:
    assert distance(enumerable_laws(1), play_with("one_sided_temperature", 1.0)) < 1e-6


def test_a_drafter_that_says_one_token_without_drawing_is_judged_as_such() -> None:
    laws = enumerable_laws(2)
    said = PairLaws(laws.texts, laws.first, laws.second, {(): 1, (1,): 2}, {0: None, 1: 0, 2: 2}, 7)
    assert final_state(said, "rejection", RIGHT, 1000).verdict == "green"


def final_state(laws: PairLaws, rule: str, mistake: str, num_draws: int, seed: int = 0) -> SampleState:
    experiment = Experiment(laws, rule, play_with(mistake, T), seed)
    *before, last = states(experiment, laws, mistake, rule, num_draws)
    assert all(state.verdict == "" for state in before), "no verdict before the last draw"
    assert sum(last.next_token.observed) == pytest.approx(1.0)
    assert sum(last.pair.expected) == pytest.approx(1.0)
    return last


@pytest.mark.parametrize("rule", LOSSLESS)
def test_a_right_rule_stays_green_with_the_real_noise(rule: str) -> None:
    last = final_state(drawn_laws(), rule, RIGHT, 1000)
    assert last.verdict == "green"
    assert min(last.next_token.p_value, last.pair.p_value) > 1e-3, "far from red"
    assert abs(last.pair.distance - last.pair.expected_distance) < 4 * last.pair.spread


@pytest.mark.parametrize("mistake", [*MISTAKES, "typical"])
def test_every_mistake_and_the_lossy_rule_turn_red(mistake: str) -> None:
    rule, planted = ("typical", RIGHT) if mistake == "typical" else ("rejection", mistake)
    # Two mistakes show only on some laws: where a draft is sure of itself, and where many tokens may replace it.
    others = {"late_truncation": enumerable_laws(0), "one_number": drawn_laws(12, 1.0)}
    laws = others.get(mistake) or drawn_laws()
    last = final_state(laws, rule, planted, 1500)
    assert last.verdict == "red"
    assert min(last.next_token.p_value, last.pair.p_value) < ALPHA / 100, "far from green"


def test_the_same_seed_draws_the_same_pairs() -> None:
    found = []
    for num_draws_first in (1, 60):
        experiment = Experiment(drawn_laws(8), "rejection", play_with(RIGHT, T), 3)
        experiment.draw(num_draws_first)
        experiment.draw(100 - num_draws_first)
        found.append(experiment.pairs)
    assert found[0] == found[1]
