"""A quantity that was measured at some widths of a pass, at any width between them."""

from collections.abc import Mapping


def between(values: Mapping[int, float], width: int) -> float:
    """On the straight line between the neighbours of `width`; the outermost value beyond them."""
    below = max((known for known in values if known <= width), default=min(values))
    above = min((known for known in values if known >= width), default=max(values))
    if below == above:
        return values[below]
    share = (width - below) / (above - below)
    return (1 - share) * values[below] + share * values[above]
