"""A round's evidence: the numbers a rule used, with the top candidates of both sides around them.

Recomputes nothing that the rule decided; only looks up what stands in the same distributions.
"""

import torch
from torch import Tensor

from specdemo.acceptance import Draft, Verdict
from specdemo.events import Evidence, NextTokenEvidence, PositionEvidence, TopTokens

NUM_TOP = 5


@torch.inference_mode()
def build_evidence(draft: Draft, verdict: Verdict, target_probs: Tensor, scores: Tensor) -> Evidence:
    """Evidence of one verdict. Shapes: `target_probs` and the processed logits `scores` are (K+1, V).

    At temperature 0 the target's distribution is one-hot; the candidates shown are then those of the softmax of its
    logits.
    """
    shown = scores.softmax(-1)
    positions = tuple(_position(draft, verdict, shown, scores, index) for index in range(len(verdict.trials)))
    row = shown[verdict.num_accepted] if verdict.next_source == "target" else verdict.next_probs
    prob = float(row[verdict.next_token_id])
    return Evidence(positions, NextTokenEvidence(verdict.next_source, prob, verdict.next_uniform, _top(row)))


def _position(draft: Draft, verdict: Verdict, shown: Tensor, scores: Tensor, index: int) -> PositionEvidence:
    trial, token_id = verdict.trials[index], draft.token_ids[index]
    draft_row = draft.row(index, shown[index])
    is_scored = trial.draft_score is not None
    return PositionEvidence(
        token_id=token_id,
        is_accepted=index < verdict.num_accepted,
        draft_prob=float(draft_row[token_id]),
        target_prob=float(shown[index, token_id]),
        accept_prob=trial.accept_prob,
        uniform=trial.uniform,
        draft_score=trial.draft_score if is_scored else float(scores[index, token_id]),
        target_score=trial.target_score if is_scored else float(scores[index].max()),
        draft_top=_top(draft_row),
        target_top=_top(shown[index]),
    )


def _top(probs: Tensor) -> TopTokens:
    values, token_ids = probs.topk(min(NUM_TOP, probs.shape[-1]))
    pairs = zip(token_ids.tolist(), values.tolist(), strict=True)
    return tuple((token_id, value) for token_id, value in pairs if value > 0.0)
