"""The tab "Prove it" without a browser: what is refused, what its value holds, what ends a proof."""

from typing import Any

import gradio as gr
import pytest

from specdemo.proofs import MISTAKES, PROOFS, ProofRequest
from specdemo.ui.prove_handlers import EACH, ProofRecord, ProveHandlers, proof_request
from specdemo.ui.texts_prove import PROVE, PROVE_LABELS, SOURCES
from tests.fakes_ui import ScriptedSource, Visit

FORM = {"drafter": "draft-model", "rule": "rejection", "temperature": 0.7, "draws": 6000, "mistake": EACH}


def values(proof: str, prompt: str = "Why do leaves fall?", **changed: Any) -> list[Any]:
    return [proof, prompt, *{**FORM, **changed}.values()]


def proved(source: ScriptedSource, proof: str, **changed: Any) -> list[dict[str, Any]]:
    """All values of a proof, from the press of the button."""
    handlers, record = ProveHandlers(source), ProofRecord()
    first = handlers.prepare(record, Visit(), *values(proof, **changed))  # type: ignore[arg-type]
    return [first, *handlers.run(record, Visit())]  # type: ignore[arg-type]


@pytest.mark.parametrize("proof", PROOFS)
def test_a_proof_waits_runs_and_ends_with_a_verdict(proof: str) -> None:
    source = ScriptedSource()
    found = proved(source, proof)
    assert [one["state"] for one in (found[0], found[1], found[-1])] == ["waiting", "running", "done"]
    assert found[-1]["verdict"] == "green"
    assert {one["verdict"] for one in found[:-1]} == {""}
    assert (source.started, source.closed, source.running) == (1, 1, 0)


def test_a_planted_mistake_is_red_by_itself_and_as_it_should_be_in_the_sweep() -> None:
    alone = proved(ScriptedSource(), "mistakes", mistake="one_number")[-1]
    assert (alone["proof"], alone["mistake"], alone["verdict"]) == ("sampling", "one_number", "red")
    sweep = proved(ScriptedSource(), "mistakes")[-1]
    assert [one["mistake"] for one in sweep["samples"]] == ["", *MISTAKES]
    assert [one["verdict"] for one in sweep["samples"]] == ["green", *["red"] * len(MISTAKES)]


def test_the_lossy_rule_is_red_and_a_mistake_is_planted_in_rejection_whatever_rule_was_chosen() -> None:
    assert proved(ScriptedSource(), "sampling", rule="typical")[-1]["verdict"] == "red"
    assert proof_request(*values("mistakes", rule="typical", mistake="accept_all")).rule == "rejection"


def test_bars_hold_what_was_drawn_beside_the_law() -> None:
    comparison = proved(ScriptedSource(), "sampling")[-1]["comparisons"]["token"]
    assert comparison["labels"][1] == "<b>In</b>"
    assert len(comparison["labels"]) == len(comparison["expected"]) == len(comparison["observed"])
    assert comparison["mean"] == 0.012


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"prompt": "  "}, "empty"),
        ({"prompt": "x" * 3000}, "3,000"),
        ({"draws": 3}, "draws"),
        ({"temperature": None}, "above 0"),
        ({"rule": "magic"}, "rule"),
    ],
)
def test_a_proof_that_cannot_run_is_refused_with_a_sentence(changed: dict[str, Any], words: str) -> None:
    handlers, record = ProveHandlers(ScriptedSource()), ProofRecord()
    with pytest.raises(gr.Error, match=words):
        handlers.prepare(record, Visit(), *values("sampling", **changed))  # type: ignore[arg-type]
    assert record.wanted is None


def test_before_there_is_a_model_nothing_is_proved() -> None:
    with pytest.raises(gr.Error, match="not ready"):
        proved(ScriptedSource(state="loading"), "greedy")


def test_a_stopped_proof_does_not_run_and_a_closed_one_ends() -> None:
    source = ScriptedSource()
    handlers, record = ProveHandlers(source), ProofRecord()
    handlers.prepare(record, Visit(), *values("greedy"))  # type: ignore[arg-type]
    handlers.stop(record)
    assert list(handlers.run(record, Visit())) == []  # type: ignore[arg-type]
    handlers.prepare(record, Visit(), *values("greedy"))  # type: ignore[arg-type]
    running = handlers.run(record, Visit())  # type: ignore[arg-type]
    next(running)
    next(running)
    running.close()  # type: ignore[attr-defined]
    assert (source.started, source.closed) == (1, 1)


def test_each_proof_shows_its_own_settings() -> None:
    handlers = ProveHandlers(ScriptedSource())
    shown = {proof: [update["visible"] for update in handlers.choose(proof)[1:]] for proof in PROOFS}
    assert shown == {
        "greedy": [False] * 5,
        "sampling": [True, True, True, True, False],
        "seeds": [False] * 5,
        "mistakes": [True, False, True, True, True],
    }


def test_the_form_makes_a_request_of_every_proof() -> None:
    for proof in PROOFS:
        assert isinstance(proof_request(*values(proof)), ProofRequest)


@pytest.mark.parametrize("language", ["zh", "zh-TW"])
@pytest.mark.parametrize("texts", [PROVE, PROVE_LABELS], ids=["component", "labels"])
def test_all_languages_say_the_same_with_the_same_gaps(texts: dict[str, dict[str, str]], language: str) -> None:
    assert texts["en"].keys() == texts[language].keys()
    for key, english in texts["en"].items():
        gaps = [{part.split("}")[0] for part in text.split("{")[1:]} for text in (english, texts[language][key])]
        assert gaps[0] == gaps[1], key


def test_every_mistake_says_what_it_is_why_it_is_one_and_where_it_was_seen() -> None:
    assert set(SOURCES) == set(MISTAKES)
    for mistake in MISTAKES:
        assert all(f"planted_{mistake}" in PROVE_LABELS[language] for language in PROVE_LABELS)
        assert all(f"why_{mistake}" in PROVE[language] for language in PROVE)
        assert all(address.startswith("https://") for _, address in SOURCES[mistake])
