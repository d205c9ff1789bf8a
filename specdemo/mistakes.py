"""A round as it should be, and the same round with one real mistake planted in it. Pure: laws and noise, no model.

Each mistake was made, or asked for, in public; where is said in the page's texts. Shapes: A tokens of an alphabet.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from specdemo.acceptance import Draft, Verdict, accept
from specdemo.proofs import RIGHT
from specdemo.sampling import PositionNoise, Sampler, draw

Proposal = Tensor | int | None
"""What a drafter does at a place: draws from a law (A,), says one token without drawing, or nothing."""

ProposalAfter = Callable[[Sequence[int]], Proposal]
"""By the tokens drafted before it in the same round."""

DROPPED_BELOW = 0.3
"""The draft's own probability under which `late_truncation` drops a draft that was drawn already."""


class Play:
    """The right way to play a round. A mistake changes one of its parts."""

    def propose(self, sampler: Sampler, proposals: ProposalAfter, position: int, max_tokens: int) -> Draft:
        """Up to `max_tokens` drafts, the first of which stands at absolute position `position`."""
        drafted: list[int] = []
        rows: list[Tensor | None] = []
        while len(drafted) < max_tokens:
            proposal = proposals(drafted)
            if proposal is None:
                break
            if isinstance(proposal, int):
                token_id, row = proposal, None
            else:
                token_id, row = self.choose(sampler, proposal, position, drafted), proposal
            drafted.append(token_id)
            rows.append(row)
        return Draft(tuple(drafted), _stacked(drafted, rows))

    def choose(self, sampler: Sampler, law: Tensor, position: int, drafted: Sequence[int]) -> int:
        """A draft from its law, as the sampler draws it for the drafters."""
        return sampler.choose_draft(law.log(), range(position), drafted)[0]

    def judge(self, rule: str, draft: Draft, target_probs: Tensor, noise: PositionNoise, position: int) -> Verdict:
        """See acceptance.accept."""
        return accept(rule, draft, target_probs, noise, position)


class AcceptAll(Play):
    """Every draft stays, however improbable the target finds it."""

    def judge(self, rule: str, draft: Draft, target_probs: Tensor, noise: PositionNoise, position: int) -> Verdict:
        """The draft whole, and the bonus token of plain sampling behind it."""
        num_drafts = len(draft.token_ids)
        bonus = accept(rule, Draft(()), target_probs[num_drafts:], noise, position + num_drafts)
        return replace(bonus, path=tuple(range(num_drafts)), next_token_kind="bonus" if num_drafts else "plain")


class SoftArgmax(Play):
    """The drafter says its most probable token, and its soft law is handed over as if that token had been drawn."""

    def choose(self, sampler: Sampler, law: Tensor, position: int, drafted: Sequence[int]) -> int:
        """No draw."""
        return int(law.argmax())


class TargetForResidual(Play):
    """After a rejection the token is drawn from the target itself, which was already given its share."""

    def judge(self, rule: str, draft: Draft, target_probs: Tensor, noise: PositionNoise, position: int) -> Verdict:
        """The rule's verdict, its corrected token drawn again with the same number."""
        verdict = accept(rule, draft, target_probs, noise, position)
        if verdict.next_source != "residual":
            return verdict
        assert verdict.next_uniform is not None
        probs = target_probs[verdict.num_accepted]
        return replace(verdict, next_token_id=draw(probs, verdict.next_uniform), next_probs=probs, next_source="target")


class OneSidedTemperature(Play):
    """The drafter draws at the temperature that was asked for, the target's law is taken at temperature 1."""

    def __init__(self, temperature: float) -> None:
        self._temperature = temperature

    def judge(self, rule: str, draft: Draft, target_probs: Tensor, noise: PositionNoise, position: int) -> Verdict:
        """softmax(logits) is softmax(logits / T) to the power of T, normalised."""
        powers = target_probs**self._temperature
        return accept(rule, draft, powers / powers.sum(-1, keepdim=True), noise, position)


class LateTruncation(Play):
    """A draft of low probability is dropped after it was drawn, and with it what stands behind it."""

    def propose(self, sampler: Sampler, proposals: ProposalAfter, position: int, max_tokens: int) -> Draft:
        """The draft as it should be, cut where it is unsure of itself."""
        draft = super().propose(sampler, proposals, position, max_tokens)
        sure = [prob >= DROPPED_BELOW for prob in draft.token_probs()]
        num_kept = sure.index(False) if False in sure else len(sure)
        return Draft(draft.token_ids[:num_kept], None if draft.probs is None else draft.probs[:num_kept])


class OneNumber(Play):
    """The number that rejected a draft also draws the token in its place; it is known to be large by then."""

    def judge(self, rule: str, draft: Draft, target_probs: Tensor, noise: PositionNoise, position: int) -> Verdict:
        """The rule's verdict, its corrected token drawn with the number of the trial that failed."""
        verdict = accept(rule, draft, target_probs, noise, position)
        if verdict.next_source != "residual":
            return verdict
        uniform = verdict.trials[-1].uniform
        assert uniform is not None
        return replace(verdict, next_token_id=draw(verdict.next_probs, uniform), next_uniform=uniform)


def play_with(mistake: str, temperature: float) -> Play:
    """The right play, or the one with a mistake of proofs.MISTAKES; `temperature` is that of the laws."""
    plays: dict[str, Callable[[], Play]] = {
        RIGHT: Play,
        "accept_all": AcceptAll,
        "soft_argmax": SoftArgmax,
        "target_for_residual": TargetForResidual,
        "one_sided_temperature": lambda: OneSidedTemperature(temperature),
        "late_truncation": LateTruncation,
        "one_number": OneNumber,
    }
    return plays[mistake]()


def _stacked(drafted: Sequence[int], rows: Sequence[Tensor | None]) -> Tensor | None:
    """The laws of a draft's tokens; None where none was drawn. Beside drawn ones a said token has a law of its own."""
    drawn = [row for row in rows if row is not None]
    if not drawn:
        return None
    said = torch.zeros_like(drawn[0])
    return torch.stack(
        [
            said.index_fill(0, torch.tensor(token_id), 1.0) if row is None else row
            for token_id, row in zip(drafted, rows, strict=True)
        ]
    )
