"""Races and generations of a loaded target: their grammar, their text, and that nobody shares anything but weights."""

import json
import math
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from specdemo import bench
from specdemo.catalog import DRAFTER_LABELS, SHIPPED_DRAFTERS, is_for
from specdemo.costs import WIDTHS
from specdemo.engine import Engine
from specdemo.errors import ModelError, PromptError, SettingsError, SpecdemoError
from specdemo.events import Event, Finished, Round, Started
from specdemo.live import LiveSource
from specdemo.metrics import emitted_token_ids
from specdemo.prompt_set import SweepPrompt
from specdemo.race import LANES, LaneUpdate, RaceRequest
from specdemo.reports import lane_document, request_document
from specdemo.settings import DecodeSettings
from specdemo.sweeps import SweepRequest
from specdemo.traces import Trace, answer_text, compare, load, save
from tests.fakes import make_model, make_target, make_tokenizer
from tests.fakes_models import NOT_CROPPABLE

LOSSLESS_SPECS = ("ngram:1-3", "quantized", "early-exit:1", "none")


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(make_target())


def request(prompt: str = "one two one two", drafter: str = "quantized", **settings: object) -> RaceRequest:
    chosen = {"max_new_tokens": 24, **settings}
    return RaceRequest(prompt=prompt, drafter=drafter, settings=DecodeSettings(**chosen))  # type: ignore[arg-type]


def events_of(updates: Iterable[LaneUpdate], lane: str) -> list[Event]:
    return [update.event for update in updates if update.lane == lane]


def essence(updates: Iterable[LaneUpdate]) -> dict[str, list[object]]:
    """Each lane without what is measured: its clocks and the hour."""
    kept: dict[str, list[object]] = {lane: [] for lane in LANES}
    for update in updates:
        event = update.event
        if isinstance(event, Started):
            kept[update.lane].append((event.prompt_token_ids, dict(event.settings), event.notes))
        elif isinstance(event, Round):
            values = event.to_dict()
            kept[update.lane].append({key: values[key] for key in values if not key.endswith("_seconds")})
        else:
            kept[update.lane].append(event)
        kept[update.lane].append(update.spans)
    return kept


@pytest.mark.parametrize("spec", LOSSLESS_SPECS)
@pytest.mark.parametrize(
    "settings", [{}, {"temperature": 1.0, "rule": "coupled", "seed": 4}], ids=["greedy", "coupled"]
)
def test_both_lanes_of_a_race_are_whole_and_say_the_same(engine: Engine, spec: str, settings: dict[str, float]) -> None:
    updates = list(engine.race(request(drafter=spec, **settings)))
    for lane in LANES:
        first, *middle, last = events_of(updates, lane)
        assert isinstance(first, Started)
        assert isinstance(last, Finished)
        assert all(isinstance(event, Round) for event in middle)
    assert compare(updates)["identical"]


@pytest.mark.parametrize("spec", LOSSLESS_SPECS)
def test_a_generations_text_is_the_decode_of_its_ids(engine: Engine, spec: str) -> None:
    """Random ids cut characters everywhere."""
    for prompt in ("naïve café", "你好", "x"):
        updates = list(engine.generate(request(prompt, spec, max_new_tokens=40)))
        ids = emitted_token_ids(update.event for update in updates)
        assert len(ids) == 40
        assert answer_text(updates) == engine.target.decode_text(ids)


def test_a_generation_equals_its_lane_of_the_race(engine: Engine) -> None:
    raced = essence(engine.race(request()))
    assert essence(engine.generate(request()))["speculative"] == raced["speculative"]
    assert essence(engine.generate(request(drafter="none")))["plain"] == raced["plain"]


def test_two_visitors_at_once_get_what_each_gets_alone(engine: Engine) -> None:
    asked = [
        request("tell me of cats", "quantized", num_draft_tokens=3, temperature=0.8, rule="rejection", seed=1),
        request("what is light", "early-exit:1", num_draft_tokens=8, temperature=0.8, rule="block", seed=2),
    ]
    alone = [essence(engine.race(one)) for one in asked]
    races = [engine.race(one) for one in asked]
    seen: list[list[LaneUpdate]] = [[], []]
    waiting = dict(enumerate(races))
    while waiting:
        for index, updates in list(waiting.items()):
            update = next(updates, None)
            if update is None:
                del waiting[index]
            else:
                seen[index].append(update)
    assert [essence(updates) for updates in seen] == alone


