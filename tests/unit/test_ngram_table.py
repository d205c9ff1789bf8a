"""Static counts: the table says what counting the whole text says, and drafts only where the text itself is silent."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdemo.drafters.ngram_table import MAX_N, NgramTable, TextThenTable
from specdemo.drafters.ngram_walk import WalkSession
from specdemo.errors import ModelError
from specdemo.train.count import count

TEXTS = st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=40), min_size=1, max_size=5)


def naive(texts: list[list[int]], tail: list[int]) -> set[int] | None:
    """The most frequent successors of the longest end of `tail` that was seen twice, or once as a single token."""
    for n in range(min(MAX_N, len(tail)), 0, -1):
        found = Counter(ids[end] for ids in texts for end in range(n, len(ids)) if ids[end - n : end] == tail[-n:])
        most = max(found.values(), default=0)
        if most >= (2 if n > 1 else 1):
            return {token_id for token_id, times in found.items() if times == most}
    return None


@given(texts=TEXTS, tail=st.lists(st.integers(0, 3), min_size=1, max_size=6))
def test_the_table_says_what_counting_says(texts: list[list[int]], tail: list[int]) -> None:
    expected = naive(texts, tail)
    found = count(texts).after(tail)
    assert (found is None) == (expected is None)
    assert expected is None or found in expected


@given(texts=TEXTS, tails=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), max_size=5))
def test_a_saved_table_says_the_same(
    tmp_path_factory: pytest.TempPathFactory, texts: list[list[int]], tails: list[list[int]]
) -> None:
    path = tmp_path_factory.mktemp("table") / "table.safetensors"
    table = count(texts)
    table.save(path)
    again = NgramTable.load(path)
    assert [again.after(tail) for tail in tails] == [table.after(tail) for tail in tails]
    assert again.memory_bytes == table.memory_bytes


def test_no_table_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "damaged").write_bytes(b"not a table")
    for name in ("missing", "damaged"):
        with pytest.raises(ModelError, match="no n-gram table could be read"):
            NgramTable.load(tmp_path / name)


def test_the_text_itself_is_asked_before_the_table() -> None:
    table = NgramTable.from_winners({(1,): 7, (7,): 8, (2,): 9})
    session = WalkSession(TextThenTable(table, 2, 3))
    session.commit([5, 1], None)
    assert session.propose(4).token_ids == (7, 8)
    session.commit([2, 6, 5, 1], None)
    # "5 1" was followed by 2, and then the text went on.
    assert session.propose(3).token_ids == (2, 6, 5)


@given(text=st.lists(st.integers(0, 3), max_size=30), max_tokens=st.integers(1, 8))
def test_without_entries_it_drafts_only_what_the_text_has_said(text: list[int], max_tokens: int) -> None:
    session = WalkSession(TextThenTable(NgramTable.from_winners({}), 1, 3))
    session.commit(text, None)
    drafted = session.propose(max_tokens).token_ids
    assert bool(drafted) == (len(text) > 1 and text[-1] in text[:-1])
    pairs = {(text[i], text[i + 1]) for i in range(len(text) - 1)}
    assert set(zip([*text[-1:], *drafted], drafted, strict=False)) <= pairs
