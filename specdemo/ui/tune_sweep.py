"""The sweep of the tab "Tune": what its events do. A sweep has a queue of its own; people who race go first."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import gradio as gr

from specdemo.errors import SettingsError
from specdemo.memory_use import MemoryUse
from specdemo.points import points, points_by_category
from specdemo.race import EventSource, RaceRequest
from specdemo.sweeps import HeatResult, SweepRequest, SweepUpdate
from specdemo.ui.downloads import write_download
from specdemo.ui.edge import sentences
from specdemo.ui.form import check_ready
from specdemo.ui.head import machine_name
from specdemo.ui.running import running
from specdemo.ui.texts import drafter_names, language_of
from specdemo.ui.texts_tune import TUNE
from specdemo.ui.tune_charts import Charts
from specdemo.ui.tune_files import MAX_FILE_BYTES, open_sweep, points_csv, points_json, recorded_sweep, sweep_text
from specdemo.ui.tune_prompts import chosen_prompts, own_prompts
from specdemo.ui.tune_record import TuneRecord
from specdemo.ui.tune_wire import NO_GRID, SweepWire, grid_value, machine_points

SECONDS_BETWEEN_YIELDS = 1.0
_SECONDS_A_MINUTE = 60
Value = dict[str, Any]


class SweepHandlers:
    """The handlers of the sweep of one page. Holds no visitor's data: that is in the record, one per session.

    `shipped` is the folder of recorded sweeps.
    """

    def __init__(self, source: EventSource, shipped: Path) -> None:
        self._source = source
        self._shipped = shipped

    def prepare(self, record: TuneRecord, request: gr.Request, *values: Any) -> Value:
        """Check a new sweep before it queues; a refused one leaves the page, and what was measured, as it was."""
        language = language_of(request)
        with sentences(TUNE[language]["no_sweep"]):
            wanted = replace(sweep_request(language, *values), target=self._source.target)
            check_ready(self._source, language)
            provenance = self._provenance(wanted)
        record.begin(wanted, provenance)
        record.want(_seconds(values))
        return SweepWire(wanted).value("waiting")

    def go_on(self, record: TuneRecord, minutes: Any, request: gr.Request) -> Value:
        """Ask for the heats of the shown sweep that were not measured."""
        language = language_of(request)
        with sentences(TUNE[language]["no_sweep"]):
            if record.request is None or record.is_whole:
                raise SettingsError(TUNE[language]["nothing_left" if record.request else "nothing_swept"])
            check_ready(self._source, language)
        record.want(_seconds((minutes,)))
        return SweepWire(record.request, record.results, record.memory.values()).value("waiting")

    def run(self, record: TuneRecord, request: gr.Request) -> Iterator[Value]:
        """Run the sweep that was prepared, unless it was stopped while it waited or another took its place."""
        seconds, wanted = record.take(), record.request
        if seconds is None or wanted is None:
            return
        ticket, done = record.ticket, tuple(record.results)
        wire = SweepWire(wanted, done, record.memory.values())
        swept = _kept(record, self._source.sweep(wanted, done, seconds))
        yield from running(wire, swept, SECONDS_BETWEEN_YIELDS, TUNE[language_of(request)]["no_sweep"])
        if record.ticket == ticket:
            yield SweepWire(wanted, record.results, record.memory.values()).value("done" if record.is_whole else "part")

    def stop(self, record: TuneRecord) -> Any:
        """End the waiting or running sweep; what was measured stays."""
        record.stop()
        return (
            gr.skip()
            if record.request is None
            else SweepWire(record.request, record.results, record.memory.values()).value("stopped")
        )

    def open_file(self, path: str, record: TuneRecord, request: gr.Request) -> Value:
        """Show a sweep from an uploaded file."""
        language = language_of(request)
        with sentences(TUNE[language]["no_file"]):
            open_sweep(_file_text(path, language), Path(path).name, record)
        assert record.request is not None
        return SweepWire(record.request, record.results, record.memory.values()).value("opened")

    def save(self, record: TuneRecord, request: gr.Request) -> str:
        """Write the sweep that is shown to a temporary file for download."""
        self._check_swept(record, request)
        return write_download("sweep.jsonl", sweep_text(record))

    def save_csv(self, record: TuneRecord, request: gr.Request) -> str:
        """Write its points as a table."""
        self._check_swept(record, request)
        return write_download("points.csv", points_csv(record))

    def save_json(self, record: TuneRecord, request: gr.Request) -> str:
        """Write its points, by category too, as a document."""
        self._check_swept(record, request)
        return write_download("points.json", points_json(record))

    def _check_swept(self, record: TuneRecord, request: gr.Request) -> None:
        language = language_of(request)
        with sentences(TUNE[language]["not_saved"]):
            if record.request is None:
                raise SettingsError(TUNE[language]["nothing_swept"])

    def results(self, record: TuneRecord, drafter: str | None, temperature: str | None, request: gr.Request) -> tuple:
        """What a sweep at rest shows: the charts' column, which drafter and temperature of which, five charts,
        the sweep's view, and the points that the calculator marks."""
        measured = () if record.request is None else points(record.request, record.results)
        if not measured:
            return gr.update(visible=False), *[gr.skip()] * 9
        language = language_of(request)
        charts = Charts(measured, language)
        drafters = list(dict.fromkeys(point.drafter for point in measured))
        temperatures = list(dict.fromkeys(f"{point.temperature:g}" for point in measured))
        drafter = drafter if drafter in drafters else drafters[0]
        temperature = temperature if temperature in temperatures else temperatures[0]
        names = drafter_names(language)
        shown = float(temperature)
        return (
            gr.update(visible=True),
            gr.update(choices=[(names.get(name, name), name) for name in drafters], value=drafter),
            gr.update(choices=temperatures, value=temperature),
            charts.speedup(shown),
            charts.tokens(shown),
            charts.costs(shown),
            charts.positions(drafter, shown),
            charts.heat_map(drafter),
            gr.update(shown={"drafter": drafter, "temperature": shown}),
            gr.update(points=machine_points(measured)),
        )

    def grid(self, record: TuneRecord) -> Value:
        """Where it pays: of the session's sweep, else of the one that ships."""
        if record.request is not None and record.results:
            cells = points_by_category(record.request, record.results)
            return grid_value("own", machine_name(record.provenance), cells)
        return self._recorded_grid

    @cached_property
    def _recorded_grid(self) -> Value:
        """Read when it is first looked at: half a second that neither the start nor every visitor shall take."""
        recorded = recorded_sweep(self._shipped)
        return dict(NO_GRID) if recorded is None else grid_value("recorded", recorded[1], recorded[0])

    def _provenance(self, wanted: SweepRequest) -> dict[str, Any]:
        settings = wanted.settings(wanted.heats()[0], wanted.ks[0])
        return self._source.provenance(
            RaceRequest(prompt=wanted.prompts[0].prompt, drafter="none", settings=settings, target=wanted.target)
        )


