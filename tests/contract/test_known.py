"""Rounds along a known answer are the rounds of a real run: of every drafter, chains and trees, at every K."""

from pathlib import Path
from typing import Any

import pytest

from specdemo.decoding import decode
from specdemo.drafters import make_drafter
from specdemo.drafters.base import Drafter
from specdemo.events import Round
from specdemo.settings import DecodeSettings
from specdemo.target import Target
from specdemo.tune.known import KnownText, rounds_along, write_text
from tests.fakes import make_target
from tests.unit.test_eagle3 import folder, student  # noqa: F401 - fixtures

PROMPT = (3, 1, 4, 1, 5, 9, 2, 6)
RULES = [{"temperature": 0.0}, {"temperature": 0.8, "rule": "coupled"}]


def written(target: Target, settings: DecodeSettings, layers: Any) -> KnownText:
    """What writing ends with."""
    running = write_text(target, PROMPT, settings, layers)
    while True:
        try:
            next(running)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def judged(rounds: Any) -> list[tuple]:
    """What was drafted and what became of it."""
    return [
        (r.draft_token_ids, r.draft_parents, r.accepted_path, r.num_accepted, r.next_token_id, r.next_token_kind)
        for r in rounds
        if isinstance(r, Round)
    ]


def check(target: Target, drafter: Drafter, chosen: dict, k: int) -> None:
    settings = DecodeSettings(num_draft_tokens=k, max_new_tokens=40, seed=3, **chosen)
    # The text was written for drafters that read other layers too.
    layers = sorted({0, 1, *drafter.feature_layers})
    text = written(target, settings, layers)
    along = judged(rounds_along(target, drafter, text, settings))
    assert along == judged(decode(target, drafter, PROMPT, settings))
    assert sum(one[3] + 1 for one in along) == len(text.answer_ids)


@pytest.mark.parametrize("k", [1, 3, 8])
@pytest.mark.parametrize("chosen", RULES)
@pytest.mark.parametrize("spec", ["ngram", "ngram:1-3", "early-exit:1", "quantized", "hybrid:early-exit:1"])
def test_rounds_along_a_known_answer_are_those_of_a_run(spec: str, chosen: dict, k: int, small_target: Target) -> None:
    check(small_target, make_drafter(spec, small_target), chosen, k)


@pytest.mark.parametrize("chosen", RULES)
@pytest.mark.parametrize("form", ["eagle3", "eagle3:tree"])
def test_a_drafter_on_hidden_states_is_given_those_of_the_target(form: str, chosen: dict, folder: Path) -> None:  # noqa: F811
    target = make_target()
    for k in (1, 4, 9):
        check(target, make_drafter(f"{form}:{folder}", target), chosen, k)


def test_the_target_is_not_asked(small_target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = DecodeSettings(max_new_tokens=12)
    text = written(small_target, settings, ())
    monkeypatch.setattr(type(small_target.lm), "open", lambda *_: pytest.fail("the target was asked"))
    assert judged(rounds_along(small_target, make_drafter("ngram", small_target), text, settings))
