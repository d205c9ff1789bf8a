"""Proofs on a loaded target: one module a proof, one dict from name to how it is run."""

from collections.abc import Callable, Iterator

from specdemo.engine import Engine
from specdemo.proof.answers import prove_greedy, prove_seeds
from specdemo.proof.samples import prove_mistakes, prove_sampling
from specdemo.proofs import ProofRequest, ProofUpdate

_PROOFS: dict[str, Callable[[Engine, ProofRequest], Iterator[ProofUpdate]]] = {
    "greedy": prove_greedy,
    "sampling": prove_sampling,
    "seeds": prove_seeds,
    "mistakes": prove_mistakes,
}


def prove(engine: Engine, request: ProofRequest) -> Iterator[ProofUpdate]:
    """Run a proof; closing the iterator stops the work and frees what it held."""
    yield from _PROOFS[request.proof](engine, request)
