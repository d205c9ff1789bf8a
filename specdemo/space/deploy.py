"""Brings a Space up as its plan says: settings first, because each of them restarts it; files last, in one commit."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, SpaceHardware, SpaceRuntime
from huggingface_hub.hf_api import CommitInfo

from specdemo.space.hub import HubError, hidden, sentences
from specdemo.space.manifest import Profile
from specdemo.space.plan import Plan

Say = Callable[[str], None]
_UNDER_WAY = ("BUILDING", "RUNNING_BUILDING", "APP_STARTING", "RUNNING_APP_STARTING")
_LOG_LINES = 20
_MESSAGE = "Deploy with `space deploy`"


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds: how long a Space may take, how often it is asked, and how long the old one may be seen after a push."""

    longest: float = 1800.0
    between: float = 5.0
    settling: float = 30.0


def apply(api: HfApi, root: Path, plan: Plan, profile: Profile, environment: Mapping[str, str], say: Say) -> str | None:
    """Make the changes; returns the commit, None where no file differs."""
    if plan.of_kind("create"):
        _create(api, plan, profile, environment)
        say(f"created {plan.space}")
    else:
        _set(api, plan, profile, environment, say)
    return push(api, root, plan, say).oid if plan.of_kind("upload", "delete") else None


def push(api: HfApi, root: Path, plan: Plan, say: Say, *, as_pull_request: bool = False) -> CommitInfo:
    """The plan's files in one commit, so that one build follows and never half of them."""
    added: list[Any] = [CommitOperationAdd(change.name, str(root / change.name)) for change in plan.of_kind("upload")]
    gone = [CommitOperationDelete(change.name) for change in plan.of_kind("delete")]
    say(f"uploading {len(added)} files, deleting {len(gone)}")
    with sentences(f"upload to {plan.space}"):
        return api.create_commit(
            plan.space, [*added, *gone], repo_type="space", create_pr=as_pull_request, commit_message=_MESSAGE
        )


def wait(api: HfApi, space: str, commit: str | None, pace: Pace, say: Say) -> SpaceRuntime:
    """Until it runs; raises HubError with the tail of its log where it does not.

    Right after a push the Hub may still tell of the Space as it was: its commit tells them apart where it is named.
    """
    start, last = time.monotonic(), ""
    while True:
        with sentences(f"ask how {space} is"):
            runtime = api.get_space_runtime(space)
        stage, age = str(getattr(runtime.stage, "value", runtime.stage)), time.monotonic() - start
        if stage != last:
            say(f"{stage.lower().replace('_', ' ')}")
            last = stage
        is_old = commit is not None and runtime.raw.get("sha") not in (None, commit) and age < pace.settling
        if stage not in _UNDER_WAY and not is_old:
            break
        if age > pace.longest:
            raise HubError(f"{space} is still {stage} after {age:.0f} seconds; look at its log on the Hub.")
        time.sleep(pace.between)
    if stage != "RUNNING":
        raise HubError(_failure(api, space, stage, runtime))
    return runtime


def _create(api: HfApi, plan: Plan, profile: Profile, environment: Mapping[str, str]) -> None:
    variables = [{"key": change.name, "value": change.wanted or ""} for change in plan.of_kind("variable")]
    secrets = [{"key": change.name, "value": environment[change.name]} for change in plan.of_kind("secret")]
    with sentences(f"create the Space {plan.space}"):
        api.create_repo(
            plan.space,
            repo_type="space",
            space_sdk="gradio",
            visibility=profile.visibility,
            space_hardware=SpaceHardware(profile.hardware),
            space_sleep_time=profile.sleep_time,
            space_variables=variables or None,
            space_secrets=secrets or None,
        )


def _set(api: HfApi, plan: Plan, profile: Profile, environment: Mapping[str, str], say: Say) -> None:
    for change in plan.of_kind("variable", "secret"):
        with sentences(f"set the {change.kind} {change.name}"):
            if change.kind == "variable":
                api.add_space_variable(plan.space, change.name, change.wanted or "")
            else:
                api.add_space_secret(plan.space, change.name, environment[change.name])
        say(change.sentence())
    if plan.of_kind("hardware"):
        assert profile.hardware is not None
        with sentences(f"ask for {profile.hardware}"):
            api.request_space_hardware(plan.space, SpaceHardware(profile.hardware), sleep_time=profile.sleep_time)
        say(f"set hardware to {profile.hardware}")
    elif plan.of_kind("sleep_time"):
        assert profile.sleep_time is not None
        with sentences("set the sleep time"):
            api.set_space_sleep_time(plan.space, profile.sleep_time)
        say(f"set sleep_time to {profile.sleep_time}")


def _failure(api: HfApi, space: str, stage: str, runtime: SpaceRuntime) -> str:
    """What happened, with the end of the log that tells of it."""
    if stage in ("PAUSED", "STOPPED", "SLEEPING"):
        return f"{space} is {stage.lower()}; restart it on its page, then deploy again."
    said = str(runtime.raw.get("errorMessage") or "").strip()
    head = f"{space} ended as {stage}{': ' + hidden(said) if said else ''}."
    with sentences(f"read the log of {space} ({stage})"):
        lines = "".join(api.fetch_space_logs(space, build=stage != "RUNTIME_ERROR")).splitlines()
    tail = [f"  {hidden(line)}" for line in lines[-_LOG_LINES:]]
    return "\n".join([f"{head} The end of its log:", *tail] if tail else [f"{head} Its log is empty."])
