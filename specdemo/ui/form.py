"""From what a person filled in to a RaceRequest, or one sentence why that is not possible. Knows no component."""

from collections.abc import Mapping
from typing import Any

from specdemo.errors import PromptError, SettingsError, SpecdemoError
from specdemo.race import EventSource, RaceRequest
from specdemo.settings import DecodeSettings
from specdemo.ui.texts import sentence

MAX_PROMPT_CHARS = 50_000
FIELDS = (
    "prompt",
    "drafter",
    "k",
    "adaptive",
    "temperature",
    "rule",
    "seed",
    "max_new_tokens",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "stop",
    "system",
    "raw",
    "precision",
)
PAGE_FIELDS = (*FIELDS, "evidence")
"""Besides, whether the numbers behind every verdict are kept: what only the page shows."""
_NUMBERS = ("k", "temperature", "seed", "max_new_tokens", "top_p", "top_k", "min_p", "repetition_penalty")


def checked_request(source: EventSource, values: Mapping[str, Any], language: str = "en") -> RaceRequest:
    """The request behind the values of FIELDS or PAGE_FIELDS, checked as far as can be without a model."""
    check_prompt(str(values["prompt"] or ""), language)
    check_ready(source, language)
    request = _request(source, values, language)
    source.check(request)
    return request


def check_prompt(prompt: str, language: str) -> None:
    """Refuse a blank or huge prompt before a tokenizer sees it."""
    if not prompt.strip():
        raise PromptError(sentence(language, "blank"))
    if len(prompt) > MAX_PROMPT_CHARS:
        raise PromptError(sentence(language, "too_long", num_chars=f"{len(prompt):,}", limit=f"{MAX_PROMPT_CHARS:,}"))


def check_ready(source: EventSource, language: str) -> None:
    """Refuse while there is no model, and say what is happening to it."""
    status = source.status()
    if status.state == "ready":
        return
    if status.state == "failed":
        raise SpecdemoError(sentence(language, "failed", message=status.message))
    progress = "" if status.progress is None else f" ({status.progress:.0%})"
    message = sentence(language, status.state, progress=progress)
    raise SpecdemoError(sentence(language, "not_ready", message=message))


def _request(source: EventSource, values: Mapping[str, Any], language: str) -> RaceRequest:
    for name in _NUMBERS:
        if values[name] is None:
            raise SettingsError(sentence(language, "not_a_number", label=name))
    settings = DecodeSettings(
        num_draft_tokens=values["k"],
        max_new_tokens=values["max_new_tokens"],
        temperature=values["temperature"],
        top_p=values["top_p"],
        top_k=values["top_k"],
        min_p=values["min_p"],
        repetition_penalty=values["repetition_penalty"],
        seed=values["seed"],
        rule=values["rule"],
        schedule="adaptive" if values["adaptive"] else "constant",
        stop=_stop_strings(values["stop"]),
        evidence=bool(values.get("evidence")),
    )
    return RaceRequest(
        prompt=values["prompt"],
        drafter=values["drafter"] or source.drafters()[0].name,
        settings=settings,
        target=source.target,
        system=values["system"] or "",
        raw=bool(values["raw"]),
        precision=values["precision"] or "auto",
    )


def _stop_strings(value: Any) -> tuple[str, ...]:
    """A list as it is, or text with one stop string per line."""
    lines = value.split("\n") if isinstance(value, str) else list(value or ())
    return tuple(line for line in lines if line)
