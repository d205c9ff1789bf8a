"""A real browser over the page with a scripted engine."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields
from pathlib import Path

import gradio as gr
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from specdemo.race import RaceRequest
from specdemo.settings import DecodeSettings
from specdemo.traces import Trace, save
from specdemo.ui.layout import build_page, launch_options
from specdemo.ui.room import Room
from tests.fakes_ui import ScriptedSource

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OpenPage = Callable[..., Page]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.fail(f"the browser tests need one of {', '.join(NAMES)} on the path; install Chromium.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


def recorded_race(title: str, category: str, source: ScriptedSource) -> Trace:
    """A race to replay."""
    settings = DecodeSettings(rule="coupled", max_new_tokens=64)
    request = RaceRequest(prompt="Why do leaves fall?", drafter="quantized", settings=settings)
    asked = {**asdict(request), "settings": settings.to_dict()}
    return Trace(title, category, asked, source.provenance(request), tuple(source.race(request)))


def serve(source: ScriptedSource, folder: Path, room: Room | None = None) -> tuple[gr.Blocks, str]:
    """Serve a page on a free port."""
    page = build_page(source, folder, room)
    options = {**launch_options(), "quiet": True, "server_port": None}
    _, url, _ = page.launch(prevent_thread_lock=True, **options)
    return page, url


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ScriptedSource, str]]:
    """The engine and the address of a page with two recorded races."""
    folder = tmp_path_factory.mktemp("traces")
    save(recorded_race("autumn leaves", "chat", ScriptedSource()), folder / "leaves.json")
    save(recorded_race("digits", "loses", ScriptedSource(slow_draft=True)), folder / "digits.json")
    source = ScriptedSource()
    page, url = serve(source, folder)
    yield source, url
    page.close()


@pytest.fixture
def source(served: tuple[ScriptedSource, str]) -> ScriptedSource:
    """The engine behind the page, as new."""
    assert served[0].is_idle_within(10), "the test before left a race running"
    fresh = ScriptedSource(seconds_per_update=0.02)
    for field in fields(ScriptedSource):
        setattr(served[0], field.name, getattr(fresh, field.name))
    return served[0]


def new_page(browser: Browser, complaints: list[str], **options: object) -> Page:
    """A page in a context of its own, whose errors are complaints."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 720}, "locale": "en-US", **options})
    page = context.new_page()
    page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
    return page


class Pages:
    """Pages of all tests by their options. A page that a test has left serves the next one, which loads it anew.

    Gradio's scripts are read and compiled once then, and not at each visit; a visit is a session of its own all the
    same, and nothing stays in the browser's storage.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._left: dict[str, list[Page]] = {}
        self._taken: list[tuple[str, Page]] = []
        self.complaints: list[str] = []

    def take(self, options: dict[str, object]) -> Page:
        """A page with these options that no one uses."""
        key = repr(sorted(options.items()))
        left = self._left.get(key)
        page = left.pop() if left else self._new(options)
        self._taken.append((key, page))
        return page

    def leave(self) -> None:
        """The test is over: its pages let go of the server and can be taken again."""
        for key, page in self._taken:
            if page.is_closed():
                continue
            page.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
            page.goto("about:blank")
            self._left.setdefault(key, []).append(page)
        self._taken.clear()

    def _new(self, options: dict[str, object]) -> Page:
        page = new_page(self._browser, self.complaints, **options)
        page.on("console", lambda message: self.complaints.append(message.text) if _is_error(message) else None)
        page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: None if _is_local(request.url) else self.complaints.append(request.url))
        return page


@pytest.fixture(scope="session")
def pages(browser: Browser) -> Pages:
    """The pages that tests share, one after the other."""
    return Pages(browser)


@pytest.fixture
def open_page(pages: Pages, source: ScriptedSource, served: tuple[ScriptedSource, str]) -> Iterator[OpenPage]:
    """Open the page as a visitor of its own. After the test: no error on the console, no request to elsewhere."""
    pages.complaints.clear()

    def open_one(query: str = "", url: str = served[1], **options: object) -> Page:
        page = pages.take(options)
        page.goto(url + query)
        page.wait_for_selector(".race-verdict b:not(:empty)")
        return page

    yield open_one
    pages.leave()
    assert pages.complaints == []


def _is_error(message: ConsoleMessage) -> bool:
    """Gradio itself reports the stream that a reload cuts; everything else counts."""
    return message.type == "error" and "AbortError" not in message.text and "errored out" not in message.text


def _is_local(url: str) -> bool:
    return url.startswith(("http://127.0.0.1", "http://localhost", "data:", "blob:", "about:"))
