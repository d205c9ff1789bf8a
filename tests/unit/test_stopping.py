"""One rule cuts every round of every lane: the same as reading the whole answer token by token."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from specdemo.events import FinishReason
from specdemo.stopping import StopRule

# Ids are places in this list: short alphabets make crossing matches common; two tokens share a character between them.
PIECES = [b"a", b"b", b"ab", b"aab", b"\n", b"\n\n", b"<end>", b"\xc3", b"\xa9", b"bb"]
EOS = 6
TOKENS = st.integers(0, len(PIECES) - 1)
STOPS = st.lists(st.text("ab\né<end>", min_size=1, max_size=4), max_size=3)


def decode_text(token_ids: Sequence[int]) -> str:
    return b"".join(PIECES[i] for i in token_ids).decode("utf-8", "replace")


def make_rule(stops: Sequence[str], max_new_tokens: int = 100, context_room: int = 100) -> StopRule:
    return StopRule(
        eos_token_ids=[EOS],
        stop_strings=stops,
        decode_text=decode_text,
        max_new_tokens=max_new_tokens,
        context_room=context_room,
    )


def expected(
    token_ids: Sequence[int], stops: Sequence[str], max_new_tokens: int, room: int
) -> tuple[int, FinishReason | None]:
    """By definition: read from the start after each token; what ends first, in the order eos, stop, length, context."""
    for count in range(1, len(token_ids) + 1):
        if token_ids[count - 1] == EOS:
            return count, "eos"
        complete = decode_text(token_ids[:count])
        if token_ids[count - 1] == 7 and complete.endswith("\ufffd"):
            complete = complete[:-1]  # half a character, which the next token may complete
        if any(stop in complete for stop in stops):
            return count, "stop"
        if count == max_new_tokens:
            return count, "length"
        if count == room:
            return count, "context"
    return len(token_ids), None


@given(
    rounds=st.lists(st.lists(TOKENS, min_size=1, max_size=5), max_size=8),
    stops=STOPS,
    max_new_tokens=st.integers(1, 20),
    room=st.integers(1, 20),
)
@example(rounds=[[0], [1, 0]], stops=["ab"], max_new_tokens=20, room=20)
@example(rounds=[[7, 8]], stops=["é"], max_new_tokens=2, room=2)
@example(rounds=[[3]], stops=["a"], max_new_tokens=20, room=20)
def test_rounds_are_cut_where_reading_the_whole_answer_ends(
    rounds: list[list[int]], stops: list[str], max_new_tokens: int, room: int
) -> None:
    rule = make_rule(stops, max_new_tokens, room)
    kept: list[int] = []
    reason = None
    for tokens in rounds:
        count, reason = rule.cut(tokens)
        kept += tokens[:count]
        if reason is not None:
            break
    everything = [token for tokens in rounds for token in tokens]
    assert (len(kept), reason) == expected(everything, stops, max_new_tokens, room)


@given(tokens=st.lists(TOKENS.filter(lambda token: token != EOS), max_size=10), room=st.integers(11, 20))
def test_the_room_left_shrinks_with_each_token(tokens: list[int], room: int) -> None:
    rule = make_rule([], max_new_tokens=15, context_room=room)
    assert rule.cut(tokens) == (len(tokens), None)
    assert rule.num_left == min(15, room) - len(tokens)


@pytest.mark.parametrize(
    ("token", "stops", "max_new_tokens", "room", "reason"),
    [
        (EOS, ["<end>"], 1, 1, "eos"),
        (0, ["a"], 1, 1, "stop"),
        (0, ["b"], 1, 1, "length"),
        (0, ["b"], 2, 1, "context"),
        (0, ["b"], 2, 2, None),
    ],
)
def test_of_two_reasons_at_one_token_the_earlier_in_the_list_is_given(
    token: int, stops: list[str], max_new_tokens: int, room: int, reason: str | None
) -> None:
    assert make_rule(stops, max_new_tokens, room).cut([token]) == (1, reason)


def test_a_stop_string_inside_one_token_keeps_that_token_whole() -> None:
    assert make_rule(["nd"]).cut([0, 1]) == (2, None)
    assert make_rule(["aa"]).cut([1, 3, 1]) == (2, "stop")


def test_a_stop_string_counts_in_the_answer_only() -> None:
    rule = make_rule(["ab"])  # a prompt that ends in "a" is none of its business
    assert rule.cut([1]) == (1, None)
    assert rule.cut([0]) == (1, None)
    assert rule.cut([1, 1]) == (1, "stop")


def test_a_match_early_in_a_long_round_is_found_however_short_the_stop_string() -> None:
    assert make_rule(["a"]).cut([0, *[1] * 40]) == (1, "stop")
    assert make_rule(["\n\na"]).cut([1, 5, 0, *[1] * 40]) == (3, "stop")
