"""Many requests at once, in the tab "Tune": its settings, its component's value and its events.

It takes minutes, so it has the queue of sweeps: people who race go first.
"""

import secrets
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, replace
from typing import Any

import gradio as gr

from specdemo.batches import BATCH_SIZES, BatchPoint, BatchRequest, BatchUpdate, crossing
from specdemo.catalog import DRAFTER_LABELS
from specdemo.proofs import Step
from specdemo.race import EventSource
from specdemo.settings import MAX_DRAFT_TOKENS
from specdemo.ui.edge import sentences
from specdemo.ui.form import check_ready
from specdemo.ui.running import running
from specdemo.ui.short import short
from specdemo.ui.texts import language_of
from specdemo.ui.texts_tune import TUNE
from specdemo.ui.tune_charts import batch_chart
from specdemo.ui.tune_record import TuneRecord

_t = gr.I18n()
SECONDS_BETWEEN_YIELDS = 0.5
_USUAL_TOKENS = 32
Value = dict[str, Any]


class BatchWire:
    """The value of one measurement; `state` is waiting, running, done or failed."""

    def __init__(self, request: BatchRequest) -> None:
        self._run_id = secrets.token_hex(6)
        self._step = Step(0, len(request.batch_sizes))
        self.points: list[BatchPoint] = []

    def add(self, updates: Iterable[BatchUpdate]) -> None:
        """Take in what came."""
        for update in updates:
            if isinstance(update, BatchPoint):
                self.points.append(update)
            else:
                self._step = update

    def value(self, state: str, message: str = "") -> Value:
        """As the component receives it."""
        return {
            "run": self._run_id,
            "state": state,
            "done": self._step.num_done,
            "all": self._step.num_all,
            "points": [{key: short(value) for key, value in asdict(point).items()} for point in self.points],
            "crossing": short(crossing(self.points)),
            "message": message,
        }


class BatchHandlers:
    """Its handlers, of one page. Hold no visitor's data: that is in the record, one per session."""

    def __init__(self, source: EventSource) -> None:
        self._source = source

    def prepare(self, record: TuneRecord, request: gr.Request, *values: Any) -> Value:
        """Check what is asked before it queues; a refused one leaves the page as it was."""
        language = language_of(request)
        with sentences(TUNE[language]["no_batch"]):
            wanted = replace(batch_request(*values), target=self._source.target)
            check_ready(self._source, language)
        record.wanted_batch = wanted
        return BatchWire(wanted).value("waiting")

    def run(self, record: TuneRecord, request: gr.Request) -> Iterator[tuple[Any, ...]]:
        """Measure what was asked, unless it was stopped while it waited: the view, and at its end the chart."""
        wanted, record.wanted_batch = record.wanted_batch, None
        if wanted is None:
            return
        wire, language = BatchWire(wanted), language_of(request)
        values = running(wire, self._source.batch(wanted), SECONDS_BETWEEN_YIELDS, TUNE[language]["no_batch"])
        with closing(values):  # type: ignore[type-var]
            for value in values:
                yield value, gr.skip()
        yield wire.value("done"), gr.update(value=batch_chart(wire.points, TUNE[language]), visible=True)

    def stop(self, record: TuneRecord) -> None:
        """Forget what waits; Gradio ends what runs."""
        record.wanted_batch = None


def batch_fields() -> dict[str, Any]:
    """The settings, in the order that `batch_request` takes them in."""
    drafters = [(_t(f"drafter_{name}"), name) for name in DRAFTER_LABELS if name != "none"]
    slider: dict[str, Any] = {"buttons": [], "min_width": 150}
    with gr.Group(elem_id="batch-form"), gr.Row():
        return {
            "drafter": gr.Dropdown(drafters, value="quantized", label=_t("batch_drafter"), elem_id="batch-drafter"),
            "k": gr.Slider(1, MAX_DRAFT_TOKENS, 4, step=1, label=_t("swept_ks"), elem_id="batch-k", **slider),
            "sizes": gr.CheckboxGroup(
                [(str(size), size) for size in BATCH_SIZES],
                value=list(BATCH_SIZES),
                label=_t("batch_sizes"),
                elem_id="batch-sizes",
                min_width=260,
            ),
            "max_new_tokens": gr.Slider(8, 128, _USUAL_TOKENS, step=8, label=_t("swept_tokens"), **slider),
        }


def batch_request(drafter: str, k: float, sizes: list[int] | None, max_new_tokens: float) -> BatchRequest:
    """The request behind what was filled in."""
    return BatchRequest(
        drafter=drafter or "",
        k=int(k or 0),
        batch_sizes=tuple(sorted(sizes or ())),
        max_new_tokens=int(max_new_tokens or 0),
    )
