"""The settings: prompt with examples, drafter, K, temperature, and the rest folded away. Knows no handler."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from specdemo.limits import Limits
from specdemo.prompts import ExamplePrompt
from specdemo.settings import MAX_DRAFT_TOKENS
from specdemo.ui.form import PAGE_FIELDS
from specdemo.ui.texts import race_labels

_t = gr.I18n()
LOSING: Mapping[str, Any] = {"drafter": "draft-model", "k": 16, "temperature": 1}
"""Long drafts for a text that is drawn nearly at random; `assets/traces/8-loses` lost with half as many."""

_PRECISIONS = ("auto", "bfloat16", "int4")
_LONGEST_ANSWER = 1024
_RULES = ("coupled", "auto", "rejection", "block", "typical")


@dataclass(frozen=True, slots=True)
class Sidebar:
    """What other parts connect to: `fields` by the names and in the order of form.PAGE_FIELDS."""

    fields: dict[str, Any]
    race: gr.Button
    stop: gr.Button
    recorded: gr.Dropdown
    copy_link: gr.Button


def build_sidebar(prompts: Sequence[ExamplePrompt], recorded: Sequence[tuple[str, str]], limits: Limits) -> Sidebar:
    """Build the sidebar inside the Blocks that is open."""
    with gr.Sidebar(width=288, elem_id="settings"):
        fields: dict[str, Any] = {"prompt": _prompt(prompts[0].prompt)}
        chips = _examples(prompts)
        fields |= _main_fields()
        for category, chip in chips.items():
            _connect_example([item for item in prompts if item.category == category], chip, fields, _losing(limits))
        with gr.Row(elem_id="race-buttons"):
            race = gr.Button(_t("race"), variant="primary", elem_id="race-button", min_width=80, scale=3)
            stop = gr.Button(_t("stop"), elem_id="stop-button", min_width=60, scale=1)
        with gr.Accordion(_t("more"), open=False, elem_id="more"):
            fields |= _folded_fields(limits.max_new_tokens)
        picker = _recorded(recorded)
        # Its switch is the button that opens the inspector, see race_inspector.js.
        fields["evidence"] = gr.Checkbox(False, visible="hidden", elem_id="evidence")
        copy_link = gr.Button(_t("copy_link"), size="sm", elem_id="copy-link")
    return Sidebar({name: fields[name] for name in PAGE_FIELDS}, race, stop, picker, copy_link)


def _recorded(races: Sequence[tuple[str, str]]) -> gr.Dropdown:
    """The list of recorded races. Those of the example prompts have a title in every language."""
    known = race_labels("en")
    choices: list[Any] = [(_t(label) if label in known else label, name) for label, name in races]
    first = races[0][1] if races else None
    return gr.Dropdown(choices, value=first, label=_t("recorded"), elem_id="recorded", visible=bool(races))


def _prompt(first: str) -> gr.Textbox:
    return gr.Textbox(
        first, label=_t("prompt"), placeholder=_t("prompt_placeholder"), lines=3, max_lines=5, elem_id="prompt"
    )


def _examples(prompts: Sequence[ExamplePrompt]) -> dict[str, gr.Button]:
    """One chip per category."""
    with gr.Row(elem_id="examples"):
        return {
            category: gr.Button(_t(f"category_{category}"), size="sm", min_width=20, elem_classes="example")
            for category in dict.fromkeys(item.category for item in prompts)
        }


def _losing(limits: Limits) -> Mapping[str, Any]:
    """LOSING, as far as the page offers it."""
    is_offered = not limits.drafters or LOSING["drafter"] in limits.drafters
    return LOSING if is_offered else {name: value for name, value in LOSING.items() if name != "drafter"}


def _connect_example(
    examples: Sequence[ExamplePrompt], chip: gr.Button, fields: Mapping[str, Any], losing: Mapping[str, Any]
) -> None:
    """Pressing a chip again shows the category's next example.

    No text makes every drafter lose, so the chip of the losing ones also chooses settings that do.
    """
    texts = json.dumps([item.prompt for item in examples])
    pick = f"const texts = {texts}; const next = texts[(texts.indexOf(now) + 1) % texts.length];"
    outputs, result = [fields["prompt"]], "next"
    if examples[0].loses:
        outputs += [fields[name] for name in losing]
        result = f"[next, ...{json.dumps([*losing.values()])}]"
    script = f"(now) => {{ {pick} return {result}; }}"
    chip.click(
        None, fields["prompt"], outputs, js=script, queue=False, show_progress="hidden", api_visibility="private"
    )


def _main_fields() -> dict[str, Any]:
    return {
        "drafter": gr.Dropdown([], label=_t("drafter"), elem_id="drafter"),
        "k": gr.Slider(1, MAX_DRAFT_TOKENS, 4, step=1, label=_t("k"), elem_id="k", buttons=[]),
        "adaptive": gr.Checkbox(False, label=_t("adaptive"), elem_id="adaptive", container=False),
        "temperature": gr.Slider(0, 2, 0, step=0.05, label=_t("temperature"), elem_id="temperature", buttons=[]),
    }


def _folded_fields(max_new_tokens: int) -> dict[str, Any]:
    rules = [(_t(f"rule_{rule}"), rule) for rule in _RULES]
    longest = min(_LONGEST_ANSWER, max_new_tokens)
    precisions = [(_t(f"precision_{name}"), name) for name in _PRECISIONS]
    return {
        "rule": gr.Dropdown(rules, value="coupled", label=_t("rule"), elem_id="rule"),
        "seed": gr.Number(0, label=_t("seed"), precision=0, minimum=0, elem_id="seed"),
        "max_new_tokens": gr.Slider(
            16, longest, min(128, longest), step=16, label=_t("max_new_tokens"), elem_id="max-new-tokens"
        ),
        "top_p": gr.Slider(0.05, 1, 1, step=0.05, label=_t("top_p"), elem_id="top-p"),
        "top_k": gr.Slider(0, 200, 0, step=1, label=_t("top_k"), elem_id="top-k"),
        "min_p": gr.Slider(0, 1, 0, step=0.01, label=_t("min_p"), elem_id="min-p"),
        "repetition_penalty": gr.Slider(
            0.5, 2, 1, step=0.05, label=_t("repetition_penalty"), elem_id="repetition-penalty"
        ),
        "stop": gr.Textbox("", label=_t("stop_strings"), lines=2, elem_id="stop-strings"),
        "system": gr.Textbox("", label=_t("system"), lines=2, elem_id="system"),
        "raw": gr.Checkbox(False, label=_t("raw"), elem_id="raw", container=False),
        "precision": gr.Dropdown(precisions, value="auto", label=_t("precision"), elem_id="precision"),
    }
