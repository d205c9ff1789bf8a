"""`dflash` and `dspark`: a block of drafts in one pass, the target's hidden states injected into its keys and values.

DFlash (2602.06036): the newest token and mask tokens stand in a block; each row sees all of the block, and the target's
features of everything before it. DSpark (2607.05147) adds to the logits of each slot a low-rank bias from the token
before it (Markov head), and guesses whether a draft will be accepted (confidence head), so that no more are verified
than pay. Shapes: T rows of features, S slots, D hidden size, C draft words, R rank.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from specdemo.acceptance import Draft
from specdemo.causal_lm import LONGEST_PART, CausalLMSession
from specdemo.drafters.chain import draw_chain
from specdemo.drafters.layers import KeyValues, Layer, WordHead
from specdemo.events import DraftOrigin
from specdemo.int8_linear import Int8Linear
from specdemo.llama_layers import RotaryTable, normalize
from specdemo.sampling import Sampler

LEAST_SURVIVAL = 0.1
"""A slot is drafted while the chance that its draft is reached and accepted is at least this, by the confidence head.
One more token makes a pass of the target dearer by some 5 %, and a round gives about two tokens: less than a tenth of
a token does not pay. The chance of slot k is known before its token is drawn, as losslessness asks (2607.05147)."""


@dataclass(frozen=True, slots=True)
class MarkovHead:
    """The bias of a slot's logits by the token before: rows of `known` (V, R) by `words` (C, R)."""

    known: Tensor
    words: Int8Linear


@dataclass(frozen=True, slots=True)
class BlockLayer:
    """A decoder layer. `window`: how many features it sees back, None: all; then slots see none behind them if
    `is_causal`."""

    input_norm: Tensor
    layer: Layer
    window: int | None = None
    is_causal: bool = True


@dataclass(frozen=True, slots=True)
class BlockWeights:
    """All weights. `confidence`: weight (D,) or (D + R,) and bias (1,) of the chance that a slot is accepted.

    `first_slot`: 0 where slot k predicts the token k + 1 behind the newest (DeepSpec), 1 where it predicts the k-th
    (z-lab), so that the newest token's own slot predicts nothing.
    """

    embedding: Tensor
    embedding_bytes: int  # besides the target's
    fc: Int8Linear
    hidden_norm: Tensor
    layers: tuple[BlockLayer, ...]
    norm: Tensor
    head: WordHead
    markov: MarkovHead | None
    confidence: tuple[Tensor, Tensor] | None
    block_size: int
    mask_token_id: int
    first_slot: int

    @property
    def pass_bytes(self) -> int:
        """What drafting a block reads, but the heads of the single slots."""
        layers = sum(block.layer.pass_bytes + block.input_norm.nbytes for block in self.layers)
        norms = self.hidden_norm.nbytes + self.norm.nbytes
        return self.fc.pass_bytes + layers + norms + self.head.rows.pass_bytes

    @property
    def slot_bytes(self) -> int:
        """What drawing one more token reads."""
        return 0 if self.markov is None else self.markov.words.pass_bytes

    @property
    def memory_bytes(self) -> int:
        """What is held besides the target's own weights."""
        layers = sum(block.layer.memory_bytes + block.input_norm.nbytes for block in self.layers)
        markov = 0 if self.markov is None else self.markov.known.nbytes + self.markov.words.memory_bytes
        norms = self.hidden_norm.nbytes + self.norm.nbytes
        return self.embedding_bytes + self.fc.memory_bytes + layers + norms + self.head.memory_bytes + markov


class BlockDrafter:
    """See drafters.base.Drafter. `note`: a doubt that arose when the weights were read."""

    def __init__(
        self, name: str, weights: BlockWeights, feature_layers: Sequence[int], rotary: RotaryTable, note: str = ""
    ) -> None:
        self.name, self.weights, self.rotary, self.note = name, weights, rotary, note
        self.feature_layers = tuple(feature_layers)
        self.memory_bytes = weights.memory_bytes

    def open(self, target_session: CausalLMSession, prompt_ids: Sequence[int], sampler: Sampler) -> "BlockSession":
        """See drafters.base.Drafter.open."""
        return self.open_with(target_session.features if len(prompt_ids) > 1 else None, prompt_ids, sampler)

    def open_with(self, features: Tensor | None, prompt_ids: Sequence[int], sampler: Sampler) -> "BlockSession":
        """The same with the features of all tokens but the last, None for none."""
        return BlockSession(self, features, prompt_ids, sampler)

    def cache_bytes(self, num_tokens: int) -> int:
        """The layers' keys and values."""
        return KeyValues([block.layer for block in self.weights.layers]).bytes_of(num_tokens)


