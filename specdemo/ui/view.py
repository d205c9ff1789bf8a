"""The race component: a static skeleton that `assets/race*.js` paints. Knows no engine.

The skeleton holds no template marks: Gradio evaluates them as code, and a token may contain any text.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from specdemo.ui.texts import drafter_names
from specdemo.ui.view_texts import VIEW

ASSETS = Path(__file__).resolve().parents[2] / "assets"
_SCRIPTS = (
    "race_idle.js",
    "race_text.js",
    "race_charts.js",
    "race_tree.js",
    "race_lane.js",
    "race_round.js",
    "race_player.js",
    "race_news.js",
    "race_server.js",
    "race_verdict.js",
    "race_evidence.js",
    "race_origin.js",
    "race_inspector.js",
    "race_rounds.js",
    "race_projector.js",
    "race_room.js",
    "race.js",
)
STYLES = ("race.css", "race_server.css", "race_room.css", "race_inspector.css", "race_tree.css", "learn.css")

Questions = Sequence[Callable[[Any], Any]]
IDLE: dict[str, Any] = {"run": "", "head": None, "state": "idle", "rows": "", "done": None, "message": ""}


class RaceView(gr.HTML):
    """Two lanes, charts and a player. `value` is a race of `wire.RaceWire`, `engine` where the engine stands.

    `room` is what `Room.shown` says in class.
    `questions` are what its script asks the server, by their names: `news` while a race runs, `place` while it waits.
    """

    def __init__(self, value: Mapping[str, Any] | None = None, questions: Questions = (), **props: Any) -> None:
        props.setdefault("room", None)
        props.setdefault("engine", {"state": "absent", "message": "", "progress": None})
        super().__init__(
            value=dict(value or IDLE),
            html_template=asset("race.html"),
            js_on_load="\n".join((_texts(), *map(asset, _SCRIPTS))),
            apply_default_css=False,
            server_functions=list(questions),
            **props,
        )

    def api_info(self) -> dict[str, Any]:
        """The value is an object; its shape is `RaceWire.value`."""
        return {"type": "object", "additionalProperties": True}


def _texts() -> str:
    """The texts as a constant of the script: as a prop, Gradio would compare them all at each update of a race."""
    constants = {"TEXTS": VIEW, "DRAFTERS": {language: drafter_names(language) for language in VIEW}}
    return "\n".join(f"const {name} = {json.dumps(value, ensure_ascii=False)};" for name, value in constants.items())


def asset(name: str) -> str:
    """A file of `assets/`."""
    return (ASSETS / name).read_text(encoding="utf-8")
