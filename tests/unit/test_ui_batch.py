"""Many requests at once in the tab "Tune", over a scripted source."""

import json

import gradio as gr
import pytest

from specdemo.batches import BATCH_SIZES, BatchPoint
from specdemo.ui.texts_tune import TUNE, TUNE_LABELS
from specdemo.ui.tune_batch import BatchHandlers, BatchWire, batch_request
from specdemo.ui.tune_record import TuneRecord
from tests.fakes_batches import scripted_batches
from tests.fakes_ui import ScriptedSource, Visit

ASKED = ("quantized", 4, [16, 1, 2, 4, 8], 32)


@pytest.fixture
def handlers() -> BatchHandlers:
    """Over a source that is ready."""
    source = ScriptedSource()
    source.start()
    return BatchHandlers(source)


def test_a_point_comes_for_every_size_and_then_the_chart(handlers: BatchHandlers) -> None:
    record = TuneRecord()
    waiting = handlers.prepare(record, Visit(), *ASKED)
    assert (waiting["state"], waiting["points"]) == ("waiting", [])
    values = list(handlers.run(record, Visit()))
    last, chart = values[-1]
    assert last["state"] == "done"
    assert [point["batch_size"] for point in last["points"]] == list(BATCH_SIZES)
    assert 8 < last["crossing"] < 16
    assert json.loads(chart["value"].plot)["data"][0]["x"] == list(BATCH_SIZES)
    counts = [len(value["points"]) for value, _ in values]
    assert counts == sorted(counts)
    json.dumps([value for value, _ in values], allow_nan=False)


def test_what_was_stopped_while_it_waited_does_not_run(handlers: BatchHandlers) -> None:
    record = TuneRecord()
    handlers.prepare(record, Visit(), *ASKED)
    handlers.stop(record)
    assert list(handlers.run(record, Visit())) == []


@pytest.mark.parametrize(
    "asked", [("quantized", 4, [], 32), ("none", 4, [1], 32), ("", 4, [1], 32), ("ngram", 0, [1], 32)]
)
def test_what_cannot_be_measured_is_a_sentence(handlers: BatchHandlers, asked: tuple) -> None:
    record = TuneRecord()
    with pytest.raises(gr.Error) as caught:
        handlers.prepare(record, Visit(), *asked)
    assert "\n" not in str(caught.value)
    assert record.wanted_batch is None


def test_figures_are_short_and_none_is_lost() -> None:
    request = batch_request(*ASKED)
    wire = BatchWire(request)
    wire.add(scripted_batches(request))
    fields = set(BatchPoint.__dataclass_fields__)
    for point in wire.value("done")["points"]:
        assert set(point) == fields
        assert all(len(f"{value:g}") <= 9 for value in point.values())


def test_every_language_says_the_same_things() -> None:
    for texts in (TUNE, TUNE_LABELS):
        assert set(texts["en"]) == set(texts["zh"]) == set(texts["zh-TW"])
