"""Gemma 4's assistants, published for each of its targets: `mtp:FOLDER` reads them.

A few layers with queries alone: they read the keys and values that the target's last layer of the same kind has of the
committed text. Each step joins the target's scaled embedding of the newest word with a hidden state, the target's first
and then the assistant's own, brought to the target's size; all at the position of the newest committed token, for
nothing is added to what they attend to. transformers 5.24 runs the network.
Shapes: D the target's hidden size, V vocabulary, G key/value heads, E head size.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from specdemo.acceptance import Draft
from specdemo.causal_lm import CausalLMSession, TransformersLM, TransformersSession, pass_bytes
from specdemo.drafters.chain import draw_chain
from specdemo.errors import ModelError
from specdemo.sampling import Sampler
from specdemo.target import Target

NAME = "mtp"
_ARCHITECTURES = ("Gemma4AssistantForCausalLM", "Gemma4UnifiedAssistantForCausalLM")
_KINDS = ("sliding_attention", "full_attention")
SharedKeysValues = dict[str, tuple[Tensor, Tensor]]


def is_gemma_assistant(folder: Path) -> bool:
    """Whether a folder's config.json says that it is one; False where it cannot be read."""
    try:
        values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        return str(values["architectures"][0]) in _ARCHITECTURES
    except (OSError, ValueError, LookupError, TypeError):
        return False


class GemmaAssistantDrafter:
    """See drafters.base.Drafter. `layers`: of the target, whose keys and values are read, by the kind of attention."""

    name = NAME
    reads_target_cache = True

    def __init__(self, model: PreTrainedModel, target: Target, layers: dict[str, int]) -> None:
        self.model, self.layers = model, layers
        self.embedding = target.model.get_input_embeddings()
        self.window = int(_text_config(target.model).sliding_window)
        self.feature_layers = (int(_text_config(target.model).num_hidden_layers),)
        self.memory_bytes = sum(weight.nbytes for weight in model.parameters())
        self.pass_bytes = pass_bytes(model)

    def open(
        self, target_session: CausalLMSession, prompt_ids: Sequence[int], sampler: Sampler
    ) -> "GemmaAssistantSession":
        """See drafters.base.Drafter.open."""
        assert isinstance(target_session, TransformersSession), "see load_gemma_assistant"
        return GemmaAssistantSession(self, target_session, prompt_ids, sampler)

    def cache_bytes(self, num_tokens: int) -> int:
        """None: all keys and values are the target's."""
        return 0

    def shared(self, session: TransformersSession) -> SharedKeysValues:
        """The target's keys and values of the committed text that a query behind it sees, (1, G, length, E) each."""
        found = {kind: session.layer_cache(layer) for kind, layer in self.layers.items()}
        # A window holds the query too.
        keys, values = found[_KINDS[0]]
        return found | {_KINDS[0]: (keys[..., 1 - self.window :, :], values[..., 1 - self.window :, :])}

    def step(self, token_id: int, hidden: Tensor, position: int, shared: SharedKeysValues) -> tuple[Tensor, Tensor]:
        """The hidden state (1, D) to go on from, and logits (1, V)."""
        device = hidden.device
        embedded = self.embedding(torch.tensor([[token_id]], device=device))
        output = self.model(
            inputs_embeds=torch.cat([embedded, hidden[None]], -1),
            position_ids=torch.tensor([[position]], device=device),
            shared_kv_states=shared,
            use_cache=False,
        )
        logits = output.logits[0]
        if self.model.config.use_ordered_embeddings:
            # Of words that were not scored transformers puts one below the lowest score: they are never drafted.
            logits = logits.masked_fill(logits == logits.min(), float("-inf"))
        return output.last_hidden_state[0], logits


