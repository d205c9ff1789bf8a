"""The exported site, opened from a file in a browser: no server, no network."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from specdemo.export import export
from specdemo.traces import load, save
from specdemo.ui.texts_room import SITE
from specdemo.ui.view_texts import VIEW
from specdemo.ui.wire import verdict
from tests.browser.conftest import new_page, recorded_race
from tests.browser.test_access import violations
from tests.browser.test_page import all_text, play_to_the_end
from tests.fakes_ui import HOSTILE, ScriptedSource

OpenSite = Callable[..., Page]


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two races of a teacher's own."""
    folder = tmp_path_factory.mktemp("traces")
    save(recorded_race("autumn leaves", "chat", ScriptedSource()), folder / "leaves.json")
    save(recorded_race("strange text", "own", ScriptedSource(tokens=HOSTILE, slow_draft=True)), folder / "odd.json")
    return folder


@pytest.fixture
def open_site(browser: Browser, traces: Path, tmp_path: Path) -> Iterator[OpenSite]:
    """Open the site by its file. After the test: nothing on the console, and no request but for files."""
    index = export(tmp_path / "my site", traces)
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def open_one(behind: str = "", **options: object) -> Page:
        page = new_page(browser, complaints, **options)
        contexts.append(page.context)
        page.on("console", lambda message: complaints.append(message.text))
        page.on(
            "request",
            lambda request: None if request.url.startswith(("file:", "data:")) else complaints.append(request.url),
        )
        page.goto(index.as_uri() + behind)
        page.wait_for_selector(".race-verdict b:not(:empty)")
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert complaints == []


def test_a_race_plays_to_its_end_with_the_figures_of_its_trace(open_site: OpenSite, traces: Path) -> None:
    page = open_site()
    page.wait_for_selector(".race-text .tok")
    play_to_the_end(page)
    trace = load(traces / "leaves.json")
    figures = verdict(trace.updates)
    assert page.text_content("[data-ref=speedup]") == f"{figures['speedup']:.2f}\u00d7"
    assert page.text_content("[data-ref=alpha]") == f"{figures['alpha'] * 100:.1f} %"
    assert page.text_content("[data-ref=saved]") == str(figures["passes_saved"])
    kept = page.eval_on_selector_all(
        "[data-lane=speculative] .tok:is(.a,.c,.b,.p)", "(nodes) => nodes.map((n) => n.textContent).join('')"
    )
    assert kept == trace.text("speculative")
    whole = all_text(page)
    page.locator(".race-text").first.click()
    page.keyboard.press("ArrowLeft")
    assert len(all_text(page)) < len(whole)
    page.keyboard.press("ArrowRight")
    assert all_text(page) == whole
    assert page.evaluate("[document.documentElement.scrollHeight, document.documentElement.scrollWidth]") == [720, 1280]
    assert page.locator("polyline").first.evaluate("(line) => line.points.numberOfItems") > 10
    for hidden in ("open", "save", "engine"):
        assert page.locator(f"[data-ref={hidden}]").is_hidden()


def test_another_race_and_language_are_picked_and_stand_in_the_address(open_site: OpenSite) -> None:
    page = open_site()
    assert page.locator("#site-bar option").all_text_contents() == ["chat \u00b7 autumn leaves", "strange text"]
    page.select_option("#site-bar select", "odd")
    play_to_the_end_of_a_loss(page)
    assert page.evaluate("window.__pwn") is None
    page.click("#site-bar button[value=zh]")
    expect(page.locator("[data-lane=plain] h2")).to_contain_text(VIEW["zh"]["plain"])
    expect(page.locator("#site-bar h1")).to_have_text(SITE["zh"]["site_title"])
    assert page.url.endswith("#race=odd&lang=zh")
    again = open_site("#race=odd&lang=zh-TW", locale="zh-CN")
    expect(again.locator("[data-ref=asked]")).to_contain_text("Why do leaves fall?")
    expect(again.locator("#site-bar select")).to_have_value("odd")
    expect(again.locator("[data-lane=plain] h2")).to_contain_text(VIEW["zh-TW"]["plain"])
    again.evaluate("location.hash = '#race=none&lang=constructor'")
    expect(again.locator("#site-bar select")).to_have_value("leaves")
    expect(again.locator("[data-lane=plain] h2")).to_contain_text(VIEW["zh"]["plain"])


def play_to_the_end_of_a_loss(page: Page) -> None:
    """As play_to_the_end, where speculation loses."""
    page.select_option("[data-ref=speed]", "max")
    expect(page.locator(".race-verdict.over.loses")).to_be_visible(timeout=8000)


@pytest.mark.parametrize(
    ("size", "scheme", "locale"),
    [((1280, 720), "light", "en-US"), ((390, 844), "dark", "zh-HK")],
    ids=["desktop", "phone in the dark"],
)
def test_the_site_is_for_everyone(open_site: OpenSite, size: tuple[int, int], scheme: str, locale: str) -> None:
    page = open_site(viewport=dict(zip(("width", "height"), size, strict=True)), color_scheme=scheme, locale=locale)
    play_to_the_end(page)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") == size[0]
    card = page.eval_on_selector(".race-card", "(card) => getComputedStyle(card).backgroundColor")
    assert card == ("rgb(26, 31, 42)" if scheme == "dark" else "rgb(255, 255, 255)")
    language = "zh-TW" if locale == "zh-HK" else "en"
    assert page.title() == SITE[language]["site_title"]
    page.keyboard.press("p")
    expect(page.locator("#site-bar select")).to_be_hidden()
    assert violations(page) == []
    if size == (1280, 720):
        assert page.evaluate("document.documentElement.scrollHeight") == 720
    page.keyboard.press("p")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('#site-bar, .race') !== null")


def test_a_site_that_lost_a_file_says_so(browser: Browser, traces: Path, tmp_path: Path) -> None:
    index = export(tmp_path / "site", traces)
    (index.parent / "races" / "leaves.js").unlink()
    page = browser.new_page(locale="en-US")
    page.goto(index.as_uri())
    expect(page.locator("#site-bar [role=alert]")).to_have_text(SITE["en"]["site_missing"])
    page.select_option("#site-bar select", "odd")
    expect(page.locator("[data-ref=asked]")).to_contain_text("recorded")
    expect(page.locator("#site-bar [role=alert]")).to_be_empty()
    page.context.close()


def test_a_lesson_tries_its_recorded_race(browser: Browser, tmp_path: Path) -> None:
    page = browser.new_page(locale="en-US")
    page.goto(export(tmp_path / "site").as_uri())
    listed = page.locator("#site-bar option").count()
    page.click(".learn-toggle")
    page.click("#learn [data-ref=next]")
    expect(page.locator("#learn [data-ref=claim]")).not_to_be_empty()
    page.click("#learn [data-try] >> nth=0")
    expect(page.locator("[data-ref=asked]")).to_contain_text("The capital of France is")
    assert page.url.endswith("#race=10-capital")
    assert page.locator("#site-bar option").count() == listed
    assert violations(page) == []
    page.context.close()
