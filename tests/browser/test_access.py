"""The page for people who do not see or point: axe-core finds nothing serious in what is our own."""

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.fakes_ui import ScriptedSource

OpenPage = Callable[..., Page]
SIZES = {"desktop": {"width": 1280, "height": 720}, "phone": {"width": 390, "height": 844}}
# Gradio's own: the colour of its labels and footer, and what it writes on its own boxes.
GRADIOS_RULES = {"color-contrast", "aria-prohibited-attr"}


def violations(page: Page) -> list[str]:
    """Serious and critical ones: all of them in the race, and elsewhere those that are not known to be Gradio's."""
    found: list[dict[str, Any]] = Axe().run(page).response["violations"]
    return [
        f"{rule['id']}: {node['target'][0]} {node['html'][:120]}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
        if rule["id"] not in GRADIOS_RULES or is_ours(page, node["target"][0])
    ]


def is_ours(page: Page, selector: str) -> bool:
    """Whether an element is in the race component."""
    return bool(page.evaluate("(selector) => !!document.querySelector(selector)?.closest('.race, .learn')", selector))


def stacked_lanes(page: Page) -> None:
    """A phone stacks the lanes, has closed the settings and scrolls no way sideways."""
    expect(page.locator("#settings.open")).to_have_count(0)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    plain, speculative = (page.locator(f"[data-lane={lane}]").bounding_box() for lane in ("plain", "speculative"))
    assert plain is not None
    assert speculative is not None
    assert speculative["y"] >= plain["y"] + plain["height"]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_one_screen_or_stacked_and_nothing_serious_idle_racing_or_finished(
    open_page: OpenPage, source: ScriptedSource, size: str, theme: str
) -> None:
    source.seconds_per_update, source.num_tokens = 0.03, 1000  # it runs until it is stopped
    page = open_page(f"?__theme={theme}", viewport=SIZES[size])
    page.select_option("[data-ref=speed]", "max")
    expect(page.locator(".race-verdict.over")).to_be_visible(timeout=15_000)
    assert violations(page) == []
    card = page.eval_on_selector(".race-card", "(card) => getComputedStyle(card).backgroundColor")
    assert card == ("rgb(26, 31, 42)" if theme == "dark" else "rgb(255, 255, 255)")
    if size == "phone":
        stacked_lanes(page)
        page.click("#settings .toggle-button")
    else:
        whole = page.evaluate("[document.documentElement.scrollHeight, document.documentElement.scrollWidth]")
        assert whole == [720, 1280], "one screen holds it all"
    page.click("#race-button")
    page.wait_for_function("document.querySelectorAll('[data-lane=plain] .tok').length > 6")
    page.wait_for_timeout(700)  # the drawer of a phone slides away
    assert violations(page) == []
    page.click("[data-ref=play]")
    expect(page.locator("[data-ref=headline]")).to_contain_text("Stopped")
    assert violations(page) == []
