"""The Hugging Face Hub: which files of a repository are wanted, fetching them, and its errors in one sentence each.

Nothing that a repository holds is run: weights are read as tensors, and code in it stays where it is.
"""

import errno
import glob
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import HfApi, ModelInfo, constants, snapshot_download
from huggingface_hub.errors import (
    DisabledRepoError,
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    HTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
    SafetensorsParsingError,
)
from huggingface_hub.file_download import repo_folder_name

from specdemo.errors import ModelError
from specdemo.weights import Progress, reported

_SMALL = (".json", ".jinja", ".txt", ".model", ".tiktoken")
_OTHERS = ("consolidated", "training_args", "optimizer", "scheduler", "rng_state")
"""Weights in another program's layout, beside the same in ours, and what is left of a training run."""

_SENTENCES = {
    GatedRepoError: "{repository} is gated: ask for access at {page} with your account, then {log_in} on this machine.",
    RepositoryNotFoundError: "the Hub has no repository {repository} that you may see: check the name; if it is "
    "private, {log_in} with an account that may read it.",
    RevisionNotFoundError: "{repository} has no such revision; see {page}/commits for those it has.",
    DisabledRepoError: "{repository} is disabled on the Hub; choose another repository.",
    LocalEntryNotFoundError: "the Hub cannot be reached, and {repository} is not on this machine; check the network.",
    OfflineModeIsEnabled: "the Hub is switched off (HF_HUB_OFFLINE), and {repository} is not on this machine.",
    EntryNotFoundError: "{repository} lacks a file that is needed; see {page}/tree/main for those it has.",
    HFValidationError: "{repository!r} is no name of a repository; give OWNER/NAME or the path of a folder.",
    SafetensorsParsingError: "the weights of {repository} are no readable safetensors; choose another revision.",
}
"""The first that fits; a gated repository counts as one that is not found."""

_LOG_IN = "log in with `hf auth login` or set HF_TOKEN"
_CAUGHT = (HTTPError, HFValidationError, OSError, SafetensorsParsingError)


def small_files(names: Iterable[str]) -> list[str]:
    """Of all files of a repository those without weights: configuration, tokenizer, chat template, index."""
    return [name for name in names if "/" not in name and name.endswith(_SMALL)]


def weight_files(names: Iterable[str]) -> list[str]:
    """Those with weights: safetensors, or else pickled tensors, each once."""
    own = [name for name in names if "/" not in name and not name.startswith(_OTHERS)]
    for ending in (".safetensors", ".bin", ".pt"):
        if found := [name for name in own if name.endswith(ending)]:
            return found
    return []


def repository_info(repository: str, revision: str | None) -> ModelInfo:
    """What the Hub says of a repository, sizes of its files included. Raises ModelError in one sentence."""
    with explained(repository):
        return HfApi().model_info(repository, revision=revision, files_metadata=True)


def file_sizes(info: ModelInfo) -> dict[str, int | None]:
    """Bytes of each file, None where the Hub does not say."""
    return {one.rfilename: one.size for one in info.siblings or ()}


def fetch_files(repository: str, revision: str | None, names: Iterable[str]) -> Path:
    """Download these files unless they are there; the folder they lie in. Raises ModelError in one sentence."""
    patterns = [glob.escape(name) for name in names]
    with explained(repository):
        return Path(snapshot_download(repository, revision=revision, allow_patterns=patterns))


def fetch_repository(repository: str, revision: str | None, progress: Progress) -> Path:
    """Download what a model needs of a repository; without a network, what was downloaded before.

    Raises ModelError in one sentence.
    """
    try:
        info = repository_info(repository, revision)
    except NoNetworkError:
        return cached_folder(repository, revision)
    sizes = file_sizes(info)
    names = [*small_files(sizes), *weight_files(sizes)]
    total = sum(sizes[name] or 0 for name in names)
    blobs = storage_folder(repository) / "blobs"
    with reported(blobs, repository, total, progress):
        return fetch_files(repository, revision, names)


def cached_folder(repository: str, revision: str | None) -> Path:
    """Where an earlier download lies; raises ModelError where there is none."""
    try:
        found = snapshot_download(repository, revision=revision, local_files_only=True, allow_patterns=["config.json"])
    except OSError:
        raise NoNetworkError(
            f"{repository} has not been downloaded yet and the Hub cannot be reached; check the network, or name a "
            "folder that holds it."
        ) from None
    return Path(found)


def storage_folder(repository: str) -> Path:
    """Where the Hub's own cache keeps a repository."""
    return Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=repository, repo_type="model")


class NoNetworkError(ModelError):
    """The Hub cannot be reached."""


@contextmanager
def explained(repository: str) -> Iterator[None]:
    """Inside the block what goes wrong becomes a ModelError of one sentence."""
    try:
        yield
    except ModelError:
        raise
    except _CAUGHT as error:
        kind = NoNetworkError if is_out_of_reach(error) else ModelError
        raise kind(explain(error, repository)) from None


def is_out_of_reach(error: Exception) -> bool:
    """Whether no answer came from the Hub at all."""
    if isinstance(error, OfflineModeIsEnabled | LocalEntryNotFoundError):
        return True
    return not isinstance(error, HfHubHTTPError) and (
        isinstance(error, HTTPError | ConnectionError | TimeoutError) or "Max retries" in str(error)
    )


def explain(error: Exception, repository: str) -> str:
    """What went wrong and what to do, in one sentence. Never holds a token."""
    for kind, sentence in _SENTENCES.items():
        if isinstance(error, kind):
            page = f"{constants.ENDPOINT}/{repository}"
            return sentence.format(repository=repository, page=page, log_in=_LOG_IN)
    if isinstance(error, HfHubHTTPError):
        return _explain_status(error, repository)
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        where = constants.HF_HUB_CACHE
        return f"the disk is full: {repository} did not fit in {where}; free some space or set HF_HOME."
    if isinstance(error, PermissionError):
        return f"{error.filename} cannot be written; set HF_HOME to a folder that can."
    first_line = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    if is_out_of_reach(error):
        return f"the Hub cannot be reached ({first_line}); check the network, or name a folder that holds {repository}."
    return f"{repository} cannot be read: {first_line}."


def _explain_status(error: HfHubHTTPError, repository: str) -> str:
    status = error.response.status_code
    if status == 401:
        return f"the Hub does not accept your token for {repository}: {_LOG_IN} again."
    if status == 403:
        return f"your account may not read {repository}; {_LOG_IN} with one that may."
    if status == 429:
        return f"the Hub answers too many requests (429) for {repository}; wait a few minutes and try again."
    return f"the Hub answers {status} for {repository}; try again later."
