"""Scripted proofs for tests of the page: a drawn law that fits, planted mistakes that do not, texts of any kind."""

from collections.abc import Iterator
from dataclasses import replace

from specdemo.proofs import (
    MISTAKES,
    RIGHT,
    AnswerRow,
    Comparison,
    Difference,
    ProofRequest,
    ProofUpdate,
    SampleState,
    Step,
)

LABELS = ("The", "<b>In</b>", "${x}", " Le", "")
LAW = (0.5, 0.25, 0.125, 0.1, 0.025)
NUM_STATES = 5


def scripted_proof(request: ProofRequest) -> Iterator[ProofUpdate]:
    """What a proof of this kind looks like."""
    if request.proof in ("greedy", "seeds"):
        yield from _answers(request)
        return
    yield from (Step(i + 1, 3) for i in range(3))
    mistakes = (RIGHT, *MISTAKES) if request.proof == "mistakes" else (request.mistake,)
    for mistake in mistakes:
        yield from _states(request, mistake)


def _answers(request: ProofRequest) -> Iterator[ProofUpdate]:
    tie = Difference(7, ("<i>a</i>", " b"), 0.01, 0.01, is_tie=True, dtype="bfloat16")
    row = AnswerRow(
        prompt=request.prompts[0],
        drafter=request.drafters[0],
        k=4,
        temperature=0.0 if request.proof == "greedy" else 0.8,
        dtype="float32",
        num_tokens=48,
        difference=None,
        text="<b>leaves</b> fall",
    )
    for i, k in enumerate(request.ks):
        yield Step(i, len(request.ks) + 1)
        yield replace(row, k=k)
    if request.proof == "greedy":
        yield replace(row, drafter="", k=8, dtype="bfloat16", difference=tie)


def _states(request: ProofRequest, mistake: str) -> Iterator[SampleState]:
    is_right = mistake == RIGHT and request.rule != "typical"
    observed = LAW if is_right else LAW[::-1]
    p_value = 0.4 if is_right else 1e-30
    one = Comparison(
        labels=LABELS,
        expected=LAW,
        observed=observed,
        distance=0.01 if is_right else 0.4,
        expected_distance=0.012,
        spread=0.004,
        p_value=p_value,
    )
    for i in range(NUM_STATES):
        num_draws = request.num_draws * (i + 1) // NUM_STATES
        yield SampleState(
            rule=request.rule,
            mistake=mistake,
            num_draws=num_draws,
            num_all=request.num_draws,
            next_token=one,
            pair=one,
        )
