"""What a checkpoint is: told by its configuration and the names and shapes of its tensors, never by its own name.

The first rule that holds decides. Which vendor's layout it is goes with it, so that a reader need not look again.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Shapes = Mapping[str, tuple[int, ...]]
Values = Mapping[str, Any]

LANGUAGE_MODEL = "language-model"
"""A whole one: a target, or a draft model of this or another vocabulary, which takes two tokenizers to tell."""

_OF_SPECULATORS = {"eagle3": "EAGLE-3", "dflash": "DFlash", "dspark": "DSpark", "mtp": "multi-token prediction"}
_MEDUSA_TENSOR = re.compile(r"^(medusa_(lm_)?head\.)?\d+\.\d+\.(linear\.)?(weight|bias)$")
_DEEPSEEK_MTP = re.compile(r"^model\.layers\.\d+\.eh_proj\.weight$")
_MODEL_LAYERS = ("model.layers.", "transformer.h.", "gpt_neox.layers.", "model.language_model.layers.")
_MODEL_HEADS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")


@dataclass(frozen=True, slots=True)
class Found:
    """`family` as the drafter is called here, LANGUAGE_MODEL, or "" for a network that is not read.

    `because` is what in the files said so.
    """

    family: str
    title: str
    layout: str
    because: str


def detect(values: Values, shapes: Shapes) -> Found:
    """What a config.json and its tensors are. `shapes` may be empty where they are not known."""
    for rule in _RULES:
        if (found := rule(values, shapes)) is not None:
            return found
    kind = architecture(values)
    because = f"its architecture is {kind}" if kind else "its config.json names no architecture"
    return Found("", "no model of a known kind", "", because)


def architecture(values: Values) -> str:
    """The first that config.json names, "" where it names none."""
    named = values.get("architectures")
    return str(named[0]) if isinstance(named, list) and named else ""


def is_language_model(values: Values, shapes: Shapes) -> bool:
    """Whether it can be a target, whatever drafter its files hold besides."""
    found = detect(values, shapes)
    if found.family == LANGUAGE_MODEL:
        return True
    return found.family == "mtp" and _of_language_model(values, shapes) is not None


def _of_dflash2(values: Values, shapes: Shapes) -> Found | None:
    """Another network than DFlash, whatever else its config.json may say."""
    kind = architecture(values)
    return Found("", "DFlash2", "z-lab", f"its architecture is {kind}") if kind.startswith("DFlash2") else None


def _of_speculators(values: Values, shapes: Shapes) -> Found | None:
    own = values.get("speculators_config")
    kind = values.get("speculators_model_type") or (own.get("algorithm") if isinstance(own, Mapping) else None)
    if kind is None and not isinstance(own, Mapping):
        return None
    family = str(kind) if kind in _OF_SPECULATORS else ""
    title = _OF_SPECULATORS.get(str(kind), f"drafter of kind {kind}")
    return Found(family, title, "speculators", f"speculators_model_type is {kind}")


def _of_deepspec_block(values: Values, shapes: Shapes) -> Found | None:
    kind = architecture(values)
    if not kind.endswith("DSparkModel"):
        return None
    family, title = ("dspark", "DSpark") if values.get("markov_rank", 1) else ("dflash", "DFlash, its anchor predicts")
    return _of_qwen3(kind, family, title)


def _of_deepspec_eagle3(values: Values, shapes: Shapes) -> Found | None:
    kind = architecture(values)
    return _of_qwen3(kind, "eagle3", "EAGLE-3") if kind.endswith("Eagle3Model") else None


def _of_qwen3(kind: str, family: str, title: str) -> Found:
    """DeepSpec's layers are Qwen3's or, another network, Gemma 4's."""
    is_read = kind.startswith("Qwen3")
    return Found(family if is_read else "", title, "DeepSpec", f"its architecture is {kind}")


def _of_specforge(values: Values, shapes: Shapes) -> Found | None:
    kind = architecture(values)
    own = _own(values, "dflash_config")
    if kind == "DSparkDraftModel":
        return Found("dspark", "DSpark", "SpecForge", f"its architecture is {kind}")
    if own.get("projector_type") == "dspark":
        return Found("dspark", "DSpark", "SpecForge", "its projector_type is dspark")
    markov = next((name for name in shapes if name.endswith("markov_w1.weight")), "")
    return Found("dspark", "DSpark", "SpecForge", f"it holds {markov}") if markov else None


