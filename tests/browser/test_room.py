"""Before a class: the way in, and the projector view."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from specdemo.ui.room import Room
from specdemo.ui.view_texts import VIEW
from tests.browser.conftest import serve
from tests.browser.test_access import violations
from tests.browser.test_page import play_to_the_end
from tests.fakes_ui import ScriptedSource

OpenPage = Callable[..., Page]
SIZES = """(selector) => [...document.querySelectorAll(selector)].filter((node) => node.offsetParent)
  .map((node) => parseFloat(getComputedStyle(node).fontSize))"""


def test_the_way_in_is_large_and_can_be_closed_and_opened(open_page: OpenPage, tmp_path: object) -> None:
    source = ScriptedSource(seconds_per_update=0.05)
    page, url = serve(source, tmp_path, Room("http://10.0.0.2:7860", ((1, 0, 1), (0, 1, 1), (1, 1, 1))))  # type: ignore[arg-type]
    visit = open_page(url=url)
    sheet = visit.locator("dialog.race-join")
    expect(sheet).to_be_visible()
    expect(sheet.locator(".race-join-address")).to_have_text("10.0.0.2:7860")
    assert sheet.bounding_box() == {"x": 0, "y": 0, "width": 1280, "height": 720}
    assert sheet.locator("svg").bounding_box()["width"] > 500
    assert visit.evaluate(SIZES, ".race-join-address")[0] > 60
    assert violations(visit) == []
    visit.keyboard.press("Escape")
    expect(sheet).to_be_hidden()
    visit.click("#race-button")
    expect(visit.locator("[data-ref=headline]")).to_have_text("Racing")
    visit.click("[data-ref=join]")
    expect(sheet).to_be_visible()
    visit.keyboard.press("Escape")
    expect(sheet).to_be_hidden()
    assert visit.locator("[data-ref=headline]").text_content() == "Racing", "Escape closed the sheet and nothing else"
    visit.locator(".race-text").first.focus()
    visit.keyboard.press("j")
    expect(sheet).to_be_visible()
    visit.evaluate("document.documentElement.lang = 'zh-CN'")
    expect(sheet.locator("h2")).to_have_text(VIEW["zh"]["join_heading"])
    visit.close()
    page.close()


@pytest.mark.parametrize(("theme", "locale"), [("light", "en-US"), ("dark", "zh-CN")])
def test_the_projector_view_is_large_and_one_screen(open_page: OpenPage, theme: str, locale: str) -> None:
    page = open_page(f"?view=projector&__theme={theme}", locale=locale)
    play_to_the_end(page)
    expect(page.locator("#settings.open")).to_have_count(0)
    assert page.evaluate("[document.documentElement.scrollHeight, document.documentElement.scrollWidth]") == [720, 1280]
    assert min(page.evaluate(SIZES, ".race-verdict > .race-big, .race-lane .race-big")) >= 50
    assert min(page.evaluate(SIZES, ".race-words, .race-words .tok, .race-said b, .race h2")) >= 20
    assert min(page.evaluate(SIZES, ".race-legend .tok, .race-counts, .race-said span, .race-asked")) >= 18
    bars = [page.locator(f"[data-lane={lane}] .race-track").bounding_box() for lane in ("plain", "speculative")]
    assert bars[0]["y"] == bars[1]["y"], "the bars are compared by eye"
    page.wait_for_timeout(700)  # the settings slide away
    assert violations(page) == []


def test_a_key_turns_the_projector_view_on_and_off_and_the_address_says_so(open_page: OpenPage) -> None:
    page = open_page("?seed=7")
    assert page.locator("[data-ref=join]").is_hidden(), "without a class there is no way in"
    assert page.locator("dialog").count() == 0
    button = page.locator("[data-ref=projector]")
    page.locator(".race-text").first.focus()
    page.keyboard.press("p")
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#settings.open")).to_have_count(0)
    assert page.url.endswith("?seed=7&view=projector")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "false")
    expect(page.locator("#settings.open")).to_have_count(1)
    assert page.url.endswith("?seed=7")
    page.locator("#prompt textarea").press_sequentially("pj")
    expect(button).to_have_attribute("aria-pressed", "false")
    assert "P" in page.get_attribute("[data-ref=projector]", "title").split("key ")[1]
