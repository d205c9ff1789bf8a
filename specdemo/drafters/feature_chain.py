"""One layer on the target's hidden states that drafts token by token: what `eagle3` and `mtp` share.

Row i holds what the target made of token i beside the embedding of token i + 1 and expects token i + 2; behind the
newest hidden state the layer goes on from its own output. Shapes: T rows, D hidden size of the drafter, V the target's
vocabulary.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from specdemo.acceptance import Draft
from specdemo.branches import ROOT
from specdemo.causal_lm import LONGEST_PART, CausalLMSession
from specdemo.drafters.chain import Chain, draw_chains
from specdemo.drafters.layers import KeyValues, Layer, attend
from specdemo.drafters.tree import Tree, grow_tree, tree_or_note
from specdemo.llama_layers import RotaryTable, joined
from specdemo.sampling import Sampler


class FeatureCell(Protocol):
    """Weights of one family, and what it does around the layer."""

    layer: Layer
    embedding: Tensor
    feature_bytes: int
    """Read by `read_features`."""
    pass_bytes: int
    """Read by a step."""
    memory_bytes: int

    def read_features(self, features: Tensor) -> Tensor:
        """The target's hidden states (T, ...) as what the layer goes on from, (T, D)."""

    def combine(self, embedded: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """embedded, inputs (T, D) -> what attention reads (T, ...), and what it is added to (T, D)."""

    def finish(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The layer's output (T, D) -> what the chain goes on from (T, D), and logits (T, V)."""


class FeatureChainDrafter:
    """See drafters.base.Drafter."""

    is_tree = False
    """Whether it drafts trees."""

    def __init__(self, name: str, cell: FeatureCell, feature_layers: Sequence[int], rotary: RotaryTable) -> None:
        self.name, self.cell, self.rotary = name, cell, rotary
        self.feature_layers = tuple(feature_layers)
        self.memory_bytes = cell.memory_bytes

    def open(
        self, target_session: CausalLMSession, prompt_ids: Sequence[int], sampler: Sampler
    ) -> "FeatureChainSession":
        """See drafters.base.Drafter.open."""
        features = target_session.features if len(prompt_ids) > 1 else None
        return FeatureChainSession(self, features, prompt_ids, sampler)

    def cache_bytes(self, num_tokens: int) -> int:
        """The layer's keys and values."""
        return KeyValues([self.cell.layer]).bytes_of(num_tokens)

    @torch.inference_mode()
    def propose_many(self, asked: Sequence[tuple["FeatureChainSession", int]]) -> list[Draft]:
        """See drafters.base.BatchDrafter. Each reads its own features; from there on the layer's rows go together."""
        if asked[0][0].grows:
            return [session.grow(max_tokens) for session, max_tokens in asked]
        sessions = [session for session, _ in asked]

        def next_logits(drawing: Sequence[tuple[int, Sequence[int]]]) -> Sequence[Tensor]:
            moving = [(sessions[number], ids) for number, ids in drawing]
            is_first = moving[0][0].newest is None
            parts = [s.read_features(ids) for s, ids in moving] if is_first else self._extend_all(moving)
            mixed, residual = (joined(rows) for rows in zip(*parts, strict=True))
            newest, logits = self.cell.finish(self.cell.layer.behind(residual, mixed))
            for (session, _), row in zip(moving, newest.split(1), strict=True):
                session.go_on_from(row)
            return logits.split(1)

        drafts = draw_chains([session.begin(max_tokens) for session, max_tokens in asked], next_logits)
        for session in sessions:
            session.forget_drafts()
        return drafts

    def _extend_all(self, moving: Sequence[tuple["FeatureChainSession", Sequence[int]]]) -> list[tuple[Tensor, Tensor]]:
        """One more row of each session: what attention mixed and what that is added to, both (1, ...)."""
        ids = torch.tensor([token_ids[-1] for _, token_ids in moving], device=self.cell.embedding.device)
        inputs = joined([session.newest for session, _ in moving if session.newest is not None])
        rows, residual = self.cell.combine(F.embedding(ids, self.cell.embedding), inputs)
        places = [session.cache.length for session, _ in moving]
        rotary = joined([self.rotary.rows(place, place + 1) for place in places], 1)
        heads = zip(*(part.split(1, 1) for part in self.cell.layer.heads(rows, rotary)), strict=True)
        mixed = []
        for (session, _), (query, key, value) in zip(moving, heads, strict=True):
            keys, values = session.cache.put(0, key, value)
            session.cache.length += 1
            mixed.append(attend(query, keys, values))
        return list(zip(mixed, residual.split(1), strict=True))


class FeatureChainSession:
    """See drafters.base.DraftSession. Between rounds the cache holds rows of true features only."""

    def __init__(
        self, drafter: FeatureChainDrafter, features: Tensor | None, prompt_ids: Sequence[int], sampler: Sampler
    ) -> None:
        self._drafter, self._cell, self._sampler = drafter, drafter.cell, sampler
        self._ids = list(prompt_ids)
        self.cache = KeyValues([drafter.cell.layer])
        self.newest: Tensor | None = None
        """What the chain goes on from, (1, D); None where features are to be read first."""
        self._num_true = 0
        self.bytes_read = 0
        self.grows, self.note = tree_or_note(sampler, wants_tree=drafter.is_tree)
        # The last row of the prompt is left for the first proposal, which needs what the layer makes of it.
        self._unread = [] if features is None else [features[-1:]]
        if features is not None and len(features) > 1:
            self._read(features[:-1])

    @torch.inference_mode()
    def _read(self, features: Tensor) -> None:
        for part in features.split(LONGEST_PART):
            first = self.cache.length + 1
            self._extend(self._ids[first : first + len(part)], self._cell.read_features(part))

    def propose(self, max_tokens: int) -> Draft:
        """Read the features that came in, then go on from the layer's own output."""
        return self._drafter.propose_many([(self, max_tokens)])[0]

    def begin(self, max_tokens: int) -> Chain:
        """An empty draft; with a prompt of one token it stays so: the target has read nothing yet."""
        return Chain(self._sampler, self._ids, max_tokens if self._unread else 0)

    @torch.inference_mode()
    def grow(self, max_tokens: int) -> Draft:
        """A tree: behind the features all drafts of a level go through the layer together."""
        cell = self._cell
        outputs: dict[int, Tensor] = {}  # of the layer, by the draft that it stands behind
        slots: dict[int, int] = {}

        def next_logits(tree: Tree) -> Tensor:
            level = tree.frontier
            if level == [ROOT]:
                mixed, residual = self.read_features(self._ids)
            else:
                slots.update({index: self.cache.length + row for row, index in enumerate(level)})
                visible = torch.zeros((len(level), self.cache.length + len(level)), dtype=torch.bool)
                visible[:, : self._num_true] = True
                for row, index in enumerate(level):
                    visible[row, [slots[one] for one in tree.path(index)]] = True
                place = self._num_true + len(tree.path(level[0])) - 1
                inputs = joined([outputs[tree.parent(index)] for index in level])
                rotary = self._drafter.rotary.rows(place, place + 1)
                ids = [tree.token_id(index) for index in level]
                query, keys, values, residual = self._append(ids, inputs, rotary)
                mixed = attend(query, keys, values, visible.to(query.device))
            newest, logits = cell.finish(cell.layer.behind(residual, mixed))
            self.bytes_read += cell.pass_bytes
            outputs.update(zip(level, newest.split(1), strict=True))
            return logits

        draft = grow_tree(self._sampler, self._ids, max_tokens if self._unread else 0, next_logits)
        self.forget_drafts()
        return draft

    def read_features(self, token_ids: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Rows of the features that came in; of the last one what attention mixed and what that is added to.

        No other row's output is needed.
        """
        features = torch.cat(self._unread)
        self._unread.clear()
        self.bytes_read += self._cell.feature_bytes
        inputs = self._cell.read_features(features)
        query, keys, values, residual = self._extend(token_ids[self.cache.length + 1 :], inputs)
        self._num_true = self.cache.length
        return attend(query[:, -1:], keys, values), residual[-1:]

    def go_on_from(self, newest: Tensor) -> None:
        """A pass is done, and this is the layer's output, (1, D)."""
        self.newest = newest
        self.bytes_read += self._cell.pass_bytes

    def forget_drafts(self) -> None:
        """Keep the rows of true features."""
        self.newest = None
        self.cache.length = self._num_true

    def commit(self, token_ids: Sequence[int], features: Tensor | None) -> None:
        """Remember tokens and features."""
        assert features is not None, "the decode loop hands over the features that feature_layers asks for"
        self._ids += token_ids
        self._unread.append(features)

    def close(self) -> None:
        """Free the cache."""
        self.cache.close()
        self.newest = None
        self._unread.clear()

    def _extend(self, token_ids: Sequence[int], inputs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Append rows of the text to the cache; see `_append`."""
        start = self.cache.length
        return self._append(token_ids, inputs, self._drafter.rotary.rows(start, start + len(inputs)))

    def _append(
        self, token_ids: Sequence[int], inputs: Tensor, rotary: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Append rows to the cache; returns their queries, all keys and values, and what attention is added to."""
        ids = torch.tensor(list(token_ids), device=inputs.device)
        rows, residual = self._cell.combine(F.embedding(ids, self._cell.embedding), inputs)
        query, key, value = self._cell.layer.heads(rows, rotary)
        keys, values = self.cache.put(0, key, value)
        self.cache.length += len(rows)
        return query, keys, values, residual
