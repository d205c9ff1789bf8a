"""The acceptance rules: which drafts stay and what the target says next. Pure: tensors in, a Verdict out.

Knows no model and no text. Shapes: K draft tokens, V vocabulary. `target_probs` (K+1, V): row i is the distribution
that judges draft i, row K the one of the bonus token. Draft i stands at absolute position `position + i`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from specdemo.events import DraftOrigin, NextTokenKind
from specdemo.sampling import PositionNoise, draw

TYPICAL_EPSILON = 0.09
TYPICAL_DELTA = 0.3


@dataclass(frozen=True, slots=True)
class Draft:
    """A proposal.

    `probs` (K, V) is the exact law each token was drawn from, None for a deterministic proposer (one-hot). `origins` is
    what a drafter knows besides, for each token or for none; no rule reads it.
    """

    token_ids: tuple[int, ...]
    probs: Tensor | None = None
    origins: tuple[DraftOrigin, ...] = ()

    def row(self, index: int, like: Tensor) -> Tensor:
        """The law of draft `index`, shape (V,)."""
        if self.probs is not None:
            return self.probs[index]
        return torch.zeros_like(like).index_fill_(0, torch.tensor(self.token_ids[index], device=like.device), 1.0)

    def token_probs(self) -> list[float]:
        """The probability with which each draft token was drawn."""
        if self.probs is None:
            return [1.0] * len(self.token_ids)
        return _gather(self.probs, self.token_ids)


@dataclass(frozen=True, slots=True)
class Trial:
    """The numbers by which one draft token was judged; see events.PositionEvidence for the scores of each rule."""

    accept_prob: float
    uniform: float | None = None
    draft_score: float | None = None
    target_score: float | None = None
    entropy: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule decided.

    `trials` has an entry for each judged draft: up to the first that failed, all of them under `block`. `next_probs`
    (V,) is what the next token came from.
    """

    num_accepted: int
    next_token_id: int
    next_token_kind: NextTokenKind
    trials: tuple[Trial, ...]
    next_probs: Tensor
    next_source: Literal["target", "residual"] = "target"
    next_uniform: float | None = None


@torch.inference_mode()
def accept(rule: str, draft: Draft, target_probs: Tensor, noise: PositionNoise, position: int) -> Verdict:
    """Judge a draft by `rule`: greedy, rejection, coupled, block or typical. K = 0 draws a plain token."""
    return _RULES[rule](_Case(draft, target_probs, noise, position))


def residual(target_probs: Tensor, draft_probs: Tensor) -> Tensor:
    """max(0, target - draft), normalised, shape (V,); the target itself where nothing is left but rounding."""
    rest = (target_probs - draft_probs).clamp_(min=0.0)
    mass = rest.sum()
    return rest / mass if mass > 0.0 else target_probs


@dataclass(frozen=True, slots=True)
class _Case:
    draft: Draft
    target_probs: Tensor
    noise: PositionNoise
    position: int

    def uniform(self, index: int) -> float:
        """The number that draft `index` is judged by."""
        return self.noise.uniform(self.position + index, f"accept/{index}")

    def draft_row(self, index: int) -> Tensor:
        return self.draft.row(index, self.target_probs[index])

    def token_probs(self) -> list[tuple[float, float]]:
        """(target, draft) probability of each draft token."""
        return list(zip(_gather(self.target_probs, self.draft.token_ids), self.draft.token_probs(), strict=True))

    def draw_target(self, num_accepted: int, trials: Sequence[Trial]) -> Verdict:
        """End the round with a token drawn from the target's own distribution."""
        return self._draw(num_accepted, trials, self.target_probs[num_accepted], "target")

    def draw_residual(self, num_accepted: int, trials: Sequence[Trial], probs: Tensor) -> Verdict:
        """End the round with a token drawn from what the rejected draft left over."""
        return self._draw(num_accepted, trials, probs, "residual")

    def _draw(
        self, num_accepted: int, trials: Sequence[Trial], probs: Tensor, source: Literal["target", "residual"]
    ) -> Verdict:
        uniform = self.noise.uniform(self.position + num_accepted, "next")
        kind = _kind(self.draft, num_accepted)
        return Verdict(num_accepted, draw(probs, uniform), kind, tuple(trials), probs, source, uniform)


def _greedy(case: _Case) -> Verdict:
    """Accept while the draft is the target's most probable token."""
    draft, choices = case.draft, case.target_probs.argmax(-1).tolist()
    num_accepted = _num_matching(draft.token_ids, choices)
    judged = min(num_accepted + 1, len(draft.token_ids))
    trials = tuple(Trial(float(i < num_accepted)) for i in range(judged))
    return Verdict(
        num_accepted, choices[num_accepted], _kind(draft, num_accepted), trials, case.target_probs[num_accepted]
    )


