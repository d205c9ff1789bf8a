"""What a profile of the Spacefile asks of a Space against what stands on the Hub. Writes nothing, here or there."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from huggingface_hub.utils import filter_repo_objects  # type: ignore[attr-defined]

from specdemo.errors import SpaceError
from specdemo.space.contradictions import PROFILE_VARIABLE
from specdemo.space.files import uploaded_files
from specdemo.space.hub import LiveSpace
from specdemo.space.manifest import Profile, Spacefile

_MOST_LISTED = 12


@dataclass(frozen=True, slots=True)
class Change:
    """One thing to do: `kind` is create, variable, secret, hardware, sleep_time, upload or delete.

    `found` and `wanted` are None where there is no value, or where it is a secret's.
    """

    kind: str
    name: str
    found: str | None = None
    wanted: str | None = None

    def sentence(self) -> str:
        """For a person."""
        match self.kind:
            case "create":
                return f"create the Space {self.name} on {self.wanted}"
            case "upload":
                return f"upload {self.name}{' (new)' if self.found is None else ''}"
            case "delete":
                return f"delete {self.name}"
            case "secret":
                return f"set the secret {self.name}"
        before = f", now {self.found}" if self.found is not None else ""
        return f"set {'the variable ' if self.kind == 'variable' else ''}{self.name} to {self.wanted}{before}"


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes in the order in which a deploy makes them; `notes` say what is left as it is."""

    space: str
    profile: str
    exists: bool
    changes: tuple[Change, ...]
    notes: tuple[str, ...]

    def of_kind(self, *kinds: str) -> list[Change]:
        """The changes of some kinds."""
        return [change for change in self.changes if change.kind in kinds]

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "changes": [asdict(change) for change in self.changes], "notes": list(self.notes)}

    def text(self) -> str:
        """For a person, a line each; many files are counted."""
        if not self.changes:
            return "".join(f"{line}\n" for line in (f"{self.space} is as profile {self.profile} says.", *self.notes))
        lines = [change.sentence() for change in self.changes if change.kind not in ("upload", "delete")]
        for kind in ("upload", "delete"):
            same = self.of_kind(kind)
            lines += [change.sentence() for change in same[:_MOST_LISTED]]
            if len(same) > _MOST_LISTED:
                lines.append(f"{kind} {len(same) - _MOST_LISTED} more files")
        head = f"{self.space} with profile {self.profile}: {len(self.changes)} changes"
        return "".join(f"{line}\n" for line in (head, *(f"  {line}" for line in lines), *self.notes))


def space_profile(spacefile: Spacefile, name: str) -> Profile:
    """A profile that runs on the Hub, by its name."""
    profile = spacefile.profiles.get(name)
    if profile is None:
        known = ", ".join(spacefile.profiles) or "none"
        raise SpaceError(f"the profile is {name!r}; the Spacefile has {known}. Choose one of them.")
    if profile.local:
        raise SpaceError(f"profile {name} is for a machine of one's own; start it there with `python app.py`.")
    return profile


def make_plan(root: Path, spacefile: Spacefile, name: str, live: LiveSpace, environment: Mapping[str, str]) -> Plan:
    """What differs. Raises SpaceError for an unknown profile, or a secret that neither side has."""
    profile = space_profile(spacefile, name)
    changes = [] if live.exists else [Change("create", live.repo_id, wanted=profile.hardware)]
    wanted = {PROFILE_VARIABLE: name, **profile.variables}
    for variable, value in wanted.items():
        if live.variables.get(variable) != value:
            changes.append(Change("variable", variable, live.variables.get(variable), value))
    secrets, notes = _secrets(spacefile, live, environment)
    changes += secrets
    if live.exists and live.hardware != profile.hardware:
        changes.append(Change("hardware", "hardware", live.hardware, profile.hardware))
    if profile.sleep_time is not None and live.sleep_time != profile.sleep_time:
        before = None if live.sleep_time is None else str(live.sleep_time)
        changes.append(Change("sleep_time", "sleep_time", before, str(profile.sleep_time)))
    changes += _files(root, spacefile, live)
    if live.exists and live.stage != "RUNNING":
        notes.append(f"note: it does not run now ({live.stage.lower().replace('_', ' ')})")
    notes += [
        f"note: the variable {other} is not in the Spacefile; it is left"
        for other in live.variables
        if other not in wanted
    ]
    return Plan(live.repo_id, name, live.exists, tuple(changes), tuple(notes))


def _secrets(spacefile: Spacefile, live: LiveSpace, environment: Mapping[str, str]) -> tuple[list[Change], list[str]]:
    changes, notes, missing = [], [], []
    for entry in spacefile.secrets:
        secret = entry.removesuffix("?")
        if secret in live.secrets:
            notes.append(f"note: the secret {secret} is there; nobody can read its value, so it is left")
        elif environment.get(secret):
            changes.append(Change("secret", secret))
        elif not entry.endswith("?"):
            missing.append(secret)
    if missing:
        raise SpaceError(
            f"found no value for {', '.join(missing)}, neither here nor on the Space; set it in the environment, or "
            "mark it with ? in the Spacefile where it may be missing."
        )
    return changes, notes


def _files(root: Path, spacefile: Spacefile, live: LiveSpace) -> Iterator[Change]:
    paths = {path.relative_to(root).as_posix(): path for path in uploaded_files(root, spacefile.upload)}
    for name, path in paths.items():
        found = live.files.get(name)
        if found is None or found not in (blob_id(path), _sha256(path)):
            yield Change("upload", name, found)
    # What the filter would upload and is here no more, such as a module that has moved, must not stay behind.
    stale = [name for name in live.files if name not in paths]
    for name in filter_repo_objects(
        stale, allow_patterns=spacefile.upload.include, ignore_patterns=[*spacefile.upload.exclude, ".gitattributes"]
    ):
        yield Change("delete", name, live.files[name])


def blob_id(path: Path) -> str:
    """The name that git gives to the file's content."""
    data = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