def _of_z_lab(values: Values, shapes: Shapes) -> Found | None:
    kind = architecture(values)
    if kind == "DFlashDraftModel" or "dflash_config" in values:
        because = f"its architecture is {kind}" if kind == "DFlashDraftModel" else "it has a dflash_config"
        return Found("dflash", "DFlash", "z-lab", because)
    return None


def _of_eagle3(values: Values, shapes: Shapes) -> Found | None:
    kind = architecture(values)
    layer = next((name for name in shapes if name.startswith("midlayer.")), "")
    if "Eagle3" in kind:
        return Found("eagle3", "EAGLE-3", "official EAGLE-3", f"its architecture is {kind}")
    # Trained exits, Medusa heads and MTP layers may have a map of words too, but no `fc`.
    if layer or ("d2t" in shapes and "fc.weight" in shapes):
        return Found("eagle3", "EAGLE-3", "official EAGLE-3", f"it holds {layer or 'd2t'}")
    return None


def _of_eagle(values: Values, shapes: Shapes) -> Found | None:
    fc = shapes.get("fc.weight", ())
    if len(fc) != 2 or fc[1] != 2 * fc[0] or not any(name.startswith("layers.0.") for name in shapes):
        return None
    if "layers.0.input_layernorm.weight" in shapes:
        return None
    return Found("", "EAGLE-1 or EAGLE-2", "SafeAILab", "its fc.weight reads one hidden state and the embedding")


def _of_medusa(values: Values, shapes: Shapes) -> Found | None:
    head = next((name for name in shapes if _MEDUSA_TENSOR.match(name)), "")
    if "medusa_num_heads" in values:
        return Found("medusa", "Medusa", "Medusa", "its config.json has medusa_num_heads")
    return Found("medusa", "Medusa", "Medusa", f"it holds {head}") if head else None


def _of_gemma4_assistant(values: Values, shapes: Shapes) -> Found | None:
    kind = architecture(values)
    if not re.fullmatch(r"Gemma4(Unified)?AssistantForCausalLM", kind):
        return None
    return Found("mtp", "Gemma 4 assistant", "Google", f"its architecture is {kind}")


def _of_mtp(values: Values, shapes: Shapes) -> Found | None:
    for name in shapes:
        layout = "Qwen" if name.startswith("mtp.") else "DeepSeek" if _DEEPSEEK_MTP.match(name) else ""
        if name.startswith("mtp_layers."):
            layout = "speculators"
        if layout:
            return Found("mtp", "multi-token prediction", layout, f"it holds {name}")
    return None


def _of_ours(values: Values, shapes: Shapes) -> Found | None:
    if values.get("embeddings_from_target"):
        return Found("draft-model", "draft model", "specdemo", "its config.json has embeddings_from_target")
    if "exit_layer" in values:
        return Found("early-exit", "early exit", "specdemo", "its config.json has exit_layer")
    return None


def _of_language_model(values: Values, shapes: Shapes) -> Found | None:
    kind = architecture(values)
    if kind.endswith(_MODEL_HEADS):
        return Found(LANGUAGE_MODEL, "language model", "transformers", f"its architecture is {kind}")
    if not kind and "model_type" in values and any(name.startswith(_MODEL_LAYERS) for name in shapes):
        return Found(LANGUAGE_MODEL, "language model", "transformers", f"its model_type is {values['model_type']}")
    return None


def _own(values: Values, name: str) -> Values:
    found = values.get(name)
    return found if isinstance(found, Mapping) else {}


_RULES: tuple[Callable[[Values, Shapes], Found | None], ...] = (
    _of_dflash2,
    _of_speculators,
    _of_deepspec_block,
    _of_deepspec_eagle3,
    _of_ours,
    _of_specforge,
    _of_z_lab,
    _of_eagle3,
    _of_eagle,
    _of_medusa,
    _of_gemma4_assistant,
    _of_mtp,
    _of_language_model,
)