def _rejection(case: _Case) -> Verdict:
    """Accept with probability min(1, target / draft), else draw from the residual.

    Source: Leviathan et al. 2211.17192, algorithm 1; Chen et al. 2302.01318, algorithm 2.
    """
    trials: list[Trial] = []
    for i, (target_prob, draft_prob) in enumerate(case.token_probs()):
        accept_prob, uniform = min(1.0, target_prob / draft_prob), case.uniform(i)
        trials.append(Trial(accept_prob, uniform))
        if uniform >= accept_prob:
            return case.draw_residual(i, trials, residual(case.target_probs[i], case.draft_row(i)))
    return case.draw_target(len(trials), trials)


def _coupled(case: _Case) -> Verdict:
    """The target's own draw at each position decides; a draft stays while it equals that draw.

    Source: arXiv 2408.07978, section 3: argmax of log-probability plus Gumbel noise keyed by seed, position and token.
    """
    trials: list[Trial] = []
    for i in range(len(case.draft.token_ids) + 1):
        scores = case.target_probs[i].log() + case.noise.gumbel(case.position + i)
        choice = int(scores.argmax())
        if i == len(case.draft.token_ids):
            break
        token_id = case.draft.token_ids[i]
        trials.append(Trial(float(choice == token_id), None, float(scores[token_id]), float(scores[choice])))
        if choice != token_id:
            break
    return Verdict(i, choice, _kind(case.draft, i), tuple(trials), case.target_probs[i])


def _block(case: _Case) -> Verdict:
    """Judge the block as a whole: the longest prefix whose own trial succeeds stays.

    Source: Sun et al. 2403.10444, algorithm 2. `draft_score` of a trial is the running product, `accept_prob` its h.
    """
    size = len(case.draft.token_ids)
    trials: list[Trial] = []
    products = [1.0]
    num_accepted = 0
    for i, (target_prob, draft_prob) in enumerate(case.token_probs()):
        products.append(min(products[-1] * target_prob / draft_prob, 1.0))
        threshold = products[-1]
        if i + 1 < size:
            mass = float(_block_excess(case, products[-1], i + 1).sum())
            rest = mass + (1.0 - products[-1])
            threshold = mass / rest if rest > 0.0 else 0.0
        trials.append(Trial(threshold, case.uniform(i), products[-1], threshold))
        if case.uniform(i) < threshold:
            num_accepted = i + 1
    if num_accepted == size:
        return case.draw_target(size, trials)
    excess = _block_excess(case, products[num_accepted], num_accepted)
    total = excess.sum()
    probs = excess / total if total > 0.0 else case.target_probs[num_accepted]
    return case.draw_residual(num_accepted, trials, probs)


def _typical(case: _Case) -> Verdict:
    """Accept what the target finds probable enough for its entropy; lossy: the answer's distribution changes.

    Source: Cai et al. 2401.10774 (Medusa), section 2.3.1: threshold min(epsilon, delta * exp(-entropy)).
    """
    trials: list[Trial] = []
    for i, (target_prob, _) in enumerate(case.token_probs()):
        entropy = float(torch.special.entr(case.target_probs[i]).sum())
        threshold = min(TYPICAL_EPSILON, TYPICAL_DELTA * math.exp(-entropy))
        is_accepted = target_prob > threshold
        trials.append(Trial(float(is_accepted), None, target_prob, threshold, entropy))
        if not is_accepted:
            return case.draw_target(i, trials)
    return case.draw_target(len(trials), trials)


_RULES: dict[str, Callable[[_Case], Verdict]] = {
    "greedy": _greedy,
    "rejection": _rejection,
    "coupled": _coupled,
    "block": _block,
    "typical": _typical,
}


def _block_excess(case: _Case, product: float, index: int) -> Tensor:
    return (product * case.target_probs[index] - case.draft_row(index)).clamp_(min=0.0)


def _gather(probs: Tensor, token_ids: tuple[int, ...]) -> list[float]:
    rows = torch.arange(len(token_ids), device=probs.device)
    return probs[rows, torch.tensor(token_ids, dtype=torch.long, device=probs.device)].tolist()


def _num_matching(token_ids: tuple[int, ...], choices: list[int]) -> int:
    pairs = zip(token_ids, choices, strict=False)
    return next((i for i, (token_id, choice) in enumerate(pairs) if token_id != choice), len(token_ids))


def _kind(draft: Draft, num_accepted: int) -> NextTokenKind:
    if not draft.token_ids:
        return "plain"
    return "bonus" if num_accepted == len(draft.token_ids) else "corrected"
