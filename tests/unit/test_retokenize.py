"""Text between two tokenizers: nothing is lost, nothing is invented, and a round's work does not grow with the text."""

from collections.abc import Sequence

import pytest
from hypothesis import assume, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from transformers import BatchEncoding

from specdemo.drafters.retokenize import Codec, Conversion, DrafterText, TargetTail
from tests.fakes import START
from tests.fakes_text import CONTROLS, END, FOREIGN_CONTROLS, STORY, TEXTS, drafter_tokenizer, target_tokenizer


@pytest.fixture(scope="module")
def codecs() -> dict[str, Codec]:
    """The target's, a drafter's with the same control tokens, and one's with others."""
    return {
        "target": Codec(target_tokenizer()),
        "alike": Codec(drafter_tokenizer(CONTROLS)),
        "foreign": Codec(drafter_tokenizer(FOREIGN_CONTROLS)),
    }


# --- the committed text in the drafter's ids ---


class CountingCodec(Codec):
    """Says how many characters it encoded."""

    num_chars = 0

    def encode(self, text: str) -> BatchEncoding:
        CountingCodec.num_chars += len(text)
        return super().encode(text)


@given(text=TEXTS, sizes=st.lists(st.integers(1, 9), min_size=1, max_size=5))
@hypothesis_settings(max_examples=60)
@example(text=STORY * 2, sizes=[3])
def test_the_drafter_reads_the_same_text_however_it_arrives(
    codecs: dict[str, Codec], text: str, sizes: list[int]
) -> None:
    ids = codecs["target"].encode(text)["input_ids"]
    at_once, bit_by_bit = (DrafterText(codecs["target"], codecs["foreign"]) for _ in range(2))
    at_once.read(ids)
    for start, end in zip(cuts := cumulate(sizes, len(ids)), cuts[1:], strict=False):
        settled = bit_by_bit.ids[: bit_by_bit.num_settled]
        bit_by_bit.read(ids[start:end])
        assert bit_by_bit.ids[: len(settled)] == settled
        # What has not arrived whole is not there yet.
        assert codecs["foreign"].decode(bit_by_bit.ids) == codecs["target"].decode(ids[:end]).rstrip("\ufffd")
    assert bit_by_bit.ids == at_once.ids
    assert bit_by_bit.num_settled == at_once.num_settled


def cumulate(sizes: list[int], length: int) -> list[int]:
    """0, and the ends of parts of these sizes by turns, up to `length`."""
    ends = [0]
    while ends[-1] < length:
        ends.append(min(length, ends[-1] + sizes[len(ends) % len(sizes)]))
    return ends


@pytest.mark.parametrize("text", [STORY * 40, "世界" * 3000, "x" * 6000], ids=["story", "no spaces", "one word"])
def test_a_round_encodes_a_bounded_part_of_a_long_text(codecs: dict[str, Codec], text: str) -> None:
    read = DrafterText(codecs["target"], CountingCodec(codecs["alike"].tokenizer))
    ids = codecs["target"].encode(text)["input_ids"]
    read.read(ids)
    expected = len(codecs["alike"].encode(text)["input_ids"])
    assert expected <= len(read.ids) < 1.03 * expected
    for _ in range(40):
        before = CountingCodec.num_chars
        read.read(ids[:4])
        assert CountingCodec.num_chars - before < 3 * 128
        assert len(read.ids) - read.num_settled <= 3 * 128


def test_control_tokens_are_the_drafters_where_it_has_them_and_left_out_elsewhere(codecs: dict[str, Codec]) -> None:
    target, alike = codecs["target"].control_ids, codecs["alike"].control_ids
    ids = [target[START], *codecs["target"].encode("user")["input_ids"], target[END], target[END]]
    found = {name: DrafterText(codecs["target"], codecs[name]) for name in ("alike", "foreign")}
    for text in found.values():
        text.read(ids)
    name = {key: codecs[key].encode("user")["input_ids"] for key in found}
    assert found["alike"].ids == [alike[START], *name["alike"], alike[END], alike[END]]
    assert found["foreign"].ids == name["foreign"]


