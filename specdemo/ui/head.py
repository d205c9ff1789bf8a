"""What the page says above a race: prompt, drafter, K, rule, machine. Reads opened files too, so it trusts no type."""

from collections.abc import Mapping
from typing import Any

from specdemo.traces import Trace

_SAME_TEXT_RULES = frozenset({"greedy", "coupled"})
_LOSSY_RULES = frozenset({"typical"})


def race_head(trace: Trace, origin: str) -> dict[str, Any]:
    """The unchanging part of a race's value. `origin` is live, recorded or file."""
    request = trace.request
    settings = _mapping(request.get("settings"))
    server = _server(trace.provenance)
    rule = "" if server else _text(settings.get("resolved_rule")) or _text(settings.get("rule"))
    return {
        "origin": origin,
        "prompt": _text(request.get("prompt")) or _text(trace.title),
        "drafter": _text(request.get("drafter")),
        "k": _number(settings.get("num_draft_tokens"), 4),
        "adaptive": settings.get("schedule") == "adaptive",
        "max_new_tokens": _number(settings.get("max_new_tokens"), 128),
        "temperature": _number(settings.get("temperature"), 0),
        "rule": rule,
        "dtype": _text(trace.provenance.get("dtype")),
        "texts": _server_texts(settings)
        if server
        else "same"
        if rule in _SAME_TEXT_RULES
        else "lossy"
        if rule in _LOSSY_RULES
        else "sampled",
        "drafter_bytes": _number(trace.provenance.get("drafter_bytes"), 0),
        "machine": machine_name(trace.provenance),
        "server": server,
    }


def _server(provenance: Mapping[str, Any]) -> dict[str, str] | None:
    """Which server ran the lanes and how much it tells of them; None for a model that ran in this program."""
    server = _mapping(provenance.get("server"))
    known = _text(server.get("known"))
    return {"kind": _text(server.get("kind")), "known": known} if known in ("rounds", "tokens") else None


def _server_texts(settings: Mapping[str, Any]) -> str:
    """A server has acceptance rules of its own; all of them are the target's choice at temperature 0."""
    return "sampled" if _number(settings.get("temperature"), 0) else "same"


def machine_name(provenance: Mapping[str, Any]) -> str:
    """Target, device, dtype and whether the target thinks, as far as they are known."""
    target = _text(provenance.get("target_title")) or _text(provenance.get("target"))
    thinking = _text(provenance.get("thinking"))
    parts = (
        target,
        _text(provenance.get("device")),
        _text(provenance.get("dtype")),
        thinking and f"thinking {thinking}",
    )
    return " · ".join(part for part in parts if part)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    """The text without half characters, which a browser may send and UTF-8 cannot carry."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _number(value: Any, default: float) -> float:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else default
