"""The n-gram drafter finds what a search of the whole text finds: the longest suffix, where it occurred last."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from specdemo.drafters.ngram import NgramDrafter, NgramSession
from specdemo.errors import SettingsError
from specdemo.sampling import Sampler
from specdemo.settings import DecodeSettings
from tests.fakes import make_target

TEXTS = st.lists(st.integers(0, 2), max_size=30)
LENGTHS = st.tuples(st.integers(1, 4), st.integers(0, 3)).map(lambda pair: (pair[0], pair[0] + pair[1]))


def naive(ids: list[int], lengths: tuple[int, int], max_tokens: int) -> list[int]:
    """Search the text itself; a copy that reaches the end goes on with what it has copied."""
    for n in range(lengths[1], lengths[0] - 1, -1):
        for end in range(len(ids) - 1, n - 1, -1):
            if len(ids) > n and ids[end - n : end] == ids[-n:]:
                text = list(ids)
                for index in range(max_tokens):
                    text.append(text[end + index])
                return text[len(ids) :]
    return []


@given(parts=st.lists(TEXTS, min_size=1, max_size=4), lengths=LENGTHS, max_tokens=st.integers(1, 10))
@example(parts=[[0, 1, 0, 1]], lengths=(1, 2), max_tokens=8)
@example(parts=[[0], [0], [0]], lengths=(2, 3), max_tokens=3)
def test_proposes_what_followed_the_longest_suffix_the_last_time(
    parts: list[list[int]], lengths: tuple[int, int], max_tokens: int
) -> None:
    session = NgramSession(*lengths)
    ids: list[int] = []
    for part in parts:
        session.commit(part, None)
        ids += part
        draft = session.propose(max_tokens)
        assert list(draft.token_ids) == naive(ids, lengths, max_tokens)
        text = [*ids, *draft.token_ids]
        for place, (token_id, origin) in enumerate(zip(draft.token_ids, draft.origins, strict=True), len(ids)):
            assert origin.copied_from is not None
            assert origin.num_matched is not None
            start = origin.copied_from - origin.num_matched
            assert text[start : origin.copied_from + 1] == [*text[place - origin.num_matched : place], token_id]


@pytest.mark.parametrize("ids", [[], [7], [7, 8, 9]])
def test_proposes_nothing_where_nothing_was_repeated(ids: list[int]) -> None:
    session = NgramSession(1, 3)
    session.commit(ids, None)
    assert session.propose(5).token_ids == ()


def test_a_copy_that_reaches_the_present_repeats_its_period() -> None:
    session = NgramSession(2, 3)
    session.commit([9, 1, 2, 3, 1, 2], None)
    assert session.propose(7).token_ids == (3, 1, 2, 3, 1, 2, 3)


def test_a_proposal_is_a_point_mass_not_a_law() -> None:
    session = NgramSession(1, 3)
    session.commit([1, 1], None)
    assert session.propose(2).probs is None


def test_a_session_starts_from_the_prompt_and_shares_nothing_with_another() -> None:
    drafter, target = NgramDrafter(), make_target()
    sampler = Sampler(DecodeSettings(), target.lm.vocab_size)
    one = drafter.open(target.lm.open(), [1, 2, 3, 1, 2], sampler)
    other = drafter.open(target.lm.open(), [1, 2, 4, 1, 2], sampler)
    assert one.propose(1).token_ids == (3,)
    assert other.propose(1).token_ids == (4,)


@pytest.mark.parametrize("lengths", [(0, 3), (3, 2), (1, 17)])
def test_lengths_outside_the_range_are_refused(lengths: tuple[int, int]) -> None:
    with pytest.raises(SettingsError, match=r"1 <= min <= max <= 16"):
        NgramDrafter(*lengths)
