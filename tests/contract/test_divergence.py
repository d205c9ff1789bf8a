"""Where two greedy answers part, the page is told how far apart the target holds the two tokens."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from specdemo.branches import Parents
from specdemo.causal_lm import CausalLM, CausalLMSession
from specdemo.divergence import explain_divergence
from specdemo.engine import Engine
from specdemo.events import Finished
from specdemo.race import RaceRequest
from specdemo.settings import DecodeSettings
from tests.fakes import make_target, plain

PROMPT = [5, 9, 7, 5, 9, 7, 5, 9]


class SkewedSession:
    """Passes of several tokens favour one token by `bias`: what rounding at another width does, made large."""

    def __init__(self, session: CausalLMSession, bias: float) -> None:
        self._session, self._bias = session, bias

    def __getattr__(self, name: str) -> object:
        return getattr(self._session, name)

    def forward(self, token_ids: list[int], num_logits: int, parents: Parents = ()) -> Tensor:
        logits = self._session.forward(token_ids, num_logits, parents)
        if len(token_ids) > 1 and num_logits:
            logits = logits.clone()
            logits[:, 11] += self._bias
        return logits


class SkewedLM:
    def __init__(self, lm: CausalLM, bias: float) -> None:
        self._lm, self._bias = lm, bias

    def __getattr__(self, name: str) -> object:
        return getattr(self._lm, name)

    def open(self, feature_layers: tuple[int, ...] = ()) -> SkewedSession:
        return SkewedSession(self._lm.open(feature_layers), self._bias)


def messages(engine: Engine, **settings: float) -> list[str]:
    request = RaceRequest(
        prompt="abcabcabcabc", drafter="ngram:1-3", settings=DecodeSettings(max_new_tokens=60, **settings)
    )
    return [update.event.message for update in engine.race(request) if isinstance(update.event, Finished)]


def skewed(bias: float) -> Engine:
    target = make_target()
    return Engine(replace(target, lm=SkewedLM(target.lm, bias)))  # type: ignore[arg-type]


def test_a_race_whose_answers_part_says_where_and_by_how_much_at_its_end() -> None:
    first, last = messages(skewed(30.0))
    assert first == ""
    assert last.startswith("first difference at token ")
    assert "apart in float32: no tie." in last


def test_a_race_whose_answers_agree_says_nothing() -> None:
    assert messages(Engine(make_target())) == ["", ""]


def test_sampled_answers_may_differ_without_a_word() -> None:
    assert messages(skewed(30.0), temperature=1.0) == ["", ""]


def test_the_gap_is_that_of_the_logits_after_the_common_beginning() -> None:
    target = make_target()
    answer = list(plain(target, PROMPT, max_new_tokens=8)[0])
    other = [*answer[:5], (answer[5] + 1) % 259, *answer[6:]]
    with torch.inference_mode():
        logits = target.model(torch.tensor([[*PROMPT, *answer[:5]]])).logits[0, -1]
    gap = float(logits[answer[5]] - logits[other[5]])
    assert f"first difference at token 5: {target.decode_text([answer[5]])!r}" in explain_divergence(
        target, PROMPT, answer, other
    )
    assert f"are {gap:.3g} apart" in explain_divergence(target, PROMPT, answer, other)


@pytest.mark.parametrize("other", [[1, 2, 3], [1, 2]])
def test_an_answer_that_only_ends_earlier_or_is_the_same_needs_no_word(other: list[int]) -> None:
    assert explain_divergence(make_target(), PROMPT, [1, 2, 3], other) == ""
