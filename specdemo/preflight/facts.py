"""What is known of a target from its small files."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedTokenizerBase,
)

from specdemo.causal_lm import TransformersLM
from specdemo.detection import detect, is_language_model
from specdemo.errors import ModelError
from specdemo.places import Seen

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "spiece.model", "tekken.json")


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """`config` is that of the language model within, as transformers reads it."""

    seen: Seen
    config: PreTrainedConfig
    tokenizer: PreTrainedTokenizerBase | None
    can_crop: bool
    """See causal_lm.CausalLM."""

    @property
    def hidden_size(self) -> int:
        """Numbers in a hidden state."""
        return int(self.config.hidden_size)

    @property
    def num_layers(self) -> int:
        """Decoder layers."""
        return int(self.config.num_hidden_layers)

    @property
    def vocab_size(self) -> int:
        """Rows of the head, padding included."""
        return int(self.config.vocab_size)

    @property
    def context_length(self) -> int:
        """Tokens that it reads, 0 where nothing says."""
        return int(getattr(self.config, "max_position_embeddings", 0) or 0)

    @property
    def num_words(self) -> int:
        """Ids that the tokenizer knows, counted from 0 to its highest."""
        return self.vocab_size if self.tokenizer is None else max(self.tokenizer.get_vocab().values()) + 1


def read_target(seen: Seen) -> TargetFacts:
    """Raises ModelError where it is no language model that transformers runs."""
    if not is_language_model(seen.values, seen.shapes):
        found = detect(seen.values, seen.shapes)
        what = f"a drafter ({found.title})" if found.layout else found.title
        raise ModelError(
            f"{seen.name} cannot be the target: it is {what}, for {found.because}; give a causal language model, and a "
            "drafter as --drafter."
        )
    whole = _config(seen)
    if type(whole) not in AutoModelForCausalLM._model_mapping:
        raise ModelError(f"{seen.name} is a {seen.values.get('model_type')}, which writes no text token by token.")
    return TargetFacts(seen, whole.get_text_config(), read_tokenizer(seen.folder), _can_crop(whole))


def inner_values(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a config.json that speaks of layers, wherever the layout keeps it."""
    for name in ("transformer_layer_config", "text_config"):
        if isinstance(values.get(name), Mapping):
            return values[name]
    return values


def _config(seen: Seen) -> PreTrainedConfig:
    try:
        return AutoConfig.from_pretrained(seen.folder, trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError):
        kind = seen.values.get("model_type")
        wants_code = "auto_map" in seen.values
        why = "its own code would have to run, which is not done" if wants_code else "it may need a newer one"
        raise ModelError(
            f"transformers {transformers.__version__} does not know the model_type {kind!r} of {seen.name}; {why}."
        ) from None


def _can_crop(config: PreTrainedConfig) -> bool:
    """As the loaded model will say; this one has shapes and no weights."""
    try:
        with torch.device("meta"):
            return TransformersLM(AutoModelForCausalLM.from_config(config, trust_remote_code=False)).can_crop
    except Exception as error:  # noqa: BLE001 - what a configuration lacks shows as any error
        first_line = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise ModelError(
            f"transformers cannot make a {config.model_type} of this configuration: {first_line}."
        ) from None


def read_tokenizer(folder: Path) -> PreTrainedTokenizerBase | None:
    """The tokenizer in a folder, None where there is none that can be read."""
    if not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        return None
    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception:  # noqa: BLE001 - a stranger's files fail in any way they like
        return None
