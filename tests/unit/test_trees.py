"""Trees of drafts: every rule leaves the target's law as it is, counts add up, and a tree holds the best branches."""

import itertools
import random
from typing import Any

import pytest
import torch
from torch import Tensor

from specdemo.acceptance import Draft, Verdict, accept
from specdemo.branches import ROOT, children_of, deepest, is_prefix, parent_of, path_to
from specdemo.drafters.tree import Tree, grow_tree
from specdemo.events import Round
from specdemo.metrics import summarize
from specdemo.race import LaneUpdate
from specdemo.sampling import PositionNoise, Sampler
from specdemo.settings import DecodeSettings
from specdemo.spans import RETAINED, LaneSpans
from specdemo.ui.wire import RaceWire
from tests.exact import Choices, ExactNoise, law
from tests.trees import random_parents, random_tree, tree_round, words_to
from tests.unit.test_acceptance import START, Law, V, assert_same_law, completed, joint
from tests.unit.test_acceptance import tree as laws_of

SEEDS = range(12)


def rows_of(target: Law, draft: Draft) -> Tensor:
    behind = [(), *(words_to(draft.token_ids, draft.parents, index) for index in range(len(draft.token_ids)))]
    return torch.stack([target(words) for words in behind])


def random_draft(seed: int, num_drafts: int, size: int = V) -> Draft:
    token_ids, parents = random_tree(random.Random(seed), num_drafts, size)
    return Draft(token_ids, parents=parents)


def check_path(draft: Draft, verdict: Verdict) -> None:
    last = verdict.path[-1] if verdict.path else ROOT
    assert verdict.path == (path_to(draft.parents, last) if verdict.path else ())
    failed = children_of(draft.parents, len(draft.token_ids), last)
    assert [trial.index for trial in verdict.trials] == [*verdict.path, *failed]
    assert verdict.next_token_kind == ("corrected" if failed else "bonus")


@pytest.mark.parametrize("seed", SEEDS)
def test_a_tree_says_of_itself_what_a_walk_along_it_finds(seed: int) -> None:
    parents = random_parents(random.Random(seed), 9)
    for index in range(9):
        path = path_to(parents, index)
        assert path[-1] == index
        assert [parent_of(parents, one) for one in path] == [ROOT, *path[:-1]]
        assert index in children_of(parents, 9, parents[index])
    assert deepest(parents, 9) == max(len(path_to(parents, index)) for index in range(9))
    chain = tuple(range(ROOT, 8))
    for index in range(9):
        assert path_to((), index) == path_to(chain, index)
        assert list(children_of((), 9, index)) == list(children_of(chain, 9, index))
    assert deepest((), 9) == deepest(chain, 9) == 9
    assert is_prefix(range(4))
    assert not is_prefix([0, 2])


