"""What a stream brings, the same for every server, and what makes rounds of it."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from specdemo.events import UNKNOWN_TOKEN, FinishReason, Reported, Round
from specdemo.spans import Span


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens that arrived together, oldest first; `text` is theirs. UNKNOWN_TOKEN stands for an id that was not sent.

    `drafted` and `accepted` are the server's counts of the whole answer so far, None where it gives none between.
    """

    token_ids: tuple[int, ...]
    text: str
    drafted: int | None = None
    accepted: int | None = None


@dataclass(frozen=True, slots=True)
class End:
    """Why an answer ended, the server's totals for it, what there is to say, and `text` that no token came with."""

    reason: FinishReason
    reported: Reported | None = None
    note: str = ""
    text: str = ""


Counted = tuple[Round, tuple[Span, ...]]


@dataclass(slots=True)
class _Open:
    """A round with drafts whose tokens are still arriving: `num_accepted` + 1 of them, unless a stop cuts it."""

    num_drafted: int
    num_accepted: int
    tokens: list[tuple[int, str]] = field(default_factory=list)


class Rounds:
    """Pieces in, rounds out, on the clock of whoever reads the stream.

    Where the server counts as it goes, its counts say what a round was. A pass that verified d drafts, of which a were
    accepted, raises the two counts by d and a and gives a + 1 tokens, which carry them; a pass without drafts leaves
    both as they are. Without such counts a token is a round of its own and shares the time of those it came with.
    `last_text` is that of the newest token.
    """

    def __init__(self, start: float) -> None:
        self._clock = start
        self._index = 0
        self._drafted = self._accepted = 0
        self._open: _Open | None = None
        self.last_text = ""

    def add(self, piece: Piece, now: float) -> Iterator[Counted]:
        """The rounds that a piece which arrived at `now` (seconds) completes."""
        if piece.drafted is not None and piece.drafted > self._drafted:
            yield from self.finish(now)
            num_accepted = max(0, (piece.accepted or 0) - self._accepted)
            self._open = _Open(piece.drafted - self._drafted, min(num_accepted, piece.drafted - self._drafted))
            self._drafted, self._accepted = piece.drafted, piece.accepted or 0
        tokens = _with_text(piece)
        self.last_text = tokens[-1][1] if tokens else self.last_text
        while self._open and tokens:
            self._open.tokens.append(tokens.pop(0))
            if len(self._open.tokens) == self._open.num_accepted + 1:
                yield self._closed(now)
        share = (now - self._clock) / len(tokens) if tokens else 0.0
        for token_id, text in tokens:
            yield self._round((), 0, (token_id, text), share)
        if tokens:
            self._clock = now

    def finish(self, now: float) -> Iterator[Counted]:
        """The round that a stop or the length cap cut inside its accepted drafts, if one is open."""
        if self._open and self._open.tokens:
            yield self._closed(now)
        self._open = None

    def _closed(self, now: float) -> Counted:
        opened, self._open = self._open, None
        assert opened is not None
        seconds, self._clock = now - self._clock, now
        accepted, rest = opened.tokens[: opened.num_accepted], opened.tokens[opened.num_accepted :]
        num_dropped = opened.num_drafted - len(accepted)
        return self._round(accepted, num_dropped, rest[0] if rest else None, seconds)

    def _round(
        self,
        accepted: "list[tuple[int, str]] | tuple[()]",
        num_dropped: int,
        token: tuple[int, str] | None,
        seconds: float,
    ) -> Counted:
        drafts = (*(token_id for token_id, _ in accepted), *[UNKNOWN_TOKEN] * num_dropped)
        kind = None if token is None else "plain" if not drafts else "corrected" if num_dropped else "bonus"
        made = Round(
            index=self._index,
            draft_token_ids=drafts,
            num_accepted=len(accepted),
            next_token_id=None if token is None else token[0],
            next_token_kind=kind,
            num_unused=num_dropped if token is None else 0,
            # A server does not say what drafting took of it.
            verify_seconds=seconds,
        )
        self._index += 1
        spans = [Span(token_id, text, "accepted") for token_id, text in accepted]
        failed = ["unused"] * num_dropped if token is None else ["rejected", *["discarded"] * num_dropped][:num_dropped]
        spans += [Span(UNKNOWN_TOKEN, "", status) for status in failed]  # type: ignore[arg-type]
        if token is not None and kind is not None:
            spans.append(Span(*token, kind))
        return made, tuple(spans)


def _with_text(piece: Piece) -> list[tuple[int, str]]:
    """The text with the first token: where the others begin in it is not known, and the last may be the end of text."""
    return [(token_id, "" if index else piece.text) for index, token_id in enumerate(piece.token_ids)]