def test_a_race_that_was_left_changes_nothing_for_the_next(engine: Engine) -> None:
    alone = essence(engine.race(request()))
    left = engine.race(request("something else", num_draft_tokens=9))
    for _ in range(5):
        next(left)
    left.close()  # type: ignore[attr-defined]
    assert essence(engine.race(request())) == alone


def test_a_replay_is_the_race(engine: Engine, tmp_path: Path) -> None:
    asked = request(evidence=True, temperature=0.9, rule="block", seed=3, stop=("#",))
    trace = Trace("A race", "chat", request_document(asked), engine.provenance("quantized"), tuple(engine.race(asked)))
    save(trace, tmp_path / "race.json")
    replayed = load(tmp_path / "race.json")
    assert replayed.updates == trace.updates
    assert replayed.request == trace.request
    for lane in LANES:
        assert replayed.text(lane) == engine.target.decode_text(emitted_token_ids(replayed.events(lane)))


@pytest.mark.parametrize("kind", NOT_CROPPABLE)
def test_where_drafts_cannot_be_taken_back_the_speculative_lane_is_one_sentence_and_the_plain_one_runs(
    kind: str,
) -> None:
    updates = list(Engine(make_target(kind)).race(request(drafter="ngram", max_new_tokens=6)))
    (failed,) = events_of(updates, "speculative")
    assert isinstance(failed, Finished)
    assert failed.reason == "failed"
    assert "cannot be shortened" in failed.message
    assert "\n" not in failed.message
    assert len(emitted_token_ids(events_of(updates, "plain"))) == 6
    assert events_of(updates, "plain")[-1] == Finished("length")


def test_a_drafter_that_cannot_be_had_ends_its_own_lane_only(engine: Engine) -> None:
    updates = list(engine.race(request(drafter="draft-model:./missing/folder")))
    assert [type(event) for event in events_of(updates, "speculative")] == [Finished]
    assert isinstance(events_of(updates, "plain")[-1], Finished)
    assert len(emitted_token_ids(events_of(updates, "plain"))) == 24


def test_provenance_says_what_ran_on_what(engine: Engine) -> None:
    found = engine.provenance("quantized")
    names = {
        "target",
        "target_revision",
        "drafter",
        "dtype",
        "device",
        "num_threads",
        "specdemo",
        "torch",
        "transformers",
    }
    assert names <= set(found)
    assert (found["target"], found["dtype"], found["drafter"]) == ("tiny", "float32", "quantized")
    assert found["drafter_bytes"] > 0 == engine.provenance("ngram")["drafter_bytes"]
    assert json.loads(json.dumps(found)) == found


def test_rounds_say_how_many_bytes_their_passes_read(engine: Engine) -> None:
    document = lane_document(list(engine.generate(request(num_draft_tokens=4))))
    weights = engine.target.lm.weight_bytes
    assert {event["verify_bytes"] for event in document["rounds"]} == {weights}
    assert document["metrics"]["verify_bytes"] == weights * document["metrics"]["target_passes"]
    assert 0 < document["metrics"]["draft_bytes"] < document["metrics"]["verify_bytes"] * 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("live")
    make_model().save_pretrained(path)
    make_tokenizer().save_pretrained(path)
    return str(path)


@pytest.fixture(scope="module")
def live(folder: str) -> LiveSource:
    """Loaded in the background, asked twice to."""
    source = LiveSource(folder)
    source.start()
    source.start()
    deadline = time.monotonic() + 120
    while source.status().state not in ("ready", "failed"):
        assert time.monotonic() < deadline, source.status()
        time.sleep(0.05)
    return source


def live_request(target: str, prompt: str = "hello", drafter: str = "ngram") -> RaceRequest:
    settings = DecodeSettings(max_new_tokens=8)
    return RaceRequest(prompt=prompt, drafter=drafter, settings=settings, target=target)


