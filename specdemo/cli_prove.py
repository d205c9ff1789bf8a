"""The command `prove`: parses what is to be proved, prints what came out. Computes nothing itself."""

import argparse
import json
import sys
from collections.abc import Sequence
from importlib import import_module

from specdemo.catalog import EMBEDDED_TARGET, check_drafter_name
from specdemo.console import loading_bar
from specdemo.proofs import (
    MISTAKES,
    PROOFS,
    PROVED_RULES,
    AnswerRow,
    Comparison,
    ProofRequest,
    ProofUpdate,
    SampleState,
    Step,
    default_drafters,
    default_ks,
    default_prompts,
    is_alarm,
    proof_document,
)

_DEFAULT_TEMPERATURES = {"seeds": (0.4, 0.8, 1.2)}


def add_prove_options(command: argparse.ArgumentParser) -> None:
    """The options of `prove`."""
    add = command.add_argument
    add("proof", nargs="*", metavar="PROOF", help=f"{', '.join(PROOFS)}; all of them by default")
    add("--target", default=EMBEDDED_TARGET, metavar="NAME")
    add("--prompt", action="append", metavar="TEXT", help="repeatable; example prompts by default")
    add("--drafter", action="append", metavar="NAME", help="repeatable")
    add("--k", action="append", type=int, metavar="N", help="repeatable; of greedy and seeds")
    add("--temperature", action="append", type=float, metavar="T", help="repeatable; of all but greedy")
    add("--max-new-tokens", type=int, default=48, metavar="N", help="of greedy and seeds")
    add("--rule", default="rejection", metavar="RULE", help=f"of sampling: {', '.join(PROVED_RULES)}")
    add("--mistake", default="", metavar="NAME", help=f"planted in the rule of sampling: {', '.join(MISTAKES)}")
    add("--draws", type=int, default=6000, metavar="N", help="of sampling, and of each of the mistakes")
    add("--seed", type=int, default=0, metavar="S")
    add("--json", action="store_true", help="one JSON document on stdout")
    command.set_defaults(run=_prove)


def _prove(arguments: argparse.Namespace) -> int:
    requests = [_request(arguments, proof) for proof in arguments.proof or PROOFS]
    with loading_bar() as progress:
        engine = import_module("specdemo.engine").Engine.load(arguments.target, progress)
    prove = import_module("specdemo.proof").prove
    documents = {}
    for request in requests:
        updates: list[ProofUpdate] = []
        with loading_bar() as progress:
            for update in prove(engine, request):
                updates.append(update)
                if isinstance(update, Step):
                    progress(request.proof, update.num_done / max(update.num_all, 1))
                elif not arguments.json:
                    _print(request, update)
        documents[request.proof] = proof_document(request, updates)
    as_it_should_be = all(document["as_it_should_be"] for document in documents.values())
    if arguments.json:
        document = {"as_it_should_be": as_it_should_be, "proofs": documents}
        sys.stdout.write(json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n")
    return 0 if as_it_should_be else 1


def _request(arguments: argparse.Namespace, proof: str) -> ProofRequest:
    request = ProofRequest(
        proof=proof,
        prompts=_given(arguments.prompt, default_prompts(proof)),
        drafters=_given(arguments.drafter, default_drafters(proof)),
        ks=_given(arguments.k, default_ks(proof)),
        temperatures=_given(arguments.temperature, _DEFAULT_TEMPERATURES.get(proof, (0.7,))),
        max_new_tokens=arguments.max_new_tokens,
        rule=arguments.rule if proof == "sampling" else "rejection",
        mistake=arguments.mistake if proof == "sampling" else "",
        num_draws=arguments.draws,
        seed=arguments.seed,
    )
    for drafter in request.drafters:
        check_drafter_name(drafter)
    return request


def _given(values: Sequence | None, default: tuple) -> tuple:
    return default if values is None else tuple(values)


def _print(request: ProofRequest, update: ProofUpdate) -> None:
    if isinstance(update, SampleState) and update.verdict == "":
        return
    mark = "✗" if is_alarm(request, update) else "✓"
    line = _answer_line(update) if isinstance(update, AnswerRow) else _sample_line(update)
    sys.stdout.write(f"{mark} {request.proof:8} {line}\n")


def _answer_line(row: AnswerRow) -> str:
    who = f"{row.drafter} K={row.k}" if row.drafter else f"plain, passes of {row.k} tokens"
    found = row.difference
    if found is None:
        said = f"{row.num_tokens} tokens, all the same"
    else:
        said = (
            f"first difference at token {found.index}: {found.texts[0]!r} (plain) and {found.texts[1]!r}, logits "
            f"{found.gap:.3g} apart, the top two {found.top_gap:.3g}: {row.verdict}"
        )
    return f"{row.dtype:9} T={row.temperature:g} {who:28} {said}  [{row.prompt[:32]}]"


def _sample_line(state: SampleState) -> str:
    parts = (f"{name} {_comparison(one)}" for name, one in (("token", state.next_token), ("pair", state.pair)))
    return f"{state.mistake or state.rule:22} {state.verdict:5} {state.num_draws} draws; {'; '.join(parts)}"


def _comparison(one: Comparison) -> str:
    return f"TV {one.distance:.4f} (by chance {one.expected_distance:.4f} ± {one.spread:.4f}), p = {one.p_value:.2g}"
