"""A person's text becomes the ids the template asks for, and nothing a person types becomes a control token."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from specdemo.chat import encode_prompt, has_system_role, thinking_by_default
from specdemo.errors import PromptError
from specdemo.prompts import MAX_PROMPT_CHARS
from tests.fakes import CHAT_TEMPLATE, END, EOS, START, make_tokenizer

TOKENIZER = make_tokenizer()
CONTROL_IDS = set(TOKENIZER.convert_tokens_to_ids([EOS, START, END]))
NO_SYSTEM_ROLE = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + CHAT_TEMPLATE
)
ORDINARY = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(
    lambda text: bool(text.strip()) and not any(token in text for token in (EOS, START, END))
)
HOSTILE = st.lists(ORDINARY | st.sampled_from([EOS, START, END, "<|im_", "end|>", "\U000f0000"]), min_size=1).map(
    "".join
)


def encode(prompt: str, system: str = "", *, raw: bool = False, template: str = CHAT_TEMPLATE) -> list[int]:
    return encode_prompt(make_tokenizer((), template), prompt, system=system, raw=raw, context_length=10**6)


def by_template(*messages: tuple[str, str]) -> list[int]:
    chat = [{"role": role, "content": content} for role, content in messages]
    return list(TOKENIZER.apply_chat_template(chat, add_generation_prompt=True, return_dict=False))


@given(prompt=ORDINARY, system=st.just("") | ORDINARY)
def test_ordinary_text_gets_the_ids_that_apply_chat_template_gives(prompt: str, system: str) -> None:
    turns = [("system", system)] if system else []
    assert encode(prompt, system) == by_template(*turns, ("user", prompt))


@given(prompt=HOSTILE.filter(str.strip), system=st.just("") | HOSTILE)
def test_typed_control_tokens_stay_text_and_none_of_it_is_lost(prompt: str, system: str) -> None:
    turns = [("system", system)] if system else []
    ids = encode(prompt, system)
    shape = by_template(*((role, "x") for role, _ in turns), ("user", "x"))
    assert [i for i in ids if i in CONTROL_IDS] == [i for i in shape if i in CONTROL_IDS]
    text = "".join(f"{START}{role}\n{content}{END}\n" for role, content in [*turns, ("user", prompt)])
    assert TOKENIZER.decode(ids) == f"{text}{START}assistant\n"


@given(prompt=HOSTILE.filter(str.strip))
def test_a_raw_prompt_is_its_own_text_and_nothing_else(prompt: str) -> None:
    ids = encode(prompt, "You are ignored.", raw=True)
    assert TOKENIZER.decode(ids) == prompt
    assert not CONTROL_IDS & set(ids)


def test_where_the_template_knows_no_system_role_its_text_opens_the_users_turn() -> None:
    assert encode("Hello.", "Be brief.", template=NO_SYSTEM_ROLE) == by_template(("user", "Be brief.\n\nHello."))
    assert encode("Hello.", template=NO_SYSTEM_ROLE) == by_template(("user", "Hello."))


def test_a_template_that_leaves_the_system_text_out_gets_it_in_the_users_turn() -> None:
    silent = CHAT_TEMPLATE.replace(
        "{% for message in messages %}", "{% for message in messages if message.role != 'system' %}"
    )
    assert encode("Hello.", "Be brief.", template=silent) == by_template(("user", "Be brief.\n\nHello."))
    assert [has_system_role(make_tokenizer((), template)) for template in (CHAT_TEMPLATE, silent, NO_SYSTEM_ROLE)] == [
        True,
        False,
        False,
    ]


THINKS = "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
THINKS_NOT = "{% if enable_thinking is defined and enable_thinking %}<think>{% endif %}"


@pytest.mark.parametrize(("switch", "default"), [(THINKS, True), (THINKS_NOT, False), ("", None)])
def test_thinking_is_a_switch_of_the_template(switch: str, default: bool | None) -> None:
    tokenizer = make_tokenizer((), CHAT_TEMPLATE + switch)
    assert thinking_by_default(tokenizer) is default
    ids = {
        mode: encode_prompt(tokenizer, "Hi.", system="", raw=False, context_length=99, thinking=mode)
        for mode in (None, True, False)
    }
    assert ids[None] == ids[default]
    assert (ids[True] == ids[False]) is (default is None)


def test_a_template_that_refuses_every_prompt_is_named_in_a_sentence() -> None:
    with pytest.raises(PromptError, match="chat template"):
        encode("Hello.", template="{{ raise_exception('never') }}")


def test_without_a_template_the_system_text_comes_first() -> None:
    plain = PreTrainedTokenizerFast(tokenizer_object=TOKENIZER.backend_tokenizer)
    ids = encode_prompt(plain, "Hello.", system="Be brief.", raw=False, context_length=100)
    assert TOKENIZER.decode(ids) == "Be brief.\n\nHello."


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("prompt", ["", "   ", "\n", "\t \n\u3000"])
def test_an_empty_or_blank_prompt_is_refused_in_a_sentence(prompt: str, raw: bool) -> None:
    with pytest.raises(PromptError, match="type a question or some text"):
        encode(prompt, raw=raw)


def test_a_prompt_of_too_many_characters_is_refused_with_both_numbers() -> None:
    with pytest.raises(PromptError, match=r"200,000 characters; at most 100,000"):
        encode("a" * 200_000)
    assert len(encode("a" * MAX_PROMPT_CHARS, raw=True)) == MAX_PROMPT_CHARS


@pytest.mark.parametrize("field", ["prompt", "system"])
def test_half_a_character_is_refused_in_a_sentence(field: str) -> None:
    texts = {"prompt": "Hello.", "system": "Be brief.", field: "a\ud83db"}
    with pytest.raises(PromptError, match="half a character"):
        encode(texts["prompt"], texts["system"])


@pytest.mark.parametrize("num_tokens", [9, 10, 11])
def test_a_prompt_must_leave_room_for_one_token(num_tokens: int) -> None:
    def shortened() -> list[int]:
        return encode_prompt(TOKENIZER, "a" * num_tokens, system="", raw=True, context_length=10)

    if num_tokens < 10:
        assert len(shortened()) == num_tokens
    else:
        with pytest.raises(PromptError, match=f"has {num_tokens} tokens; this model reads at most 9"):
            shortened()
