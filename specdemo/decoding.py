"""The only decode loop: propose, verify, accept, commit, yield. Plain decoding is this loop with the null drafter.

Knows token ids and no text but what stops an answer.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from specdemo.acceptance import Draft, Verdict, accept
from specdemo.causal_lm import require_rollback
from specdemo.drafters.base import Drafter, DraftSession
from specdemo.drafters.null import NullDrafter
from specdemo.events import Event, Evidence, Finished, FinishReason, Reading, Round, Started
from specdemo.evidence import build_evidence
from specdemo.sampling import Sampler
from specdemo.schedule import DraftSchedule
from specdemo.settings import DecodeSettings
from specdemo.stopping import StopRule
from specdemo.target import Target, TargetSession

_CLOCK_DIGITS = 7


def decode(
    target: Target,
    drafter: Drafter,
    prompt_ids: Sequence[int],
    settings: DecodeSettings,
    provenance: Mapping[str, Any] | None = None,
) -> Iterator[Event]:
    """Generate an answer as `Reading*, Started, Round*, Finished`; closing the iterator frees both caches at once.

    Raises ModelError before anything is yielded when the target cannot take back rejected drafts.
    """
    if not isinstance(drafter, NullDrafter):
        require_rollback(target.lm, target.name)
    sampler = Sampler(settings, target.lm.vocab_size, target.lm.device)
    start = target.clock()
    with closing(target.open(drafter.feature_layers)) as session:
        for num_read in session.prefill(prompt_ids[:-1]):
            if num_read < len(prompt_ids) - 1:
                yield Reading(num_read, len(prompt_ids))
        with closing(drafter.open(session.session, prompt_ids, sampler)) as draft_session:
            prefill_seconds = round(target.clock() - start, _CLOCK_DIGITS)
            notes = (draft_session.note,) if draft_session.note else ()
            yield Started(tuple(prompt_ids), settings.to_dict(), prefill_seconds, provenance or {}, notes)
            generation = _Generation(target, session, draft_session, sampler, list(prompt_ids))
            reason: FinishReason | None = None
            while reason is None:
                event, reason = generation.round()
                yield event
            yield Finished(reason, draft_session.note)


@dataclass(frozen=True, slots=True)
class _Retained:
    """What a stop leaves of a verdict."""

    num_accepted: int
    has_next_token: bool
    num_unused: int


class _Generation:
    """The state that one round hands to the next."""

    def __init__(
        self, target: Target, session: TargetSession, draft_session: DraftSession, sampler: Sampler, ids: list[int]
    ) -> None:
        self._target = target
        self._session = session
        self._draft_session = draft_session
        self._sampler = sampler
        self._ids = ids
        self._schedule = DraftSchedule(sampler.settings)
        self._num_rounds = 0
        self._stop_rule = StopRule(
            eos_token_ids=target.eos_token_ids,
            stop_strings=sampler.settings.stop,
            decode_text=target.decode_text,
            max_new_tokens=sampler.settings.max_new_tokens,
            context_room=target.context_length - len(ids),
        )

    def round(self) -> tuple[Round, FinishReason | None]:
        """One propose, verify, accept, commit cycle on the lane's own clock."""
        clock = self._target.clock
        start = clock()
        # 1. Propose: never more than can be emitted beside the target's own token.
        bytes_before = self._draft_session.bytes_read
        max_tokens = min(self._schedule.num_draft_tokens, self._stop_rule.num_left - 1)
        draft = self._draft_session.propose(max_tokens) if max_tokens > 0 else Draft(())
        proposed = clock()
        # 2. Verify: one pass over the newest token and all drafts.
        logits = self._session.verify([self._ids[-1], *draft.token_ids])
        verified = clock()
        # 3. Accept.
        scores = self._sampler.scores(logits, self._ids, draft.token_ids)
        probs = self._sampler.probs(scores)
        verdict = accept(self._sampler.rule, draft, probs, self._sampler.noise, len(self._ids))
        # 4. Commit what the stops leave of it.
        retained, reason = self._commit(draft, verdict)
        finished = clock()
        # 5. Yield; evidence is made after the clock was read.
        evidence = self._evidence(draft, verdict, probs, scores, retained) if self._sampler.settings.evidence else None
        event = Round(
            index=self._num_rounds,
            draft_token_ids=draft.token_ids,
            num_accepted=retained.num_accepted,
            next_token_id=verdict.next_token_id if retained.has_next_token else None,
            next_token_kind=verdict.next_token_kind if retained.has_next_token else None,
            num_unused=retained.num_unused,
            draft_seconds=round(proposed - start, _CLOCK_DIGITS),
            verify_seconds=round(verified - proposed, _CLOCK_DIGITS),
            overhead_seconds=round(finished - verified, _CLOCK_DIGITS),
            draft_bytes=self._draft_session.bytes_read - bytes_before,
            verify_bytes=self._target.lm.weight_bytes,
            evidence=evidence,
        )
        self._num_rounds += 1
        return event, reason

    def _commit(self, draft: Draft, verdict: Verdict) -> tuple[_Retained, FinishReason | None]:
        accepted = draft.token_ids[: verdict.num_accepted]
        tokens = (*accepted, verdict.next_token_id)
        num_kept, reason = self._stop_rule.cut(tokens)
        self._ids += tokens[:num_kept]
        self._session.crop(len(self._ids) - 1)
        self._draft_session.commit(tokens[:num_kept], self._session.features(num_kept))
        self._schedule.update(len(draft.token_ids), verdict.num_accepted)
        if num_kept == len(tokens):
            return _Retained(len(accepted), True, 0), reason
        return _Retained(num_kept, False, len(draft.token_ids) - num_kept), reason

    def _evidence(self, draft: Draft, verdict: Verdict, probs: Tensor, scores: Tensor, retained: _Retained) -> Evidence:
        """Evidence of what a stop left of the verdict; the ids already hold what was retained."""
        num_committed = retained.num_accepted + retained.has_next_token
        evidence = build_evidence(draft, verdict, probs, scores, self._sampler, len(self._ids) - num_committed)
        if retained.has_next_token:
            return evidence
        return replace(evidence, positions=evidence.positions[: retained.num_accepted], next_token=None)
