"""The tab "Prove it": its settings and the component that shows what came out. Knows no engine."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from specdemo.catalog import DRAFTER_LABELS
from specdemo.prompts import load_prompts
from specdemo.proofs import ALPHA, MISTAKES, PROOFS, PROVED_RULES, TOP_K
from specdemo.race import EventSource
from specdemo.ui.prove_handlers import EACH, ProofRecord, ProveHandlers
from specdemo.ui.prove_wire import IDLE_PROOF
from specdemo.ui.texts import drafter_names
from specdemo.ui.texts_prove import PROVE, PROVE_LABELS, SOURCES
from specdemo.ui.view import ASSETS

_t = gr.I18n()
_LIGHT: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
_REFUSING: dict[str, Any] = {**_LIGHT, "queue": True, "concurrency_limit": None}
_FEWEST, _MOST, _USUAL = 2000, 20_000, 6000


class ProofView(gr.HTML):
    """A verdict, bars and a table. `value` is that of `prove_wire.ProofWire`, `chosen` the proof whose turn it is."""

    def __init__(self, value: Mapping[str, Any] | None = None, **props: Any) -> None:
        props.setdefault("chosen", PROOFS[0])
        super().__init__(
            value=dict(value or IDLE_PROOF),
            html_template=(ASSETS / "prove.html").read_text(encoding="utf-8"),
            js_on_load="\n".join((_constants(), *((ASSETS / name).read_text(encoding="utf-8") for name in _SCRIPTS))),
            apply_default_css=False,
            **props,
        )

    def api_info(self) -> dict[str, Any]:
        """The value is an object; its shape is `ProofWire.value`."""
        return {"type": "object", "additionalProperties": True}


_SCRIPTS = ("race_text.js", "run_view.js", "prove_results.js", "prove.js")


@dataclass(frozen=True, slots=True)
class _Form:
    """The settings, `fields` in the order that `prove_handlers.proof_request` takes them in."""

    fields: Mapping[str, Any]
    prove: gr.Button
    stop: gr.Button


def build_prove_tab(source: EventSource, concurrency_id: str) -> None:
    """Build the tab's content inside the Blocks that is open; a proof waits in the queue of the races."""
    handlers = ProveHandlers(source)
    form = _build_form()
    view = ProofView(elem_id="proof-view")
    record = gr.State(ProofRecord())
    fields = list(form.fields.values())
    prepared = form.prove.click(handlers.prepare, [record, *fields], view, trigger_mode="multiple", **_REFUSING)
    run = prepared.success(
        handlers.run,
        record,
        view,
        concurrency_id=concurrency_id,
        concurrency_limit=1,
        trigger_mode="multiple",
        show_progress="hidden",
        api_visibility="private",
    )
    form.stop.click(handlers.stop, record, None, cancels=[run], **_LIGHT)
    optional = [form.fields[name] for name in ("drafter", "rule", "temperature", "draws", "mistake")]
    form.fields["proof"].input(handlers.choose, form.fields["proof"], [view, *optional], **_LIGHT)


def _build_form() -> _Form:
    with gr.Group(elem_id="prove-form"):
        fields: dict[str, Any] = {
            "proof": gr.Radio(
                [(_t(f"proof_{name}"), name) for name in PROOFS], value=PROOFS[0], label=_t("proof"), elem_id="proof"
            ),
            "prompt": gr.Textbox(load_prompts()[0].prompt, label=_t("proved_context"), lines=1, elem_id="proof-prompt"),
        }
        with gr.Row():
            fields |= _sampled_fields()
        fields["mistake"] = gr.Radio(
            [(_t(f"planted_{name}"), name) for name in (EACH, *MISTAKES)],
            value=EACH,
            label=_t("planted"),
            visible=False,
            elem_id="planted",
        )
    with gr.Row(elem_id="prove-buttons"):
        prove = gr.Button(_t("prove"), variant="primary", elem_id="prove-button", min_width=80, scale=0)
        stop = gr.Button(_t("prove_stop"), elem_id="prove-stop", min_width=60, scale=0)
    return _Form(fields, prove, stop)


def _sampled_fields() -> dict[str, Any]:
    """What only a proof that draws needs; the first that is shown needs none."""
    drafters = [name for name in DRAFTER_LABELS if name != "none"]
    rules: list[Any] = [(_t(f"rule_{rule}"), rule) for rule in PROVED_RULES]
    hidden: dict[str, Any] = {"visible": False, "min_width": 150}
    return {
        "drafter": gr.Dropdown(drafters, value="draft-model", label=_t("proved_drafter"), **hidden),
        "rule": gr.Dropdown(rules, value=PROVED_RULES[0], label=_t("proved_rule"), **hidden),
        "temperature": gr.Slider(0.1, 2, 0.7, step=0.1, label=_t("proved_temperature"), buttons=[], **hidden),
        "draws": gr.Slider(_FEWEST, _MOST, _USUAL, step=1000, label=_t("proved_draws"), buttons=[], **hidden),
    }


def _constants() -> str:
    constants = {
        "TEXTS": {language: PROVE_LABELS[language] | texts for language, texts in PROVE.items()},
        "DRAFTERS": {language: drafter_names(language) for language in PROVE},
        "SOURCES": SOURCES,
        "TOP_K": TOP_K,
        "ALPHA": f"{ALPHA:f}",
    }
    return "\n".join(f"const {name} = {json.dumps(value, ensure_ascii=False)};" for name, value in constants.items())
