"""`draft-model`: any causal language model of the target's vocabulary, from a local folder or a Hub repository.

Reads ordinary transformers folders, and drafters trained here: a Llama folder whose config says
`embeddings_from_target`, with the rows of the head named by the tensor `draft_vocab`.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F  # noqa: N812
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from specdemo.causal_lm import CausalLM, CausalLMSession, TransformersLM, require_rollback
from specdemo.drafters.autoregressive import AutoregressiveDrafter
from specdemo.errors import ModelError
from specdemo.four_bit import in_eight_bits
from specdemo.llama import LlamaLM
from specdemo.llama_layers import LlamaHead
from specdemo.target import Target

NAME = "draft-model"


def load_draft_model(source: str, target: Target) -> AutoregressiveDrafter:
    """Load a draft model. Raises ModelError when it is missing or its vocabulary is not the target's."""
    model = as_transformers(source, target)
    num_bytes = sum(parameter.nbytes for parameter in model.parameters())
    lm = LlamaLM.from_transformers(model) if LlamaLM.fits(model) else TransformersLM(model)
    require_rollback(lm, source)
    if _is_trained_here(Path(source)):
        cut = _with_cut_head(lm, _read_tensors(source)["draft_vocab"].long())
        lm = in_eight_bits(cut)
        # A prompt is read with the float32 weights, so both are held.
        return AutoregressiveDrafter(NAME, lm, cut.weight_bytes + (0 if lm is cut else lm.weight_bytes))
    num_shared = count_shared_ids(target.tokenizer, load_pretrained(AutoTokenizer, source), source)
    # A tokenizer may know tokens that a head has no row for.
    num_shared = min(num_shared, lm.vocab_size, target.lm.vocab_size)
    if lm.vocab_size == target.lm.vocab_size == num_shared:
        return AutoregressiveDrafter(NAME, lm, num_bytes)
    return AutoregressiveDrafter(NAME, SharedVocabularyLM(lm, target.lm.vocab_size, num_shared), num_bytes)


def as_transformers(source: str, target: Target) -> PreTrainedModel:
    """The draft model as transformers' own module, on the target's device and in its dtype."""
    if _is_trained_here(Path(source)):
        return _load_trained_here(Path(source), target)
    return load_pretrained(AutoModelForCausalLM, source, dtype=target.lm.dtype).to(target.lm.device)


def load_pretrained(kind: Any, source: str, **options: Any) -> Any:
    """A model or tokenizer of transformers' auto class `kind`. Raises ModelError in one sentence."""
    try:
        return kind.from_pretrained(source, **options)
    except (OSError, ValueError) as error:
        first_line = str(error).strip().splitlines()[0].rstrip(".")
        raise ModelError(
            f"no draft model could be loaded from {source!r}: {first_line}. Give a folder or a repository of a causal "
            "language model."
        ) from error


def count_shared_ids(target: PreTrainedTokenizerBase, drafter: PreTrainedTokenizerBase, name: str) -> int:
    """How many leading ids mean the same token in both vocabularies; compares strings, not sizes.

    A difference behind the smaller vocabulary, or in its last hundredth, where added tokens stand, ends the shared
    part; an earlier one is refused with ModelError.
    """
    ours, theirs = _tokens_by_id(target), _tokens_by_id(drafter)
    size = min(max(ours), max(theirs)) + 1
    differing = [i for i in range(size) if ours.get(i) != theirs.get(i)]
    if differing and differing[0] < 0.99 * size:
        i = differing[0]
        raise ModelError(
            f"{name} has another vocabulary than the target: id {i} is {theirs.get(i)!r} there and "
            f"{ours.get(i)!r} here. A draft model needs the target's own tokenizer; choose one of the same family."
        )
    return differing[0] if differing else size


