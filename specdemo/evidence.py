"""A round's evidence: the numbers a rule used, with the top candidates of both sides around them.

Recomputes nothing that the rule decided; only looks up what stands in the same distributions. It is made behind the
clock, and only for those who look.
"""

import math

import torch
from torch import Tensor

from specdemo.acceptance import Draft, Trial, Verdict
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
        last = verdict.path[-1] + 1 if verdict.path else 0
        # Along the one branch that was judged, so that the n-th of them stands n tokens behind `position`.
        rows = sorted({draft.row_of(trial.index) for trial in verdict.trials} | {last})
        self._places = {row: place for place, row in enumerate(rows)}
        self._last = self._places[last]
        self._scores = scores[rows]
        target_probs = target_probs[rows]
        self._probs = self._scores.softmax(-1) if sampler.rule == "greedy" else target_probs
        self._noise = None
        if sampler.rule == "coupled":
            self._noise = torch.stack([sampler.noise.gumbel(position + place) for place in range(len(rows))])
        # What the rule took the highest of, by the same sum.
        ranking = self._scores if sampler.rule == "greedy" else None
        self._ranking = ranking if self._noise is None else target_probs.log() + self._noise
        self._target_tops = _tops(self._probs)
        judged = [trial.index for trial in verdict.trials]
        self._draft_tops = {} if draft.probs is None else dict(zip(judged, _tops(draft.probs[judged]), strict=True))
        best = None if self._ranking is None else self._ranking.topk(min(_NUM_CONTENDERS, scores.shape[-1])).indices
        self._best: list[list[int]] = [] if best is None else best.tolist()

    def evidence(self) -> Evidence:
        """All of it."""
        return Evidence(tuple(map(self._position, self._verdict.trials)), self._next_token())

    def _position(self, trial: Trial) -> PositionEvidence:
        index, token_id = trial.index, self._draft.token_ids[trial.index]
        place = self._places[self._draft.row_of(index)]
        is_scored = trial.draft_score is not None
        origin = self._draft.origins[index] if self._draft.origins else DraftOrigin()
        return PositionEvidence(
            token_id=token_id,
            is_accepted=index in self._verdict.path,
            draft_prob=self._draft_prob(index, token_id),
            target_prob=float(self._probs[place, token_id]),
            accept_prob=trial.accept_prob,
            uniform=trial.uniform,
            draft_score=_finite(trial.draft_score if is_scored else float(self._scores[place, token_id])),
            target_score=_finite(trial.target_score if is_scored else float(self._scores[place].max())),
            draft_top=self._draft_tops.get(index, ((token_id, 1.0),)),
            target_top=self._target_tops[place],
            entropy=trial.entropy,
            contenders=self._contenders(place, index),
            origin=None if origin == DraftOrigin() else origin,
        )

    def _next_token(self) -> NextTokenEvidence:
        verdict, place = self._verdict, self._last
        is_target = verdict.next_source == "target"
        probs = self._probs[place] if is_target else verdict.next_probs
        top = self._target_tops[place] if is_target else _tops(probs[None])[0]
        token_id = verdict.next_token_id
        starts = [] if verdict.next_uniform is None else _starts(probs, [token_id, *(one for one, _ in top)])
        return NextTokenEvidence(
            source=verdict.next_source,
            prob=float(probs[token_id]),
            uniform=verdict.next_uniform,
            top=top,
            start=starts[0] if starts else None,
            starts=tuple(starts[1:]),
            contenders=self._contenders(place, None),
        )

    def _contenders(self, place: int, index: int | None) -> tuple[Contender, ...]:
        if self._ranking is None:
            return ()
        token_ids = list(self._best[place])
        drafted = None if index is None else self._draft.token_ids[index]
        if drafted is not None and drafted not in token_ids:
            token_ids.append(drafted)
        return tuple(
            Contender(
                token_id=token_id,
                target_prob=float(self._probs[place, token_id]),
                draft_prob=None if index is None else self._draft_prob(index, token_id),
                score=_finite(float(self._ranking[place, token_id])),
                noise=None if self._noise is None else float(self._noise[place, token_id]),
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
