"""Sampling: thousands of next tokens drawn by a rule from the models' own laws, beside the law they should follow."""

from collections.abc import Iterator

from specdemo.engine import Engine
from specdemo.experiment import Experiment, PairLaws, states
from specdemo.mistakes import play_with
from specdemo.proof.laws import read_laws
from specdemo.proofs import MISTAKES, RIGHT, ProofRequest, ProofUpdate, SampleState
from specdemo.race import RaceRequest
from specdemo.settings import DecodeSettings


def prove_sampling(engine: Engine, request: ProofRequest) -> Iterator[ProofUpdate]:
    """One rule, right or with the mistake that was asked for."""
    laws = yield from _laws(engine, request)
    yield from _states(laws, request, request.mistake)


def prove_mistakes(engine: Engine, request: ProofRequest) -> Iterator[ProofUpdate]:
    """The right rule and every mistake, one after the other, on the same laws."""
    laws = yield from _laws(engine, request)
    for mistake in (RIGHT, *MISTAKES):
        yield from _states(laws, request, mistake)


def _laws(engine: Engine, request: ProofRequest) -> Iterator[ProofUpdate]:
    asked = RaceRequest(prompt=request.prompts[0], drafter=request.drafters[0], settings=DecodeSettings())
    drafter = engine.drafter(asked.drafter)
    return (yield from read_laws(engine.target, drafter, engine.encode(asked), request.temperatures[0]))


def _states(laws: PairLaws, request: ProofRequest, mistake: str) -> Iterator[SampleState]:
    play = play_with(mistake, request.temperatures[0])
    experiment = Experiment(laws, request.rule, play, request.seed)
    yield from states(experiment, laws, mistake, request.rule, request.num_draws)
