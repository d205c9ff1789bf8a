"""What the parts of a Spacefile say against one another, though each is well formed."""

from collections.abc import Iterator

from specdemo.catalog import TARGETS, check_drafter_name
from specdemo.errors import SettingsError
from specdemo.space.manifest import BASIC, ZERO, Profile, Spacefile, Weights

Place = tuple[str | int, ...]
PROFILE_VARIABLE = "SPECDEMO_PROFILE"
ZERO_PYTHONS = ("3.10.13", "3.12.12")


def contradictions(spacefile: Spacefile) -> Iterator[tuple[Place, str]]:
    """Where it stands, and what was found, what is expected and what to do."""
    secrets = {name.removesuffix("?") for name in spacefile.secrets}
    for name, profile in spacefile.profiles.items():
        place: Place = ("profiles", name)
        for index, pair in enumerate(profile.pairs):
            yield from _unknown_pair(spacefile, pair, (*place, "pairs", index))
        for variable, value in profile.variables.items():
            yield from _of_variable(variable, value, secrets, (*place, "variables", variable))
        yield from _of_drafters(profile.drafters, (*place, "drafters"))
        yield from _of_hardware(profile, place)
        if profile.hardware == ZERO and spacefile.card.python_version not in ZERO_PYTHONS:
            found = spacefile.card.python_version
            yield (
                ("card", "python_version"),
                f"found {found}, but profile {name} is ZeroGPU, which has {' and '.join(ZERO_PYTHONS)}; take one.",
            )
    for pair in spacefile.models:
        yield from _of_pair(spacefile, pair)
    for index, pair in enumerate(spacefile.preload):
        yield from _of_preload(spacefile, pair, ("preload", index))


def _unknown_pair(spacefile: Spacefile, pair: str, place: Place) -> Iterator[tuple[Place, str]]:
    if pair not in spacefile.models:
        known = ", ".join(spacefile.models) or "none so far"
        yield place, f"found {pair!r}, which does not stand under models ({known}); name one that does."


def _of_variable(name: str, value: str, secrets: set[str], place: Place) -> Iterator[tuple[Place, str]]:
    if name == PROFILE_VARIABLE:
        yield place, "is set by deploy itself, to the profile's name; remove it."
    if name in secrets:
        yield place, "is a secret too; a variable is public, so keep it under secrets alone."
    if value.startswith("hf_"):
        yield place, "holds what looks like a token, and variables are public; name it under secrets instead."


def _of_hardware(profile: Profile, place: Place) -> Iterator[tuple[Place, str]]:
    if profile.local and profile.hardware:
        yield (
            (*place, "hardware"),
            "stands beside `local: true`; a machine of one's own has none. Remove one of the two.",
        )
    if not profile.local and not profile.hardware:
        yield place, "has neither `hardware` nor `local: true`; add the one that is meant."
    if profile.sleep_time is not None and (profile.local or profile.hardware in (BASIC, ZERO)):
        where = "a machine of one's own" if profile.local else profile.hardware
        yield (*place, "sleep_time"), f"cannot be set on {where}; remove it."
    if profile.local and profile.variables:
        yield (*place, "variables"), "are a Space's; a machine of one's own has its environment. Remove them."
    limits, is_zero = profile.limits, profile.hardware == ZERO
    if is_zero and limits.gpu_seconds is None:
        yield (*place, "limits"), "lacks gpu_seconds; ZeroGPU lends a GPU for so long at most. Add it, for example 25."
    if not is_zero and limits.gpu_seconds is not None:
        yield (*place, "limits", "gpu_seconds"), "has a meaning on ZeroGPU alone; remove it."
    if is_zero and limits.reraces:
        yield (
            (*place, "limits"),
            "races again whenever a knob is let go, which burns a visitor's ZeroGPU quota; add `reraces: false`.",
        )


def _of_pair(spacefile: Spacefile, name: str) -> Iterator[tuple[Place, str]]:
    pair = spacefile.models[name]
    yield from _of_drafters(pair.drafters, ("models", name, "drafters"))
    known = next((entry for entry in TARGETS.values() if entry.hub_repo == pair.target.repo), None)
    if known is None:
        return
    if pair.target.revision not in (None, known.hub_revision):
        yield (
            ("models", name, "target", "revision"),
            f"found {pair.target.revision}, but the program checks the bytes of {known.hub_revision}; take that one.",
        )
    if pair.target.files not in ([], [known.file_name]):
        yield (
            ("models", name, "target", "files"),
            f"found {pair.target.files}; the program reads {known.file_name} alone.",
        )


def _of_drafters(drafters: list[str], place: Place) -> Iterator[tuple[Place, str]]:
    for index, drafter in enumerate(drafters):
        try:
            check_drafter_name(drafter)
        except SettingsError as error:
            yield (*place, index), str(error)


def _of_preload(spacefile: Spacefile, pair: str, place: Place) -> Iterator[tuple[Place, str]]:
    yield from _unknown_pair(spacefile, pair, place)
    for weights in spacefile.weights(pair) if pair in spacefile.models else ():
        if missing := _missing(weights):
            yield (
                place,
                f"needs {missing} of {weights.repo}, so that the build fetches what the app reads; add it there.",
            )


def _missing(weights: Weights) -> str:
    names = ("revision", not weights.revision), ("files", not weights.files)
    return " and ".join(name for name, is_missing in names if is_missing)
