"""What the page's events do. Light ones only touch the session's record; `run` is the one that uses the model."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.processing_utils import save_file_to_cache
from gradio.utils import get_upload_folder

from specdemo.catalog import read_note
from specdemo.errors import SpecdemoError, TraceError
from specdemo.race import EngineStatus, EventSource, RaceRequest
from specdemo.traces import Trace, load, save
from specdemo.ui.coalesce import batches
from specdemo.ui.edge import page_error, sentences, spoken
from specdemo.ui.form import PAGE_FIELDS, checked_request
from specdemo.ui.head import race_head
from specdemo.ui.news import RunningRaces
from specdemo.ui.record import RaceRecord
from specdemo.ui.recorded import RecordedRaces
from specdemo.ui.texts import drafter_label, language_of, sentence, short_name
from specdemo.ui.view import IDLE
from specdemo.ui.view_texts import VIEW
from specdemo.ui.waiting import WaitingLine
from specdemo.ui.wire import RaceWire, finished_race, verdict

SECONDS_BETWEEN_BATCHES = 0.1
SECONDS_BETWEEN_YIELDS = 2.0
"""A dropped connection ends a race at a yield; the page asks for the rows in between, see `news`."""
Value = dict[str, Any]


class PageHandlers:
    """The handlers of one page. Holds no visitor's data: that is in the record, one per session."""

    def __init__(self, source: EventSource, recorded: RecordedRaces, line: WaitingLine | None = None) -> None:
        self._source = source
        self._recorded = recorded
        self._line = line or WaitingLine()
        self.running = RunningRaces()

    def first_value(self) -> Value:
        """What the page shows before its first event: a recorded race plays at once, without a request."""
        race = self._recorded.first()
        return dict(IDLE) if race is None else self.show(race.trace, "recorded", RaceRecord())

    def open_page(self, record: RaceRecord) -> None:
        """Note that the session sees the first recorded race."""
        race = self._recorded.first()
        if race is not None:
            record.show(race.trace)

    def prepare(self, record: RaceRecord, request: gr.Request, *values: Any) -> Value:
        """Check a race before it queues; a refused one leaves the page as it was."""
        language = language_of(request)
        with sentences(sentence(language, "cannot_race")):
            self._line.check(language, request.session_hash)
            wanted = checked_request(self._source, dict(zip(PAGE_FIELDS, values, strict=True)), language)
        record.want(wanted)
        # The session is the visitor's own name in the queue, by which the page asks for its place.
        return {**self._wire(self._trace_of(wanted), "live").value("waiting"), "session": request.session_hash}

    def run(self, record: RaceRecord, request: gr.Request) -> Iterator[Value]:
        """Run the race that was prepared, unless it was stopped while it waited or a newer one took its place."""
        wanted = record.take()
        if wanted is None:
            return
        try:
            yield from self._race(record, wanted)
        except SpecdemoError as error:
            words = spoken(error, language_of(request))
            yield self._failed(wanted, words)
            raise page_error(words, sentence(language_of(request), "cannot_race")) from error
        except Exception as error:
            yield self._failed(wanted, sentence(language_of(request), "unexpected", message=type(error).__name__))
            raise

    def stop(self, record: RaceRecord) -> None:
        """End the session's race; what was shown stays."""
        record.stop()

    def pick(self, name: str, record: RaceRecord, request: gr.Request) -> Value:
        """Show a recorded race."""
        race = self._recorded.get(name)
        if race is None:
            language = language_of(request)
            raise page_error(sentence(language, "unknown_trace"), sentence(language, "cannot_open"))
        return self.show(race.trace, "recorded", record)

    def open_file(self, path: str, record: RaceRecord, request: gr.Request) -> Value:
        """Show a race from an uploaded file."""
        with sentences(sentence(language_of(request), "cannot_open")):
            trace = load(Path(path))
        return self.show(trace, "file", record)

    def save_file(self, record: RaceRecord, request: gr.Request) -> str:
        """Write the shown race to a temporary file for download."""
        language = language_of(request)
        trace = record.trace()
        with sentences(sentence(language, "cannot_save")):
            if trace is None:
                raise TraceError(sentence(language, "no_race"))
            with tempfile.TemporaryDirectory(prefix="specdemo-") as folder:
                save(trace, Path(folder) / "race.json")
                # Where Gradio serves files from, and clears them away.
                return save_file_to_cache(Path(folder) / "race.json", get_upload_folder())

    def engine(self, drafter: str | None, request: gr.Request) -> tuple[Value, gr.Dropdown, gr.Timer]:
        """Where the engine stands, the drafters once it is ready, and whether to ask again.

        `drafter` is the one that a link or a lesson has chosen meanwhile.
        """
        status = self._source.status()
        is_settled = status.state in ("ready", "failed")
        dropdown = self.drafters(language_of(request), drafter) if status.state == "ready" else gr.Dropdown()
        return gr.update(engine=_engine(status)), dropdown, gr.Timer(active=not is_settled)

    def _race(self, record: RaceRecord, wanted: RaceRequest) -> Iterator[Value]:
        ticket = record.ticket
        record.begin(wanted, self._source.provenance(wanted))
        wire = self._wire(record.shown or self._trace_of(wanted), "live")
        due = 0.0
        # Its turn has come: a long prompt is read for a while before there is a row.
        yield wire.value("running")
        batched = batches(self._source.race(wanted), SECONDS_BETWEEN_BATCHES)
        with self._line.race(), self.running.shown(wire) as shown, closing(batched) as updates:
            for batch in updates:
                if record.ticket != ticket:
                    return
                record.updates += batch
                wire.add(batch)
                shown.publish()
                if time.monotonic() >= due:
                    yield wire.value("running")
                    due = time.monotonic() + SECONDS_BETWEEN_YIELDS
        yield wire.value("done", done=verdict(record.updates))

    def show(self, trace: Trace, origin: str, record: RaceRecord) -> Value:
        """A finished race as the value of the race view; `origin` is recorded or file."""
        record.show(trace)
        return finished_race(trace, origin)

    def _failed(self, wanted: RaceRequest, message: str) -> Value:
        return self._wire(self._trace_of(wanted), "live").value("failed", message=message)

    def _wire(self, trace: Trace, origin: str) -> RaceWire:
        return RaceWire(race_head(trace, origin))

    def _trace_of(self, wanted: RaceRequest) -> Trace:
        record = RaceRecord()
        record.begin(wanted, {})
        assert record.shown is not None
        return record.shown

    def drafters(self, language: str, chosen: str | None = None) -> gr.Dropdown:
        """The menu of drafters with `chosen` in it, else the default one."""
        drafters = self._source.drafters()
        choices = [(drafter_label(language, info.name, info.label), info.name) for info in drafters]
        labels = {name: label for label, name in choices}
        notes = " ".join(_menu_note(language, labels[info.name], info.note) for info in drafters if info.note)
        default = drafters[0].name if drafters else None
        return gr.Dropdown(choices=choices, value=chosen or default, info=notes or None)


def _menu_note(language: str, label: str, note: str) -> str:
    known = read_note(note)
    words = note if known is None else VIEW[language][known[0]].format(**known[1])
    return sentence(language, "noted", drafter=short_name(label), note=words)


def _engine(status: EngineStatus) -> Value:
    return {"state": status.state, "message": status.message, "progress": status.progress}
