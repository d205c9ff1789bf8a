"""A page that a whole class shares. Knows no component and no network: the address and its code are given."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MAX_WAITING_IN_CLASS = 60
QUIET_MODULES = 4
"""The light edge that a reader of QR codes needs, in modules (ISO/IEC 18004)."""


@dataclass(frozen=True, slots=True)
class Room:
    """What the page shows of itself in class: its address, and the same as a QR code (rows of dark and light modules).

    Both are empty where no other machine reaches the page.
    """

    address: str = ""
    code: Sequence[Sequence[int]] = ()
    max_waiting: int = MAX_WAITING_IN_CLASS

    def shown(self) -> dict[str, Any] | None:
        """For the page's script: the code as the path of an SVG whose unit is a module; None without an address."""
        if not self.address:
            return None
        return {"address": self.address, "path": code_path(self.code), "size": len(self.code) + 2 * QUIET_MODULES}


def code_path(code: Sequence[Sequence[int]]) -> str:
    """One rectangle for each run of dark modules, the quiet edge around them."""
    return "".join(
        f"M{x + QUIET_MODULES} {y + QUIET_MODULES}h{width}v1h-{width}z"
        for y, row in enumerate(code)
        for x, width in _dark_runs(row)
    )


def _dark_runs(row: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for x, is_dark in enumerate(row):
        if not is_dark:
            continue
        start, width = runs[-1] if runs else (0, 0)
        if runs and start + width == x:
            runs[-1] = (start, width + 1)
        else:
            runs.append((x, 1))
    return runs
