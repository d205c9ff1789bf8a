"""Generations and races on servers, as the updates that an engine of this program gives.

The clock is this program's own: seconds between what arrives, network included. The pass over the prompt brings the
first token, so that the time to it is the prefill and the decode clock starts there.
"""

import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from specdemo import __version__
from specdemo.errors import ModelError, SpecdemoError
from specdemo.events import Finished, Started
from specdemo.race import LANES, LaneUpdate, RaceRequest, race
from specdemo.remote.arrivals import arrivals
from specdemo.remote.pieces import End, Piece, Rounds
from specdemo.remote.request import Asked
from specdemo.remote.servers import Server
from specdemo.spans import Span

_PLAIN = "none"
_NOT_ASKED = ("num_draft_tokens", "schedule", "rule", "resolved_rule", "evidence")
"""Settings that a server has of its own."""


class RemoteEngine:
    """A server with speculation, and one without where a request cannot switch it off."""

    def __init__(self, server: Server, plain_server: Server | None = None) -> None:
        self.server = server
        self._plain_server = plain_server

    def check(self, request: RaceRequest) -> None:
        """Raise ModelError where a race cannot be run on these servers."""
        self._plain()

    def generate(self, request: RaceRequest) -> Iterator[LaneUpdate]:
        """One generation: with the server's drafter, or plain where the request names none."""
        yield from self.lane("plain" if request.drafter == _PLAIN else "speculative", request)

    def race(self, request: RaceRequest) -> Iterator[LaneUpdate]:
        """Both lanes, one after the other; closing the iterator ends the request that is under way.

        Beside each other on one server, or on two that share a device, each would slow the other by as much as its
        passes cost, and both clocks would show it. A stream cannot be made to wait between two tokens either, as our
        own lanes are. So the plain lane runs to its end, and is given out, by the lanes' own clocks, while the other
        one runs.
        """
        self._plain()
        plain = list(self._safe("plain", request))
        lanes = {"plain": plain, "speculative": self._safe("speculative", request)}
        yield from _merged(lanes)

    def lane(self, lane: str, request: RaceRequest) -> Iterator[LaneUpdate]:
        """One lane; raises SpecdemoError."""
        is_plain = lane == "plain"
        server = self._plain() if is_plain else self.server
        asked = Asked(request, is_plain)
        prompt_ids = server.prompt_ids(asked)
        start = time.perf_counter()
        rounds: Rounds | None = None
        provenance = self.provenance(request.drafter)
        with closing(arrivals(server.answer(asked, prompt_ids))) as arrived:  # type: ignore[type-var]
            for now, piece in arrived:
                if rounds is None:
                    settings = {k: v for k, v in asked.settings.to_dict().items() if k not in _NOT_ASKED}
                    started = Started(prompt_ids, settings, now - start, provenance, known=server.known)
                    yield LaneUpdate(lane, started)
                    rounds = Rounds(now)
                if isinstance(piece, Piece):
                    yield from (LaneUpdate(lane, made, spans) for made, spans in rounds.add(piece, now))
                    continue
                _check_plain(server, piece, is_plain=is_plain)
                yield from (LaneUpdate(lane, made, spans) for made, spans in rounds.finish(now))
                tail = (Span(-1, piece.text, "plain"),) if piece.text else ()
                # An end-of-text token has no text; where the newest one has, the server kept that token to itself.
                reason = "stop" if piece.reason == "eos" and rounds.last_text else piece.reason
                yield LaneUpdate(lane, Finished(reason, piece.note, piece.reported), tail)
                return
        raise ModelError(f"{server.label} ended its answer without saying why; see its log.")

    def provenance(self, drafter: str) -> dict[str, Any]:
        """What answered, where, and by which clock."""
        plain = self._plain_server or self.server
        return {
            "target": self.server.model,
            "drafter": drafter,
            "device": f"{self.server.kind} {self.server.version}".strip() + f", {self.server.label}",
            "server": {
                "kind": self.server.kind,
                "version": self.server.version,
                "address": self.server.label,
                "plain_address": plain.label,
                "known": self.server.known,
                "clock": "wall clock of the client, network included; the lanes ran one after the other",
            },
            "specdemo": __version__,
            "python": platform.python_version(),
            "recorded": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }

    def _plain(self) -> Server:
        if self._plain_server is not None:
            return self._plain_server
        if self.server.can_switch_off:
            return self.server
        raise ModelError(
            f"{self.server.kind} decides at its start whether it speculates, so {self.server.label} cannot run the "
            "plain lane; start a second one without speculation, and name it with --plain-engine."
        )

    def _safe(self, lane: str, request: RaceRequest) -> Iterator[LaneUpdate]:
        """A lane that ends as `failed` with its sentence, so that the other one's race is not lost."""
        try:
            yield from self.lane(lane, request)
        except SpecdemoError as error:
            yield LaneUpdate(lane, Finished("failed", str(error)))


def _check_plain(server: Server, end: End, *, is_plain: bool) -> None:
    if is_plain and end.reported is not None and end.reported.num_drafted:
        raise ModelError(
            f"{server.label} drafted {end.reported.num_drafted} tokens in the plain lane; start the server that "
            "--plain-engine names without speculation."
        )


def _merged(lanes: "dict[str, Sequence[LaneUpdate] | Iterator[LaneUpdate]]") -> Iterator[LaneUpdate]:
    """Updates of lanes by their own clocks; see race.race."""
    latest: dict[str, LaneUpdate] = {}

    def events(lane: str) -> Iterator[Any]:
        for update in lanes[lane]:
            latest[lane] = update
            yield update.event

    with closing(race({lane: events(lane) for lane in LANES})) as merged:  # type: ignore[type-var]
        for lane, _ in merged:
            yield latest[lane]
