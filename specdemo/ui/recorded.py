"""The recorded races of a folder, read once when the page is built. Knows no component."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from specdemo.errors import TraceError
from specdemo.traces import Trace, load

LESSON = "lesson"
"""The category of races that were recorded for a lesson."""


@dataclass(frozen=True, slots=True)
class RecordedRace:
    """A race of the folder by its file name."""

    name: str
    trace: Trace

    @property
    def label(self) -> str:
        """What the list shows, unless the page has it in the visitor's language."""
        return f"{self.trace.category} · {self.trace.title}"

    @property
    def is_listed(self) -> bool:
        """Races that only a lesson speaks of are left to the lesson."""
        return self.trace.category != LESSON


class RecordedRaces:
    """Races that play without a model. A file that cannot be read is left out: the others still play.

    `traces` are those of the folder by name, where somebody has read them already.
    """

    def __init__(self, folder: Path, traces: Mapping[str, Trace] | None = None) -> None:
        self._races = {race.name: race for race in (_read(folder) if traces is None else races_of(traces))}

    @property
    def choices(self) -> list[tuple[str, str]]:
        """(label, name) in the order of the list."""
        return [(race.label, race.name) for race in self._races.values() if race.is_listed]

    def first(self) -> RecordedRace | None:
        """The race that plays when the page opens."""
        return next(iter(self._races.values()), None)

    def get(self, name: str) -> RecordedRace | None:
        """A race by name."""
        return self._races.get(name)


def races_of(traces: Mapping[str, Trace]) -> list[RecordedRace]:
    """Races that were read, in the order of the list; `traces` by name in the order of their files."""
    return _in_order(RecordedRace(name, trace) for name, trace in traces.items())


def read_races(folder: Path) -> list[RecordedRace]:
    """All races of a folder in the order of the list; raises the TraceError of the first that cannot be read."""
    return _in_order(RecordedRace(_name(path), load(path)) for path in _files(folder))


def _read(folder: Path) -> list[RecordedRace]:
    races = []
    for path in _files(folder):
        try:
            races.append(RecordedRace(_name(path), load(path)))
        except TraceError:
            continue
    return _in_order(races)


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json*"))


def _name(path: Path) -> str:
    return path.name.partition(".")[0]


def _in_order(races: Iterable[RecordedRace]) -> list[RecordedRace]:
    return sorted(races, key=lambda race: _ORDER.get(race.trace.category, len(_ORDER)))


_ORDER = {name: i for i, name in enumerate(("chat", "code", "json", "summary", "facts", "story", "repeat", "loses"))}
