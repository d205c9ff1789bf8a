"""Trees with real models: a pass over a tree is the passes over its branches, and a race with one is lossless."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch

from specdemo.branches import path_to
from specdemo.catalog import read_note, read_tree_setting, reads_a_folder
from specdemo.drafters import make_drafter
from specdemo.drafters.eagle3 import load_eagle3
from specdemo.errors import ModelError
from specdemo.events import Finished
from specdemo.llama import LlamaLM
from tests.fakes import answer, make_target, plain, rounds_of, run
from tests.trees import random_parents
from tests.unit.test_eagle3 import PROMPT, folder, student  # noqa: F401 - fixtures

SIZE = 200


def check_tree(target: Any, numbers: random.Random, *, is_exact: bool) -> None:
    """Logits of every row, and the cache once a branch is kept, against a sequence of their own."""
    length, num_drafts = numbers.randrange(2, 70), numbers.randrange(1, 17)
    ids, drafts = ([numbers.randrange(SIZE) for _ in range(n)] for n in (length, num_drafts))
    parents = random_parents(numbers, num_drafts)
    session = target.lm.open()
    session.forward(ids[:-1], 0)
    found = session.forward([ids[-1], *drafts], num_drafts + 1, parents)
    kept = numbers.randrange(num_drafts)
    for index in range(num_drafts):
        path = path_to(parents, index)
        alone = target.lm.open()
        alone.forward(ids[:-1], 0)
        expected = alone.forward([ids[-1], *(drafts[i] for i in path)], 1)[0]
        if is_exact:
            assert torch.equal(found[index + 1], expected)
        else:
            torch.testing.assert_close(found[index + 1], expected, atol=2e-4, rtol=1e-4)
        if index == kept:
            session.keep([0, *(i + 1 for i in path)])
            assert session.length == alone.length
            torch.testing.assert_close(session.forward([7], 1), alone.forward([7], 1), atol=2e-4, rtol=1e-4)
            break


def test_a_row_of_a_tree_has_the_bits_that_it_has_behind_its_branch_alone() -> None:
    target, numbers = make_target(), random.Random(2)
    assert isinstance(target.lm, LlamaLM)
    assert target.lm.compiled is not None
    for _ in range(40):
        check_tree(target, numbers, is_exact=True)


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_without_the_compiled_pass_a_tree_is_its_branches_too(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, numbers = make_target(kind, 0), random.Random(3)
    if isinstance(target.lm, LlamaLM):
        monkeypatch.setattr(target.lm, "compiled", None)
    for _ in range(8):
        check_tree(target, numbers, is_exact=False)


@pytest.mark.parametrize("k", [1, 4, 9, 16])
@pytest.mark.parametrize("rule", ["greedy", "coupled", "rejection", "typical"])
def test_a_race_with_a_tree_is_lossless(k: int, rule: str, folder: Path) -> None:  # noqa: F811
    target = make_target()
    drafter = make_drafter(f"eagle3:tree:{folder}", target)
    settings: dict[str, Any] = {"max_new_tokens": 30, "seed": 4}
    settings |= {} if rule == "greedy" else {"temperature": 1.0, "rule": rule}
    events = run(target, drafter, PROMPT, num_draft_tokens=k, **settings)
    if rule in ("greedy", "coupled"):
        assert answer(events) == plain(target, PROMPT, **settings)
    rounds = rounds_of(events)
    assert all(len(one.draft_token_ids) <= k for one in rounds)
    assert k < 9 or any(len(set(one.draft_parents)) < len(one.draft_parents) for one in rounds), "it forks"


def test_a_tree_accepts_at_least_what_its_chain_accepts(folder: Path) -> None:  # noqa: F811
    """With room for both: the chain's drafts are the tree's first choices."""
    target = make_target()
    chain, tree = load_eagle3(folder, target), make_drafter(f"eagle3:tree:{folder}", target)
    as_chain = rounds_of(run(target, chain, PROMPT, num_draft_tokens=3, max_new_tokens=30))
    as_tree = rounds_of(run(target, tree, PROMPT, num_draft_tokens=16, max_new_tokens=30))
    assert len(as_tree) <= len(as_chain)


def test_block_is_judged_by_chains_and_says_so(folder: Path) -> None:  # noqa: F811
    target = make_target()
    drafter = make_drafter(f"eagle3:tree:{folder}", target)
    events = run(target, drafter, PROMPT, temperature=1.0, rule="block", max_new_tokens=20)
    assert not any(one.draft_parents for one in rounds_of(events))
    last = events[-1]
    assert isinstance(last, Finished)
    assert read_note(last.message) == ("note_block_chain", {})


def test_a_cache_with_a_window_refuses_trees_in_a_sentence(folder: Path) -> None:  # noqa: F811
    with pytest.raises(ModelError, match="cannot read a tree of drafts; draft a chain") as caught:
        make_drafter(f"eagle3:tree:{folder}", make_target("mistral", 0))
    assert "\n" not in str(caught.value)


def test_tree_is_a_setting_and_no_folder() -> None:
    assert read_tree_setting("tree") == (True, "")
    assert read_tree_setting("tree:./here") == (True, "./here")
    assert read_tree_setting("./tree") == (False, "./tree")
    assert not reads_a_folder("eagle3:tree")
    assert reads_a_folder("eagle3:tree:./here")
