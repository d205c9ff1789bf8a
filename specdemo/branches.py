"""Drafts that share a beginning, as plain ints: of each draft the index of the one before it, ROOT for none.

A chain says nothing of it, `()`: there the draft before is the one with the index before. Parents stand before their
children. Knows no tokens.
"""

from collections.abc import Sequence

ROOT = -1
"""The newest token of the text, behind which every first draft stands."""

Parents = tuple[int, ...]

MOST_BRANCHES = 4
"""Ways to go on from a draft that a tree's drafter looks at, and drafts of a level from which it goes on."""


def parent_of(parents: Parents, index: int) -> int:
    """The draft before draft `index`, ROOT where there is none."""
    return parents[index] if parents else index - 1


def children_of(parents: Parents, num_drafts: int, index: int) -> Sequence[int]:
    """The drafts right behind draft `index`, or behind ROOT, in order."""
    if not parents:
        return range(index + 1, min(index + 2, num_drafts))
    return [child for child, parent in enumerate(parents) if parent == index]


def path_to(parents: Parents, index: int) -> tuple[int, ...]:
    """The drafts from the first to draft `index`, itself included; none for ROOT."""
    if not parents:
        return tuple(range(index + 1))
    path = []
    while index != ROOT:
        path.append(index)
        index = parents[index]
    return tuple(reversed(path))


def paths_of(parents: Parents) -> list[tuple[int, ...]]:
    """Of the newest token and of each draft of a tree the drafts that lead to it; see `path_to`."""
    return [(), *(path_to(parents, index) for index in range(len(parents)))]


def depths(parents: Parents) -> list[int]:
    """Of each draft of a tree how many drafts lead to it, itself included."""
    found: list[int] = []
    for parent in parents:
        found.append(1 if parent == ROOT else found[parent] + 1)
    return found


def deepest(parents: Parents, num_drafts: int) -> int:
    """How many drafts the longest path has."""
    return max(depths(parents)) if parents else num_drafts


def is_prefix(rows: Sequence[int]) -> bool:
    """Whether they are the first so many."""
    return list(rows) == list(range(len(rows)))
