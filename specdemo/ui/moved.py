"""Settings that lessons have moved, and the way back to a person's own. Plain values; knows no component."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Moved:
    """By the names of the fields: `had` is what the person had, `given` what the newest experiment put there."""

    had: Mapping[str, Any]
    given: Mapping[str, Any]

    def own(self, now: Mapping[str, Any]) -> dict[str, Any]:
        """The person's own settings, where `now` stands in the fields: one that was touched since stays as it is."""
        return {name: self.had[name] if value == self.given[name] else value for name, value in now.items()}


def move(before: Moved | None, now: Mapping[str, Any], given: Mapping[str, Any]) -> Moved:
    """An experiment puts `given` where `now` stands; `before` is what earlier ones have moved."""
    return Moved(dict(now) if before is None else before.own(now), dict(given))
