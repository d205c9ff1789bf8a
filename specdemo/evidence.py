"""A round's evidence: the numbers a rule used, with the top candidates of both sides around them.

Recomputes nothing that the rule decided; only looks up what stands in the same distributions. It is made behind the
clock, and only for those who look.
"""

import math

import torch
from torch import Tensor

from specdemo.acceptance import Draft, Verdict
from specdemo.events import Contender, DraftOrigin, Evidence, NextTokenEvidence, PositionEvidence, TopTokens
from specdemo.sampling import Sampler

NUM_TOP = 5
_NUM_CONTENDERS = 2


@torch.inference_mode()
def build_evidence(
    draft: Draft, verdict: Verdict, target_probs: Tensor, scores: Tensor, sampler: Sampler, position: int
) -> Evidence:
    """Evidence of one verdict. Shapes: `target_probs` and the processed logits `scores` are (K+1, V).

    At temperature 0 the target's distribution is one-hot; the candidates shown are then those of the softmax of its
    logits. `position` is the absolute one of the first draft.
    """
    return _Builder(draft, verdict, target_probs, scores, sampler, position).evidence()


class _Builder:
    """The rows that were judged, each looked through once. R rows: one for each trial, and the next token's."""

    def __init__(
        self, draft: Draft, verdict: Verdict, target_probs: Tensor, scores: Tensor, sampler: Sampler, position: int
    ) -> None:
        self._draft, self._verdict = draft, verdict
        num_rows = max(len(verdict.trials), verdict.num_accepted + 1)
        self._scores = scores[:num_rows]
        self._probs = self._scores.softmax(-1) if sampler.rule == "greedy" else target_probs[:num_rows]
        self._noise = None
        if sampler.rule == "coupled":
            self._noise = torch.stack([sampler.noise.gumbel(position + row) for row in range(num_rows)])
        # What the rule took the highest of, by the same sum.
        ranking = self._scores if sampler.rule == "greedy" else None
        self._ranking = ranking if self._noise is None else target_probs[:num_rows].log() + self._noise
        self._target_tops = _tops(self._probs)
        self._draft_tops = [] if draft.probs is None else _tops(draft.probs[: len(verdict.trials)])
        best = None if self._ranking is None else self._ranking.topk(min(_NUM_CONTENDERS, scores.shape[-1])).indices
        self._best: list[list[int]] = [] if best is None else best.tolist()

    def evidence(self) -> Evidence:
        """All of it."""
        positions = tuple(self._position(index) for index in range(len(self._verdict.trials)))
        return Evidence(positions, self._next_token())

    def _position(self, index: int) -> PositionEvidence:
        trial, token_id = self._verdict.trials[index], self._draft.token_ids[index]
        is_scored = trial.draft_score is not None
        origin = self._draft.origins[index] if self._draft.origins else DraftOrigin()
        return PositionEvidence(
            token_id=token_id,
            is_accepted=index < self._verdict.num_accepted,
            draft_prob=self._draft_prob(index, token_id),
            target_prob=float(self._probs[index, token_id]),
            accept_prob=trial.accept_prob,
            uniform=trial.uniform,
            draft_score=_finite(trial.draft_score if is_scored else float(self._scores[index, token_id])),
            target_score=_finite(trial.target_score if is_scored else float(self._scores[index].max())),
            draft_top=self._draft_tops[index] if self._draft_tops else ((token_id, 1.0),),
            target_top=self._target_tops[index],
            entropy=trial.entropy,
            contenders=self._contenders(index, token_id),
            origin=None if origin == DraftOrigin() else origin,
        )

    def _next_token(self) -> NextTokenEvidence:
        verdict, row = self._verdict, self._verdict.num_accepted
        is_target = verdict.next_source == "target"
        probs = self._probs[row] if is_target else verdict.next_probs
        top = self._target_tops[row] if is_target else _tops(probs[None])[0]
        token_id = verdict.next_token_id
        starts = [] if verdict.next_uniform is None else _starts(probs, [token_id, *(one for one, _ in top)])
        return NextTokenEvidence(
            source=verdict.next_source,
            prob=float(probs[token_id]),
            uniform=verdict.next_uniform,
            top=top,
            start=starts[0] if starts else None,
            starts=tuple(starts[1:]),
            contenders=self._contenders(row, None),
        )

    def _contenders(self, row: int, drafted: int | None) -> tuple[Contender, ...]:
        if self._ranking is None:
            return ()
        token_ids = list(self._best[row])
        if drafted is not None and drafted not in token_ids:
            token_ids.append(drafted)
        return tuple(
            Contender(
                token_id=token_id,
                target_prob=float(self._probs[row, token_id]),
                draft_prob=None if drafted is None else self._draft_prob(row, token_id),
                score=_finite(float(self._ranking[row, token_id])),
                noise=None if self._noise is None else float(self._noise[row, token_id]),
            )
            for token_id in token_ids
        )

    def _draft_prob(self, index: int, token_id: int) -> float:
        if self._draft.probs is None:
            return float(token_id == self._draft.token_ids[index])
        return float(self._draft.probs[index, token_id])


def _tops(probs: Tensor) -> list[TopTokens]:
    """The most probable tokens of each row (R, V)."""
    if not len(probs):
        return []
    values, token_ids = probs.topk(min(NUM_TOP, probs.shape[-1]))
    rows = zip(token_ids.tolist(), values.tolist(), strict=True)
    return [tuple((i, v) for i, v in zip(ids, row, strict=True) if v > 0.0) for ids, row in rows]


def _starts(probs: Tensor, token_ids: list[int]) -> list[float]:
    """Where each token's stretch of the cumulative distribution (V,) begins; the sum of `sampling.draw`."""
    cumulative = probs.double().cumsum(-1)
    chosen = torch.tensor(token_ids, device=probs.device)
    return ((cumulative[chosen] - probs[chosen]) / cumulative[-1]).clamp_(min=0.0).tolist()


def _finite(score: float | None) -> float | None:
    """None for the score of a token that a filter removed: JSON has no infinities."""
    return score if score is not None and math.isfinite(score) else None
