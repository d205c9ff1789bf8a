"""vLLM: tokens as they come, several at once from a pass that verified drafts, and totals at the end.

`--speculative-config` holds for all requests, so plain decoding needs a server of its own. Totals stand in the last
chunk where it was started with `--per-request-spec-decode-metrics` (`metrics.speculative_decoding`, pull request
48915); else in the counters of /metrics, which count all clients: they are read before and after, and taken only where
no other token was made in between.
"""

import re
import secrets
import time
from collections.abc import Iterator
from typing import Any

from specdemo.events import Known, Reported
from specdemo.remote.http import Client
from specdemo.remote.openai import Reader, stream_of
from specdemo.remote.pieces import End, Piece
from specdemo.remote.request import Asked

_COUNTERS = {
    "generated": "vllm:generation_tokens_total",
    "rounds": "vllm:spec_decode_num_drafts_total",
    "drafted": "vllm:spec_decode_num_draft_tokens_total",
    "accepted": "vllm:spec_decode_num_accepted_tokens_total",
}
_NUM_LOOKS, _SECONDS_BETWEEN_LOOKS = 10, 0.1
"""Its counters are a moment behind its answers."""

_NOT_REPORTED = (
    "vLLM gave no draft counts for this answer alone; started with --per-request-spec-decode-metrics summary it does."
)


class VLLM:
    """See servers.Server."""

    kind = "vLLM"
    known: Known = "tokens"
    can_switch_off = False

    def __init__(self, client: Client, model: str) -> None:
        self._client = client
        self.label, self.model = client.label, model
        self.version = str((client.find("/version") or {}).get("version", ""))

    def prompt_ids(self, asked: Asked) -> tuple[int, ...]:
        """It names them in its answer, too late to be of use."""
        return ()

    def answer(self, asked: Asked, prompt_ids: tuple[int, ...]) -> Iterator[Piece | End]:
        """One generation as it arrives."""
        before = counters(self._client.find_text("/metrics") or "")
        # A salt of its own: else the lane that comes second would find its prompt read.
        extra = {"return_token_ids": True, "cache_salt": secrets.token_hex(8)}
        reader, found = Reader(), None
        for chunk in stream_of(self._client, self.model, asked, extra):
            found = (chunk.get("metrics") or {}).get("speculative_decoding") or found
            piece = reader.read(chunk)
            if piece is not None:
                yield piece
        reported = _of_request(found) if found else self._of_server(before, reader.num_seen)
        is_silent = reported is None and not asked.is_plain
        yield End(reader.reason, reported, _NOT_REPORTED if is_silent else "")

    def _of_server(self, before: dict[str, float], num_tokens: int) -> Reported | None:
        if "drafted" not in before:
            return None
        for _ in range(_NUM_LOOKS):
            after = counters(self._client.find_text("/metrics") or "")
            grown = {name: int(after.get(name, 0) - value) for name, value in before.items()}
            if grown.get("generated", 0) >= num_tokens:
                break
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        if grown.get("generated") != num_tokens:
            return None
        source = "/metrics, before and after"
        return Reported(source, grown.get("drafted"), grown.get("accepted"), grown.get("rounds"))


def _of_request(found: dict[str, Any]) -> Reported:
    return Reported(
        "metrics.speculative_decoding",
        found.get("num_draft_tokens"),
        found.get("num_accepted_draft_tokens"),
        found.get("num_spec_steps"),
    )


def counters(text: str) -> dict[str, float]:
    """Those of _COUNTERS that a Prometheus page has, summed over engines."""
    found: dict[str, float] = {}
    for name, counter in _COUNTERS.items():
        values = re.findall(rf"^{re.escape(counter)}(?:\{{[^}}]*\}})? (\S+)", text, re.MULTILINE)
        if values:
            found[name] = sum(map(float, values))
    return found
