"""The laws of the next two tokens behind a context, target's and drafter's, read from the models.

Every law comes from where a race has it: the target's from a pass of its own, the drafter's from its proposals, which
the sampler of a race draws. Temperature and top-k cut target and drafter alike.
"""

from collections.abc import Generator, Sequence
from contextlib import closing

import torch
from torch import Tensor

from specdemo.drafters.base import Drafter
from specdemo.experiment import DRAFTS_PER_ROUND, PairLaws
from specdemo.mistakes import Proposal
from specdemo.proofs import TOP_K, Step
from specdemo.sampling import Sampler
from specdemo.settings import DecodeSettings
from specdemo.target import Target, TargetSession


def read_laws(
    target: Target, drafter: Drafter, prompt_ids: Sequence[int], temperature: float
) -> Generator[Step, None, PairLaws]:
    """Read them, a step for each token that may come first; the value of the generator are the laws."""
    settings = DecodeSettings(temperature=temperature, top_k=TOP_K, rule="rejection")
    prompt = list(prompt_ids)
    with (
        closing(target.open()) as judge,
        closing(target.open(drafter.feature_layers)) as before,
        closing(target.open(drafter.feature_layers)) as behind,
    ):
        _read(judge, prompt[:-1])
        _read(before, prompt[:-1])
        _read(behind, prompt)
        sampler = Sampler(settings, target.lm.vocab_size, target.lm.device)
        first = _target_law(judge, sampler, prompt)
        reader = _DrafterReader(drafter, settings, target)
        drafted: dict[tuple[int, ...], Proposal] = {(): reader.proposals(before, prompt, ())[0]}
        second: dict[int, Tensor] = {}
        redrafted: dict[int, Proposal] = {}
        candidates = sorted({*_possible(first), *_possible(drafted[()])})
        for index, x in enumerate(candidates):
            second[x] = _target_law(judge, sampler, [*prompt, x])
            drafted[(x,)] = reader.proposals(before, prompt, (x,))[1]
            redrafted[x] = reader.proposals(behind, [*prompt, x], ())[0]
            yield Step(index + 1, len(candidates))
    return _on_own_alphabet(target, PairLaws((), first, second, drafted, redrafted, len(prompt)))


class _DrafterReader:
    """Asks a drafter for a draft, with the first of its tokens given, and keeps what each was drawn from."""

    def __init__(self, drafter: Drafter, settings: DecodeSettings, target: Target) -> None:
        self._drafter, self._settings, self._target = drafter, settings, target

    def proposals(self, session: TargetSession, ids: Sequence[int], given: tuple[int, ...]) -> list[Proposal]:
        """What it says at each place of a round behind `ids`, whose last token the session has not read."""
        sampler = _Given(self._settings, self._target.lm.vocab_size, self._target.lm.device, given)
        with closing(self._drafter.open(session.session, ids, sampler)) as draft_session:
            draft = draft_session.propose(DRAFTS_PER_ROUND)
        session.crop(len(ids) - 1)
        if draft.probs is not None:
            found: list[Proposal] = list(draft.probs)
        else:
            # Said without drawing: behind another first token than the own one it says nothing.
            is_own = draft.token_ids[: len(given)] == given
            found = [*draft.token_ids] if is_own else [*draft.token_ids[:1]]
        return [*found, *[None] * (DRAFTS_PER_ROUND - len(found))]


class _Given(Sampler):
    """A sampler that draws the first drafts of a round as they are given."""

    def __init__(
        self, settings: DecodeSettings, vocab_size: int, device: torch.device | str, given: tuple[int, ...]
    ) -> None:
        super().__init__(settings, vocab_size, device)
        self._given_ids = given

    def choose_draft(
        self, logits: Tensor, committed: Sequence[int], drafted: Sequence[int]
    ) -> tuple[int, Tensor | None]:
        """See Sampler.choose_draft."""
        token_id, probs = super().choose_draft(logits, committed, drafted)
        return (self._given_ids[len(drafted)] if len(drafted) < len(self._given_ids) else token_id), probs


def _read(session: TargetSession, token_ids: Sequence[int]) -> None:
    for _ in session.prefill(token_ids):
        pass


def _target_law(session: TargetSession, sampler: Sampler, ids: Sequence[int]) -> Tensor:
    """The target's law behind `ids`, of which the session has read a prefix, and holds more than it afterwards."""
    num_read = session.length
    logits = session.verify(ids[num_read:])
    law = sampler.probs(sampler.scores(logits[-1:], ids, ()))[0]
    session.crop(num_read)
    return law


def _possible(proposal: Proposal) -> list[int]:
    if isinstance(proposal, Tensor):
        return [int(x) for x in proposal.nonzero()[:, 0].tolist()]
    return [] if proposal is None else [proposal]


def _on_own_alphabet(target: Target, laws: PairLaws) -> PairLaws:
    """The same laws over the tokens that any of them can give: what none can give is never drawn."""
    proposals = [*laws.drafted.values(), *laws.redrafted.values()]
    all_laws = [laws.first, *laws.second.values(), *proposals]
    token_ids = sorted({x for law in all_laws for x in _possible(law)} | set(laws.second))
    index = {token_id: i for i, token_id in enumerate(token_ids)}
    columns = torch.tensor(token_ids, device=laws.first.device)

    def short(law: Tensor) -> Tensor:
        return law[columns].float().cpu()

    def renamed(proposal: Proposal) -> Proposal:
        if isinstance(proposal, Tensor):
            return short(proposal)
        return None if proposal is None else index[proposal]

    return PairLaws(
        texts=tuple(target.decode_text([token_id]) for token_id in token_ids),
        first=short(laws.first),
        second={index[x]: short(law) for x, law in laws.second.items()},
        drafted={tuple(index[x] for x in given): renamed(one) for given, one in laws.drafted.items()},
        redrafted={index[x]: renamed(one) for x, one in laws.redrafted.items()},
        position=laws.position,
    )
