"""Deck links on the page: a link restores the settings, a button makes one of those that stand there."""

import html
from collections.abc import Mapping
from typing import Any

import gradio as gr
from gradio.components import Component

from specdemo.race import EventSource
from specdemo.ui.edge import sentences
from specdemo.ui.form import FIELDS
from specdemo.ui.handlers import PageHandlers
from specdemo.ui.links import Field, query_of, read_query
from specdemo.ui.texts import language_of, sentence

# With a lesson and no prompt of its own, the link asks for the lesson's experiment.
_START = """() => {
  const asked = new URLSearchParams(location.search);
  if (asked.get('race') !== '1') return;
  const experiment = asked.has('prompt') ? null : document.querySelector('[data-try]');
  (experiment ?? document.querySelector('#race-button'))?.click();
}"""
# The clipboard API is missing where the page is served over plain HTTP; the old way needs a selected text.
_COPY = """async (query) => {
  const text = location.origin + location.pathname + (query && '?') + query;
  const copy = () => {
    const area = document.body.appendChild(Object.assign(document.createElement('textarea'), { value: text }));
    area.select();
    document.execCommand('copy');
    area.remove();
  };
  await (navigator.clipboard?.writeText(text) ?? Promise.reject()).catch(copy);
  const button = document.querySelector('#copy-link');
  button.classList.add('copied');
  setTimeout(() => button.classList.remove('copied'), 1500);
}"""


class DeckHandlers:
    """Both ways between a link and the fields of one page. Holds no visitor's data."""

    def __init__(self, source: EventSource, handlers: PageHandlers, fields: Mapping[str, Component]) -> None:
        self._source = source
        self._handlers = handlers
        self._fields = {name: field_of(component) for name, component in fields.items()}

    @property
    def defaults(self) -> dict[str, Any]:
        """The value of every field before anyone touched it."""
        return {name: field.default for name, field in self._fields.items()}

    def restore(self, request: gr.Request) -> list[Any]:
        """Set the fields that the page's address names, in the order of FIELDS; say what cannot be set."""
        language = language_of(request)
        values, problems = read_query(dict(request.query_params), self._known_fields(), language)
        for problem in problems:
            gr.Warning(html.escape(problem), title=sentence(language, "link_title"))
        return [self._update(name, values[name], language) if name in values else gr.skip() for name in FIELDS]

    def query(self, request: gr.Request, *values: Any) -> str:
        """The query string of the settings that stand on the page."""
        language = language_of(request)
        with sentences(sentence(language, "cannot_link")):
            return query_of(dict(zip(FIELDS, values, strict=True)), self._known_fields(), language)

    def _update(self, name: str, value: Any, language: str) -> Any:
        return self._handlers.drafters(language, value) if name == "drafter" else gr.update(value=value)

    def _known_fields(self) -> dict[str, Field]:
        """With the drafters that this machine has."""
        names = tuple(info.name for info in self._source.drafters())
        return {**self._fields, "drafter": Field("choice", None, choices=names)}


def field_of(component: Component) -> Field:
    """What a link may set in a component: the limits are those of the control itself."""
    match component:
        case gr.Checkbox():
            return Field("switch", component.value)
        case gr.Slider():
            kind = "whole" if float(component.step).is_integer() else "number"
            return Field(kind, component.value, component.minimum, component.maximum)
        case gr.Number():
            return Field("whole", component.value)
        case gr.Dropdown():
            return Field("choice", component.value, choices=tuple(str(value) for _, value in component.choices))
        case _:
            return Field("text", component.value)


def connect_deck(page: gr.Blocks, deck: DeckHandlers, fields: Mapping[str, Component], copy_link: gr.Button) -> Any:
    """Connect both ways. The event that has restored a link is returned: what follows goes by its settings."""
    private: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": None}
    outputs = [fields[name] for name in FIELDS]
    query = gr.Textbox(visible="hidden")
    written = copy_link.click(deck.query, outputs, query, **private)
    written.success(None, query, None, js=_COPY, queue=False, show_progress="hidden", api_visibility="private")
    return page.load(deck.restore, None, outputs, **private)


def start_asked_race(restored: Any) -> None:
    """`race=1` in a link presses Race when all it needs is there."""
    restored.then(None, None, None, js=_START, queue=False, show_progress="hidden", api_visibility="private")
