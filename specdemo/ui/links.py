"""Deck links: the settings of the page as a query string, and back. Knows no component.

`drafter` is always written, since the default one depends on the machine; other fields only where they differ from the
page's defaults. What is read is what was written, character for character.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from specdemo.errors import SettingsError
from specdemo.ui.form import FIELDS, MAX_PROMPT_CHARS
from specdemo.ui.texts import sentence

MAX_LINK_CHARS = 7_000
"""Common servers refuse an address above 8 KB."""

LARGEST_EXACT = 2**53 - 1
"""A browser holds no larger whole number exactly."""


@dataclass(frozen=True, slots=True)
class Field:
    """What a link may set: `kind` is text, switch, whole, number or choice; `low`, `high` for numbers, `choices`."""

    kind: str
    default: Any
    low: float = 0
    high: float = LARGEST_EXACT
    choices: Sequence[str] = ()


def query_of(values: Mapping[str, Any], fields: Mapping[str, Field], language: str = "en") -> str:
    """The query string of the values of FIELDS. Raises SettingsError where it would be too long for a link."""
    asked = {}
    for name in FIELDS:
        value, default = values[name], fields[name].default
        if value is not None and (name == "drafter" or value != default):
            asked[name] = _written(value)
    query = urlencode(asked, quote_via=quote, errors="replace")
    if len(query) > MAX_LINK_CHARS:
        numbers = {"num_chars": f"{len(query):,}", "limit": f"{MAX_LINK_CHARS:,}"}
        raise SettingsError(sentence(language, "link_long", **numbers))
    return query


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def read_query(
    params: Mapping[str, str], fields: Mapping[str, Field], language: str = "en"
) -> tuple[dict[str, Any], list[str]]:
    """The values that a link asks for, and one sentence for each that is wrong. Other names are not for us."""
    values, problems = {}, []
    for name in FIELDS:
        if name not in params:
            continue
        try:
            values[name] = _READERS[fields[name].kind](params[name], fields[name], language)
        except SettingsError as error:
            shown = {"name": name, "value": params[name][:60], "message": str(error)}
            problems.append(sentence(language, "link_wrong", **shown))
    return values, problems


def _text(value: str, _field: Field, language: str) -> str:
    if len(value) > MAX_PROMPT_CHARS:
        raise SettingsError(sentence(language, "link_text", limit=f"{MAX_PROMPT_CHARS:,}"))
    return value


def _switch(value: str, _field: Field, language: str) -> bool:
    if value not in ("0", "1"):
        raise SettingsError(sentence(language, "link_switch"))
    return value == "1"


def _choice(value: str, field: Field, language: str) -> str:
    if value not in field.choices:
        raise SettingsError(sentence(language, "link_choice", choices=", ".join(field.choices)))
    return value


def _whole(value: str, field: Field, language: str) -> int:
    if not (value.isascii() and value.removeprefix("-").isdecimal() and len(value) <= len(str(LARGEST_EXACT))):
        raise SettingsError(sentence(language, "link_whole"))
    return int(_within(int(value), field, language))


def _number(value: str, field: Field, language: str) -> float:
    try:
        number = float(value)
    except ValueError as error:
        raise SettingsError(sentence(language, "link_number")) from error
    return _within(int(number) if number.is_integer() else number, field, language)


def _within(value: float, field: Field, language: str) -> float:
    if not field.low <= value <= field.high:
        raise SettingsError(sentence(language, "link_range", low=f"{field.low:,}", high=f"{field.high:,}"))
    return value


_READERS: dict[str, Callable[[str, Field, str], Any]] = {
    "text": _text,
    "switch": _switch,
    "choice": _choice,
    "whole": _whole,
    "number": _number,
}
