"""Finished generations as the JSON documents of the command line and the endpoint. Pure; knows no model."""

from collections.abc import Sequence
from typing import Any

from specdemo.events import Finished, Round, Started
from specdemo.metrics import emitted_token_ids, summarize
from specdemo.race import LANES, LaneUpdate, RaceRequest
from specdemo.traces import answer_text, compare


def lane_document(updates: Sequence[LaneUpdate]) -> dict[str, Any]:
    """One lane: text, ids, reason, settings, provenance, rounds and metrics."""
    events = [update.event for update in updates]
    started = next((event for event in events if isinstance(event, Started)), None)
    finished = next((event for event in events if isinstance(event, Finished)), None)
    document = {
        "text": answer_text(updates),
        "token_ids": list(emitted_token_ids(events)),
        "prompt_token_ids": list(started.prompt_token_ids) if started else [],
        "finish_reason": finished.reason if finished else "cancelled",
        "settings": dict(started.settings) if started else {},
        "provenance": dict(started.provenance) if started else {},
        "rounds": [event.to_dict() for event in events if isinstance(event, Round)],
        "metrics": summarize(events).to_dict(),
    }
    if finished and finished.message:
        document["message"] = finished.message
    return document


def race_document(updates: Sequence[LaneUpdate]) -> dict[str, Any]:
    """Both lanes, the speedup, and whether the answers are the same ids."""
    lanes = {lane: lane_document([update for update in updates if update.lane == lane]) for lane in LANES}
    comparison = compare(updates)
    return {**lanes, **{key: comparison[key] for key in ("speedup", "identical", "first_divergence")}}


def request_document(request: RaceRequest) -> dict[str, Any]:
    """What was asked for, as a trace stores it."""
    return {
        "prompt": request.prompt,
        "target": request.target,
        "drafter": request.drafter,
        "system": request.system,
        "raw": request.raw,
        "precision": request.precision,
        "thinking": request.thinking,
        "settings": request.settings.to_dict(),
    }
