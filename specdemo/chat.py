"""A person's text to prompt ids: chat template, and control tokens that are typed stay plain text.

Knows no drafter and no page.
"""

import re
from collections.abc import Sequence

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from specdemo.errors import PromptError
from specdemo.prompts import check_prompt

_SAMPLE = "specdemo system text"
_FIRST_PLACEHOLDER = 0xF0000  # private use: no tokenizer has these characters as control tokens


def encode_prompt(
    tokenizer: PreTrainedTokenizerBase,
    prompt: str,
    *,
    system: str,
    raw: bool,
    context_length: int,
    thinking: bool | None = None,
) -> list[int]:
    """Prompt ids. Raises PromptError when the prompt is empty or leaves no room in the context.

    `thinking` turns the template's switch for it, None leaves it as it is; a template without one takes no notice.
    The template's control tokens are control tokens; the same strings typed by a person are split like any other text.
    """
    check_prompt(prompt, system)
    if raw or tokenizer.chat_template is None:
        ids = _encode_text(tokenizer, f"{system}\n\n{prompt}" if system and not raw else prompt, is_whole=True)
    else:
        ids = _encode_chat(tokenizer, prompt, system, thinking)
    if not ids:
        raise PromptError("the prompt has no tokens; type a question or some text.")
    if len(ids) >= context_length:
        raise PromptError(
            f"the prompt has {len(ids):,} tokens; this model reads at most {context_length - 1:,} "
            "and needs room to answer. Shorten it."
        )
    return ids


def has_system_role(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether the chat template has a turn for a system text."""
    try:
        return _SAMPLE in _apply(tokenizer, [{"role": "system", "content": _SAMPLE}, _user("x")], None)
    except TemplateError:
        return False


def thinking_by_default(tokenizer: PreTrainedTokenizerBase) -> bool | None:
    """Whether the chat template has the model think unless it is told otherwise; None where it has no switch."""
    if tokenizer.chat_template is None:
        return None
    try:
        off, default, on = (_apply(tokenizer, [_user("x")], thinking) for thinking in (False, None, True))
    except TemplateError:
        return None
    return None if on == off else default == on


def _user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def _apply(tokenizer: PreTrainedTokenizerBase, messages: list[dict[str, str]], thinking: bool | None) -> str:
    switch = {} if thinking is None else {"enable_thinking": thinking}
    return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **switch))


def _encode_chat(tokenizer: PreTrainedTokenizerBase, prompt: str, system: str, thinking: bool | None) -> list[int]:
    hidden, typed = _hide_control_tokens(tokenizer, (prompt, system))
    rendered = _render(tokenizer, *hidden, thinking)
    control = "|".join(re.escape(token) for token in sorted(_control_tokens(tokenizer), key=len, reverse=True))
    ids: list[int] = []
    for part in re.split(f"({control})", rendered) if control else [rendered]:
        if part in _control_tokens(tokenizer):
            ids.append(tokenizer.convert_tokens_to_ids(part))
        elif part:
            ids += _encode_text(tokenizer, _show(part, typed))
    return ids


def _render(tokenizer: PreTrainedTokenizerBase, prompt: str, system: str, thinking: bool | None) -> str:
    # Some templates know no system role (Gemma 1 and 2), or leave its text out: it then opens the user's turn.
    folded = f"{system}\n\n{prompt}"
    try:
        if not system:
            return _apply(tokenizer, [_user(prompt)], thinking)
        messages = [{"role": "system", "content": system}, _user(prompt)]
        rendered = _apply(tokenizer, messages, thinking)
        return rendered if system.strip() in rendered else _apply(tokenizer, [_user(folded)], thinking)
    except TemplateError as error:
        if system:
            return _render(tokenizer, folded, "", thinking)
        raise PromptError(f"the model's chat template refuses the prompt: {error}. Give it raw instead.") from error


def _hide_control_tokens(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Put a private character in place of each typed control token, and say which stands for which."""
    typed: dict[str, str] = {}
    used = set("".join(texts))
    free = (chr(code) for code in range(_FIRST_PLACEHOLDER, _FIRST_PLACEHOLDER + 0xFFFE) if chr(code) not in used)
    hidden = list(texts)
    for token in sorted(_control_tokens(tokenizer), key=len, reverse=True):
        if any(token in text for text in hidden):
            placeholder = next(free)
            typed[placeholder] = token
            hidden = [text.replace(token, placeholder) for text in hidden]
    return hidden, typed


def _show(text: str, typed: dict[str, str]) -> str:
    for placeholder, token in typed.items():
        text = text.replace(placeholder, token)
    return text


def _control_tokens(tokenizer: PreTrainedTokenizerBase) -> set[str]:
    return {str(token) for token in tokenizer.added_tokens_decoder.values() if token.special}


def _encode_text(tokenizer: PreTrainedTokenizerBase, text: str, *, is_whole: bool = False) -> list[int]:
    """Ids of text in which nothing is a control token.

    A whole prompt gets the tokenizer's own opening token, if any.
    """
    encoded = tokenizer(text, add_special_tokens=is_whole, split_special_tokens=True)
    return [int(i) for i in encoded["input_ids"]]
