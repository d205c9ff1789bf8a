"""Where the app runs, as the Spacefile's profile says: its target, and what one visitor may take there."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from specdemo.catalog import EMBEDDED_TARGET, TARGETS
from specdemo.errors import SpaceError
from specdemo.limits import Limits, is_zero_gpu
from specdemo.space.contradictions import PROFILE_VARIABLE
from specdemo.space.manifest import ZERO, Profile, Spacefile
from specdemo.space.reading import FILE_NAME, ROOT, read

CLASS = "class"


@dataclass(frozen=True, slots=True)
class Place:
    """The defaults are those of a machine of one's own."""

    target: str = EMBEDDED_TARGET
    limits: Limits = field(default_factory=Limits)


def place(environment: Mapping[str, str], *, in_class: bool = False, root: Path = ROOT) -> Place:
    """Of the profile that SPECDEMO_PROFILE names; without one, in class that of the class, on ZeroGPU the first for it.

    Raises SpaceError where the Spacefile is wrong or lacks the profile that is named.
    """
    named = environment.get(PROFILE_VARIABLE, "")
    is_zero = is_zero_gpu(environment)
    if not (named or in_class or is_zero) or (in_class and not named and not (root / FILE_NAME).is_file()):
        return Place()
    spacefile = read(root)
    known = spacefile.profiles
    first_zero = next((name for name, profile in known.items() if profile.hardware == ZERO), "")
    name = named or (first_zero if is_zero else CLASS if CLASS in known else "")
    if name:
        profile = _known(known, name)
        if is_zero and profile.hardware != ZERO:
            raise SpaceError(f"{PROFILE_VARIABLE} is {name!r}, but this is a ZeroGPU Space; choose one for {ZERO}.")
        return place_of(spacefile, profile)
    if is_zero:
        raise SpaceError("this is a ZeroGPU Space, but the Spacefile has no profile for zero-a10g; add one.")
    return Place()


def place_asked(environment: Mapping[str, str], *, in_class: bool) -> Place:
    """See `place`; with a line on stderr for each fault and exit code 2 where that cannot be."""
    try:
        return place(environment, in_class=in_class)
    except SpaceError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2) from error


def place_of(spacefile: Spacefile, profile: Profile) -> Place:
    """The first of its pairs, and its limits."""
    pair = spacefile.models[profile.pairs[0]]
    target = next((entry.name for entry in TARGETS.values() if entry.hub_repo == pair.target.repo), pair.target.repo)
    drafters = profile.drafters or pair.drafters
    if pair.draft:
        drafters = [f"draft-model:{pair.draft.repo}", *(drafters or ["ngram"])]
    limits = profile.limits
    return Place(
        target,
        Limits(
            max_new_tokens=limits.max_new_tokens,
            queue_max=limits.queue_max,
            reraces=limits.reraces,
            gpu_seconds=limits.gpu_seconds,
            drafters=tuple(dict.fromkeys([*drafters, "none"])) if drafters else (),
        ),
    )


def _known(profiles: Mapping[str, Profile], name: str) -> Profile:
    if name not in profiles:
        has = ", ".join(profiles) or "no profile"
        raise SpaceError(f"{PROFILE_VARIABLE} is {name!r}; the Spacefile has {has}. Choose one.")
    return profiles[name]
