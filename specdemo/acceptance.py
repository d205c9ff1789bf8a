"""The acceptance rules: which drafts stay and what the target says next. Pure: tensors in, a Verdict out.

Knows no model and no text. Shapes: K draft tokens, V vocabulary. `target_probs` (K+1, V): row 0 is the distribution
behind the newest committed token, row i + 1 the one behind draft i, which judges the drafts that follow it. The first
draft of a branch stands at absolute position `position`.

A chain is the tree in which no draft has a sibling, and every rule but `block` walks either in the same way: from a
draft that stays to one that follows it, until none does.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from specdemo.branches import ROOT, Parents, children_of, parent_of, path_to
from specdemo.events import DraftOrigin, NextTokenKind
from specdemo.sampling import PositionNoise, draw

TYPICAL_EPSILON = 0.09
TYPICAL_DELTA = 0.3


@dataclass(frozen=True, slots=True)
class Draft:
    """A proposal.

    `probs` (K, V) is the exact law each token was drawn from, None for a deterministic proposer (one-hot). `origins` is
    what a drafter knows besides, for each token or for none; no rule reads it. `parents` of a tree, whose siblings are
    judged in their order; () for a chain.
    """

    token_ids: tuple[int, ...]
    probs: Tensor | None = None
    origins: tuple[DraftOrigin, ...] = ()
    parents: Parents = ()

    def row_of(self, index: int) -> int:
        """The row of the target's distributions that judges draft `index`."""
        return parent_of(self.parents, index) + 1

    def row(self, index: int, like: Tensor) -> Tensor:
        """The law of draft `index`, shape (V,)."""
        if self.probs is not None:
            return self.probs[index]
        return torch.zeros_like(like).index_fill_(0, torch.tensor(self.token_ids[index], device=like.device), 1.0)

    def token_probs(self) -> list[float]:
        """The probability with which each draft token was drawn."""
        if self.probs is None:
            return [1.0] * len(self.token_ids)
        return _gather(self.probs, self.token_ids, range(len(self.token_ids)))


@dataclass(frozen=True, slots=True)
class Trial:
    """The numbers by which draft `index` was judged; see events.PositionEvidence for the scores of each rule."""

    index: int
    accept_prob: float
    uniform: float | None = None
    draft_score: float | None = None
    target_score: float | None = None
    entropy: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule decided.

    `path` are the drafts that stay, one behind the other. `trials` has an entry for each of them and for those that
    failed behind the last; all drafts under `block`. `next_probs` (V,) is what the next token came from.
    """

    path: tuple[int, ...]
    next_token_id: int
    next_token_kind: NextTokenKind
    trials: tuple[Trial, ...]
    next_probs: Tensor
    next_source: Literal["target", "residual"] = "target"
    next_uniform: float | None = None

    @property
    def num_accepted(self) -> int:
        """Drafts that stay."""
        return len(self.path)

    def tokens(self, draft: Draft) -> tuple[int, ...]:
        """What it makes of its draft: the tokens that stay, and the next one."""
        return (*(draft.token_ids[index] for index in self.path), self.next_token_id)


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

    def children(self, index: int) -> Sequence[int]:
        """The drafts that follow draft `index`, or ROOT."""
        return children_of(self.draft.parents, len(self.draft.token_ids), index)

    def law_behind(self, index: int) -> Tensor:
        """The target's, behind draft `index` or ROOT, shape (V,)."""
        return self.target_probs[index + 1]

    def uniform(self, index: int, depth: int) -> float:
        """The number that draft `index` is judged by."""
        return self.noise.uniform(self.position + depth, f"accept/{index}")

    def draft_row(self, index: int) -> Tensor:
        return self.draft.row(index, self.target_probs[0])

    def token_probs(self) -> list[tuple[float, float]]:
        """(target, draft) probability of each draft token."""
        rows = [self.draft.row_of(index) for index in range(len(self.draft.token_ids))]
        return list(zip(_gather(self.target_probs, self.draft.token_ids, rows), self.draft.token_probs(), strict=True))

    def draw_target(self, path: Sequence[int], trials: Sequence[Trial]) -> Verdict:
        """End the round with a token drawn from the target's own distribution."""
        return self._draw(path, trials, self.law_behind(_last(path)), "target")

    def draw_residual(self, path: Sequence[int], trials: Sequence[Trial], probs: Tensor) -> Verdict:
        """End the round with a token drawn from what the rejected drafts left over."""
        return self._draw(path, trials, probs, "residual")

    def kind(self, path: Sequence[int]) -> NextTokenKind:
        """Of the token behind the drafts that stay."""
        if not self.draft.token_ids:
            return "plain"
        return "corrected" if self.children(_last(path)) else "bonus"

    def _draw(
        self, path: Sequence[int], trials: Sequence[Trial], probs: Tensor, source: Literal["target", "residual"]
    ) -> Verdict:
        uniform = self.noise.uniform(self.position + len(path), "next")
        token_id = draw(probs, uniform)
        return Verdict(tuple(path), token_id, self.kind(path), tuple(trials), probs, source, uniform)


def _greedy(case: _Case) -> Verdict:
    """Accept while the draft is the target's most probable token."""
    choices = case.target_probs.argmax(-1).tolist()
    return _follow(case, lambda index, depth: choices[index + 1], lambda child, is_right: Trial(child, float(is_right)))


