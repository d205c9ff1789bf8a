"""Random trees of drafts, and the rounds that may come of them."""

import random
from collections.abc import Sequence

from specdemo.branches import ROOT, Parents, children_of, path_to
from specdemo.events import Round


def random_parents(numbers: random.Random, num_drafts: int) -> Parents:
    """Any tree."""
    return tuple(numbers.randrange(ROOT, index) for index in range(num_drafts))


def random_tree(numbers: random.Random, num_drafts: int, vocab_size: int) -> tuple[tuple[int, ...], Parents]:
    """Tokens and parents; no two siblings say the same."""
    token_ids: list[int] = []
    parents: list[int] = []
    while len(token_ids) < num_drafts:
        parent = numbers.randrange(ROOT, len(token_ids))
        said = {token_ids[child] for child, one in enumerate(parents) if one == parent}
        if len(said) < vocab_size:
            parents.append(parent)
            token_ids.append(numbers.choice([one for one in range(vocab_size) if one not in said]))
    return tuple(token_ids), tuple(parents)


def words_to(token_ids: Sequence[int], parents: Parents, index: int) -> tuple[int, ...]:
    """What the branch says that ends with draft `index`; nothing for ROOT."""
    return tuple(token_ids[i] for i in path_to(parents, index)) if index != ROOT else ()


def tree_round(numbers: random.Random, num_drafts: int) -> Round:
    """A round of any outcome over any tree."""
    token_ids, parents = random_tree(numbers, num_drafts, 30)
    last = numbers.randrange(ROOT, num_drafts)
    path = path_to(parents, last) if last != ROOT else ()
    if path and numbers.random() < 0.3:
        return Round(0, token_ids, len(path), None, None, num_drafts - len(path), 0, 0, 0, 0, 0, None, parents, path)
    kind = "corrected" if children_of(parents, num_drafts, last) else "bonus"
    return Round(0, token_ids, len(path), 99, kind, draft_parents=parents, accepted_path=path)