class SharedVocabularyLM:
    """A model seen through the first `num_shared` ids of the target's vocabulary; see causal_lm.CausalLM."""

    def __init__(self, lm: CausalLM, vocab_size: int, num_shared: int) -> None:
        self._lm = lm
        self._num_shared = num_shared
        self.vocab_size = vocab_size
        self.context_length, self.weight_bytes = lm.context_length, lm.weight_bytes
        self.memory_bytes = lm.memory_bytes
        self.device, self.dtype, self.can_crop = lm.device, lm.dtype, lm.can_crop

    def open(self, feature_layers: Sequence[int] = ()) -> CausalLMSession:
        """A fresh, empty sequence."""
        return _SharedVocabularySession(self._lm.open(feature_layers), self.vocab_size, self._num_shared)

    def cache_bytes(self, num_tokens: int) -> int:
        """See CausalLM.cache_bytes."""
        return self._lm.cache_bytes(num_tokens)


class _SharedVocabularySession:
    def __init__(self, session: CausalLMSession, vocab_size: int, num_shared: int) -> None:
        self._session = session
        self._vocab_size = vocab_size
        self._num_shared = num_shared

    @property
    def length(self) -> int:
        return self._session.length

    @property
    def features(self) -> Tensor | None:
        return self._session.features

    def forward(self, token_ids: Sequence[int], num_logits: int) -> Tensor:
        # A token the drafter does not know is read as id 0: that can cost acceptance, never correctness.
        known = [i if i < self._num_shared else 0 for i in token_ids]
        logits = self._session.forward(known, num_logits)[:, : self._num_shared]
        return F.pad(logits, (0, self._vocab_size - self._num_shared), value=float("-inf"))

    def crop(self, length: int) -> None:
        self._session.crop(length)

    def close(self) -> None:
        self._session.close()


def _tokens_by_id(tokenizer: PreTrainedTokenizerBase) -> dict[int, str]:
    return {i: token for token, i in tokenizer.get_vocab().items()}


def _is_trained_here(folder: Path) -> bool:
    return (folder / "config.json").is_file() and bool(_read_config(folder).get("embeddings_from_target"))


def _load_trained_here(folder: Path, target: Target) -> LlamaForCausalLM:
    """Layers from the folder, embeddings and head from the target."""
    values = _read_config(folder)
    embedding = target.model.get_input_embeddings().weight.detach()
    if (values["vocab_size"], values["hidden_size"]) != tuple(embedding.shape):
        raise ModelError(
            f"{folder.name} was trained for a target with embeddings {values['vocab_size']}x{values['hidden_size']}; "
            f"this target has {embedding.shape[0]}x{embedding.shape[1]}. Choose the target it was trained for."
        )
    ours = ("architectures", "embeddings_from_target", "draft_vocab_size")
    config = LlamaConfig(**{key: value for key, value in values.items() if key not in ours})
    config.max_position_embeddings = target.context_length
    model = LlamaForCausalLM(config)
    model.set_input_embeddings(target.model.get_input_embeddings())
    model.lm_head.weight = target.model.get_input_embeddings().weight
    tensors = {key: value for key, value in _read_tensors(str(folder)).items() if key != "draft_vocab"}
    result = model.load_state_dict(tensors, strict=False)
    missing = [key for key in result.missing_keys if "embed_tokens" not in key and "lm_head" not in key]
    if missing or result.unexpected_keys:
        raise ModelError(
            f"{folder.name} does not fit its config: missing {missing}, unexpected {result.unexpected_keys}."
        )
    return model.to(target.lm.device, target.lm.dtype).eval()


def _with_cut_head(lm: LlamaLM, token_ids: Tensor) -> LlamaLM:
    """The same model with only the head's rows that it was trained to draft from."""
    rows = token_ids.to(lm.device)
    return LlamaLM(lm.config, lm.embedding, lm.layers, LlamaHead(lm.head.norm, lm.embedding[rows].contiguous(), rows))


def _read_config(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "config.json").read_text(encoding="utf-8")))


def _read_tensors(folder: str) -> dict[str, Tensor]:
    """All tensors of a folder, which may hold them in one file or in shards."""
    return {key: value for path in sorted(Path(folder).glob("*.safetensors")) for key, value in load_file(path).items()}