def _rejection(case: _Case) -> Verdict:
    """Accept with probability min(1, target / draft), else judge the next sibling by the residual, or draw from it.

    Source: Leviathan et al. 2211.17192, algorithm 1; Chen et al. 2302.01318, algorithm 2. Siblings one after the other,
    as what the drafter says without drawing: SafeAILab/EAGLE `eagle/model/utils.py`.
    """
    pairs = case.token_probs()
    path: list[int] = []
    trials: list[Trial] = []
    while children := case.children(_last(path)):
        left: Tensor | None = None
        failed: list[Trial] = []
        for child in children:
            target_prob = pairs[child][0] if left is None else float(left[case.draft.token_ids[child]])
            accept_prob, uniform = min(1.0, target_prob / pairs[child][1]), case.uniform(child, len(path))
            if uniform < accept_prob:
                trials.append(Trial(child, accept_prob, uniform))
                path.append(child)
                break
            failed.append(Trial(child, accept_prob, uniform))
            left = residual(case.law_behind(_last(path)) if left is None else left, case.draft_row(child))
        else:
            assert left is not None
            return case.draw_residual(path, [*trials, *failed], left)
    return case.draw_target(path, trials)


def _coupled(case: _Case) -> Verdict:
    """The target's own draw at each position decides; a draft stays while it equals that draw.

    Source: arXiv 2408.07978, section 3: argmax of log-probability plus Gumbel noise keyed by seed, position and token.
    """
    scores = torch.empty(0)

    def choose(index: int, depth: int) -> int:
        nonlocal scores
        scores = case.law_behind(index).log() + case.noise.gumbel(case.position + depth)
        return int(scores.argmax())

    def trial(child: int, is_right: bool) -> Trial:
        return Trial(child, float(is_right), None, float(scores[case.draft.token_ids[child]]), float(scores.max()))

    return _follow(case, choose, trial)


def _follow(case: _Case, choose: Callable[[int, int], int], trial: Callable[[int, bool], Trial]) -> Verdict:
    """Go on to the draft that is what the target chooses; `choose` by the draft before it and how many are before."""
    path: list[int] = []
    trials: list[Trial] = []
    while True:
        choice = choose(_last(path), len(path))
        children = case.children(_last(path))
        right = [child for child in children if case.draft.token_ids[child] == choice]
        if not right:
            trials += [trial(child, False) for child in children]
            law = case.law_behind(_last(path))
            return Verdict(tuple(path), choice, case.kind(path), tuple(trials), law)
        trials.append(trial(right[0], True))
        path.append(right[0])


def _block(case: _Case) -> Verdict:
    """Judge the block as a whole: the longest prefix whose own trial succeeds stays.

    Source: Sun et al. 2403.10444, algorithm 2. `draft_score` of a trial is the running product, `accept_prob` its h.
    """
    assert not case.draft.parents, "a block is a chain"
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
        trials.append(Trial(i, threshold, case.uniform(i, i), products[-1], threshold))
        if case.uniform(i, i) < threshold:
            num_accepted = i + 1
    if num_accepted == size:
        return case.draw_target(range(size), trials)
    excess = _block_excess(case, products[num_accepted], num_accepted)
    total = excess.sum()
    probs = excess / total if total > 0.0 else case.target_probs[num_accepted]
    return case.draw_residual(range(num_accepted), trials, probs)


def _typical(case: _Case) -> Verdict:
    """Accept what the target finds probable enough for its entropy; lossy: the answer's distribution changes.

    Source: Cai et al. 2401.10774 (Medusa), section 2.3.1: threshold min(epsilon, delta * exp(-entropy)); of a tree the
    longest branch that stays.
    """
    trials: dict[int, Trial] = {}
    ends = {ROOT: (0, 0.0)}  # of the branches that stay: their lengths, and log-probabilities
    for i, (target_prob, _) in enumerate(case.token_probs()):
        length, log_prob = ends.get(before := parent_of(case.draft.parents, i), (-1, 0.0))
        if length < 0:
            continue
        entropy = float(torch.special.entr(case.law_behind(before)).sum())
        threshold = min(TYPICAL_EPSILON, TYPICAL_DELTA * math.exp(-entropy))
        trials[i] = Trial(i, float(target_prob > threshold), None, target_prob, threshold, entropy)
        if target_prob > threshold:
            ends[i] = length + 1, log_prob + math.log(target_prob)
    path = path_to(case.draft.parents, max(ends, key=ends.__getitem__))
    return case.draw_target(path, [trials[i] for i in (*path, *case.children(_last(path)))])


_RULES: dict[str, Callable[[_Case], Verdict]] = {
    "greedy": _greedy,
    "rejection": _rejection,
    "coupled": _coupled,
    "block": _block,
    "typical": _typical,
}


def _block_excess(case: _Case, product: float, index: int) -> Tensor:
    return (product * case.target_probs[index] - case.draft_row(index)).clamp_(min=0.0)


def _gather(probs: Tensor, token_ids: tuple[int, ...], rows: Sequence[int]) -> list[float]:
    where = (torch.tensor(indices, dtype=torch.long, device=probs.device) for indices in (rows, token_ids))
    return probs[tuple(where)].tolist()


def _last(path: Sequence[int]) -> int:
    return path[-1] if path else ROOT