def test_before_the_engine_is_ready_what_can_be_known_is_said_first(folder: str) -> None:
    source = LiveSource(folder)
    assert source.status().state == "absent"
    expected: list[tuple[RaceRequest, type[SpecdemoError], str]] = [
        (live_request(folder, ""), PromptError, "the prompt is empty"),
        (live_request(folder, "x" * 200_000), PromptError, "200,000 characters"),
        (live_request(folder, drafter="magic"), SettingsError, "the drafter is 'magic'"),
        (request(drafter="ngram"), SettingsError, "the target is"),
        (live_request(folder), ModelError, "not ready"),
    ]
    for asked, kind, message in expected:
        with pytest.raises(kind, match=message):
            source.check(asked)
        with pytest.raises(kind, match=message):
            next(source.race(asked))


def test_loaded_in_the_background_it_becomes_ready_and_races(live: LiveSource, folder: str) -> None:
    assert (live.status().state, live.status().progress) == ("ready", 1.0)
    names = [info.name for info in live.drafters()]
    assert set(names) == {name for name in DRAFTER_LABELS if is_for(name, folder)}
    assert "early-exit" in names
    assert "eagle3" not in names
    assert names[0] in ("quantized", "ngram")
    live.check(live_request(folder))
    with pytest.raises(PromptError, match="needs room to answer"):
        live.check(live_request(folder, "x" * 400))
    updates = list(live.race(live_request(folder)))
    assert all(isinstance(events_of(updates, lane)[-1], Finished) for lane in LANES)
    assert live.provenance(live_request(folder))["drafter"] == "ngram"


def test_passes_are_measured_when_the_engine_is_ready(live: LiveSource, folder: str) -> None:
    with pytest.raises(ModelError, match="not ready"):
        LiveSource(folder).pass_costs()
    costs = live.pass_costs()
    assert [width for width, _ in costs.seconds] == list(WIDTHS)
    assert costs.provenance["dtype"] == "float32"


def test_a_race_that_is_left_frees_the_device_for_the_next(live: LiveSource, folder: str) -> None:
    left = live.race(live_request(folder))
    next(left)
    left.close()  # type: ignore[attr-defined]
    assert len(list(live.race(live_request(folder)))) > 2


def test_a_target_that_is_not_there_fails_with_a_sentence(tmp_path: Path) -> None:
    source = LiveSource(str(tmp_path / "nothing"))
    source.start()
    deadline = time.monotonic() + 60
    while source.status().state == "loading":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert source.status().state == "failed"
    assert "cannot be loaded" in source.status().message
    assert "\n" not in source.status().message


def test_a_bench_is_finite_ratios_and_plain_json(engine: Engine) -> None:
    request = SweepRequest(
        prompts=(SweepPrompt("chat", "en", "one two one two one"),),
        drafters=("ngram", "quantized", "early-exit"),
        ks=(1, 4),
        max_new_tokens=12,
    )
    document = bench.run(engine, bench.Plan(request, is_against_transformers=True), lambda text, share: None)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert [(row["drafter"], row["k"]) for row in document["rows"]] == [
        (drafter, k) for drafter in request.drafters for k in request.ks
    ]
    for row in document["rows"]:
        assert row["identical"] == "1/1"
        for name in ("speedup", "low", "high", "tokens_per_round", "versus_generate", "versus_assisted"):
            assert 0 < row[name] < math.inf, (row["drafter"], name)
        # The mean of one value is rounded.
        assert row["low"] / (1 + 1e-9) <= row["speedup"] <= row["high"] * (1 + 1e-9)
        assert 1 <= row["tokens_per_round"] <= row["k"] + 1
    assert set(document["columns"]) <= set(document["rows"][0])


@pytest.mark.parametrize("family", [*(name for name in SHIPPED_DRAFTERS if ":" not in name), "hybrid:eagle3"])
def test_the_page_loads_no_model_that_a_visitor_names(live: LiveSource, folder: str, family: str) -> None:
    with pytest.raises(SettingsError, match="the page loads no model that a visitor names"):
        next(live.race(live_request(folder, drafter=f"{family}:{folder}")))
