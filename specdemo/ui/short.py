"""Figures as they travel to the browser: as long as they are shown."""

from typing import Any


def short(value: Any) -> Any:
    """Four digits of a figure, alone or in a list; anything else as it is."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    return [short(one) for one in value] if isinstance(value, list | tuple) else value
