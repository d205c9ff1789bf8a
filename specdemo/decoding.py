"""The only decode loop: propose, verify, accept, commit, yield. Plain decoding is this loop with the null drafter, and
one generation is a batch of one.

Knows token ids and no text but what stops an answer.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from torch import Tensor

from specdemo.acceptance import Draft, Verdict, accept
from specdemo.causal_lm import require_batches, require_rollback
from specdemo.drafters.base import Drafter, DraftSession, propose_all
from specdemo.drafters.null import NullDrafter
from specdemo.events import Event, Evidence, Finished, FinishReason, Reading, Round, Started
from specdemo.evidence import build_evidence
from specdemo.sampling import Sampler
from specdemo.schedule import DraftSchedule
from specdemo.settings import DecodeSettings
from specdemo.stopping import StopRule
from specdemo.target import Target, TargetSession

_CLOCK_DIGITS = 7

Step = tuple[tuple[int, Event], ...]
"""What happens at once in a batch: events, each with the number of the request that it belongs to.

A round is one step: a Round of every row, and a Finished behind the last one of a row.
"""


@dataclass(frozen=True, slots=True)
class DecodeRequest:
    """What one generation starts from."""

    prompt_ids: Sequence[int]
    settings: DecodeSettings


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
    requests = [DecodeRequest(prompt_ids, settings)]
    with closing(decode_batch(target, drafter, requests, 1, provenance)) as steps:
        for step in steps:
            for _, event in step:
                yield event


def decode_batch(
    target: Target,
    drafter: Drafter,
    requests: Iterable[DecodeRequest],
    batch_size: int,
    provenance: Mapping[str, Any] | None = None,
) -> Iterator[Step]:
    """Decode requests, up to `batch_size` at once; where one has ended the next takes its place.

    The rows of a batch accept each its own number of drafts. They share the passes of a round and so its clock: its
    seconds, and the bytes that its passes read, are the whole batch's and stand in the Round of every row. A prompt is
    read while the others wait, outside their clock. Closing the iterator frees all caches. Raises ModelError before
    anything is yielded when the target cannot take back rejected drafts, or cannot serve several rows in one pass.
    """
    if not isinstance(drafter, NullDrafter):
        require_rollback(target.lm, target.name)
    if batch_size > 1:
        require_batches(target.lm, target.name)
    waiting = enumerate(requests)
    rows: list[_Row] = []
    with ExitStack() as at_end:
        at_end.callback(lambda: [row.close() for row in rows])
        while True:
            while len(rows) < batch_size and (entry := next(waiting, None)) is not None:
                number, request = entry
                rows.append(_Row(number, target, request))
                for event in rows[-1].start(drafter, provenance or {}):
                    yield ((number, event),)
            if not rows:
                return
            yield _round(target, drafter, rows)
            for row in [row for row in rows if row.reason is not None]:
                rows.remove(row)
                row.close()


def _round(target: Target, drafter: Drafter, rows: Sequence["_Row"]) -> Step:
    """One propose, verify, accept, commit cycle of all rows, on their common clock."""
    clock = target.clock
    start = clock()
    # 1. Propose.
    drafts = propose_all(drafter, [(row.draft_session, row.begin_round()) for row in rows])
    proposed = clock()
    # 2. Verify: one pass over the newest token and all drafts of each row.
    fed = [[row.ids[-1], *draft.token_ids] for row, draft in zip(rows, drafts, strict=True)]
    logits = target.verify([row.session for row in rows], fed, [draft.parents for draft in drafts])
    verified = clock()
    # 3. Accept, and 4. commit what the stops leave of it.
    judged = [row.judge(draft, own) for row, draft, own in zip(rows, drafts, logits, strict=True)]
    finished = clock()
    # 5. Yield; evidence is made after the clock was read.
    times = (start, proposed, verified, finished)
    seconds = tuple(round(end - begin, _CLOCK_DIGITS) for begin, end in pairwise(times))
    return tuple(
        (row.number, event) for row, one in zip(rows, judged, strict=True) for event in row.events(one, seconds)
    )


@dataclass(frozen=True, slots=True)
class _Judged:
    """What a rule decided of a row's draft, and what a stop left of that."""

    draft: Draft
    verdict: Verdict
    probs: Tensor
    scores: Tensor
    path: tuple[int, ...]
    has_next_token: bool
    num_unused: int


