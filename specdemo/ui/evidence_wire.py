"""A round's evidence as the page's component receives it: short keys, and no key for what there is none of.

The entry: `p` positions, `n` next token.
A position: `d` `t` draft and target probability, `a` probability to accept, `u` number drawn, `x` `y` draft and target
score, `h` entropy, `q` `g` top candidates of draft and target, `c` contenders, `f` copied from, `m` tokens matched,
`k` confidence.
The next token: `r` 1 for the residual, `p` its probability, `u` number drawn, `o` where its stretch begins, `t` top
candidates, `c` contenders.
A candidate is [id, probability], of the next token [id, probability, start]; a contender is [id, target probability,
draft probability, score, noise]. Their texts are sent apart, each token's once in a lane (`LaneUpdate.texts`).

Probabilities of candidates have four digits, which is more than a bar shows; what a rule compared has six.
"""

from typing import Any

from specdemo.events import Contender, Evidence, NextTokenEvidence, PositionEvidence, TopTokens

_DIGITS = 6
_CANDIDATE_DIGITS = 4


def evidence_entry(evidence: Evidence) -> dict[str, Any]:
    """The entry of one round."""
    next_token = evidence.next_token
    return _present(
        p=[_position(position) for position in evidence.positions],
        n=None if next_token is None else _next_token(next_token),
    )


def _position(position: PositionEvidence) -> dict[str, Any]:
    origin = position.origin
    return _present(
        d=_short(position.draft_prob),
        t=_short(position.target_prob),
        a=_short(position.accept_prob),
        u=_short(position.uniform),
        x=_short(position.draft_score),
        y=_short(position.target_score),
        h=_short(position.entropy),
        q=_tops(position.draft_top),
        g=_tops(position.target_top),
        c=[_contender(contender) for contender in position.contenders],
        f=origin and origin.copied_from,
        m=origin and origin.num_matched,
        k=origin and _short(origin.confidence),
    )


def _next_token(token: NextTokenEvidence) -> dict[str, Any]:
    starts = [[_short(start)] for start in token.starts] or [[]] * len(token.top)
    return _present(
        r=1 if token.source == "residual" else None,
        p=_short(token.prob),
        u=_short(token.uniform),
        o=_short(token.start),
        t=[[*top, *start] for top, start in zip(_tops(token.top), starts, strict=True)],
        c=[_contender(contender) for contender in token.contenders],
    )


def _contender(one: Contender) -> list[Any]:
    values = (one.target_prob, one.draft_prob, one.score, one.noise)
    return [one.token_id, *(_short(value) for value in values)]


def _tops(tops: TopTokens) -> list[list[Any]]:
    return [[token_id, _short(prob, _CANDIDATE_DIGITS)] for token_id, prob in tops]


def _present(**values: Any) -> dict[str, Any]:
    """Without what is None or empty; 0 stays."""
    return {key: value for key, value in values.items() if value is not None and value != []}


def _short(value: float | None, digits: int = _DIGITS) -> float | None:
    return None if value is None else float(f"{value:.{digits}g}")
