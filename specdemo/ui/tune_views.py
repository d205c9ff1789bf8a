"""The components of the tab "Tune": static skeletons that `assets/tune*.js` paint. Know no engine and no handler."""

import json
from collections.abc import Mapping
from typing import Any

import gradio as gr

from specdemo.settings import MAX_DRAFT_TOKENS
from specdemo.ui.texts import drafter_names
from specdemo.ui.texts_tune import TUNE
from specdemo.ui.tune_wire import IDLE_ADVICE, IDLE_BATCH, IDLE_SWEEP, NO_GRID
from specdemo.ui.view import asset

_FIRST_VALUES: dict[str, Mapping[str, Any]] = {
    "advice": IDLE_ADVICE,
    "sweep": IDLE_SWEEP,
    "calculator": {},
    "grid": NO_GRID,
    "batch": IDLE_BATCH,
}


class TuneView(gr.HTML):
    """One section's own component: advice, sweep, calculator, grid or batch. Values are those of `tune_wire`.

    `points` are what the calculator marks; `shown` is the drafter and the temperature of which the sweep speaks.
    """

    def __init__(self, section: str, **props: Any) -> None:
        props.setdefault("points", [])
        props.setdefault("shown", None)
        runs = ("run_view.js",) if "run" in _FIRST_VALUES[section] else ()
        scripts = ("race_text.js", *runs, "tune_text.js", f"tune_{section}.js")
        super().__init__(
            value=dict(_FIRST_VALUES[section]),
            html_template=asset(f"tune_{section}.html"),
            js_on_load="\n".join((_constants(), *map(asset, scripts))),
            apply_default_css=False,
            elem_id=f"tune-{section}",
            **props,
        )

    def api_info(self) -> dict[str, Any]:
        """The value is an object; its shape is that of `tune_wire`."""
        return {"type": "object", "additionalProperties": True}


def _constants() -> str:
    constants = {
        "TEXTS": TUNE,
        "DRAFTERS": {language: drafter_names(language) for language in TUNE},
        "MAX_K": MAX_DRAFT_TOKENS,
    }
    return "\n".join(f"const {name} = {json.dumps(value, ensure_ascii=False)};" for name, value in constants.items())
