"""Several requests at once on the embedded target: every row has the ids of its run alone, whatever drafts.

The first run fetches and converts the target (a minute or two); SPECDEMO_CACHE says where it stays.
"""

import pytest

from specdemo.decoding import DecodeRequest, decode, decode_batch
from specdemo.engine import Engine
from specdemo.events import Round
from specdemo.metrics import emitted_token_ids
from specdemo.prompts import load_prompts
from specdemo.race import RaceRequest
from specdemo.settings import DecodeSettings
from tests.integration.test_embedded import load

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PROMPTS = [example.prompt for example in load_prompts()][::5]
SPECS = ("ngram:static", "quantized", "draft-model", "early-exit", "eagle3")
SAMPLED = {"temperature": 0.8, "rule": "block"}


@pytest.fixture(scope="module")
def engine() -> Engine:
    return load()


@pytest.mark.parametrize(
    ("spec", "precision", "chosen"),
    [*((spec, "float32", {}) for spec in SPECS), ("quantized", "float32", SAMPLED), ("eagle3", "int4", SAMPLED)],
)
def test_each_row_has_the_ids_of_its_run_alone(engine: Engine, spec: str, precision: str, chosen: dict) -> None:
    at = engine.at(precision)
    requests = [
        DecodeRequest(
            at.encode(RaceRequest(prompt=prompt, drafter=spec, settings=DecodeSettings())),
            DecodeSettings(max_new_tokens=4 + 2 * number, num_draft_tokens=4, seed=number, **chosen),
        )
        for number, prompt in enumerate(PROMPTS)
    ]
    found: dict[int, list[int]] = {number: [] for number in range(len(requests))}
    for step in decode_batch(at.target, at.drafter(spec), requests, 3):
        for number, event in step:
            found[number] += event.emitted_token_ids if isinstance(event, Round) else ()
    for number, request in enumerate(requests):
        alone = decode(at.target, at.drafter(spec), request.prompt_ids, request.settings)
        assert tuple(found[number]) == emitted_token_ids(alone)
