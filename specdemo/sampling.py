"""Logits to the distributions that both lanes draw from, and noise that depends on the seed and the position alone.

Knows no drafter and no rule. Shapes: T prefix tokens, B rows (positions), V vocabulary.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from specdemo.branches import Parents, paths_of
from specdemo.settings import DecodeSettings

_KEPT_POSITIONS = 64


class PositionNoise:
    """Random numbers keyed by (seed, absolute position), so that lanes, drafters and K cannot shift them.

    Drawn on the CPU whatever the device. Source of the coupling: Daliri, Musco, Suresh, arXiv 2408.07978, section 3.
    """

    def __init__(self, seed: int, vocab_size: int, device: torch.device | str = "cpu") -> None:
        self._seed = seed
        self._vocab_size = vocab_size
        self._device = device
        self._generator = torch.Generator()
        self._gumbel: OrderedDict[int, Tensor] = OrderedDict()

    def uniform(self, position: int, stream: str) -> float:
        """A number in [0, 1) of the position's `stream`; streams are independent.

        "next" is used once a position. "accept/i" and "draft/i" name the draft's index i in its round: what a round
        threw away may have decided how much of it stayed (`block`), so a later round must not meet the same number
        again.
        """
        return (self._hash(position, stream) >> 11) * 2.0**-53

    def gumbel(self, position: int) -> Tensor:
        """Gumbel noise of a position over the whole target vocabulary, shape (V,), float32."""
        if position not in self._gumbel:
            self._generator.manual_seed(self._hash(position, "gumbel") >> 1)
            # float64: the 24 bits of a float32 uniform would cut the tail that rare tokens win by.
            uniform = torch.rand(self._vocab_size, generator=self._generator, dtype=torch.float64)
            noise = uniform.clamp_(min=1e-300).log_().neg_().log_().neg_().float()
            self._gumbel[position] = noise.to(self._device)
            if len(self._gumbel) > _KEPT_POSITIONS:
                self._gumbel.popitem(last=False)
        return self._gumbel[position]

    def _hash(self, position: int, stream: str) -> int:
        digest = hashlib.blake2b(f"{self._seed}/{position}/{stream}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little")


class Sampler:
    """The settings of one generation, as distributions.

    Transformers' own processors at every position of every lane.
    """

    def __init__(self, settings: DecodeSettings, vocab_size: int, device: torch.device | str = "cpu") -> None:
        self.settings = settings
        self.rule = settings.resolved_rule
        self.noise = PositionNoise(settings.seed, vocab_size, device)
        self._processors = _processors(settings)

    @torch.inference_mode()
    def scores(
        self, logits: Tensor, prefix: Sequence[int], continuation: Sequence[int], parents: Parents = ()
    ) -> Tensor:
        """Processed logits, float32, shape (B, V).

        Row 0 is processed with the prefix, row i + 1 with the continuation up to its token i too, along its branch
        where `parents` say that it is a tree.
        """
        if not self._processors:
            return logits.float()
        paths = paths_of(parents) if parents else [range(row) for row in range(len(logits))]
        return self._scores_behind(logits, prefix, [[continuation[index] for index in path] for path in paths])

    @torch.inference_mode()
    def probs(self, scores: Tensor) -> Tensor:
        """The distributions that processed logits stand for, shape (B, V); temperature 0 is one-hot at the largest."""
        if self.rule == "greedy":
            return torch.zeros_like(scores).scatter_(-1, scores.argmax(-1, keepdim=True), 1.0)
        return scores.softmax(-1)

    @torch.inference_mode()
    def choose_draft(
        self, logits: Tensor, committed: Sequence[int], drafted: Sequence[int]
    ) -> tuple[int, Tensor | None]:
        """A drafter's next token from its logits (V,) and the law it was drawn from, None for an argmax (one-hot).

        `drafted` are this round's tokens so far. Under `coupled` the draw shares the target's noise.
        """
        scores = self.scores(logits[None], [*committed, *drafted], ())[0]
        if self.rule == "greedy":
            return int(scores.argmax()), None
        probs = scores.softmax(-1)
        position = len(committed) + len(drafted)
        if self.rule == "coupled":
            return int((scores.log_softmax(-1) + self.noise.gumbel(position)).argmax()), probs
        return draw(probs, self.noise.uniform(position, f"draft/{len(drafted)}")), probs

    @torch.inference_mode()
    def bets(self, logits: Tensor, committed: Sequence[int], behind: Sequence[Sequence[int]]) -> Tensor:
        """How sure a drafter may be, by its logits (B, V), that the target says a token: log-probabilities, (B, V).

        Row i stands behind the drafts `behind[i]`. Under `coupled` the target's draw is known but for its law: the
        noise is shared, and what is most probable with it is the best bet.
        """
        scores = self._scores_behind(logits, committed, behind).log_softmax(-1)
        if self.rule != "coupled":
            return scores
        noise = torch.stack([self.noise.gumbel(len(committed) + len(drafts)) for drafts in behind])
        return (scores + noise).log_softmax(-1)

    def _scores_behind(self, logits: Tensor, prefix: Sequence[int], tails: Sequence[Sequence[int]]) -> Tensor:
        """Processed logits, row i behind the prefix and `tails[i]`; only the repetition penalty reads them."""
        scores = logits.float()
        if not self._processors:
            return scores
        needs_ids = self.settings.repetition_penalty != 1.0
        ids = _padded(prefix, tails) if needs_ids else torch.zeros((len(tails), 0), dtype=torch.long)
        found = cast("torch.LongTensor", ids.to(scores.device))
        return self._processors(found, cast("torch.FloatTensor", scores))


def _padded(prefix: Sequence[int], tails: Sequence[Sequence[int]]) -> Tensor:
    """Prefix and tails as rows of one length, filled with the last token of each: who reads them ignores repeats."""
    width = max(map(len, tails))
    rows = [[*tail, *[tail[-1] if tail else prefix[-1]] * (width - len(tail))] for tail in tails]
    behind = torch.tensor(rows, dtype=torch.long).view(len(tails), width)
    return torch.cat([torch.tensor(prefix, dtype=torch.long).expand(len(tails), -1), behind], 1)


def draw(probs: Tensor, uniform: float) -> int:
    """The token whose stretch of the cumulative distribution holds `uniform`; `probs` (V,) need not sum to 1."""
    cumulative = probs.double().cumsum(-1)
    point = cumulative.new_tensor(uniform) * cumulative[-1]
    return min(int(torch.searchsorted(cumulative, point, right=True)), int(probs.nonzero()[-1]))


def _processors(settings: DecodeSettings) -> LogitsProcessorList:
    """transformers' processors in the order of its `generate` (generation/utils.py, `_get_logits_processor`)."""
    chosen = LogitsProcessorList()
    if settings.repetition_penalty != 1.0:
        chosen.append(RepetitionPenaltyLogitsProcessor(settings.repetition_penalty))
    if settings.resolved_rule == "greedy":
        return chosen
    if settings.temperature != 1.0:
        chosen.append(TemperatureLogitsWarper(settings.temperature))
    if settings.top_k:
        chosen.append(TopKLogitsWarper(settings.top_k))
    if settings.top_p < 1.0:
        chosen.append(TopPLogitsWarper(settings.top_p))
    if settings.min_p:
        chosen.append(MinPLogitsWarper(settings.min_p))
    return chosen
