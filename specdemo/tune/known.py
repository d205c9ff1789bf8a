"""Rounds of a drafter along an answer that is known: the decode loop as it is, without the passes of the target.

Where the text does not depend on the drafter (`greedy`, and `coupled` of the same seed) plain decoding says once what
the target chooses after every token of its answer, and what its layers hold there. A target that repeats this judges
the drafts of every drafter, chains and trees of any K, as the real one would: the counts are exact, and only drafting
takes time. Shapes: T tokens, D hidden, V vocabulary.
"""

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from specdemo.branches import Parents, depths
from specdemo.causal_lm import CausalLM, CausalLMSession
from specdemo.decoding import decode
from specdemo.drafters.base import Drafter, reads_target_cache
from specdemo.drafters.null import NullDrafter, NullSession
from specdemo.events import Round
from specdemo.metrics import emitted_token_ids
from specdemo.sampling import Sampler
from specdemo.settings import DecodeSettings
from specdemo.target import Target

_NEVER = -1e4
"""A logit whose probability is zero at every temperature."""


@dataclass(frozen=True)
class KnownText:
    """A prompt and the rounds in which plain decoding answered it.

    `features` (T - 1, number of layers * D): the target's hidden states of all tokens but the last, at `layers`,
    ascending; None of no layers.
    """

    prompt_ids: tuple[int, ...]
    rounds: tuple[Round, ...]
    layers: tuple[int, ...]
    features: Tensor | None

    @cached_property
    def answer_ids(self) -> tuple[int, ...]:
        """What was written."""
        return emitted_token_ids(self.rounds)

    def features_at(self, layers: Sequence[int]) -> Tensor | None:
        """Those of some of the layers, side by side."""
        if not layers:
            return None
        assert self.features is not None
        size = self.features.shape[-1] // len(self.layers)
        parts = [self.features[:, size * place : size * (place + 1)] for place in map(self.layers.index, layers)]
        return torch.cat(parts, -1)


def write_text(
    target: Target, prompt_ids: Sequence[int], settings: DecodeSettings, layers: Sequence[int]
) -> Generator[None, None, KnownText]:
    """Plain decoding of one answer, with what it leaves behind; yields after every round."""
    listener = _Listener(layers)
    rounds: list[Round] = []
    for event in decode(target, listener, prompt_ids, settings):
        if isinstance(event, Round):
            rounds.append(event)
            yield
    features = torch.cat(listener.heard) if listener.heard else None
    return KnownText(tuple(prompt_ids), tuple(rounds), tuple(layers), features)


def rounds_along(
    target: Target, drafter: Drafter, text: KnownText, settings: DecodeSettings
) -> Generator[Round, None, None]:
    """The rounds in which the drafter would make the text, with the seconds that its drafts take.

    A drafter that computes with the target's keys and values needs the target's own passes, and has them.
    """
    if not reads_target_cache(drafter):
        target = replace(target, lm=_KnownLM(target.lm, text))
    whole = replace(settings, max_new_tokens=len(text.answer_ids))
    with closing(decode(target, drafter, text.prompt_ids, whole)) as events:  # type: ignore[type-var]
        yield from (event for event in events if isinstance(event, Round))


class _Listener(NullDrafter):
    """Proposes nothing and keeps the features that a drafter would be given."""

    def __init__(self, layers: Sequence[int]) -> None:
        self.feature_layers = tuple(layers)  # type: ignore[assignment]
        self.heard: list[Tensor] = []

    def open(self, target_session: CausalLMSession, prompt_ids: Sequence[int], sampler: Sampler) -> "_ListenerSession":
        if len(prompt_ids) > 1 and target_session.features is not None:
            self.heard.append(target_session.features)
        return _ListenerSession(self)


class _ListenerSession(NullSession):
    def __init__(self, listener: _Listener) -> None:
        self._listener = listener

    def commit(self, token_ids: Sequence[int], features: Tensor | None) -> None:
        if features is not None:
            self._listener.heard.append(features)


class _KnownLM:
    """See causal_lm.CausalLM; every sequence in it is the known one."""

    def __init__(self, lm: CausalLM, text: KnownText) -> None:
        self.vocab_size, self.context_length = lm.vocab_size, lm.context_length
        self.device, self.dtype = lm.device, lm.dtype
        self.weight_bytes, self.memory_bytes = lm.weight_bytes, lm.memory_bytes
        self.can_crop, self.can_branch = True, lm.can_branch
        self.text = text

    def open(self, feature_layers: Sequence[int] = ()) -> "_KnownSession":
        return _KnownSession(self, feature_layers)

    def cache_bytes(self, num_tokens: int) -> int:
        return 0


class _KnownSession:
    """See causal_lm.CausalLMSession. What stands behind a wrong draft means nothing, and no rule looks at it."""

    def __init__(self, lm: _KnownLM, layers: Sequence[int]) -> None:
        self.length = 0
        self.features: Tensor | None = None
        self._lm = lm
        self._ids = [*lm.text.prompt_ids, *lm.text.answer_ids]
        self._all_features = lm.text.features_at(layers)
        self._start = 0

    def forward(self, token_ids: Sequence[int], num_logits: int, parents: Parents = ()) -> Tensor:
        self._start = self.length
        self.length += len(token_ids)
        behind = [0, *depths(parents)] if parents else range(len(token_ids))
        places = [self._start + depth for depth in behind]
        if self._all_features is not None:
            self.features = self._all_features[places]
        logits = torch.full((num_logits, self._lm.vocab_size), _NEVER, device=self._lm.device)
        if num_logits:
            chosen = [self._ids[place + 1] for place in places[-num_logits:]]
            logits[range(num_logits), chosen] = 0.0
        return logits

    def keep(self, rows: Sequence[int]) -> None:
        self.length = self._start + len(rows)
        self.features = None if self.features is None else self.features[list(rows)]

    def crop(self, length: int) -> None:
        self.length = length

    def close(self) -> None:
        self.features = self._all_features = None
