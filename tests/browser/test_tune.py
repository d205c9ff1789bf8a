"""The tab "Tune": advice and its race, a sweep to its charts and files, the calculator, the grid, every look."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from specdemo.theory import best_num_draft_tokens, expected_speedup, expected_tokens_per_round
from tests.browser.test_access import SIZES, violations
from tests.fakes_ui import ScriptedSource

OpenPage = Callable[..., Page]
HEADLINE = "[data-ref=headline]"


def open_section(page: Page, section: str) -> None:
    page.get_by_role("tab", name=section, exact=True).click()


def sweep_little(page: Page) -> None:
    """Only two kinds of prompts, so that a sweep is six heats."""
    for box in page.locator("#sweep-categories input").all()[2:]:
        box.uncheck()
    page.click("#sweep-start")


def column(page: Page, number: int) -> list[str]:
    return page.locator(f"#tune-sweep [data-ref=table] tbody td:nth-child({number})").all_text_contents()


def test_advice_names_a_drafter_and_k_and_races_them(open_page: OpenPage, source: ScriptedSource) -> None:
    source.seconds_per_update = 0.02
    page = open_page()
    assert page.locator("#advise-button, .js-plotly-plot").count() == 0, "the race page bears what it does not show"
    open_section(page, "Tune")
    page.fill("#advice-own textarea", "Say <img src=x onerror=window.__pwn=1> ${x}\nAnd then?\nCount.")
    page.click("#advise-button")
    expect(page.locator(f"#tune-advice {HEADLINE}")).to_have_text(
        re.compile(r"^n-gram, K = 3: \d\.\d\d times as fast \(95 %: 1\.20 – 1\.70\)$"), timeout=15_000
    )
    expect(page.locator("#tune-advice [data-ref=estimates] tbody tr")).to_have_count(2)
    expect(page.locator("#tune-advice article")).to_have_count(4)
    assert "its <b>folder</b> is missing." in (page.text_content("#tune-advice [data-ref=failures]") or "")
    assert "undefined" not in (page.text_content("#tune-advice") or "")
    page.click("#race-it")
    expect(page.locator(".race-verdict.over")).to_be_visible(timeout=15_000)
    assert page.input_value("#prompt textarea").startswith("Say <img")
    assert page.input_value("#k input[type=number]") == "3"
    assert page.input_value("#drafter input").startswith("n-gram")
    open_section(page, "Tune")
    page.fill("#advice-own textarea", "hopeless")
    page.click("#advise-button")
    expect(page.locator(f"#tune-advice {HEADLINE}")).to_have_text("Do not speculate", timeout=15_000)
    expect(page.locator("#race-it")).to_be_hidden()
    source.seconds_per_update = 1.0
    page.click("#advise-button")
    expect(page.locator(f"#tune-advice {HEADLINE}")).to_have_text("Trying drafters")
    page.click("#advise-stop")
    expect(page.locator(f"#tune-advice {HEADLINE}")).to_have_text("Stopped")
    assert source.is_idle_within(10)
    assert page.evaluate("window.__pwn") is None


def test_a_sweep_fills_sorts_stops_goes_on_and_is_kept(
    open_page: OpenPage, source: ScriptedSource, tmp_path: Path
) -> None:
    source.seconds_per_update = 0.25
    page = open_page()
    open_section(page, "Tune")
    open_section(page, "Sweep")
    sweep_little(page)
    expect(page.locator("#tune-sweep [data-ref=table] tbody tr")).not_to_have_count(0, timeout=15_000)
    page.click("#sweep-stop")
    expect(page.locator(f"#tune-sweep {HEADLINE}")).to_have_text("Stopped")
    assert source.is_idle_within(10)
    expect(page.locator("#tune-sweep [data-ref=detail]")).to_contain_text("Go on measures the rest")
    expect(page.locator("#sweep-charts .js-plotly-plot .main-svg").first).to_be_visible(timeout=15_000)
    source.seconds_per_update = 0.0
    page.click("#sweep-go-on")
    # Whoever looks elsewhere meanwhile finds it done.
    open_section(page, "Race")
    assert source.is_idle_within(10)
    open_section(page, "Tune")
    expect(page.locator(f"#tune-sweep {HEADLINE}")).to_have_text("All is measured", timeout=15_000)
    expect(page.locator("#tune-sweep [data-ref=table] tbody tr")).to_have_count(12)
    assert source.resumed_with
    sorts_by_keyboard(page)
    expect(page.locator("#tune-sweep [data-ref=memory] tbody tr")).to_have_count(3)
    expect(page.locator("#tune-sweep [data-ref=note]")).to_contain_text("n-gram · K = 8")
    expect(page.locator("#sweep-charts .js-plotly-plot")).to_have_count(5, timeout=15_000)
    assert "undefined" not in (page.text_content("#tune-sweep") or "")
    with page.expect_download() as download:
        page.click("#sweep-save")
    file = tmp_path / "sweep.jsonl"
    download.value.save_as(file)
    rows = column(page, 6)
    reads_again(open_page(), file, rows)


def sorts_by_keyboard(page: Page) -> None:
    """By speedup at first; then by K, down and up."""
    speedups = [float(text.split()[1].rstrip("×")) for text in column(page, 6)]
    assert speedups == sorted(speedups, reverse=True)
    head = page.get_by_role("button", name=re.compile("^K"))
    head.focus()
    page.keyboard.press("Enter")
    assert column(page, 2) == [k for k in "8421" for _ in range(3)]
    page.keyboard.press("Space")
    assert column(page, 2) == [k for k in "1248" for _ in range(3)]
    expect(page.locator("[data-ref=table] th").nth(1)).to_have_attribute("aria-sort", "ascending")


def reads_again(other: Page, file: Path, rows: list[str]) -> None:
    """The file of a sweep on another visitor's page, in every section."""
    open_section(other, "Tune")
    open_section(other, "Sweep")
    expect(other.locator("#tune-sweep [data-ref=table] tbody tr")).to_have_count(0)
    other.set_input_files("input[type=file][accept='.jsonl']", file)
    expect(other.locator(f"#tune-sweep {HEADLINE}")).to_have_text("Opened from a file", timeout=15_000)
    assert sorted(column(other, 6)) == sorted(rows)
    open_section(other, "Where it pays")
    expect(other.locator("#tune-grid tbody tr")).to_have_count(2)
    open_section(other, "Calculator")
    expect(other.locator("#tune-calculator .tune-points button")).to_have_count(12)
    calculator_is_the_theory(other)
    assert violations(other) == []


