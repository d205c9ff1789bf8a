"""`early-exit`: the target's first layers as a drafter, with an exit that was trained, or the target's norm and head.

LayerSkip (Elhoushi et al. 2404.16710) drafts so from targets trained for it. The trained exit leaves the target as it
is: behind the first layers stand a block without attention, a norm, and the target's rows of the words it may draft.
Shares the target's cache: what the first layers computed for a draft token is not computed again when it is verified.
Shapes: D hidden size, C draft words, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from specdemo.acceptance import Draft
from specdemo.causal_lm import CausalLM, CausalLMSession
from specdemo.drafters.chain import Chain, draw_chain, draw_chains
from specdemo.drafters.checkpoint import Checkpoint, Parts
from specdemo.drafters.layers import WordHead
from specdemo.errors import ModelError, SettingsError
from specdemo.int8_linear import Int8Linear
from specdemo.llama import LlamaLM, LlamaSession
from specdemo.llama_layers import normalize
from specdemo.sampling import Sampler
from specdemo.target import Target

NAME = "early-exit"
_BLOCK = tuple(f"{name}.weight" for name in ("input_norm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "norm"))


class Exit(Protocol):
    """From the first layers' output to words."""

    pass_bytes: int
    memory_bytes: int
    """Held besides the target's own weights."""

    def __call__(self, hidden: Tensor) -> Tensor:
        """hidden (T, D) -> logits (T, V)."""


class OwnExit:
    """The target's own final norm and head."""

    memory_bytes = 0

    def __init__(self, lm: LlamaLM) -> None:
        self._lm, self.pass_bytes = lm, lm.head_bytes

    def __call__(self, hidden: Tensor) -> Tensor:
        """See Exit."""
        return self._lm.logits(hidden)


@dataclass(frozen=True, slots=True)
class TrainedExit:
    """`gate_up`: rows of gate and up below each other. `norms`: before the block, and before the head."""

    gate_up: Int8Linear
    down: Int8Linear
    norms: tuple[Tensor, Tensor]
    head: WordHead
    epsilon: float

    @property
    def pass_bytes(self) -> int:
        """See Exit."""
        linears = (self.gate_up, self.down, self.head.rows)
        return sum(linear.pass_bytes for linear in linears) + sum(norm.nbytes for norm in self.norms)

    @property
    def memory_bytes(self) -> int:
        """See Exit."""
        parts = (self.gate_up, self.down, self.head)
        return sum(part.memory_bytes for part in parts) + sum(norm.nbytes for norm in self.norms)

    @torch.inference_mode()
    def __call__(self, hidden: Tensor) -> Tensor:
        """See Exit."""
        gate, up = self.gate_up(normalize(hidden, self.norms[0], self.epsilon)).chunk(2, -1)
        return self.head(normalize(hidden + self.down(F.silu(gate) * up), self.norms[1], self.epsilon))


class EarlyExitDrafter:
    """See drafters.base.Drafter. `exit_layer` E: the draft pass runs layers 0..E-1, then `way_out`."""

    name = NAME
    feature_layers = ()
    reads_target_cache = True

    def __init__(self, lm: CausalLM, exit_layer: int | None = None, way_out: Exit | None = None) -> None:
        self._lm = lm = require_layers(lm)
        self.exit_layer = default_exit_layer(lm) if exit_layer is None else exit_layer
        if not 1 <= self.exit_layer < len(lm.layers):
            raise SettingsError(
                f"the exit layer is {self.exit_layer}; it must be from 1 to {len(lm.layers) - 1} for this target."
            )
        self.way_out = way_out or OwnExit(lm)
        self.memory_bytes = self.way_out.memory_bytes
        self.pass_bytes = lm.layer_bytes * self.exit_layer + self.way_out.pass_bytes

    def open(self, target_session: CausalLMSession, prompt_ids: Sequence[int], sampler: Sampler) -> "EarlyExitSession":
        """See drafters.base.Drafter.open."""
        assert isinstance(target_session, LlamaSession)
        return EarlyExitSession(self, target_session, prompt_ids, sampler)

    def cache_bytes(self, num_tokens: int) -> int:
        """None: the first layers' keys and values are the target's."""
        return 0

    def draft_logits(self, session: LlamaSession, token_id: int) -> Tensor:
        """Run a token ahead and leave by the exit: logits (1, V)."""
        return self.way_out(session.run_ahead(token_id, self.exit_layer))

    def propose_many(self, asked: Sequence[tuple["EarlyExitSession", int]]) -> list[Draft]:
        """See drafters.base.BatchDrafter."""
        sessions = [session for session, _ in asked]

        def next_logits(drawing: Sequence[tuple[int, Sequence[int]]]) -> Sequence[Tensor]:
            running = [sessions[number].count_pass() for number, _ in drawing]
            hidden = self._lm.run_ahead_many(running, [ids[-1] for _, ids in drawing], self.exit_layer)
            return self.way_out(hidden).split(1)

        return draw_chains([session.begin(max_tokens) for session, max_tokens in asked], next_logits)


