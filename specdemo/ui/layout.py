"""The page: what stands where and which handler each event calls. Knows the engine only as an EventSource."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.components import Component

from specdemo.lessons import load_course
from specdemo.prompts import load_prompts
from specdemo.race import EventSource
from specdemo.ui.api import add_endpoints
from specdemo.ui.deck import DeckHandlers, connect_deck, start_asked_race
from specdemo.ui.handlers import PageHandlers
from specdemo.ui.learn import LessonCards, LessonHandlers, connect_lessons
from specdemo.ui.record import RaceRecord
from specdemo.ui.recorded import RecordedRaces
from specdemo.ui.sidebar import Sidebar, build_sidebar
from specdemo.ui.texts import gradio_labels
from specdemo.ui.theme import page_theme
from specdemo.ui.view import ASSETS, Questions, RaceView
from specdemo.ui.waiting import races_ahead

DEVICE = "device"
MAX_WAITING = 40
_SECONDS_BETWEEN_POLLS = 0.05
_SECONDS_BETWEEN_PROGRESS = 1.0
_LIGHT: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
# Gradio shows no error of an event outside the queue, so what may refuse goes through it, in no one's way.
_REFUSING: dict[str, Any] = {**_LIGHT, "queue": True, "concurrency_limit": None}
_DOWNLOAD = (
    "(file) => { if (!file) return; const link = document.createElement('a'); link.href = file.url;"
    " link.download = file.orig_name || 'race.json'; document.body.append(link); link.click(); link.remove(); }"
)


@dataclass(frozen=True, slots=True)
class _Stage:
    """The main area and what the session keeps."""

    view: RaceView
    open_button: gr.UploadButton
    saved: gr.File
    record: gr.State
    timer: gr.Timer


def build_page(source: EventSource, trace_folder: Path = ASSETS / "traces") -> gr.Blocks:
    """The page over an engine. Nothing is started here: the caller starts the engine when it serves the page."""
    recorded = RecordedRaces(trace_folder)
    course = load_course()
    handlers = PageHandlers(source, recorded)
    with gr.Blocks(title="specdemo", analytics_enabled=False, delete_cache=(3600, 3600)) as page:
        sidebar = build_sidebar(load_prompts(), recorded.choices)
        cards = LessonCards(course, elem_id="learn")
        stage = _build_stage(page, handlers)
        _connect_race(handlers, sidebar, stage)
        _connect_replays(handlers, sidebar, stage)
        deck = DeckHandlers(source, handlers, sidebar.fields)
        lessons = LessonHandlers(source, course, handlers, deck.defaults)
        connect_lessons(cards, lessons, [stage.view, *sidebar.fields.values()], stage.record, DEVICE)
        restored = connect_deck(page, deck, sidebar.fields, sidebar.copy_link)
        start_asked_race(_connect_engine(page, restored, handlers, sidebar, stage))
        add_endpoints(page, source, DEVICE)
    page.queue(max_size=MAX_WAITING, default_concurrency_limit=4)
    _poll_less(page)
    return page


def launch_options() -> dict[str, Any]:
    """Arguments for `launch`: everything local, nothing kept in the browser."""
    return {
        "i18n": gradio_labels(),
        "theme": page_theme(),
        "css_paths": [ASSETS / "race.css", ASSETS / "learn.css"],
        "footer_links": ["api", "settings"],
        "run_history": False,
        "ssr_mode": False,
        "show_error": True,
        "mcp_server": find_spec("mcp") is not None,
    }


def _questions(page: gr.Blocks, handlers: PageHandlers) -> Questions:
    """Answered on the event loop: a thread for each would cost more than the answer."""

    async def news(asked: Any) -> list[str]:
        return await handlers.running.rows_after(asked)

    async def place(session: Any) -> int | None:
        return races_ahead(page, DEVICE, session)

    return news, place


def _poll_less(page: gr.Blocks) -> None:
    """Gradio asks its queue for work a thousand times a second, with the interpreter that decodes: 7 % of a core.

    Under Windows it asks as seldom as here. An event starts up to that much later.
    """
    queue = page._queue
    queue.sleep_when_free = _SECONDS_BETWEEN_POLLS
    queue.progress_update_sleep_when_free = _SECONDS_BETWEEN_PROGRESS  # no event of the page reports any


def _build_stage(page: gr.Blocks, handlers: PageHandlers) -> _Stage:
    view = RaceView(handlers.first_value(), _questions(page, handlers), elem_id="race-view")
    # The component's own buttons stand in for these two, which only Gradio can provide.
    open_button = gr.UploadButton(file_types=[".json", ".gz"], elem_id="open-race", elem_classes="behind")
    saved = gr.File(visible="hidden")
    # Copied for each session at its first event. A function instead would be called again when the page has loaded.
    return _Stage(view, open_button, saved, gr.State(RaceRecord()), gr.Timer(1.0))


def _connect_race(handlers: PageHandlers, sidebar: Sidebar, stage: _Stage) -> None:
    fields: list[Component] = [sidebar.fields[name] for name in sidebar.fields]
    triggers = [sidebar.race.click, sidebar.fields["k"].release, sidebar.fields["temperature"].release]
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
    written.success(None, stage.saved, None, js=_DOWNLOAD, **_LIGHT)


def _connect_engine(page: gr.Blocks, restored: Any, handlers: PageHandlers, sidebar: Sidebar, stage: _Stage) -> Any:
    """The menu of drafters keeps the one that a link has chosen: the first look at the engine waits for the link."""
    drafter = sidebar.fields["drafter"]
    shown = [stage.view, drafter, stage.timer]
    page.load(handlers.open_page, stage.record, None, **_LIGHT)
    stage.timer.tick(handlers.engine, drafter, shown, **_LIGHT)
    return restored.then(handlers.engine, drafter, shown, **_LIGHT)
