"""The race component: a static skeleton that `assets/race*.js` paints. Knows no engine.

The skeleton holds no template marks: Gradio evaluates them as code, and a token may contain any text.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gradio as gr

from specdemo.ui.view_texts import VIEW

ASSETS = Path(__file__).resolve().parents[2] / "assets"
_SCRIPTS = (
    "race_text.js",
    "race_charts.js",
    "race_lane.js",
    "race_round.js",
    "race_player.js",
    "race_verdict.js",
    "race.js",
)

IDLE: dict[str, Any] = {"run": "", "head": None, "state": "idle", "rows": [], "done": None, "message": ""}


class RaceView(gr.HTML):
    """Two lanes, charts and a player. `value` is a race of `wire.RaceWire`, `engine` where the engine stands."""

    def __init__(self, value: Mapping[str, Any] | None = None, **props: Any) -> None:
        props.setdefault("engine", {"state": "absent", "message": "", "progress": None})
        props.setdefault("texts", VIEW)
        super().__init__(
            value=dict(value or IDLE),
            html_template=_asset("race.html"),
            js_on_load="\n".join(_asset(name) for name in _SCRIPTS),
            apply_default_css=False,
            **props,
        )

    def api_info(self) -> dict[str, Any]:
        """The value is an object; its shape is `RaceWire.value`."""
        return {"type": "object", "additionalProperties": True}


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")
