"""Conversations as padded batches of like length, in a new order every epoch.

B conversations, T tokens of the longest, P places that are learnt from, S steps, C draft words.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specdemo.train.corpus import Conversation

_POOL = 32  # batches that are sorted by length together


@dataclass(frozen=True, slots=True)
class Labels:
    """What the target expects after P places: `rows` and `columns` (P,) say where the token before stands.

    `candidates` (P, S, 16) are indices of the draft vocabulary, `probs` (P, S, 16) are 0 where a candidate is no draft
    word: for the token behind the place, and for the S - 1 that follow it, 0 behind the answer's end.
    """

    rows: Tensor
    columns: Tensor
    candidates: Tensor
    probs: Tensor

    def step(self, index: int) -> tuple[Tensor, Tensor]:
        """Candidates and probs (P, 16) of one of the S tokens."""
        return self.candidates[:, index], self.probs[:, index]


@dataclass(frozen=True, slots=True)
class Batch:
    """ids (B, T), padded behind with 0; hidden (B, T, kept, D) where it was read."""

    ids: Tensor
    labels: Labels
    hidden: Tensor | None

    def to(self, device: str) -> "Batch":
        """The same on a device."""
        parts = (self.labels.rows, self.labels.columns, self.labels.candidates, self.labels.probs)
        hidden = None if self.hidden is None else self.hidden.to(device)
        return Batch(self.ids.to(device), Labels(*(part.to(device) for part in parts)), hidden)


def choose_vocabulary(conversations: Sequence[Conversation], size: int, always: Sequence[int]) -> Tensor:
    """The ids that answers hold most often, and those named, sorted. -> (C,)."""
    counts = torch.bincount(torch.cat([c.ids[c.answer_start :] for c in conversations]).long()).double()
    counts[torch.tensor(always)] = float("inf")
    return counts.topk(min(size, len(counts))).indices.sort().values


def places_of(vocabulary: Tensor, vocab_size: int) -> Tensor:
    """Where an id stands in the draft vocabulary, -1 for none. -> (V,)."""
    places = torch.full((vocab_size,), -1)
    places[vocabulary] = torch.arange(len(vocabulary))
    return places


def groups(
    conversations: Sequence[Conversation], max_tokens: int, source: random.Random
) -> Iterator[list[Conversation]]:
    """All conversations once, in groups of like length with at most `max_tokens`, padding included, shuffled."""
    shuffled = source.sample(list(conversations), len(conversations))
    cut: list[list[Conversation]] = []
    mean = sum(len(c.ids) for c in shuffled) / max(1, len(shuffled))
    pool = max(1, int(_POOL * max_tokens / mean))
    for start in range(0, len(shuffled), pool):
        cut += _cut(sorted(shuffled[start : start + pool], key=lambda c: len(c.ids)), max_tokens)
    source.shuffle(cut)
    yield from cut


def _cut(conversations: Sequence[Conversation], max_tokens: int) -> list[list[Conversation]]:
    cut: list[list[Conversation]] = [[]]
    for c in conversations:
        if cut[-1] and (len(cut[-1]) + 1) * len(c.ids) > max_tokens:
            cut.append([])
        cut[-1].append(c)
    return cut


class Batches:
    """Makes batches of at most `max_tokens`, padding included; labels have `num_steps` and speak of draft words."""

    def __init__(self, places: Tensor, max_tokens: int, max_labels: int, num_steps: int, with_hidden: bool) -> None:
        self._places = places
        self._max_tokens, self._max_labels, self._num_steps = max_tokens, max_labels, num_steps
        self._with_hidden = with_hidden

    def epoch(self, conversations: Sequence[Conversation], seed: int) -> Iterator[Batch]:
        """All conversations once, shuffled."""
        source = random.Random(seed)
        for batch in groups(conversations, self._max_tokens, source):
            yield self.make(batch, source)

    def make(self, conversations: Sequence[Conversation], source: random.Random | None) -> Batch:
        """One batch; with a `source` of random numbers at most `max_labels` places are drawn from it."""
        length = max(len(c.ids) for c in conversations)
        ids = torch.zeros(len(conversations), length, dtype=torch.long)
        for row, c in enumerate(conversations):
            ids[row, : len(c.ids)] = c.ids
        hidden = None
        if self._with_hidden:
            hidden = torch.zeros(*ids.shape, *conversations[0].hidden.shape[1:], dtype=torch.bfloat16)
            for row, c in enumerate(conversations):
                hidden[row, : len(c.ids)] = c.hidden
        return Batch(ids, self._labels(conversations, source), hidden)

    def _labels(self, conversations: Sequence[Conversation], source: random.Random | None) -> Labels:
        places = [(row, i) for row, c in enumerate(conversations) for i in range(c.answer_start - 1, len(c.ids) - 1)]
        if source is not None and len(places) > self._max_labels:
            places = sorted(source.sample(places, self._max_labels))
        rows, columns = torch.tensor(places).T
        lengths = torch.tensor([len(c.ids) for c in conversations])
        starts = lengths.cumsum(0) - lengths
        wanted = columns[:, None] + torch.arange(self._num_steps)
        last = lengths[rows, None] - 1  # nothing is known of what follows the last token
        found = starts[rows, None] + torch.minimum(wanted, last)
        candidates = self._places[torch.cat([c.top_ids for c in conversations])[found].long()]
        probs = torch.cat([c.top_probs for c in conversations])[found].float()
        is_label = (wanted < last)[..., None] & (candidates >= 0)
        return Labels(rows, columns, candidates.clamp_min(0), probs * is_label)
