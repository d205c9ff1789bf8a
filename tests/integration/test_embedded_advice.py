"""What advice on the embedded target stands on: rounds along a known answer are those of real runs, whatever drafts."""

import pytest

from specdemo.advice import AdviceRequest
from specdemo.engine import Engine
from specdemo.events import Round
from specdemo.race import RaceRequest
from specdemo.settings import DecodeSettings
from specdemo.tune.known import KnownText, rounds_along, write_text
from tests.integration.test_embedded import load

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SPECS = (*AdviceRequest(prompts=("any",)).drafters, "eagle3:tree", "medusa:tree")
PROMPT = "Write three sentences about a lighthouse keeper who collects clocks."


@pytest.fixture(scope="module")
def engine() -> Engine:
    return load()


@pytest.fixture(scope="module", params=[0.0, 0.8])
def settings(request: pytest.FixtureRequest) -> DecodeSettings:
    return DecodeSettings(num_draft_tokens=5, temperature=request.param, rule="coupled", max_new_tokens=24)


@pytest.fixture(scope="module")
def text(engine: Engine, settings: DecodeSettings) -> KnownText:
    layers = sorted({layer for spec in SPECS for layer in engine.drafter(spec).feature_layers})
    prompt_ids = engine.encode(RaceRequest(prompt=PROMPT, drafter="none", settings=settings))
    running = write_text(engine.target, prompt_ids, settings, layers)
    while True:
        try:
            next(running)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


@pytest.mark.parametrize("spec", SPECS)
def test_rounds_along_a_known_answer_are_those_of_a_run(
    spec: str, engine: Engine, settings: DecodeSettings, text: KnownText
) -> None:
    request = RaceRequest(prompt=PROMPT, drafter=spec, settings=settings)
    real = [event for event in engine.lane(request, list(text.prompt_ids), spec) if isinstance(event, Round)]
    along = list(rounds_along(engine.target, engine.drafter(spec), text, settings))
    for one in ("draft_token_ids", "draft_parents", "accepted_path", "emitted_token_ids"):
        assert [getattr(r, one) for r in along] == [getattr(r, one) for r in real]
