"""Walks through what followed what: `ngram:hashed` and `ngram:map` say what searching and counting the text says."""

from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from specdemo.drafters import make_drafter
from specdemo.drafters.ngram_hashed import DEFAULT_N, HashedSuccessors
from specdemo.drafters.ngram_map import LEAD, MAX_CONTINUATIONS, MAX_N, CountedSuccessors
from specdemo.drafters.ngram_walk import Successors, WalkDrafter, WalkSession
from specdemo.sampling import Sampler
from specdemo.settings import DecodeSettings
from tests.fakes import answer, make_target, plain, rounds_of, run

PARTS = st.lists(st.lists(st.integers(0, 2), max_size=20), min_size=1, max_size=4)
KINDS: dict[str, Callable[[], Successors]] = {"ngram:hashed": HashedSuccessors, "ngram:map": CountedSuccessors}
After = Callable[[Sequence[int], Sequence[int]], int | None]


def followers(ids: Sequence[int], tail: Sequence[int]) -> list[int]:
    """All that followed `tail`, in order."""
    n = len(tail)
    return [ids[end] for end in range(n, len(ids)) if list(ids[end - n : end]) == list(tail)]


def walked(ids: Sequence[int], max_tokens: int, after: After) -> tuple[int, ...]:
    """Ask `after` of the committed text and the text as it would be, until it knows nothing."""
    text = list(ids)
    while len(text) < len(ids) + max_tokens and (token_id := after(ids, text)) is not None:
        text.append(token_id)
    return tuple(text[len(ids) :])


def check(parts: list[list[int]], max_tokens: int, successors: Successors, after: After) -> None:
    """A session that is told of a text part by part drafts as `after` does, and drafting teaches it nothing."""
    session = WalkSession(successors)
    ids: list[int] = []
    for part in parts:
        session.commit(part, None)
        ids += part
        for _ in range(2):
            assert session.propose(max_tokens).token_ids == walked(ids, max_tokens, after)


@given(parts=PARTS, n=st.integers(1, 4), max_tokens=st.integers(1, 10))
def test_hashed_proposes_what_followed_n_tokens_the_last_time(parts: list[list[int]], n: int, max_tokens: int) -> None:
    """None of the n-grams of three tokens share a slot."""

    def after(ids: Sequence[int], text: Sequence[int]) -> int | None:
        found = followers(ids, text[-n:]) if len(text) >= n else []
        return found[-1] if found else None

    check(parts, max_tokens, HashedSuccessors(n), after)


@given(parts=PARTS, max_tokens=st.integers(1, 10))
def test_map_proposes_what_followed_the_longest_known_end_far_more_often_than_all_else(
    parts: list[list[int]], max_tokens: int
) -> None:
    """Three tokens are never more than the continuations that are kept, so that the counts are exact."""

    def after(ids: Sequence[int], text: Sequence[int]) -> int | None:
        for n in range(min(MAX_N, len(text)), 0, -1):
            found = Counter(followers(ids, text[-n:]))
            if found:
                token_id, num_seen = found.most_common(1)[0]
                return token_id if num_seen >= LEAD * (found.total() - num_seen) else None
        return None

    check(parts, max_tokens, CountedSuccessors(), after)


def test_map_is_silent_where_the_text_is_ambiguous() -> None:
    session = WalkSession(CountedSuccessors())
    session.commit([1, 2, 5, 1, 3, 6, 1], None)
    assert session.propose(4).token_ids == ()
    session.commit([2, 7, 1], None)  # behind 1: 2 twice, 3 once; behind 1 2: 5 and 7
    assert session.propose(4).token_ids == (2,)


def test_map_lets_a_fifth_continuation_take_the_place_of_the_rarest() -> None:
    successors = CountedSuccessors()
    for token_id in (10, 10, 11, 12, 12, 13, 13, 14):
        successors.learn([1], token_id)
    (counts,) = successors._counts.values()
    assert counts == {10: 2, 12: 2, 13: 2, 14: 1}
    assert len(counts) == MAX_CONTINUATIONS
    for _ in range(LEAD * 5):
        successors.learn([1], 14)
    assert successors.after([1]) is None  # 11 of 6 others
    successors.learn([1], 14)
    assert successors.after([1]) == 14