@pytest.mark.parametrize("num_drafts", [1, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_rejection_on_a_tree_leaves_the_joint_law_as_it_is(num_drafts: int, seed: int) -> None:
    """By exact integration; the tree is what a drafter says without drawing."""
    target, draft = laws_of(seed, zeros=seed == 3), random_draft(seed, num_drafts)
    length = deepest(draft.parents, num_drafts) + 1

    def program(choices: Choices) -> tuple[int, ...]:
        noise: Any = ExactNoise(choices)
        verdict = accept("rejection", draft, rows_of(target, draft), noise, START)
        check_path(draft, verdict)
        kept = tuple(draft.token_ids[index] for index in verdict.path)
        return completed(choices, (*kept, choices.choose(verdict.next_probs.tolist())), target, length)

    assert_same_law(law(program), joint(target, length))


@pytest.mark.parametrize("rule", ["greedy", "coupled"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_tree_never_changes_what_plain_decoding_says(rule: str, seed: int) -> None:
    target, draft, noise = laws_of(seed, 4), random_draft(seed, 7, 4), PositionNoise(seed, 4)
    probs = rows_of(target, draft)
    verdict = accept(rule, draft, probs, noise, START)
    check_path(draft, verdict)
    expected: tuple[int, ...] = ()
    while len(expected) < len(verdict.tokens(draft)):
        one = accept(rule, Draft(()), target(expected)[None], noise, START + len(expected))
        expected += (one.next_token_id,)
    assert verdict.tokens(draft) == expected


@pytest.mark.parametrize("rule", ["greedy", "coupled", "rejection", "typical"])
def test_a_chain_is_the_tree_without_forks(rule: str) -> None:
    for seed in SEEDS:
        token_ids, target = tuple(random.Random(seed).choices(range(V), k=4)), laws_of(seed)
        probs, noise = rows_of(target, Draft(token_ids, parents=(-1, 0, 1, 2))), PositionNoise(seed, V)
        as_chain = accept(rule, Draft(token_ids), probs, noise, START)
        as_tree = accept(rule, Draft(token_ids, parents=(-1, 0, 1, 2)), probs, noise, START)
        assert as_chain.path == as_tree.path
        assert as_chain.next_token_id == as_tree.next_token_id
        assert as_chain.trials == as_tree.trials


def test_typical_goes_along_the_longest_branch_that_stays() -> None:
    sure = torch.tensor([0.5, 0.5, 0.0])
    draft = Draft((0, 1, 2, 0), parents=(-1, -1, 0, 1))
    verdict = accept("typical", draft, sure.expand(5, -1), PositionNoise(0, 3), START)
    check_path(draft, verdict)
    assert verdict.path == (1, 3)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_tree_that_knows_every_word_accepts_a_whole_branch(seed: int) -> None:
    parents = (ROOT,) * V + tuple(parent for parent in range(V) for _ in range(V))
    draft = Draft(tuple(range(V)) * (V + 1), parents=parents)
    for rule in ("greedy", "coupled", "rejection"):
        verdict = accept(rule, draft, rows_of(laws_of(seed), draft), PositionNoise(seed, V), START)
        assert (verdict.num_accepted, verdict.next_token_kind) == (2, "bonus")


def best_by_hand(values: dict[tuple[int, ...], float], num_tokens: int) -> set[tuple[int, ...]]:
    return set(sorted(values, key=lambda words: -values[words])[:num_tokens])


@pytest.mark.parametrize("num_tokens", [1, 2, 4, 6])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_tree_holds_the_most_probable_branches_best_first(num_tokens: int, seed: int, temperature: float) -> None:
    """Against all branches of a small vocabulary, each with the probability that the drafter gives it."""
    drafter, prompt = laws_of(seed), [0] * START
    sampler = Sampler(DecodeSettings(temperature=temperature, rule="rejection" if temperature else "auto"), V)

    def next_logits(tree: Tree) -> Tensor:
        return torch.stack([drafter(tuple(tree.token_id(i) for i in tree.path(one))).log() for one in tree.frontier])

    draft = grow_tree(sampler, prompt, num_tokens, next_logits)
    found = [words_to(draft.token_ids, draft.parents, index) for index in range(len(draft.token_ids))]
    values = {
        words: sum(float(drafter(words[:i]).log()[word]) for i, word in enumerate(words))
        for length in range(1, num_tokens + 1)
        for words in itertools.product(range(V), repeat=length)
    }
    assert set(found) == best_by_hand(values, num_tokens)
    assert [values[words] for words in found] == sorted((values[words] for words in found), reverse=True)
    assert draft.probs is None


def test_under_coupled_a_perfect_drafter_names_the_targets_own_draw_first() -> None:
    sampler = Sampler(DecodeSettings(temperature=1.0, rule="coupled", seed=5), V)
    target = laws_of(3)
    draft = grow_tree(
        sampler,
        [0] * START,
        4,
        lambda tree: torch.stack([target(tuple(tree.token_id(i) for i in tree.path(n))).log() for n in tree.frontier]),
    )
    verdict = accept("coupled", draft, rows_of(target, draft), sampler.noise, START)
    assert verdict.num_accepted == deepest(draft.parents, 4) or verdict.next_token_kind == "bonus"
    assert 0 in verdict.path


def test_a_row_of_a_tree_is_processed_with_its_own_branch() -> None:
    """The repetition penalty sees what stands on the row's branch, and nothing of its siblings'."""
    sampler = Sampler(DecodeSettings(repetition_penalty=1.7, temperature=0.9, rule="rejection"), 8)
    logits = torch.randn(6, 8, generator=torch.Generator().manual_seed(1))
    token_ids, parents = random_tree(random.Random(3), 5, 8)
    found = sampler.scores(logits, [1, 2], token_ids, parents)
    for index in range(ROOT, 5):
        own = words_to(token_ids, parents, index)
        alone = sampler.scores(logits[index + 1 : index + 2], [1, 2, *own], ())
        torch.testing.assert_close(found[index + 1], alone[0])


@pytest.mark.parametrize("seed", range(40))
def test_counts_of_a_tree_add_up_and_its_spans_are_the_answer(seed: int) -> None:
    event = tree_round(random.Random(seed), 1 + seed % 9)
    assert event.num_accepted + event.num_rejected + event.num_unused == len(event.draft_token_ids)
    assert event.num_judged == event.num_accepted + (event.next_token_kind == "corrected")
    spans = LaneSpans(lambda ids: "".join(f"<{i}>" for i in ids)).add(event)
    assert tuple(span.token_id for span in spans if span.status in RETAINED) == event.emitted_token_ids
    assert len(spans) == len(event.draft_token_ids) + (event.next_token_id is not None)
    assert all(span.text == f"<{span.token_id}>" for span in spans)
    summary = summarize([event])
    assert sum(summary.accepted_length_histogram) == 1
    assert len(summary.acceptance_by_position) == deepest(event.draft_parents, len(event.draft_token_ids))
    wire = RaceWire({})
    wire.add([LaneUpdate("speculative", event, spans)])
    assert '"g":' in wire.rows[0]


CONTRADICTIONS: dict[str, dict[str, Any]] = {
    "as many parents as drafts": {"draft_parents": (-1, 0)},
    "a parent behind its child": {"draft_parents": (-1, 2, 0)},
    "a path that jumps": {"accepted_path": (2,)},
    "a path without a tree": {"draft_parents": ()},
    "bonus before siblings that failed": {"accepted_path": (), "num_accepted": 0, "next_token_kind": "bonus"},
    "another number than the path's": {"num_accepted": 1},
}


@pytest.mark.parametrize("changes", CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys())
def test_a_contradiction_about_a_tree_cannot_be_built(changes: dict[str, Any]) -> None:
    values: dict[str, Any] = {
        "index": 0, "draft_token_ids": (5, 6, 7), "num_accepted": 2, "next_token_id": 9, "next_token_kind": "bonus",
        "draft_parents": (-1, -1, 0), "accepted_path": (0, 2),
    }  # fmt: skip
    Round(**values)
    with pytest.raises(AssertionError):
        Round(**(values | changes))
