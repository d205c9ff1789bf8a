"""The Hub through its own client: who asks, what stands there now, and its errors in one sentence each.

A token is read from where huggingface_hub keeps it and never printed.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from huggingface_hub import HfApi, constants, get_token
from huggingface_hub import errors as hub_errors
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.hf_api import RepoFile

from specdemo.errors import SpaceError

_TOKEN = re.compile(r"hf_\w{6,}")
_BY_STATUS = {
    401: "the Hub does not know the token; log in again with `hf auth login`",
    402: "the Hub asks for payment: free accounts have no CPU Space and no paid hardware. Choose a ZeroGPU profile, or "
    "subscribe",
    403: "the token may not write there; take one with write access to that account",
    404: "the Hub has nothing there, or the token may not see it; check the Space's name",
    409: "the Space was changed by somebody else meanwhile; look at `space plan` again",
    413: "a file is too large for the Hub; see `space check`",
    429: "too many requests for now; wait a few minutes and try again",
}


class HubError(SpaceError):
    """The Hub refused, failed or is not reachable: exit code 1 where a wrong Spacefile is 2."""


@dataclass(frozen=True, slots=True)
class LiveSpace:
    """What the Hub says of a Space; `files` has the git blob id of each path, or the sha256 where it is kept apart."""

    repo_id: str
    exists: bool
    sha: str | None = None
    is_private: bool = False
    stage: str = ""
    hardware: str | None = None
    sleep_time: int | None = None
    variables: dict[str, str] = field(default_factory=dict)
    secrets: frozenset[str] = frozenset()
    files: dict[str, str] = field(default_factory=dict)


def connect() -> HfApi:
    """A client of HF_ENDPOINT with the token of this machine; raises SpaceError where there is none."""
    token = get_token()
    if token is None:
        raise SpaceError("found no token of the Hugging Face Hub; log in with `hf auth login`, or set HF_TOKEN.")
    return HfApi(token=token, library_name="specdemo")


def full_name(api: HfApi, name: str) -> str:
    """OWNER/NAME; a name alone belongs to the token's owner. Asked in any case: a bad token is told from no Space."""
    with sentences("ask whose token this is"):
        owner = api.whoami()["name"]
    return name if "/" in name else f"{owner}/{name}"


def live_space(api: HfApi, repo_id: str, *, with_secrets: bool) -> LiveSpace:
    """What stands there, the names of its secrets if that is asked for; nothing is written."""
    with sentences(f"look at the Space {repo_id}"):
        try:
            info = api.space_info(repo_id)
        except HfHubHTTPError as error:
            # The token is good, so 401 too says that there is no such Space, or none that it may see.
            if error.response.status_code not in (401, 404):
                raise
            return LiveSpace(repo_id, exists=False)
        runtime = api.get_space_runtime(repo_id)
        files = {
            entry.path: entry.lfs.sha256 if entry.lfs else entry.blob_id
            for entry in api.list_repo_tree(repo_id, repo_type="space", recursive=True)
            if isinstance(entry, RepoFile)
        }
        return LiveSpace(
            repo_id,
            exists=True,
            sha=info.sha,
            is_private=bool(info.private),
            stage=str(getattr(runtime.stage, "value", runtime.stage)),
            hardware=runtime.requested_hardware or runtime.hardware,
            sleep_time=runtime.sleep_time,
            variables={name: variable.value for name, variable in api.get_space_variables(repo_id).items()},
            secrets=frozenset(api.get_space_secrets(repo_id)) if with_secrets else frozenset(),
            files=files,
        )


@contextmanager
def sentences(doing: str) -> Iterator[None]:
    """Turn what the Hub or the network answers inside the block into a HubError: what could not be done, and why."""
    try:
        yield
    except HfHubHTTPError as error:
        raise HubError(f"cannot {doing}: {_why(error)}.") from None
    except hub_errors.OfflineModeIsEnabled:
        raise HubError(f"cannot {doing}: HF_HUB_OFFLINE is set; unset it to reach the Hub.") from None
    except (hub_errors.HTTPError, ConnectionError, TimeoutError) as error:  # type: ignore[attr-defined]
        where = constants.ENDPOINT
        raise HubError(
            f"cannot {doing}: {where} does not answer ({type(error).__name__}); check the network."
        ) from None
    except ValueError as error:
        raise HubError(f"cannot {doing}: {hidden(' '.join(str(error).split()))}") from None


def hidden(text: str) -> str:
    """The text without anything that looks like a token."""
    return _TOKEN.sub("a token", text)


def _why(error: HfHubHTTPError) -> str:
    status = error.response.status_code
    known = _BY_STATUS.get(status, "the Hub itself failed; try again later" if status >= 500 else "the Hub refused")
    said = hidden(" ".join((error.server_message or "").split())).rstrip(".")
    return f"{known} (HTTP {status}{': ' + said if said else ''})"
