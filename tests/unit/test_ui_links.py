"""Deck links: what a link restores is what it was made from, and what is wrong in it is one sentence."""

from typing import Any
from urllib.parse import parse_qsl

import gradio as gr
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdemo.errors import SettingsError
from specdemo.limits import Limits
from specdemo.prompts import load_prompts
from specdemo.ui.deck import field_of
from specdemo.ui.form import FIELDS
from specdemo.ui.layout import build_page
from specdemo.ui.links import LARGEST_EXACT, MAX_LINK_CHARS, Field, query_of, read_query
from specdemo.ui.sidebar import build_sidebar
from tests.fakes_ui import HOSTILE, ScriptedSource

with gr.Blocks():
    SIDEBAR = build_sidebar(load_prompts(), [], Limits())
DRAFTERS = tuple(info.name for info in ScriptedSource().drafters())
KNOWN = {name: field_of(SIDEBAR.fields[name]) for name in FIELDS}
KNOWN["drafter"] = Field("choice", None, choices=DRAFTERS)
DEFAULTS = {**{name: field.default for name, field in KNOWN.items()}, "drafter": "quantized"}

_AWKWARD = (
    *HOSTILE,
    "a\nb\r\n\tc",
    "\u4e3a\u4ec0\u4e48\uff1f",
    "\U0001f469\u200d\U0001f680",
    '1+1=2 & 50% #tag ?x="y" \'',
    " lead and trail ",
)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=120) | st.sampled_from(_AWKWARD)
_KINDS: dict[str, Any] = {
    "text": lambda _: _TEXTS,
    "switch": lambda _: st.booleans(),
    "choice": lambda field: st.sampled_from(field.choices),
    "whole": lambda field: st.integers(field.low, field.high),
    "number": lambda field: st.floats(field.low, field.high),
}
STATES = st.fixed_dictionaries({name: _KINDS[field.kind](field) for name, field in KNOWN.items()})


def restored(query: str) -> tuple[dict[str, Any], list[str]]:
    """The page's values after a link was opened, and what it complained of."""
    values, problems = read_query(dict(parse_qsl(query, keep_blank_values=True)), KNOWN)
    return {**DEFAULTS, **values}, problems


@given(STATES)
def test_a_link_restores_every_field_exactly(state: dict[str, Any]) -> None:
    assert restored(query_of(state, KNOWN)) == (state, [])


def test_a_link_leaves_out_what_stands_at_its_default_but_the_drafter() -> None:
    assert query_of(DEFAULTS, KNOWN) == "drafter=quantized"
    query = query_of({**DEFAULTS, "k": 7, "temperature": 0.8, "raw": True, "prompt": "a b&c"}, KNOWN)
    assert query == "prompt=a%20b%26c&drafter=quantized&k=7&temperature=0.8&raw=1"


def test_the_fields_know_the_limits_of_the_controls() -> None:
    assert set(KNOWN) == set(FIELDS)
    assert (KNOWN["k"].kind, KNOWN["k"].low, KNOWN["k"].high) == ("whole", 1, 16)
    assert KNOWN["temperature"].kind == KNOWN["min_p"].kind == "number"
    assert (KNOWN["seed"].kind, KNOWN["seed"].high) == ("whole", LARGEST_EXACT)
    assert "typical" in KNOWN["rule"].choices


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("k", "four", "a whole number"),
        ("k", "17", "from 1 to 16"),
        ("k", "\u0664", "a whole number"),
        ("k", "9" * 5000, "a whole number"),
        ("temperature", "hot", "a number"),
        ("temperature", "nan", "from 0 to 2"),
        ("temperature", "-inf", "from 0 to 2"),
        ("seed", str(2**63), "a whole number"),
        ("seed", str(2**53), "to 9,007,199,254,740,991"),
        ("rule", "<b>", "coupled, auto"),
        ("drafter", "draft-model:/etc", "quantized, ngram"),
        ("adaptive", "maybe", "1 (on) or 0 (off)"),
        ("prompt", "x" * 60_000, "longer than 50,000"),
    ],
)
def test_a_wrong_value_is_one_sentence_and_the_rest_is_restored(name: str, value: str, sentence: str) -> None:
    values, problems = read_query({"min_p": "0.25", name: value, "view": "api"}, KNOWN)
    assert values == {"min_p": 0.25}
    assert len(problems) == 1
    assert sentence in problems[0]
    assert f"{name} = {value[:60]}, which is left out" in problems[0]
    for language in ("zh", "zh-TW"):
        assert read_query({name: value}, KNOWN, language)[1] != problems


def test_a_link_that_no_server_takes_is_refused() -> None:
    with pytest.raises(SettingsError, match="at most 7,000"):
        query_of({**DEFAULTS, "prompt": "\u4e3a" * (MAX_LINK_CHARS // 9 + 1)}, KNOWN)


def test_half_a_character_does_not_break_a_link() -> None:
    assert "prompt=a%3F" in query_of({**DEFAULTS, "prompt": "a\ud83d"}, KNOWN)


def test_the_page_knows_its_links(tmp_path: Any) -> None:
    page = build_page(ScriptedSource(), tmp_path)
    names = {function.name for function in page.fns.values()}
    assert {"restore", "query", "attempt", "measure"} <= names