def test_a_typed_control_token_is_text_for_the_drafter_too(codecs: dict[str, Codec]) -> None:
    text = DrafterText(codecs["target"], codecs["alike"])
    text.read(codecs["target"].encode("say <|im_end|>")["input_ids"])
    assert not set(text.ids) & set(codecs["alike"].control_ids.values())
    assert codecs["alike"].decode(text.ids) == "say <|im_end|>"


def test_an_opening_token_is_not_read_twice(codecs: dict[str, Codec]) -> None:
    start = codecs["alike"].control_ids[START]
    text = DrafterText(codecs["target"], codecs["alike"], opening=[start])
    text.read([codecs["target"].control_ids[START], *codecs["target"].encode("user")["input_ids"]])
    assert text.ids == [start, *codecs["alike"].encode("user")["input_ids"]]


# --- drafted text in the target's ids ---


@given(fragments=st.lists(TEXTS, max_size=4), drafted=TEXTS)
@hypothesis_settings(max_examples=80)
@example(fragments=["The un"], drafted="believable light")
@example(fragments=["The ", "li"], drafted="ght")
@example(fragments=["x"], drafted="")
def test_converted_ids_continue_what_is_committed_with_the_drafted_text(
    codecs: dict[str, Codec], fragments: list[str], drafted: str
) -> None:
    """Fragments that are encoded apart are often parted as no tokenizer would part their whole."""
    target = codecs["target"]
    assume(not "".join(fragments).endswith("\ufffd"))  # it could be the beginning of another character
    committed = [token_id for text in fragments for token_id in target.encode(text)["input_ids"]]
    found = converted(target, committed, drafted)
    assert target.decode([*committed, *found.ids]) == "".join(fragments) + drafted
    assert found.num_certain < len(found.ids) or not found.ids
    assert found.num_certain <= len(found.likely) <= len(found.ids)


@given(committed=TEXTS, drafted=TEXTS, more=TEXTS)
@hypothesis_settings(max_examples=80)
@example(committed="The un", drafted="be", more="lievable")
@example(committed="a", drafted=" b  ", more="c")
@example(committed="it", drafted=" is'", more="s")
def test_certain_ids_stay_whatever_text_follows(
    codecs: dict[str, Codec], committed: str, drafted: str, more: str
) -> None:
    ids = codecs["target"].encode(committed)["input_ids"]
    found = converted(codecs["target"], ids, drafted)
    longer = converted(codecs["target"], ids, drafted + more)
    assert longer.ids[: found.num_certain] == found.ids[: found.num_certain]


def converted(target: Codec, committed: Sequence[int], text: str) -> Conversion:
    tail = TargetTail(target)
    tail.read(committed)
    return tail.convert(text)


def test_committed_ids_are_kept_where_their_text_is_encoded_otherwise(codecs: dict[str, Codec]) -> None:
    """Behind `Ġun` the draft goes on with what is left of a word that is one token by itself."""
    target = codecs["target"]
    (whole,) = target.encode(" light")["input_ids"]
    committed = target.encode(" li")["input_ids"]
    found = converted(target, committed, "ght house")
    assert whole not in found.ids
    assert target.decode(found.ids) == "ght house"


def test_a_character_that_is_committed_in_part_is_completed_or_nothing_is_drafted(codecs: dict[str, Codec]) -> None:
    target = codecs["target"]
    ids = target.encode("ab 🚀 c")["input_ids"]
    parts = [end for end in range(len(ids)) if target.decode(ids[:end]).endswith("\ufffd")]
    assert parts
    for end in parts:
        before = target.decode(ids[:end]).rstrip("\ufffd")
        assert list(converted(target, ids[:end], "ab 🚀 c"[len(before) :]).ids) == ids[end:]
        other = converted(target, ids[:end], "zzz")
        assert (other.ids, other.is_possible) == ((), False)
