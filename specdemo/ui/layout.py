"""The page: what stands where and which handler each event calls. Knows the engine only as an EventSource."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.components import Component

from specdemo.lessons import SHIPPED_TRACES, load_course
from specdemo.limits import Limits
from specdemo.prompts import load_prompts
from specdemo.race import EventSource
from specdemo.ui.api import add_endpoints
from specdemo.ui.deck import DeckHandlers, connect_deck, start_asked_race
from specdemo.ui.downloads import DOWNLOAD
from specdemo.ui.form import FIELDS
from specdemo.ui.handlers import PageHandlers
from specdemo.ui.learn import LessonCards, LessonHandlers, connect_lessons
from specdemo.ui.prove import build_prove_tab
from specdemo.ui.record import RaceRecord
from specdemo.ui.recorded import RecordedRaces
from specdemo.ui.room import Room
from specdemo.ui.sidebar import Sidebar, build_sidebar
from specdemo.ui.texts import gradio_labels
from specdemo.ui.theme import page_theme
from specdemo.ui.tune import build_tune_tab
from specdemo.ui.view import ASSETS, STYLES, Questions, RaceView
from specdemo.ui.waiting import MAX_WAITING, WaitingLine

_t = gr.I18n()
DEVICE = "device"
_EVENTS_A_PERSON = 4
"""Gradio counts events where `WaitingLine` counts people, who may press Race again while they wait."""

_SECONDS_FILES_ARE_KEPT = 3600
_SECONDS_FILES_ARE_KEPT_IN_CLASS = 60
_SECONDS_BETWEEN_POLLS = 0.05
_SECONDS_BETWEEN_PROGRESS = 1.0
_LIGHT: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
# Gradio shows no error of an event outside the queue, so what may refuse goes through it, in no one's way.
_REFUSING: dict[str, Any] = {**_LIGHT, "queue": True, "concurrency_limit": None}


@dataclass(frozen=True, slots=True)
class _Stage:
    """The main area and what the session keeps."""

    view: RaceView
    open_button: gr.UploadButton
    saved: gr.File
    record: gr.State
    timer: gr.Timer


def build_page(
    source: EventSource, trace_folder: Path = SHIPPED_TRACES, room: Room | None = None, limits: Limits | None = None
) -> gr.Blocks:
    """The page over an engine, in class with its `room`, within what one visitor may take.

    The caller starts the engine when it serves the page.
    """
    course = load_course()
    recorded = RecordedRaces(trace_folder, course.races if trace_folder == SHIPPED_TRACES else None)
    kept = _SECONDS_FILES_ARE_KEPT if room is None else _SECONDS_FILES_ARE_KEPT_IN_CLASS
    limits = limits or Limits()
    max_waiting = limits.queue_max or (MAX_WAITING if room is None else room.max_waiting)
    with gr.Blocks(title="specdemo", analytics_enabled=False, delete_cache=(kept, kept)) as page:
        line = WaitingLine(max_waiting, lambda: page._queue.event_queue_per_concurrency_id.get(DEVICE))
        handlers = PageHandlers(source, recorded, line)
        sidebar = build_sidebar(load_prompts(), recorded.choices, limits)
        asked = {name: sidebar.fields[name] for name in FIELDS}
        with gr.Tabs(elem_id="views"):
            with gr.Tab(_t("tab_race"), id="race"):
                cards = LessonCards(course, elem_id="learn")
                stage = _build_stage(handlers, line, room)
            with gr.Tab(_t("tab_prove"), id="prove"):
                build_prove_tab(source, DEVICE)
            with gr.Tab(_t("tab_tune"), id="tune"):
                build_tune_tab(source, handlers, asked, DEVICE, in_class=room is not None)
        _connect_race(handlers, sidebar, stage, reraces=limits.reraces)
        _connect_replays(handlers, sidebar, stage)
        deck = DeckHandlers(source, handlers, asked)
        lessons = LessonHandlers(source, course, handlers, deck.defaults)
        connect_lessons(cards, lessons, [stage.view, *asked.values()], stage.record, DEVICE)
        restored = connect_deck(page, deck, asked, sidebar.copy_link)
        start_asked_race(_connect_engine(page, restored, handlers, sidebar, stage))
        add_endpoints(page, source, line, DEVICE)
    page.queue(max_size=_EVENTS_A_PERSON * max_waiting, default_concurrency_limit=4)
    _poll_less(page)
    return page


def launch_options() -> dict[str, Any]:
    """Arguments for `launch`: everything local, nothing kept in the browser."""
    return {
        "i18n": gradio_labels(),
        "theme": page_theme(),
        "css_paths": [ASSETS / name for name in (*STYLES, "prove.css", "tune.css")],
        "footer_links": ["api", "settings"],
        "run_history": False,
        "ssr_mode": False,
        "show_error": True,
        "enable_monitoring": False,
        "mcp_server": find_spec("mcp") is not None,
    }


def _questions(handlers: PageHandlers, line: WaitingLine) -> Questions:
    """Answered on the event loop: a thread for each would cost more than the answer."""

    async def news(asked: Any) -> list[str]:
        return await handlers.running.rows_after(asked)

    async def place(session: Any) -> tuple[int, float | None] | None:
        return line.place(session)

    return news, place


def _poll_less(page: gr.Blocks) -> None:
    """Gradio asks its queue for work a thousand times a second, with the interpreter that decodes: 7 % of a core.

    Under Windows it asks as seldom as here. An event starts up to that much later.
    """
    queue = page._queue
    queue.sleep_when_free = _SECONDS_BETWEEN_POLLS
    queue.progress_update_sleep_when_free = _SECONDS_BETWEEN_PROGRESS  # no event of the page reports any


def _build_stage(handlers: PageHandlers, line: WaitingLine, room: Room | None) -> _Stage:
    shown = None if room is None else room.shown()
    view = RaceView(handlers.first_value(), _questions(handlers, line), room=shown, elem_id="race-view")
    # The component's own buttons stand in for these two, which only Gradio can provide.
    open_button = gr.UploadButton(file_types=[".json", ".gz"], elem_id="open-race", elem_classes="behind")
    saved = gr.File(visible="hidden")
    # Copied for each session at its first event. A function instead would be called again when the page has loaded.
    return _Stage(view, open_button, saved, gr.State(RaceRecord()), gr.Timer(1.0))


def _connect_race(handlers: PageHandlers, sidebar: Sidebar, stage: _Stage, *, reraces: bool) -> None:
    fields: list[Component] = [sidebar.fields[name] for name in sidebar.fields]
    triggers = [sidebar.race.click]
    if reraces:
        triggers += [sidebar.fields["k"].release, sidebar.fields["temperature"].release]
    prepared = gr.on(
        triggers, handlers.prepare, [stage.record, *fields], stage.view, trigger_mode="multiple", **_REFUSING
    )
    run = prepared.success(
        handlers.run,
        stage.record,
        stage.view,
        concurrency_id=DEVICE,
        concurrency_limit=1,
        trigger_mode="multiple",
        show_progress="hidden",
        api_visibility="private",
    )
    sidebar.stop.click(handlers.stop, stage.record, None, cancels=[run], **_LIGHT)


def _connect_replays(handlers: PageHandlers, sidebar: Sidebar, stage: _Stage) -> None:
    sidebar.recorded.input(handlers.pick, [sidebar.recorded, stage.record], stage.view, **_REFUSING)
    stage.open_button.upload(handlers.open_file, [stage.open_button, stage.record], stage.view, **_REFUSING)
    written = stage.view.save(handlers.save_file, stage.record, stage.saved, **_REFUSING)
    written.success(None, stage.saved, None, js=DOWNLOAD, **_LIGHT)


def _connect_engine(page: gr.Blocks, restored: Any, handlers: PageHandlers, sidebar: Sidebar, stage: _Stage) -> Any:
    """The menu of drafters keeps the one that a link has chosen: the first look at the engine waits for the link."""
    drafter = sidebar.fields["drafter"]
    shown = [stage.view, drafter, stage.timer]
    page.load(handlers.open_page, stage.record, None, **_LIGHT)
    stage.timer.tick(handlers.engine, drafter, shown, **_LIGHT)
    return restored.then(handlers.engine, drafter, shown, **_LIGHT)