def calculator_is_the_theory(page: Page) -> None:
    for alpha, k, draft, verify in ((0.7, 4, 0.1, 1.2), (0.95, 9, 0.02, 1.9), (0.2, 3, 0.5, 1.6), (1.0, 16, 0.0, 1.0)):
        for key, value in (("alpha", alpha), ("k", k), ("draft", draft), ("verify", verify)):
            page.locator(f"#tune-calculator input[data-key={key}]").fill(str(value))
        shown = page.locator("#tune-calculator [data-ref=figures] b").all_text_contents()

        def pass_cost(width: int, at: int = k, cost: float = verify) -> float:
            return 1 + (cost - 1) * (width - 1) / at

        costs = (lambda tokens, each=draft: tokens * each, pass_cost)
        best = best_num_draft_tokens(alpha, range(17), *costs)
        assert float(shown[0]) == pytest.approx(expected_tokens_per_round(alpha, k), abs=0.006)
        assert float(shown[1].rstrip("×")) == pytest.approx(expected_speedup(alpha, k, *costs), abs=0.006)
        assert shown[2].startswith(f"{best} (" if best else "none")


def test_nothing_serious_on_a_dark_chinese_phone(open_page: OpenPage, source: ScriptedSource) -> None:
    source.seconds_per_update = 0.0
    page = open_page("?__theme=dark", viewport=SIZES["phone"], locale="zh-CN")
    open_section(page, "调优")
    page.click("#advise-button")
    expect(page.locator("#tune-advice .tune-verdict.pays")).to_be_visible(timeout=15_000)
    assert violations(page) == []
    for section in ("扫描", "计算器", "何处划算", "多个请求"):
        open_section(page, section)
        if section == "扫描":
            sweep_little(page)
            expect(page.locator("#sweep-charts .js-plotly-plot .main-svg").last).to_be_visible(timeout=15_000)
        elif section == "多个请求":
            page.click("#batch-start")
            expect(page.locator("#batch-chart .js-plotly-plot .main-svg").last).to_be_visible(timeout=15_000)
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), section
