"""The files of an upload: what git tracks, through the Spacefile's filter."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

from huggingface_hub.utils import filter_repo_objects  # type: ignore[attr-defined]

from specdemo.space.card import README
from specdemo.space.manifest import Card, Upload
from specdemo.space.reading import FILE_NAME

REQUIREMENTS = "requirements.txt"
MAX_PLAIN_FILE_BYTES = 10_000_000
NOTE = "note: "


def uploaded_files(root: Path, upload: Upload) -> list[Path]:
    """In order, each below `root`."""
    names = [path.relative_to(root).as_posix() for path in _tracked_files(root)]
    kept = filter_repo_objects(names, allow_patterns=upload.include, ignore_patterns=upload.exclude or None)
    return [root / name for name in kept]


def upload_problems(root: Path, card: Card, upload: Upload) -> Iterator[str]:
    """What the filter leaves out or lets in by mistake, and notes on large files."""
    names = [path.relative_to(root).as_posix() for path in _tracked_files(root)]
    for index, pattern in enumerate(upload.include):
        if not any(filter_repo_objects(names, allow_patterns=[pattern])):
            yield f"Spacefile, upload.include.{index}: found {pattern!r}, which matches no file; correct or remove it."
    files = uploaded_files(root, upload)
    sizes = {path.relative_to(root).as_posix(): path.stat().st_size for path in files}
    for name in (card.app_file, REQUIREMENTS, README, FILE_NAME):
        if name in names and name not in sizes:
            yield f"Spacefile, upload: leaves out {name}, without which the Space does not run; include it."
    for name in sizes:
        if Path(name).name.startswith(".env"):
            yield f"Spacefile, upload: takes in {name}, where secrets are kept; exclude it."
    total = sum(sizes.values()) / 1e6
    if total > upload.max_megabytes:
        yield (
            f"Spacefile, upload: found {total:.1f} MB, expected {upload.max_megabytes} at most (max_megabytes); "
            "exclude what the app does not read, or raise it."
        )
    for name, size in sizes.items():
        if size > MAX_PLAIN_FILE_BYTES:
            yield f"{NOTE}{name} has {size / 1e6:.1f} MB; plain git refuses it, `space deploy` does not"


def _tracked_files(root: Path) -> list[Path]:
    """What git tracks; where there is no git, every file outside hidden folders and caches."""
    try:
        command = ["git", "ls-files", "-z"]
        listed = subprocess.run(command, cwd=root, capture_output=True, check=False).stdout.decode().split("\0")
    except FileNotFoundError:
        listed = []
    files = [root / name for name in listed if name] or [p for p in root.rglob("*") if not _is_hidden(p.parent, root)]
    return sorted(path for path in files if path.is_file())


def _is_hidden(folder: Path, root: Path) -> bool:
    return any(name.startswith((".", "__")) for name in folder.relative_to(root).parts)
