"""The model whose answer is wanted: weights, tokenizer, the clock of its device, and one generation's cache.

Knows no drafter and no rule.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from specdemo.branches import Parents
from specdemo.causal_lm import LONGEST_PART, BatchLM, CausalLM, CausalLMSession, TransformersLM, TransformersSession
from specdemo.llama import LlamaLM


@dataclass(frozen=True)
class Target:
    """Loaded once and shared by all sessions.

    `gguf_path` is the file the weights came from, where they came from one; `precision` is one of catalog.PRECISIONS.
    """

    name: str
    revision: str
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    lm: CausalLM
    eos_token_ids: frozenset[int]
    context_length: int
    precision: str
    gguf_path: Path | None = None

    @classmethod
    def from_model(
        cls,
        name: str,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        revision: str,
        gguf_path: Path | None,
    ) -> "Target":
        """Wrap a loaded model; Llama weights on one device take the short pass, all else transformers' own."""
        places = set(getattr(model, "hf_device_map", {}).values())
        is_short = len(places) <= 1 and LlamaLM.fits(model)
        lm = LlamaLM.from_transformers(model) if is_short else TransformersLM(model)
        precision = str(lm.dtype).removeprefix("torch.")
        eos_ids = _eos_ids(model, tokenizer)
        return cls(name, revision, model, tokenizer, lm, eos_ids, lm.context_length, precision, gguf_path)

    def open(self, feature_layers: Sequence[int] = ()) -> "TargetSession":
        """A fresh generation; its passes keep the hidden states at `feature_layers` (see CausalLM.open)."""
        return TargetSession(self.lm.open(feature_layers), can_crop=self.lm.can_crop)

    def verify(
        self, sessions: Sequence["TargetSession"], token_ids: Sequence[Sequence[int]], parents: Sequence[Parents]
    ) -> list[Tensor]:
        """One pass over the newest committed token and K drafts of each session: logits after each, (K + 1, V)."""
        if len(sessions) == 1:
            return [sessions[0].verify(token_ids[0], parents[0])]
        assert isinstance(self.lm, BatchLM), "only one at a time; see require_batches"
        each = [session.session for session in sessions]
        return self.lm.forward_many(each, token_ids, [*map(len, token_ids)], parents)

    def decode_text(self, token_ids: Sequence[int]) -> str:
        """Exact text of the ids, control tokens included."""
        return self.tokenizer.decode(list(token_ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def clock(self) -> float:
        """Seconds, after everything the device was given is done."""
        if self.lm.device.type == "cuda":
            torch.cuda.synchronize(self.lm.device)
        return time.perf_counter()


class TargetSession:
    """One generation's cache. Between rounds it holds all committed tokens but the newest."""

    def __init__(self, session: CausalLMSession, *, can_crop: bool) -> None:
        self.session = session
        self._can_crop = can_crop

    @property
    def length(self) -> int:
        """Number of cached tokens."""
        return self.session.length

    def prefill(self, token_ids: Sequence[int]) -> Iterator[int]:
        """Read a prompt but its last token, which the first round feeds; yields how much is read after each part.

        Then the session holds the features of all that was read.
        """
        features = []
        # Where a state cannot be gone back to, a pass of several tokens may not go on from it either: Mamba's does not.
        part = LONGEST_PART if self._can_crop else max(1, len(token_ids))
        for start in range(0, len(token_ids), part):
            self.session.forward(token_ids[start : start + part], 0)
            features.append(self.session.features)
            yield self.length
        if self.session.features is not None:
            self.session.features = torch.cat(features)

    def verify(self, token_ids: Sequence[int], parents: Parents = ()) -> Tensor:
        """One pass over the newest committed token and K drafts: logits after each, shape (K + 1, V)."""
        return self.session.forward(token_ids, len(token_ids), parents)

    def keep(self, rows: Sequence[int]) -> Tensor | None:
        """Take back what the last pass read but for these rows.

        Recurrent layers read the accepted rows again: in the round's overhead, which a rejection costs such a target.
        Returns their hidden states, (len(rows), ...); None where no layer was asked for.
        """
        self.session.keep(rows)
        return self.session.features

    def crop(self, length: int) -> None:
        """Take back the keys and values behind `length` tokens."""
        if self._can_crop:
            self.session.crop(length)
        assert self.length == length, "the cache does not hold what was committed"

    @property
    def crop_bytes(self) -> int:
        """Weights that the last crop read."""
        return self.session.crop_bytes if isinstance(self.session, TransformersSession) else 0

    def close(self) -> None:
        """Free the cache."""
        self.session.close()


def _eos_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """End-of-text ids of the generation config, which may name several, and the tokenizer's own."""
    configured = model.generation_config.eos_token_id if model.generation_config else None
    ids = configured if isinstance(configured, list) else [configured]
    return frozenset(int(i) for i in (*ids, tokenizer.eos_token_id) if i is not None)
