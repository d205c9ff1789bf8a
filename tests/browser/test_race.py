"""A live race in a browser: what is shown, how smoothly, and that Stop stops."""

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.fakes_ui import HOSTILE, ScriptedSource

OpenPage = Callable[..., Page]
WATCH = """() => {
  window.__long = []; window.__removed = [];
  new PerformanceObserver((list) => list.getEntries().forEach((e) => window.__long.push(e.duration)))
    .observe({ type: 'longtask' });
  const kept = '.race, .race-lane, .race-text, .race-card, figure, svg, rect, polyline, .race-box';
  new MutationObserver((changes) => changes.forEach((change) => change.removedNodes.forEach((node) => {
    if (node.matches?.(kept)) window.__removed.push(node.className?.baseVal ?? node.className);
  }))).observe(document.querySelector('.race'), { childList: true, subtree: true });
}"""
TEXT = "[data-lane={}] .race-text"


def race_to_the_end(page: Page, timeout: float = 20_000) -> None:
    """Press Race and wait for the verdict of the live race."""
    page.click("#race-button")
    expect(page.locator("[data-ref=asked]")).to_contain_text("live")
    expect(page.locator(".race-verdict")).to_have_class("race-card race-verdict over", timeout=timeout)


def kept_text(page: Page, lane: str) -> str:
    """The retained tokens of a lane as the page holds them."""
    nodes = f"{TEXT.format(lane)} .tok:is(.a, .c, .b, .p)"
    return page.eval_on_selector_all(nodes, "(nodes) => nodes.map((node) => node.textContent).join('')")


def test_a_live_race_shows_both_lanes_and_its_figures(open_page: OpenPage, source: ScriptedSource) -> None:
    source.seconds_per_update = 0.005
    page = open_page()
    race_to_the_end(page)
    assert kept_text(page, "plain") == kept_text(page, "speculative") != ""
    expect(page.locator("[data-ref=headline]")).to_have_text("Same text, token for token.")
    expect(page.locator("[data-ref=detail]")).to_contain_text("43 target passes instead of 128")
    expect(page.locator("[data-ref=saved]")).to_have_text("85")
    expect(page.locator("[data-ref=divergence]")).to_have_text("none")
    assert page.text_content("[data-ref=speedup]") == "1.62\u00d7"
    expect(page.locator("[data-ref=aria]")).to_contain_text("Race finished")
    for status in ("a", "r", "d", "c", "b"):
        assert page.locator(f"{TEXT.format('speculative')} .tok.{status}").count() > 0
    assert page.locator("#race-view polyline").first.evaluate("(line) => line.points.numberOfItems") == 128


def test_hostile_text_is_shown_and_copied_as_it_is(open_page: OpenPage, source: ScriptedSource) -> None:
    source.tokens = HOSTILE
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    page.fill("#prompt textarea", "<img src=x onerror=window.__pwn=4> ${window.__pwn=5} {{7*7}}")
    race_to_the_end(page)
    for lane in ("plain", "speculative"):
        assert kept_text(page, lane) == "".join(HOSTILE)
        page.click(f"[data-lane={lane}] [data-part=copy]")
        assert page.evaluate("navigator.clipboard.readText()") == "".join(HOSTILE)
    assert "{{7*7}}" in page.text_content("[data-ref=asked]")
    assert page.evaluate("window.__pwn") is None
    token = page.locator(f"{TEXT.format('plain')} .tok").first
    token.hover()
    assert "<script>window.__pwn=1</script>" in token.get_attribute("title")


def test_a_thousand_tokens_stream_without_a_long_task_or_a_remount(open_page: OpenPage, source: ScriptedSource) -> None:
    source.num_tokens, source.seconds_per_update = 1000, 0.004
    page = open_page()
    page.wait_for_timeout(1500)
    page.evaluate(WATCH)
    race_to_the_end(page, 40_000)
    assert page.locator(f"{TEXT.format('plain')} .tok").count() == 1000
    assert max(page.evaluate("window.__long"), default=0) < 200
    # The one reset when the race begins builds new charts; nothing that is kept goes away while it runs.
    charts = {"part", "bar", "line", ""}
    assert [name for name in page.evaluate("window.__removed") if not set(name.split()[:1] or {""}) <= charts] == []


def test_stop_stops_at_once_and_nothing_is_appended(open_page: OpenPage, source: ScriptedSource) -> None:
    page = open_page()
    page.click("#race-button")
    expect(page.locator("[data-ref=headline]")).to_have_text("Racing")
    page.wait_for_function("document.querySelectorAll('[data-lane=plain] .tok').length > 12")
    page.click("#stop-button")
    expect(page.locator("[data-ref=headline]")).to_contain_text("Stopped", timeout=500)
    count = page.locator(".race-text .tok").count()
    page.wait_for_timeout(700)
    assert page.locator(".race-text .tok").count() == count
    assert source.running == 0
    assert page.locator(".race-reason").all_text_contents() == ["stopped", "stopped"]
    page.click("[data-ref=back]")
    assert page.locator(".race-text .tok").count() < count


def test_escape_stops_while_a_long_prompt_is_read(open_page: OpenPage, source: ScriptedSource) -> None:
    source.num_parts, source.seconds_per_update = 20, 0.2
    page = open_page()
    page.click("#race-button")
    expect(page.locator("[data-ref=headline]")).to_have_text("Reading the prompt")
    expect(page.locator("[data-ref=detail]")).to_have_text(re.compile(r"Plain decoding: \d+ of 10340 tokens read"))
    page.keyboard.press("Escape")
    expect(page.locator("[data-ref=headline]")).to_contain_text("Stopped", timeout=500)
    page.wait_for_timeout(700)
    assert source.running == 0