class GemmaAssistantSession:
    """See drafters.base.DraftSession. Holds one hidden state; an argmax is a proposal without a law, as everywhere."""

    note = ""

    def __init__(
        self,
        drafter: GemmaAssistantDrafter,
        target_session: TransformersSession,
        prompt_ids: Sequence[int],
        sampler: Sampler,
    ) -> None:
        self._drafter, self._session, self._sampler = drafter, target_session, sampler
        self._ids = list(prompt_ids)
        # With a prompt of one token the target has read nothing yet, and the first round drafts nothing.
        has_read = len(self._ids) > 1 and target_session.features is not None
        self._hidden = (
            target_session.features[-1:].clone() if has_read and target_session.features is not None else None
        )
        self.bytes_read = 0

    @torch.inference_mode()
    def propose(self, max_tokens: int) -> Draft:
        """Go on from the target's hidden state one place before the newest token, then from the assistant's own."""
        if self._hidden is None:
            return Draft(())
        hidden, position = self._hidden, len(self._ids) - 1
        shared = self._drafter.shared(self._session)

        def next_logits(token_ids: Sequence[int]) -> Tensor:
            nonlocal hidden
            hidden, logits = self._drafter.step(token_ids[-1], hidden, position, shared)
            self.bytes_read += self._drafter.pass_bytes
            return logits

        return draw_chain(self._sampler, self._ids, max_tokens, next_logits)

    def commit(self, token_ids: Sequence[int], features: Tensor | None) -> None:
        """Remember tokens, and what the target made of the last but one."""
        assert features is not None, "the decode loop hands over the features that feature_layers asks for"
        self._ids += token_ids
        self._hidden = features[-1:].clone()

    def close(self) -> None:
        """Free the hidden state; the target's session is closed by its owner."""
        self._hidden = None


def load_gemma_assistant(folder: Path, target: Target) -> GemmaAssistantDrafter:
    """Read an assistant. Raises ModelError where it does not fit the target."""
    theirs = _text_config(target.model)
    if not isinstance(target.lm, TransformersLM) or not str(theirs.model_type).startswith("gemma4"):
        raise ModelError(
            f"{folder.name} is an assistant of Gemma 4, which reads that target's own keys and values; the target here "
            f"is a {theirs.model_type}. Choose the Gemma 4 target it was trained for."
        )
    try:
        model, report = AutoModelForCausalLM.from_pretrained(folder, dtype=target.lm.dtype, output_loading_info=True)
    except (OSError, ValueError, RuntimeError) as error:
        first = str(error).strip().partition("\n")[0].rstrip(".")
        raise ModelError(f"the assistant in {folder.name} cannot be loaded: {first}. Copy its files again.") from error
    wrong = {kind: sorted(report[f"{kind}_keys"]) for kind in ("missing", "unexpected") if report[f"{kind}_keys"]}
    if wrong:
        said = ", ".join(f"{kind} {names}" for kind, names in wrong.items())
        raise ModelError(f"{folder.name} is not in the Gemma 4 assistant layout: {said}.")
    _check_fits(folder.name, model.config, theirs)
    return GemmaAssistantDrafter(model.to(target.lm.device).eval(), target, _sources(theirs))


def _sources(config: PreTrainedConfig) -> dict[str, int]:
    """The target's last layer with keys and values of its own, of each kind of attention."""
    modes = getattr(config, "kv_sharing_modes", None) or [None] * len(config.layer_types)
    own = {i: kind for i, (kind, mode) in enumerate(zip(config.layer_types, modes, strict=True)) if mode != "reuse"}
    return {kind: index for index, kind in sorted(own.items())}


def _check_fits(name: str, config: PreTrainedConfig, theirs: PreTrainedConfig) -> None:
    """Raise ModelError, with all that differs, unless sizes, words and heads are the target's."""
    ours = config.get_text_config()
    pairs = {
        "hidden size": (int(config.backbone_hidden_size), int(theirs.hidden_size)),
        "number of words": (int(ours.vocab_size), int(theirs.vocab_size)),
        "window": (int(ours.sliding_window), int(theirs.sliding_window)),
    }
    for kind in dict.fromkeys(ours.layer_types):
        pairs[f"key/value heads of {kind}"] = (_heads(ours, kind), _heads(theirs, kind))
    wrong = [f"{what} {own} and not {its}" for what, (own, its) in pairs.items() if own != its]
    if wrong:
        raise ModelError(
            f"{name} was trained for another target than this one: it has {'; '.join(wrong)}. Choose the Gemma 4 "
            "target it was trained for."
        )


def _heads(config: PreTrainedConfig, kind: str) -> Any:
    """(number, size) of the key/value heads of a kind of attention; None where the model has no such layer."""
    index = next((i for i, layer in enumerate(config.layer_types) if layer == kind), None)
    if index is None:
        return None
    layer = config.per_layer_config[index]
    return int(layer.num_key_value_heads), int(layer.head_dim)


def _text_config(model: PreTrainedModel) -> PreTrainedConfig:
    return model.config.get_text_config()
