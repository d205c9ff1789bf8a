"""The state of one sequence in a LlamaLM: keys and values, what ran ahead, the features of the last pass.

Computes nothing; the pass over one sequence or several stands in `llama`. Shapes: T tokens, D hidden, G key/value
heads, E head size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor

from specdemo.branches import Parents, is_prefix, paths_of
from specdemo.causal_lm import LONGEST_PART
from specdemo.kernels.llama import MOST_ROWS

if TYPE_CHECKING:
    from specdemo.llama import LlamaLM

_GROWTH = 512


class LlamaSession:
    """One sequence in a LlamaLM; keys and values stand in one buffer, (2, layers, G, capacity, E)."""

    def __init__(self, lm: "LlamaLM", feature_layers: Sequence[int] = ()) -> None:
        self._lm = lm
        self._cache: Tensor | None = None
        self.feature_layers = tuple(feature_layers)
        self.ahead: list[tuple[int, Tensor]] = []
        """(token id, hidden state (1, D)) run through the first layers only."""
        self._num_first_layers = 0
        self._num_rows = 0  # of the last pass
        self.features: Tensor | None = None
        self.length = 0

    @torch.inference_mode()
    def forward(self, token_ids: Sequence[int], num_logits: int, parents: Parents = ()) -> Tensor:
        """See CausalLMSession.forward; tokens that ran ahead resume where they stopped."""
        if parents:
            return self._lm.run_pass([self], [token_ids], [num_logits], [parents], is_few=True)[0]
        logits, features = [], []
        for start in range(0, len(token_ids), LONGEST_PART):
            part = token_ids[start : start + LONGEST_PART]
            num_behind = len(token_ids) - start - len(part)
            num_wanted = min(len(part), max(0, num_logits - num_behind))
            logits += self._lm.run_pass([self], [part], [num_wanted], [()], is_few=len(part) <= MOST_ROWS)
            features.append(self.features)
        if self.feature_layers:
            self.features = torch.cat(features)
        return torch.cat(logits)

    def run_ahead(self, token_id: int, num_layers: int) -> Tensor:
        """Run one token through the first layers, keep its state for `forward`, and return it (1, D)."""
        return self._lm.run_ahead_many([self], [token_id], num_layers)

    @property
    def num_layers_ahead(self) -> int:
        """How many layers those tokens went through that ran ahead; 0 where none did."""
        return self._num_first_layers if self.ahead else 0

    def keep_ahead(self, token_id: int, hidden: Tensor, num_layers: int) -> None:
        """Remember what ran ahead, (1, D)."""
        self.ahead.append((token_id, hidden))
        self._num_first_layers = num_layers

    def shares_layers(self, other: object) -> TypeGuard["LlamaSession"]:
        """Whether both read long texts with the same weights."""
        return isinstance(other, LlamaSession) and self._lm.layers is other._lm.layers

    def adopt(self, other: "LlamaSession") -> None:
        """Hold what a session that shares the layers has read, without reading it again."""
        if other.length:
            self.buffer(other.length)[..., : other.length, :] = other.keys_and_values()
        self.length = other.length

    def crop(self, length: int) -> None:
        """See CausalLMSession.crop; also forgets what ran ahead."""
        assert 0 <= length <= self.length
        self.hold(length)

    @torch.inference_mode()
    def keep(self, rows: Sequence[int]) -> None:
        """See CausalLMSession.keep."""
        first = self.length - self._num_rows
        end = first + len(rows)
        if not is_prefix(rows):
            cache = self.buffer(end)
            cache[..., first:end, :] = cache[..., [first + row for row in rows], :]
        self.features = None if self.features is None else self.features[list(rows)]
        self.hold(end)

    def end_pass(self, num_rows: int) -> None:
        """So many rows were appended, in all layers."""
        self._num_rows = num_rows
        self.hold(self.length + num_rows)

    def hold(self, length: int) -> None:
        """So many positions are filled in all layers, and none ran ahead."""
        self.ahead.clear()
        self.length = length

    def close(self) -> None:
        """See CausalLMSession.close."""
        self._cache = self.features = None
        self.ahead.clear()

    def keys_and_values(self) -> Tensor:
        """The cached keys and values, (2, layers, G, length, E): for audits."""
        assert self._cache is not None
        return self._cache[..., : self.length, :]

    def buffer(self, length: int) -> Tensor:
        """Keys and values with room for `length` positions at least."""
        config = self._lm.config
        capacity = 0 if self._cache is None else self._cache.shape[3]
        if length > capacity:
            shape = (
                2,
                len(self._lm.layers),
                config.num_key_value_heads,
                max(2 * capacity, 2 * ((length + _GROWTH) // 2)),
                config.head_dim,
            )
            grown = torch.empty(shape, dtype=self._lm.dtype, device=self._lm.device)
            if self._cache is not None:
                grown[..., :capacity, :] = self._cache
            self._cache = grown
        assert self._cache is not None
        return self._cache


@dataclass(frozen=True, slots=True)
class Span:
    """Rows of one sequence in a pass, whose keys and values take the slots from `start` on.

    In a tree, by the `parents` of all but the first row, a row stands behind its own branch and sees no other.
    """

    session: LlamaSession
    start: int
    num_rows: int
    parents: Parents = ()

    @property
    def end(self) -> int:
        return self.start + self.num_rows

    def branches(self) -> list[list[int]]:
        """The slots behind `start` that each row of a tree sees, ascending, its own last; none for a chain."""
        return [[self.start + 1 + i for i in path] for path in paths_of(self.parents)] if self.parents else []

    def positions(self) -> list[int]:
        """Of the rows of a tree."""
        return [self.start + len(path) for path in paths_of(self.parents)]
