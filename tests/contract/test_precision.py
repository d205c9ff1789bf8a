"""A target at another precision: the lanes of a race stay each other's equal, and it says what it runs."""

import pytest
import torch

from specdemo.engine import Engine
from specdemo.errors import ModelError, SettingsError
from specdemo.events import Round, Started
from specdemo.race import LANES, RaceRequest
from specdemo.settings import DecodeSettings
from tests.fakes import make_target


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(make_target())


def ids_by_lane(engine: Engine, drafter: str, **settings: object) -> dict[str, list[int]]:
    chosen = DecodeSettings(**{"max_new_tokens": 24, **settings})  # type: ignore[arg-type]
    found: dict[str, list[int]] = {lane: [] for lane in LANES}
    for update in engine.race(RaceRequest(prompt="one two one two", drafter=drafter, settings=chosen)):
        if isinstance(update.event, Round):
            found[update.lane] += update.event.emitted_token_ids
    return found


@pytest.mark.parametrize("drafter", ["ngram:1-3", "quantized", "early-exit:1"])
@pytest.mark.parametrize(
    "settings", [{}, {"temperature": 1.0, "rule": "coupled", "seed": 4}], ids=["greedy", "coupled"]
)
@pytest.mark.parametrize("k", [1, 5, 12])
def test_in_four_bits_both_lanes_give_the_same_ids(k: int, settings: dict, drafter: str, engine: Engine) -> None:
    found = ids_by_lane(engine.at("int4"), drafter, num_draft_tokens=k, **settings)
    assert len(found["plain"]) == 24
    assert found["plain"] == found["speculative"]


def test_each_precision_says_what_it_is_and_reads_fewer_bytes(engine: Engine) -> None:
    described = {name: engine.at(name).provenance("none") for name in ("float32", "bfloat16", "int4")}
    assert {name: values["dtype"] for name, values in described.items()} == {name: name for name in described}
    whole, half, few = (described[name]["target_bytes"] for name in ("float32", "bfloat16", "int4"))
    assert half == whole // 2
    assert few < half


def test_an_engine_is_made_once_for_a_precision_and_is_itself_at_its_own(engine: Engine) -> None:
    assert engine.at("auto") is engine
    assert engine.at("float32") is engine
    assert engine.at("int4") is engine.at("int4")
    assert engine.at("int4").at("auto") is engine.at("int4")


def test_bfloat16_runs_through_and_leaves_the_other_as_it_was(engine: Engine) -> None:
    before = ids_by_lane(engine, "ngram:1-3")
    assert len(ids_by_lane(engine.at("bfloat16"), "ngram:1-3")["speculative"]) == 24
    assert engine.target.model.dtype == torch.float32
    assert ids_by_lane(engine, "ngram:1-3") == before


def test_unknown_precisions_are_refused_in_a_sentence(engine: Engine) -> None:
    with pytest.raises(SettingsError, match="the precision is 'int3'; it must be one of auto, float32, bfloat16, int4"):
        engine.at("int3")


@pytest.mark.parametrize("kind", ["qwen2", "gpt-neox"])
def test_other_architectures_have_four_bits_too(kind: str) -> None:
    made = Engine(make_target(kind)).at("int4")
    started = next(
        update.event
        for update in made.generate(RaceRequest(prompt="one two", drafter="none", settings=DecodeSettings()))
        if isinstance(update.event, Started)
    )
    assert started.provenance["dtype"] == "int4"


def test_four_bits_are_refused_where_they_do_not_run(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Engine(make_target(seed=3))
    monkeypatch.setattr(other.target.lm, "device", torch.device("meta"))
    with pytest.raises(ModelError, match="int4 runs on the CPU; the target is on meta"):
        other.at("int4")