class _Row:
    """One generation of a batch: the state that one round hands to the next."""

    session: TargetSession
    draft_session: DraftSession

    def __init__(self, number: int, target: Target, request: DecodeRequest) -> None:
        self.number = number
        self.ids = list(request.prompt_ids)
        self.reason: FinishReason | None = None
        self._target = target
        self._held = ExitStack()
        self._sampler = Sampler(request.settings, target.lm.vocab_size, target.lm.device)
        self._schedule = DraftSchedule(request.settings)
        self._num_rounds = 0
        self._bytes_before = 0
        self._stop_rule = StopRule(
            eos_token_ids=target.eos_token_ids,
            stop_strings=request.settings.stop,
            decode_text=target.decode_text,
            max_new_tokens=request.settings.max_new_tokens,
            context_room=target.context_length - len(self.ids),
        )

    def start(self, drafter: Drafter, provenance: Mapping[str, Any]) -> Iterator[Event]:
        """Read the prompt but its last token, which the first round feeds."""
        clock, num_tokens = self._target.clock, len(self.ids)
        start = clock()
        self.session = self._held.enter_context(closing(self._target.open(drafter.feature_layers)))
        for num_read in self.session.prefill(self.ids[:-1]):
            if num_read < num_tokens - 1:
                yield Reading(num_read, num_tokens)
        opened = drafter.open(self.session.session, tuple(self.ids), self._sampler)
        self.draft_session = self._held.enter_context(closing(opened))
        prefill_seconds = round(clock() - start, _CLOCK_DIGITS)
        notes = (opened.note,) if opened.note else ()
        yield Started(tuple(self.ids), self._sampler.settings.to_dict(), prefill_seconds, provenance, notes)

    def begin_round(self) -> int:
        """How many drafts are asked for: never more than can be emitted beside the target's own token."""
        self._bytes_before = self.draft_session.bytes_read
        return min(self._schedule.num_draft_tokens, self._stop_rule.num_left - 1)

    def judge(self, draft: Draft, logits: Tensor) -> _Judged:
        """Accept by the rule, and commit what the stops leave of it."""
        scores = self._sampler.scores(logits, self.ids, draft.token_ids, draft.parents)
        probs = self._sampler.probs(scores)
        verdict = accept(self._sampler.rule, draft, probs, self._sampler.noise, len(self.ids))
        tokens = verdict.tokens(draft)
        num_kept, self.reason = self._stop_rule.cut(tokens)
        self.ids += tokens[:num_kept]
        # Of the newest token, then of the drafts that stay; the last token of all no pass has read yet.
        features = self.session.keep([0, *(index + 1 for index in verdict.path)][:num_kept])
        assert self.session.length == len(self.ids) - 1, "the cache does not hold what was committed"
        self.draft_session.commit(tokens[:num_kept], features)
        # A tree is as deep as its drafter is sure of itself already.
        if not draft.parents:
            self._schedule.update(len(draft.token_ids), verdict.num_accepted)
        if num_kept == len(tokens):
            return _Judged(draft, verdict, probs, scores, verdict.path, True, 0)
        path = verdict.path[:num_kept]
        return _Judged(draft, verdict, probs, scores, path, False, len(draft.token_ids) - num_kept)

    def events(self, judged: _Judged, seconds: Sequence[float]) -> Iterator[Event]:
        """The round, which took `seconds` for its drafts, its pass and the rest; then the end, if it is one."""
        verdict = judged.verdict
        yield Round(
            index=self._num_rounds,
            draft_token_ids=judged.draft.token_ids,
            num_accepted=len(judged.path),
            next_token_id=verdict.next_token_id if judged.has_next_token else None,
            next_token_kind=verdict.next_token_kind if judged.has_next_token else None,
            num_unused=judged.num_unused,
            draft_seconds=seconds[0],
            verify_seconds=seconds[1],
            overhead_seconds=seconds[2],
            draft_bytes=self.draft_session.bytes_read - self._bytes_before,
            verify_bytes=self._target.lm.weight_bytes + self.session.crop_bytes,
            evidence=self._evidence(judged) if self._sampler.settings.evidence else None,
            draft_parents=judged.draft.parents,
            accepted_path=judged.path if judged.draft.parents else (),
        )
        self._num_rounds += 1
        if self.reason is not None:
            yield Finished(self.reason, self.draft_session.note)

    def close(self) -> None:
        """Free both caches."""
        self._held.close()

    def _evidence(self, judged: _Judged) -> Evidence:
        """Evidence of what a stop left of the verdict; the ids already hold what was retained."""
        position = len(self.ids) - len(judged.path) - judged.has_next_token
        parts = (judged.draft, judged.verdict, judged.probs, judged.scores)
        evidence = build_evidence(*parts, self._sampler, position)
        if judged.has_next_token:
            return evidence
        return replace(evidence, positions=evidence.positions[: len(judged.path)], next_token=None)