def test_letting_go_of_k_races_again(open_page: OpenPage, source: ScriptedSource) -> None:
    page = open_page()
    page.click("#race-button")
    page.wait_for_function("document.querySelector('[data-ref=headline]').textContent === 'Racing'")
    box = page.locator("#k input[type=range]").bounding_box()
    page.mouse.click(box["x"] + box["width"] * 0.5, box["y"] + box["height"] / 2)
    expect(page.locator("[data-ref=speculativeSub]")).not_to_contain_text("K = 4", timeout=3000)
    page.wait_for_timeout(800)
    expect(page.locator("[data-ref=headline]")).to_have_text("Racing")
    assert (source.started, source.most_running) == (2, 1)
    page.click("#stop-button")


def test_a_reload_in_mid_run_ends_the_run(open_page: OpenPage, source: ScriptedSource) -> None:
    page = open_page()
    page.click("#race-button")
    page.wait_for_function("document.querySelector('[data-ref=headline]').textContent === 'Racing'")
    page.reload()
    page.wait_for_selector(".race-text .tok")
    expect(page.locator("[data-ref=asked]")).to_contain_text("recorded")
    assert source.is_idle_within(4)


def test_two_visitors_see_only_their_own(open_page: OpenPage, source: ScriptedSource) -> None:
    source.seconds_per_update = 0.003
    pages = [open_page(), open_page()]
    prompts = ["cats tell a joke", "summarise photosynthesis"]
    for page, prompt in zip(pages, prompts, strict=True):
        page.fill("#prompt textarea", prompt)
        page.click("#race-button")
    for page, prompt in zip(pages, prompts, strict=True):
        expect(page.locator("[data-ref=asked]")).to_contain_text(prompt)
        expect(page.locator(".race-verdict")).to_have_class("race-card race-verdict over", timeout=15_000)
        assert kept_text(page, "plain").strip().startswith(prompt)
        assert kept_text(page, "speculative") == kept_text(page, "plain")
    assert source.most_running == 1


def test_who_waits_is_told_the_place(open_page: OpenPage, source: ScriptedSource) -> None:
    source.num_tokens, source.seconds_per_update = 600, 0.05
    pages = [open_page(), open_page(), open_page(locale="zh-CN")]
    for page in pages:
        page.click("#race-button")
        page.wait_for_timeout(300)
    detail = [page.locator("[data-ref=detail]") for page in pages]
    expect(detail[1]).to_contain_text("Yours is next in line", timeout=4000)
    expect(detail[2]).to_contain_text("\u524d\u9762\u8fd8\u6709 2 \u573a", timeout=4000)
    pages[0].click("#stop-button")
    expect(detail[2]).to_contain_text("\u4e0b\u4e00\u573a\u5c31\u662f\u4f60\u7684", timeout=4000)
    expect(detail[2]).to_contain_text(re.compile("\u5927\u7ea6\u8fd8\u8981 \\d+ \u79d2"), timeout=4000)
    expect(pages[1].locator("[data-ref=headline]")).to_have_text("Racing")
    for page in pages[1:]:
        page.click("#stop-button")


def test_a_failed_lane_says_why_and_the_other_runs(open_page: OpenPage, source: ScriptedSource) -> None:
    source.failing_lane, source.seconds_per_update = "speculative", 0.002
    page = open_page()
    race_to_the_end(page)
    expect(page.locator(".race-failed")).to_have_text(
        "This cache cannot be rolled back, so <b>this lane</b> cannot run."
    )
    assert page.text_content("[data-ref=speedup]") == "\u2013"
    assert kept_text(page, "plain") != ""


def test_the_end_of_text_is_a_mark_and_is_not_copied(open_page: OpenPage, source: ScriptedSource) -> None:
    source.tokens, source.reason = [" Hello", " world", "<|im_end|>"], "eos"
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    race_to_the_end(page)
    assert kept_text(page, "speculative") == " Hello world"
    assert page.locator(".tok.eos").count() == 2
    page.click("[data-lane=speculative] [data-part=copy]")
    assert page.evaluate("navigator.clipboard.readText()") == " Hello world"


def test_differing_texts_are_an_error_only_where_they_are(open_page: OpenPage, source: ScriptedSource) -> None:
    source.differ, source.seconds_per_update, source.num_tokens = True, 0.002, 24
    page = open_page()
    page.click("#more button")
    for rule, temperature, sentence in (
        ("rejection", 1, "Two samples of the same distribution"),
        ("typical", 1, "lossy"),
        ("coupled", 0, "should not"),
    ):
        page.click("#rule input")
        page.get_by_role("option", name=rule).first.click()
        page.fill("#temperature input[type=number]", str(temperature))
        page.keyboard.press("Tab")
        race_to_the_end(page)
        expect(page.locator("[data-ref=headline]")).to_contain_text(sentence)
        expect(page.locator("[data-ref=divergence]")).to_have_text("5")


def test_a_prompt_that_cannot_run_gets_a_sentence_at_once(open_page: OpenPage) -> None:
    page = open_page()
    for prompt, sentence in (("  ", "empty"), ("x" * 200_000, "200,000"), ("forbidden", "<b>forb")):
        page.fill("#prompt textarea", prompt)
        page.click("#race-button")
        expect(page.locator(".toast-body").filter(has_text=sentence)).to_be_visible(timeout=2500)
        expect(page.locator("[data-ref=asked]")).to_contain_text("recorded")