def _kept(record: TuneRecord, updates: Iterator[SweepUpdate]) -> Iterator[SweepUpdate]:
    """The same updates, each heat kept as soon as it is there, until another run or Stop takes the record."""
    ticket = record.ticket
    for update in updates:
        if record.ticket != ticket:
            return
        if isinstance(update, HeatResult):
            record.results.append(update)
        elif isinstance(update, MemoryUse):
            record.memory[update.drafter] = update
        yield update


def sweep_request(language: str, own: str, categories: Sequence[str], *others: Any) -> SweepRequest:
    """The request behind what was filled in.

    `others` are languages, drafters, Ks, temperatures, how many of each, most new tokens and minutes.
    """
    languages, drafters, ks, temperatures, each, max_new_tokens, _minutes = others
    return SweepRequest(
        prompts=own_prompts(own, language) or chosen_prompts(language, categories, languages, int(each or 1)),
        drafters=tuple(drafters or ()),
        ks=tuple(int(k) for k in ks or ()),
        temperatures=tuple(float(temperature) for temperature in temperatures or ()),
        max_new_tokens=max_new_tokens,
    )


def _seconds(values: Sequence[Any]) -> float:
    """The time budget, which is the last field, in minutes."""
    return float(values[-1] or 1) * _SECONDS_A_MINUTE


def _file_text(path: str, language: str) -> str:
    content = Path(path)
    if content.stat().st_size > MAX_FILE_BYTES:
        raise SettingsError(TUNE[language]["file_too_large"].format(megabytes=MAX_FILE_BYTES // 1_000_000))
    try:
        return content.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SettingsError(TUNE[language]["file_not_text"].format(name=content.name)) from error