@pytest.mark.parametrize("kind", KINDS)
@given(period=st.permutations(range(12)).flatmap(lambda ids: st.integers(1, 12).map(lambda n: ids[:n])))
def test_a_text_that_repeats_itself_goes_on_as_it_does(kind: str, period: list[int]) -> None:
    session = WalkSession(KINDS[kind]())
    text = period * 20
    known = 2 * len(period) + DEFAULT_N
    session.commit(text[:known], None)
    for start in range(known, known + len(period)):
        assert list(session.propose(16).token_ids) == text[start : start + 16]
        session.commit(text[start : start + 1], None)


@pytest.mark.parametrize("kind", KINDS)
def test_on_a_target_that_repeats_itself_all_drafts_are_accepted(kind: str) -> None:
    target = make_target("llama", 0, 4)
    events = run(target, make_drafter(kind, target), [3], num_draft_tokens=8, max_new_tokens=60)
    assert answer(events)[0] == (3,) * 60
    assert [event.num_accepted for event in rounds_of(events)][-4:-1] == [8, 8, 8]


@given(
    prompt=st.lists(st.integers(0, 3), min_size=1, max_size=20),
    num_slots=st.integers(1, 6),
    k=st.integers(1, 8),
)
@hypothesis_settings(max_examples=30, deadline=None)
def test_a_collision_costs_drafts_and_never_the_answer(prompt: list[int], num_slots: int, k: int) -> None:
    """Sixteen pairs of tokens share a handful of slots."""
    target = make_target("llama", 0, 4)
    drafter = WalkDrafter(lambda: HashedSuccessors(num_slots=num_slots))
    events = run(target, drafter, prompt, num_draft_tokens=k, max_new_tokens=40)
    assert answer(events) == plain(target, prompt, max_new_tokens=40)
    assert any(event.draft_token_ids for event in rounds_of(events))


@pytest.mark.parametrize("kind", KINDS)
def test_a_session_starts_from_the_prompt_and_shares_nothing_with_another(kind: str) -> None:
    target = make_target()
    drafter, sampler = make_drafter(kind, target), Sampler(DecodeSettings(), target.lm.vocab_size)
    one = drafter.open(target.lm.open(), [1, 2, 3, 1, 2], sampler)
    other = drafter.open(target.lm.open(), [1, 2, 4, 1, 2], sampler)
    assert one.propose(1).token_ids == (3,)
    assert other.propose(1).token_ids == (4,)
    assert one.propose(1).probs is None
    one.close()
    assert other.propose(1).token_ids == (4,)
    assert drafter.open(target.lm.open(), [1, 2], sampler).propose(1).token_ids == ()


class Watched:
    """Knows one token, and remembers how much text it was shown."""

    reach = 3
    copied = None

    def __init__(self) -> None:
        self.learnt: list[int] = []
        self.asked: list[int] = []

    def learn(self, text: Sequence[int], token_id: int) -> None:
        self.learnt.append(len(text))

    def after(self, text: Sequence[int]) -> int | None:
        self.asked.append(len(text))
        return 7

    def forget(self) -> None:
        self.learnt.clear()


@given(num_tokens=st.integers(0, 200), max_tokens=st.integers(1, 16))
def test_a_round_learns_and_asks_no_more_behind_a_long_text(num_tokens: int, max_tokens: int) -> None:
    """One look-up for each draft and one entry for each committed token, over the newest tokens only."""
    watched = Watched()
    session = WalkSession(watched)
    session.commit(list(range(num_tokens)), None)
    watched.learnt.clear()
    assert session.propose(max_tokens).token_ids == (7,) * max_tokens
    session.commit([7] * max_tokens, None)
    assert watched.asked == [min(num_tokens + i, 3) for i in range(max_tokens)]
    assert watched.learnt == watched.asked
