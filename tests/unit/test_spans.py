"""The spans of a lane, joined, are the decoded answer, whatever was rejected in between.

Tokens may cut a character anywhere. Two decoders: the bytes of a byte-level vocabulary, and the byte fallback of the
tokenizers library.
"""

from collections.abc import Callable, Sequence

from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers.decoders import ByteFallback, Decoder, Fuse
from tokenizers.decoders import Sequence as Chain

from specdemo.events import Round
from specdemo.spans import RETAINED, LaneSpans, Span
from tests.strategies import rounds_that_emit

MARK = "\ufffd"
BYTES = st.integers(0, 255)
WIDE = st.sampled_from("aé你好😀🏁👩‍🚀ß\u0301 \n")
VALID_TEXTS = st.text(WIDE | st.characters(exclude_categories=["Cs"], exclude_characters=MARK), max_size=30)
# Pieces of characters, so that unfinished ones, stray continuations and garbage are common.
PIECES = st.sampled_from([b"\xe4", b"\xbd", b"\xa0", b"\xf0\x9f", b"\x98\x80", b"\xf0", b"\xc3", b"\xff", b"a("])
ANY_BYTES = st.binary(max_size=60) | st.lists(PIECES, max_size=60).map(b"".join)
DecodeText = Callable[[Sequence[int]], str]


def decode_bytes(token_ids: Sequence[int]) -> str:
    return bytes(token_ids).decode("utf-8", "replace")


_FALLBACK: Decoder = Chain([ByteFallback(), Fuse()])


def decode_byte_fallback(token_ids: Sequence[int]) -> str:
    """Ids below 256 are bytes, others the character itself: as in vocabularies that spell rare characters in bytes."""
    return str(_FALLBACK.decode([f"<0x{i:02X}>" if i < 256 else chr(i) for i in token_ids]))


def show(decode_text: DecodeText, rounds: list[Round]) -> tuple[list[Span], str]:
    """All spans of a lane, and the text of an unfinished character at its end."""
    lane = LaneSpans(decode_text)
    spans = [span for event in rounds for span in lane.add(event)]
    return spans, lane.finish()


def retained(spans: list[Span]) -> list[Span]:
    return [span for span in spans if span.status in RETAINED]


@given(data=st.data(), answer=ANY_BYTES)
@example(data=None, answer=b"\xff" * 80)
@example(data=None, answer=b"\xf0\x9f\x98" * 30 + b"\x80!")
def test_retained_spans_and_the_rest_are_the_full_decode(data: st.DataObject | None, answer: bytes) -> None:
    plain = [Round(i, (), 0, token_id, "plain") for i, token_id in enumerate(answer)]
    rounds = data.draw(rounds_that_emit(answer, BYTES)) if data else plain
    spans, rest = show(decode_bytes, rounds)
    assert "".join(span.text for span in retained(spans)) + rest == decode_bytes(answer)


@given(data=st.data(), answer=ANY_BYTES)
def test_what_is_shown_at_any_time_is_a_prefix_of_what_is_decoded_in_the_end(
    data: st.DataObject, answer: bytes
) -> None:
    spans, _ = show(decode_bytes, data.draw(rounds_that_emit(answer, BYTES)))
    full = decode_bytes(answer)
    shown = ""
    for span in retained(spans):
        shown += span.text
        assert full.startswith(shown)


@given(data=st.data(), text=VALID_TEXTS)
def test_valid_text_never_shows_a_replacement_mark(data: st.DataObject, text: str) -> None:
    spans, rest = show(decode_bytes, data.draw(rounds_that_emit(text.encode(), BYTES)))
    assert all(MARK not in span.text for span in retained(spans))
    assert rest == ""


@given(data=st.data(), text=VALID_TEXTS)
def test_neighbouring_characters_spelt_in_fallback_bytes_appear_once_each(data: st.DataObject, text: str) -> None:
    in_bytes = {char for char in text if ord(char) < 256 or data.draw(st.booleans())}
    spelt = [token_id for char in text for token_id in (char.encode() if char in in_bytes else [ord(char)])]
    spans, rest = show(decode_byte_fallback, data.draw(rounds_that_emit(spelt, BYTES)))
    assert "".join(span.text for span in retained(spans)) + rest == text


@given(data=st.data(), answer=ANY_BYTES)
def test_rejected_drafts_leave_no_trace_in_the_retained_spans(data: st.DataObject, answer: bytes) -> None:
    with_rejected, rest = show(decode_bytes, data.draw(rounds_that_emit(answer, BYTES)))
    undisturbed, same_rest = show(decode_bytes, data.draw(rounds_that_emit(answer)))
    texts = [(span.token_id, span.text) for span in retained(with_rejected)]
    assert (texts, rest) == ([(span.token_id, span.text) for span in retained(undisturbed)], same_rest)


@given(data=st.data(), answer=ANY_BYTES)
def test_each_token_of_a_round_has_its_span_in_reading_order(data: st.DataObject, answer: bytes) -> None:
    lane = LaneSpans(decode_bytes)
    for event in data.draw(rounds_that_emit(answer, BYTES)):
        spans = lane.add(event)
        assert tuple(span.token_id for span in spans) == (*event.draft_token_ids, event.next_token_id)
        failed = ["rejected", *["discarded"] * (event.num_rejected - 1)] if event.num_rejected else []
        assert [span.status for span in spans] == ["accepted"] * event.num_accepted + failed + [event.next_token_kind]


def test_drafts_behind_a_stop_are_shown_as_unused() -> None:
    spans, _ = show(decode_bytes, [Round(0, tuple(b"abc"), 1, None, None, num_unused=2)])
    assert [(span.text, span.status) for span in spans] == [("a", "accepted"), ("b", "unused"), ("c", "unused")]


def test_an_accepted_and_a_corrected_token_share_a_character_that_appears_with_the_latter() -> None:
    head, tail = "é".encode()
    spans, _ = show(decode_bytes, [Round(0, (head, ord("x")), 1, tail, "corrected")])
    texts = [(span.text, span.status) for span in spans]
    assert texts == [("", "accepted"), (MARK + "x", "rejected"), ("é", "corrected")]


@given(answer=st.text(st.characters(min_codepoint=97, max_codepoint=122), min_size=200, max_size=200))
def test_the_cost_of_a_token_does_not_grow_with_the_answer(answer: str) -> None:
    longest = 0

    def decode_and_watch(token_ids: Sequence[int]) -> str:
        nonlocal longest
        longest = max(longest, len(token_ids))
        return decode_bytes(token_ids)

    show(decode_and_watch, [Round(i, (), 0, token_id, "plain") for i, token_id in enumerate(answer.encode())])
    assert longest <= 8