class BlockSession:
    """See drafters.base.DraftSession. Between rounds the cache holds rows of features only."""

    def __init__(
        self, drafter: BlockDrafter, features: Tensor | None, prompt_ids: Sequence[int], sampler: Sampler
    ) -> None:
        self._weights, self._rotary, self._sampler = drafter.weights, drafter.rotary, sampler
        self._ids = list(prompt_ids)
        self._cache = KeyValues([block.layer for block in drafter.weights.layers])
        self._unread: list[Tensor] = []
        self.bytes_read, self.note = 0, drafter.note
        if features is not None:
            for part in features.split(LONGEST_PART):
                self._run(part, part.new_empty(0, len(drafter.weights.norm)))

    def propose(self, max_tokens: int) -> Draft:
        """Read the features that came in and make the block; then draw slot by slot."""
        weights = self._weights
        num_tokens = min(max_tokens, weights.block_size - weights.first_slot)
        hidden = self._block()[weights.first_slot :][:num_tokens]
        with torch.inference_mode():
            logits = weights.head.rows(hidden)
        chances: list[float] = []

        def next_logits(token_ids: Sequence[int]) -> Tensor | None:
            slot = len(token_ids) - len(self._ids)
            chances.append(self._chance(hidden[slot], token_ids[-1]))
            return None if math.prod(chances) < LEAST_SURVIVAL else self._slot_logits(logits[slot], token_ids[-1])

        draft = draw_chain(self._sampler, self._ids, num_tokens, next_logits)
        if weights.confidence is None:
            return draft
        drawn = chances[: len(draft.token_ids)]
        return replace(draft, origins=tuple(DraftOrigin(confidence=chance) for chance in drawn))

    @torch.inference_mode()
    def slot_choices(self, num_slots: int) -> list[int]:
        """What the first slots of a block would say by themselves: see slot_probe."""
        previous, hidden = self._ids[-1], self._block()[:num_slots]
        rows = self._weights.head.rows(hidden)
        return [int(self._slot_logits(logits, previous).argmax()) for logits in rows]

    def commit(self, token_ids: Sequence[int], features: Tensor | None) -> None:
        """Remember tokens and features."""
        assert features is not None, "the decode loop hands over the features that feature_layers asks for"
        self._ids += token_ids
        self._unread.append(features)

    def close(self) -> None:
        """Free the cache."""
        self._cache.close()
        self._unread.clear()

    @torch.inference_mode()
    def _block(self) -> Tensor:
        """The rows of a block that begins with the newest token, behind the final norm, (S, D)."""
        weights = self._weights
        ids = torch.full((weights.block_size,), weights.mask_token_id, device=weights.norm.device)
        ids[0] = self._ids[-1]
        rows = F.embedding(ids, weights.embedding)
        features = torch.cat(self._unread) if self._unread else rows.new_empty(0, weights.fc.weight.shape[1])
        self._unread.clear()
        self.bytes_read += weights.pass_bytes
        return normalize(self._run(features, rows), weights.norm, weights.layers[0].layer.epsilon)

    @torch.inference_mode()
    def _run(self, features: Tensor, rows: Tensor) -> Tensor:
        """Features (T, ...) go to the cache for good, the block's rows (S, D) through the layers. -> (S, D)."""
        weights, cache = self._weights, self._cache
        start, num = cache.length, len(features)
        epsilon = weights.layers[0].layer.epsilon
        context = rows.new_empty(0, rows.shape[1])
        if num:
            context = normalize(weights.fc(features), weights.hidden_norm, epsilon)
        rotary = self._rotary.rows(start, start + num + len(rows))
        for index, block in enumerate(weights.layers):
            both = torch.cat([context, normalize(rows, block.input_norm, epsilon)])
            query, key, value = block.layer.heads(both, rotary)
            keys, values = cache.put(index, key, value)
            if len(rows):
                visible = _visible(start + num, len(rows), block, rows.device)
                rows = block.layer.finish(rows, query[:, num:], keys, values, visible)
        cache.length = start + num
        return rows

    @torch.inference_mode()
    def _slot_logits(self, logits: Tensor, previous: int) -> Tensor:
        """A slot's logits (C,) behind the token before it, over the target's words, (1, V)."""
        head, markov = self._weights.head, self._weights.markov
        if markov is not None:
            self.bytes_read += self._weights.slot_bytes
            logits = logits + markov.words(markov.known[previous][None])[0]
        return head.spread(logits[None])

    @torch.inference_mode()
    def _chance(self, hidden: Tensor, previous: int) -> float:
        """That a slot's draft is accepted if it is reached; 1 where there is no confidence head."""
        if self._weights.confidence is None:
            return 1.0
        weight, bias = self._weights.confidence
        seen = hidden
        if self._weights.markov is not None and len(weight) > len(hidden):
            seen = torch.cat([hidden, self._weights.markov.known[previous]])
        return float(torch.sigmoid(weight @ seen + bias))


def _visible(num_features: int, num_slots: int, block: BlockLayer, device: torch.device) -> Tensor | None:
    """What the slots (S, T + S) see in a layer with a window, features counted from the newest; None: everything."""
    if block.window is None:
        return None
    places = torch.arange(num_features + num_slots, device=device)
    slots = places[num_features:, None]
    is_before = (places <= slots) | (not block.is_causal)
    return is_before & ((places >= num_features) | (places >= num_features - block.window))
