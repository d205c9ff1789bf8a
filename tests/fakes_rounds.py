"""Scripted answers and rounds: the prompt's own words, and a pattern in which every verdict occurs."""

from collections.abc import Iterator, Sequence
from typing import Any

from specdemo.events import Round
from specdemo.spans import Span, Status

TARGET_SECONDS = 0.032
DRAFT_SECONDS = 0.006
TARGET_BYTES = 540_000_000
DRAFT_BYTES = 98_000_000
_WORDS = [
    "the",
    "leaves",
    "change",
    "colour",
    "because",
    "days",
    "grow",
    "shorter",
    "and",
    "trees",
    "stop",
    "making",
    "the",
    "green",
    "pigment",
]


def words_for(prompt: str, count: int) -> list[str]:
    """An answer of `count` tokens that begins with the prompt, so that two visitors' answers differ."""
    own = [f" {word}" for word in prompt.split()]
    rest = [f" {_WORDS[i % len(_WORDS)]}" for i in range(count)]
    return [*own, *rest][: count - 1] + [".\n"] if count > 1 else [own[0]]


def scripted_rounds(answer: Sequence[str], k: int, draft_seconds: float) -> Iterator[tuple[Round, tuple[Span, ...]]]:
    """Rounds that emit `answer`: the number accepted cycles, so that every verdict occurs."""
    position = index = 0
    while position < len(answer):
        room = len(answer) - position - 1
        drafted = min(k, room)
        accepted = min((index * 3 + 1) % (k + 1), drafted) if k else 0
        yield _round(index, answer, position, drafted, accepted, draft_seconds)
        position += accepted + 1
        index += 1


def _round(
    index: int, answer: Sequence[str], position: int, drafted: int, accepted: int, draft_seconds: float
) -> tuple[Round, tuple[Span, ...]]:
    kind: Any = "plain" if not drafted else "bonus" if accepted == drafted else "corrected"
    dropped = [(90_000 + i, f" wrong{i}") for i in range(drafted - accepted)]
    kept = [(_token_id(position + i, answer), answer[position + i]) for i in range(accepted + 1)]
    statuses: list[Status] = ["rejected" if i == 0 else "discarded" for i in range(len(dropped))]
    spans = [Span(token_id, text, "accepted") for token_id, text in kept[:-1]]
    spans += [Span(token_id, text, status) for (token_id, text), status in zip(dropped, statuses, strict=True)]
    spans.append(Span(kept[-1][0], kept[-1][1], kind))
    event = Round(
        index=index,
        draft_token_ids=tuple(token_id for token_id, _ in [*kept[:-1], *dropped]),
        num_accepted=accepted,
        next_token_id=kept[-1][0],
        next_token_kind=kind,
        draft_seconds=draft_seconds * drafted,
        verify_seconds=TARGET_SECONDS + 0.001 * drafted,
        overhead_seconds=0.0008,
        draft_bytes=DRAFT_BYTES * drafted,
        verify_bytes=TARGET_BYTES,
    )
    return event, tuple(spans)


def _token_id(position: int, answer: Sequence[str]) -> int:
    return 1000 + sum(map(ord, answer[position])) % 40_000