class EarlyExitSession:
    """See drafters.base.DraftSession; its cache is the target's, which the decode loop crops."""

    note = ""

    def __init__(
        self, drafter: EarlyExitDrafter, target_session: LlamaSession, prompt_ids: Sequence[int], sampler: Sampler
    ) -> None:
        self._drafter = drafter
        self._session = target_session
        self._sampler = sampler
        self._ids = list(prompt_ids)
        self.bytes_read = 0

    def propose(self, max_tokens: int) -> Draft:
        """Run the newest token ahead through the first layers, draw, and go on from what was drawn."""
        return draw_chain(self._sampler, self._ids, max_tokens, self._logits_after)

    def begin(self, max_tokens: int) -> Chain:
        """An empty draft."""
        return Chain(self._sampler, self._ids, max_tokens)

    def count_pass(self) -> LlamaSession:
        """The target's session, of which a token runs ahead now."""
        self.bytes_read += self._drafter.pass_bytes
        return self._session

    def _logits_after(self, token_ids: Sequence[int]) -> Tensor:
        return self._drafter.draft_logits(self.count_pass(), token_ids[-1])

    def commit(self, token_ids: Sequence[int], features: Tensor | None) -> None:
        """Remember the sequence."""
        self._ids += token_ids

    def close(self) -> None:
        """The target's session is closed by its owner."""


def load_early_exit(folder: Path, target: Target) -> EarlyExitDrafter:
    """Read a trained exit. Raises ModelError where it does not fit the target."""
    lm = require_layers(target.lm)
    checkpoint = Checkpoint.read(folder, "trained exit")
    checkpoint.check_names((*_BLOCK, "d2t"), (), layout="trained exit")
    size, width = lm.config.hidden_size, len(checkpoint.tensors["mlp.gate_proj.weight"])
    for name, shape in zip(_BLOCK, ((size,), (width, size), (width, size), (size, width), (size,)), strict=True):
        checkpoint.check_shape(name, shape)
    exit_layer = checkpoint.values.get("exit_layer")
    if not isinstance(exit_layer, int):
        raise ModelError(
            f"{folder.name} says exit_layer {exit_layer!r}; it must be how many layers stand before the exit."
        )
    parts = Parts(checkpoint.tensors, target)
    way_out = TrainedExit(
        gate_up=parts.linear("mlp.gate_proj", "mlp.up_proj"),
        down=parts.linear("mlp.down_proj"),
        norms=(parts.tensor("input_norm"), parts.tensor("norm")),
        head=WordHead.from_checkpoint(checkpoint, target),
        epsilon=lm.config.rms_norm_eps,
    )
    return EarlyExitDrafter(lm, exit_layer, way_out)


def require_layers(lm: CausalLM) -> LlamaLM:
    """The target as what can run its first layers alone. Raises ModelError where it cannot."""
    if not isinstance(lm, LlamaLM):
        raise ModelError(
            "early-exit needs a target of the Llama architecture, whose first layers can run alone. "
            "Choose another drafter."
        )
    return lm


def default_exit_layer(lm: LlamaLM) -> int:
    """A third of the layers."""
    return max(1, len(lm.layers) // 3)
