"""Lessons and deck links in a real browser: a card moves the real controls, a link restores them."""

import re
from collections.abc import Callable
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_access import violations
from tests.fakes_ui import ScriptedSource

OpenPage = Callable[..., Page]
PROMPT = '\u4e3a\u4ec0\u4e48 1+1=2 & 50% #tag?\n"quoted" <b>\U0001f600</b> ${x} {{y}}'
KEPT = {
    "#prompt textarea": PROMPT,
    "#k input[type=number]": "7",
    "#temperature input[type=number]": "0.35",
    "#seed input": "9007199254740991",
    "#stop-strings textarea": "END\n\u7ed3\u675f",
    "#min-p input[type=number]": "0.25",
}

# The race that plays when the page opens ends just behind the click on an experiment.
END_OF_ANOTHER_RACE = """() => {
  document.querySelector('[data-try]').click();
  const head = { origin: 'recorded', prompt: 'Why do leaves fall?', drafter: 'quantized', k: 4 };
  document.dispatchEvent(new CustomEvent('race-shown', { detail: { head, done: { target_passes: [1, 1] } } }));
}"""
# Also where the control is folded away, as on a phone.
FILL = """(node, value) => {
  const own = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(node), 'value');
  own.set.call(node, value);
  for (const name of ['input', 'change', 'blur']) node.dispatchEvent(new Event(name, { bubbles: true }));
}"""


def kept(page: Page) -> dict[str, str]:
    """What stands in the controls."""
    return {selector: page.input_value(selector) for selector in KEPT}


@pytest.mark.parametrize("size", [(1280, 720, "light"), (390, 844, "dark")], ids=["desktop", "phone"])
def test_a_card_moves_the_controls_and_races(
    open_page: OpenPage, source: ScriptedSource, size: tuple[int, int, str]
) -> None:
    source.seconds_per_update = 0.005
    page = open_page(f"?__theme={size[2]}", viewport={"width": size[0], "height": size[1]})
    expect(page.locator(".learn-card")).to_be_hidden()
    own = {"#prompt textarea": "a question of my own", "#k input[type=number]": "4"}
    page.locator("#prompt textarea").evaluate(FILL, own["#prompt textarea"])
    page.locator("[data-ref=toggle]").focus()
    page.keyboard.press("Enter")
    expect(page.locator("[data-ref=putBack]")).to_be_hidden()
    expect(page.locator("[data-ref=kind]")).to_have_text("Lesson 1")
    page.keyboard.press("ArrowRight")
    expect(page.locator("[data-ref=kind]")).to_have_text("Lesson 2")
    page.click("[data-ref=reveal]")
    expect(page.locator("[data-ref=answer]")).to_contain_text("K + 1")
    page.locator("[data-try]").nth(1).click()
    expect(page.locator("[data-ref=asked]")).to_contain_text("live \u00b7 What are the capitals", timeout=10_000)
    expect(page.locator("[data-ref=speculativeSub]")).to_contain_text("K = 6")
    assert page.input_value("#k input[type=number]") == "6"
    expect(page.locator(".learn-results tbody tr")).to_contain_text("the same", timeout=15_000)
    assert source.started == 1
    assert violations(page) == []
    page.select_option("[data-ref=list]", "13")
    page.locator("[data-try]").first.click()
    expect(page.locator("[data-ref=asked]")).to_contain_text("live \u00b7 Repeat this list", timeout=10_000)
    expect(page.locator(".learn-results tbody tr")).to_contain_text("the same", timeout=15_000)
    page.locator("[data-try]").last.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("[data-ref=putBack]")).to_be_hidden()
    assert {selector: page.input_value(selector) for selector in own} == own, "as before the first experiment"
    expect(page.locator("[data-try]").first).to_be_focused()
    expect(page.locator("[data-ref=said]")).to_have_text("Your settings are back.")
    page.select_option("[data-ref=list]", "14")
    expect(page.locator("[data-ref=kind]")).to_have_text("Myth 15")
    expect(page.locator(".learn-results")).to_be_hidden()
    expect(page.locator("[data-ref=answer]")).to_be_hidden()


def test_without_a_model_the_recorded_race_plays_and_the_chosen_drafter_stays(
    open_page: OpenPage, source: ScriptedSource
) -> None:
    source.state = "loading"
    page = open_page("?lesson=drafters", locale="zh-TW")
    expect(page.locator("[data-ref=title]")).to_have_text("\u8349\u7a3f\u6a21\u578b\u5de1\u79ae")
    page.evaluate(END_OF_ANOTHER_RACE)
    expect(page.locator("[data-ref=asked]")).to_contain_text("Repeat this list", timeout=5000)
    assert page.locator(".learn-results tbody tr").count() == 0, "another race's end is not the experiment's"
    page.select_option("[data-ref=speed]", "max")
    expect(page.locator(".learn-results tbody tr")).to_have_count(1, timeout=15_000)
    assert source.started == 0
    source.state = "ready"
    expect(page.locator(".race-engine.ready")).to_be_visible(timeout=5000)
    expect(page.locator("#drafter input")).to_have_value(re.compile("n-gram"))


def test_passes_are_measured_on_the_device(open_page: OpenPage) -> None:
    page = open_page("?lesson=1")
    expect(page.locator("[data-ref=curveSource]")).to_contain_text("recorded races")
    page.get_by_role("button", name="Measure here").click()
    expect(page.locator("[data-ref=curveSource]")).to_have_text("measured just now: 2 CPU cores", timeout=5000)
    assert page.locator(".learn-curve circle").count() == 6


def test_a_link_restores_what_it_was_copied_from(open_page: OpenPage, source: ScriptedSource) -> None:
    source.seconds_per_update = 0.005
    values = {"prompt": PROMPT, "drafter": "ngram", "k": "7", "temperature": "0.35", "seed": "9007199254740991"}
    rest = {"stop": "END\n\u7ed3\u675f", "min_p": "0.25", "raw": "1", "rule": "block", "top_p": "5"}
    query = "&".join(f"{name}={quote(value)}" for name, value in {**values, **rest}.items())
    permissions = ["clipboard-read", "clipboard-write"]
    page = open_page(f"?lesson=4&{query}", permissions=permissions)
    expect(page.locator(".toast-body")).to_contain_text("top_p = 5, which is left out: it must be from 0.05 to 1.")
    expect(page.locator("[data-ref=kind]")).to_have_text("Lesson 4")
    page.click("#more button")
    assert kept(page) == KEPT
    expect(page.locator("#drafter input")).to_have_value(re.compile("n-gram"))
    page.click("#copy-link")
    expect(page.locator("#copy-link.copied")).to_be_visible()
    link = page.evaluate("navigator.clipboard.readText()")
    assert "drafter=ngram" in link
    assert "top_p" not in link
    again = open_page(link.partition("/?")[2].join(("?", "&race=1&lesson=77")))
    expect(again.locator("[data-ref=about]")).to_contain_text("lesson 77; there are 1 to 15")
    expect(again.locator("[data-ref=asked]")).to_contain_text("live", timeout=10_000)
    again.click("#more button")
    assert kept(again) == KEPT
    assert again.is_checked("#raw input")
    assert page.evaluate("window.x") is None
