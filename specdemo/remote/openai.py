"""OpenAI's streams of chats and completions, as vLLM and SGLang send them: what both have in common."""

from collections.abc import Iterator, Mapping
from typing import Any

from specdemo.events import UNKNOWN_TOKEN, FinishReason
from specdemo.remote.http import Client
from specdemo.remote.pieces import Piece
from specdemo.remote.request import Asked

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
_TEXTS = ("reasoning_content", "reasoning", "content")
"""Where a delta has text; what a model thinks comes in a field of its own, by either name."""


def stream_of(client: Client, model: str, asked: Asked, extra: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The chunks of one answer; `extra` is what this server alone understands."""
    chosen, raw = asked.settings, asked.request.raw
    body = {
        "model": model,
        **({"prompt": asked.request.prompt} if raw else {"messages": asked.messages(), **asked.template()}),
        "max_tokens": chosen.max_new_tokens,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        "seed": chosen.seed,
        "stop": list(chosen.stop),
        **asked.sampling(all_of_them=-1),
        "repetition_penalty": chosen.repetition_penalty,
        **extra,
    }
    return client.stream(COMPLETIONS if raw else CHAT, body)


class Reader:
    """Chunks to pieces: by the ids that a chunk names, and by the usage so far where it counts more."""

    def __init__(self) -> None:
        self.num_seen = 0
        self.reason: FinishReason = "length"

    def read(self, chunk: Mapping[str, Any]) -> Piece | None:
        """What a chunk brings; None where it has no token of the answer."""
        choices = chunk.get("choices") or [{}]
        choice = choices[0]
        if choice.get("finish_reason"):
            self.reason = _reason(choice)
        ids = tuple(choice.get("token_ids") or ())
        text = _text(choice)
        counted = (chunk.get("usage") or {}).get("completion_tokens")
        num_new = len(ids) if counted is None else max(0, int(counted) - self.num_seen)
        if not num_new and text:
            # Neither ids nor a count: at least one token stands behind a text.
            num_new = 1
        if not num_new:
            return None
        self.num_seen += num_new
        known = ids[-num_new:]
        return Piece((*[UNKNOWN_TOKEN] * (num_new - len(known)), *known), text)


def _text(choice: Mapping[str, Any]) -> str:
    delta = choice.get("delta") or {}
    return "".join(str(delta.get(name) or "") for name in _TEXTS) + str(choice.get("text") or "")


def _reason(choice: Mapping[str, Any]) -> FinishReason:
    if choice["finish_reason"] == "length":
        return "length"
    # vLLM has the stop string itself here, SGLang the string or the id of the token that ended the answer.
    matched = choice.get("stop_reason", choice.get("matched_stop"))
    return "stop" if isinstance(matched, str) else "eos"
