"""What an open page costs a machine that also decodes: counted, not timed, so that a busy machine changes nothing."""

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.fakes_ui import ScriptedSource

OpenPage = Callable[..., Page]
COUNT_FRAMES = """(() => {
  const native = window.requestAnimationFrame;
  window.__frames = 0;
  window.requestAnimationFrame = (paint) => { window.__frames += 1; return native.call(window, paint); };
})()"""


def frames_within(page: Page, milliseconds: int) -> int:
    """How many frames the page's scripts ask for in a time."""
    page.evaluate("window.__frames = 0")
    page.wait_for_timeout(milliseconds)
    return int(page.evaluate("window.__frames"))


def layouts_within(page: Page, milliseconds: int) -> float:
    """How often the browser lays the page out in a time."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")

    def count() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return float(next(metric["value"] for metric in metrics if metric["name"] == "LayoutCount"))

    before = count()
    page.wait_for_timeout(milliseconds)
    return count() - before


def test_an_idle_page_asks_for_no_frames(open_page: OpenPage) -> None:
    page = open_page(color_scheme="light")  # a page that no other test takes: the script stays in it
    page.add_init_script(COUNT_FRAMES)
    page.reload()
    page.select_option("[data-ref=speed]", "max")
    expect(page.locator(".race-verdict.over")).to_be_visible(timeout=15_000)
    # The start-up spinner takes some seconds to come to rest.
    assert 0 in (frames_within(page, 1000) for _ in range(8))
    assert frames_within(page, 1000) == 0
    assert page.evaluate("document.getAnimations().filter((one) => one.playState === 'running').length") == 0


def test_a_live_race_lays_the_page_out_only_when_there_is_news(open_page: OpenPage, source: ScriptedSource) -> None:
    page = open_page()
    page.click("#race-button")
    expect(page.locator("[data-ref=headline]")).to_have_text("Racing")
    page.wait_for_function("document.querySelectorAll('[data-lane=plain] .tok').length > 3")
    assert 3 <= layouts_within(page, 2000) <= 12
    assert page.locator("[data-ref=headline]").text_content() == "Racing"
    assert page.evaluate("document.getAnimations().filter((one) => one.playState === 'running').length") == 0
    page.click("#stop-button")
    assert source.is_idle_within(2)


def test_a_live_lane_stays_at_its_end_and_a_short_text_at_the_top(open_page: OpenPage, source: ScriptedSource) -> None:
    source.num_tokens, source.seconds_per_update = 400, 0.004
    page = open_page()
    page.click("#race-button")
    expect(page.locator("[data-ref=asked]")).to_contain_text("live")
    expect(page.locator(".race-verdict.over")).to_be_visible(timeout=15_000)
    places = """() => [...document.querySelectorAll('.race-text')].map((box) => {
      const [edge, last, first] = [box, box.querySelector('.tok:last-of-type'), box.querySelector('.tok')]
        .map((node) => node.getBoundingClientRect());
      return [last.bottom <= edge.bottom + 1, first.top >= edge.top - 1];
    })"""
    assert page.evaluate(places) == [[True, False], [True, False]]
    page.locator("[data-ref=position]").fill("20")
    assert page.evaluate(places) == [[True, True], [True, True]]
