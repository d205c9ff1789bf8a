"""How a speedup varies within answers, where there are too few prompts to see how it varies between them.

Pure folds over events. The same text in both lanes is cut into stretches of so many tokens, each with its own seconds.
"""

from collections.abc import Sequence
from itertools import pairwise

from specdemo.events import Event, Round
from specdemo.spread import Interval, geometric_interval

TOKENS = 16
Lane = Sequence[Event]


def stretch_interval(lanes: Sequence[tuple[Lane, Lane]]) -> Interval | None:
    """95 % of the speedup's geometric mean over stretches of (plain, speculative) answers; None of fewer than three.

    What the last, shorter stretch of an answer took is left out.
    """
    return geometric_interval(
        [
            plain / speculative
            for pair in lanes
            for plain, speculative in zip(*(_seconds(events) for events in pair), strict=False)
        ]
    )


def _seconds(events: Lane) -> list[float]:
    """Of each whole stretch; a round that reaches over its end counts in both, by its tokens."""
    marks: list[float] = [0.0]
    num_tokens = 0
    spent = 0.0
    for event in events:
        if not isinstance(event, Round) or not event.emitted_token_ids:
            continue
        num_emitted = len(event.emitted_token_ids)
        while num_tokens + num_emitted >= len(marks) * TOKENS:
            share = (len(marks) * TOKENS - num_tokens) / num_emitted
            marks.append(spent + share * event.seconds)
        num_tokens += num_emitted
        spent += event.seconds
    return [end - start for start, end in pairwise(marks)]
