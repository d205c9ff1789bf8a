"""transformers' own `generate`, plain and assisted, as the yardstick of `bench`. Used nowhere else."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from transformers import PreTrainedModel

from specdemo.drafters import shipped_folder
from specdemo.drafters.draft_model import as_transformers
from specdemo.drafters.early_exit import EarlyExitDrafter, OwnExit
from specdemo.drafters.ngram import NgramDrafter
from specdemo.engine import Engine
from specdemo.int4_linear import replace_linears
from specdemo.settings import DecodeSettings


class Baseline:
    """The target's own transformers module, with assistants made from the drafters' weights."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._target = engine.target
        self._assistants: dict[str, PreTrainedModel | None] = {}

    def generate_seconds_per_token(self, prompt_ids: Sequence[int], settings: DecodeSettings) -> float:
        """Plain `generate`."""
        return self._time(prompt_ids, settings, {})

    def assisted_seconds_per_token(
        self, prompt_ids: Sequence[int], drafter: str, settings: DecodeSettings
    ) -> float | None:
        """Assisted generation with the same drafter and constant K; None where transformers has no such family."""
        options = self._options(drafter, settings.num_draft_tokens)
        return None if options is None else self._time(prompt_ids, settings, options)

    @torch.inference_mode()
    def _time(self, prompt_ids: Sequence[int], settings: DecodeSettings, options: dict[str, Any]) -> float:
        ids = torch.tensor([list(prompt_ids)], device=self._target.lm.device)
        sampling: dict[str, Any] = {"do_sample": False}
        if settings.temperature:
            torch.manual_seed(settings.seed)
            sampling = {"do_sample": True, "temperature": settings.temperature, "top_k": settings.top_k or None}
        start = self._target.clock()
        output = self._target.model.generate(ids, max_new_tokens=settings.max_new_tokens, **sampling, **options)
        return (self._target.clock() - start) / (output.shape[1] - len(prompt_ids))

    def _options(self, spec: str, k: int) -> dict[str, Any] | None:
        drafter = self._engine.drafter(spec)
        if isinstance(drafter, NgramDrafter):
            return {"prompt_lookup_num_tokens": k, "max_matching_ngram_size": drafter.max_n}
        if isinstance(drafter, EarlyExitDrafter) and isinstance(drafter.way_out, OwnExit):
            _configure_constant(self._target.model, k)
            return {"assistant_early_exit": drafter.exit_layer}
        assistant = self._assistant(spec)
        if assistant is None:
            return None
        _configure_constant(assistant, k)
        return {"assistant_model": assistant}

    def _assistant(self, spec: str) -> PreTrainedModel | None:
        if spec not in self._assistants:
            self._assistants[spec] = self._make_assistant(spec)
        return self._assistants[spec]

    def _make_assistant(self, spec: str) -> PreTrainedModel | None:
        name, _, setting = spec.partition(":")
        if name == "quantized":
            return replace_linears(copy.deepcopy(self._target.model).to(torch.bfloat16))
        if name != "draft-model":
            return None
        return as_transformers(setting or str(shipped_folder(name, self._target)), self._target)


def _configure_constant(model: PreTrainedModel, k: int) -> None:
    """Exactly K drafts a round: transformers reads these from the drafter's own generation config."""
    config = model.generation_config
    config.num_assistant_tokens = k
    config.num_assistant_tokens_schedule = "constant"
    config.assistant_confidence_threshold = 0.0
