"""The tab "Prove it": every proof to its verdict, texts as text, Stop, Chinese, a phone, and the race beside it."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_access import SIZES, violations
from tests.fakes_ui import ScriptedSource

OpenPage = Callable[..., Page]
MARK = "[data-ref=mark]"


def open_tab(page: Page, name: str = "Prove it") -> None:
    page.get_by_role("tab", name=name).click()
    page.wait_for_selector(".prove-verdict b:not(:empty)")


def prove(page: Page, proof: str) -> None:
    """Choose a proof by keyboard or pointer alike, and press the button."""
    page.locator(f"#proof input[value={proof}]").check()
    expect(page.locator(".prove-verdict.green")).to_have_count(0, timeout=15_000)
    page.click("#prove-button")


def test_all_proofs_come_to_their_verdicts(open_page: OpenPage, source: ScriptedSource) -> None:
    source.seconds_per_update = 0.0
    page = open_page()
    open_tab(page)
    for proof, num_rows in (("greedy", 4), ("seeds", 1), ("sampling", 0), ("mistakes", 7)):
        prove(page, proof)
        expect(page.locator(".prove-verdict.green")).to_be_visible(timeout=15_000)
        expect(page.locator(".prove-table tbody tr")).to_have_count(num_rows, timeout=15_000)
        assert page.locator(f".prove {MARK}").text_content() == "✓"
    assert page.locator(".prove-table .prove-badge").all_text_contents() == ["✓ green", *["✗ red"] * 6]
    assert "undefined" not in (page.text_content(".prove") or "")
    assert page.locator(".prove-bar bdi").all_text_contents()[:4] == ["The", "<b>In</b>", "${x}", "␣Le"]
    page.locator("#planted input[value=one_number]").check()
    page.click("#prove-button")
    expect(page.locator(".prove-verdict.red")).to_be_visible(timeout=15_000)
    expect(page.locator(".prove-why a")).to_have_attribute(
        "href", "https://github.com/vllm-project/vllm-ascend/pull/16370"
    )
    # The race is where it was, and hears the keys again; on the other tab it did not.
    page.get_by_role("tab", name="Race").click()
    expect(page.locator(".race-verdict")).to_be_visible()


def test_stop_ends_a_proof_at_once_and_on_the_server(open_page: OpenPage, source: ScriptedSource) -> None:
    source.seconds_per_update = 0.2
    page = open_page()
    open_tab(page)
    prove(page, "mistakes")
    expect(page.locator(".prove-charts")).to_be_visible(timeout=15_000)
    page.click("#prove-stop")
    expect(page.locator(".prove-verdict b")).to_have_text("Stopped")
    assert source.is_idle_within(10)
    expect(page.locator(".prove-verdict b")).to_have_text("Stopped")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("theme", "locale", "name"), [("light", "zh-CN", "证明给我看"), ("dark", "zh-TW", "證明給我看")]
)
def test_nothing_serious_in_either_size_theme_or_chinese(
    open_page: OpenPage, source: ScriptedSource, size: str, theme: str, locale: str, name: str
) -> None:
    source.seconds_per_update = 0.0
    page = open_page(f"?__theme={theme}", viewport=SIZES[size], locale=locale)
    open_tab(page, name)
    prove(page, "mistakes")
    expect(page.locator(".prove-verdict.green")).to_be_visible(timeout=15_000)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
