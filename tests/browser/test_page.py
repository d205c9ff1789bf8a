"""The page without a race: recorded races, the player, files, languages, sizes, themes."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from specdemo.catalog import drafter_note
from specdemo.events import Finished
from specdemo.traces import load, save
from specdemo.ui.view_texts import VIEW
from tests.browser.conftest import recorded_race, serve
from tests.fakes_ui import ScriptedSource

OpenPage = Callable[..., Page]
TOKENS = ".race-text .tok"
# What reads Race, Plain decoding, four-bit target, and the first recorded race.
SIMPLIFIED = (
    "\u5f00\u8d5b",
    "\u666e\u901a\u89e3\u7801",
    "4 \u6bd4\u7279\u76ee\u6807\u6a21\u578b",
    "\u804a\u5929 \xb7 \u79cb\u5929\u7684\u53f6\u5b50",
)
TRADITIONAL = (
    "\u958b\u8cfd",
    "\u666e\u901a\u89e3\u78bc",
    "4 \u4f4d\u5143\u76ee\u6a19\u6a21\u578b",
    "\u804a\u5929 \xb7 \u79cb\u5929\u7684\u8449\u5b50",
)


def play_to_the_end(page: Page) -> None:
    """Play what is loaded as fast as it goes."""
    page.select_option("[data-ref=speed]", "max")
    expect(page.locator(".race-verdict")).to_have_class("race-card race-verdict over", timeout=8000)


def open_file(page: Page, path: Path) -> None:
    """Choose a file of this machine."""
    with page.expect_file_chooser() as chooser:
        page.click("[data-ref=open]")
    chooser.value.set_files(path)
    expect(page.locator("[data-ref=asked]")).to_contain_text(
        re.compile("from a file|\u6765\u81ea\u6587\u4ef6|\u4f86\u81ea\u6a94\u6848")
    )


def all_text(page: Page) -> list[str]:
    """What both lanes hold, token by token, with the verdicts."""
    return page.eval_on_selector_all(TOKENS, "(nodes) => nodes.map((node) => node.className + node.textContent)")


def test_a_recorded_race_plays_as_soon_as_the_page_stands(open_page: OpenPage, source: ScriptedSource) -> None:
    open_page()  # the first visit also reads Gradio's files from disk
    page = open_page()
    page.wait_for_selector("#race-button")
    stands = page.evaluate("performance.now()")
    page.wait_for_selector(TOKENS)
    # How long Gradio takes is the machine's; the race may add as much again.
    assert page.evaluate("performance.now()") < 2 * stands
    assert source.started == 0


def test_replay_steps_forward_and_back_and_another_race_shows_its_loss(open_page: OpenPage) -> None:
    page = open_page()
    play_to_the_end(page)
    whole = all_text(page)
    passes = page.text_content("[data-lane=speculative] [data-part=counts]")
    bars = "[data-ref=chartHistogram] .count"
    counts = page.locator(bars).all_text_contents()
    page.locator(".race-text").first.click()
    for _ in range(6):
        page.keyboard.press("ArrowLeft")
    assert len(all_text(page)) < len(whole)
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    assert all_text(page) == whole
    assert page.text_content("[data-lane=speculative] [data-part=counts]") == passes
    assert page.locator(bars).all_text_contents() == counts
    page.locator("[data-ref=position]").fill("0")
    assert all_text(page) == []
    page.click("[data-ref=step]")
    assert page.text_content("[data-ref=roundName]") == "Round 1"
    page.click("[data-ref=play]")
    page.wait_for_function("document.querySelectorAll('.race-text .tok').length > 20")
    page.keyboard.press(" ")
    expect(page.locator("[data-ref=headline]")).to_have_text("Paused" if page.locator(".over").count() == 0 else "")
    page.click("#recorded input")
    page.get_by_role("option", name="loses").click()
    page.select_option("[data-ref=speed]", "max")
    expect(page.locator("[data-ref=headline]")).to_contain_text("Speculation loses here", timeout=8000)
    assert float(page.text_content("[data-ref=speedup]").removesuffix("\u00d7")) < 1
    expect(page.locator(".race-verdict.loses")).to_be_visible()


def test_save_then_open_replays_the_same_and_what_is_no_race_gets_a_sentence(
    open_page: OpenPage, tmp_path: Path
) -> None:
    page = open_page()
    play_to_the_end(page)
    before = all_text(page)
    with page.expect_download(timeout=4000) as download:
        page.click("[data-ref=save]")
    saved = tmp_path / "race.json"
    download.value.save_as(saved)
    assert load(saved).request["prompt"] == "Why do leaves fall?"
    with page.expect_file_chooser() as chooser:
        page.click("[data-ref=open]")
    chooser.value.set_files(saved)
    expect(page.locator("[data-ref=asked]")).to_contain_text("from a file")
    play_to_the_end(page)
    assert all_text(page) == before
    (tmp_path / "no.json").write_text('{"specdemo_trace": 99}')
    with page.expect_file_chooser() as chooser:
        page.click("[data-ref=open]")
    chooser.value.set_files(tmp_path / "no.json")
    expect(page.locator(".toast-body")).to_contain_text("trace version 99", timeout=3000)
    assert all_text(page) == before


def what_a_drafter_says_is_chinese(page: Page, path: Path, language: str) -> None:
    """What a note of the program says, and what is known of words that are not the program's."""
    trace = recorded_race("leaves", "chat", ScriptedSource())
    note = drafter_note("note_context_full", limit=4096)
    updates = [
        replace(update, event=replace(update.event, message=note)) if isinstance(update.event, Finished) else update
        for update in trace.updates
    ]
    save(replace(trace, updates=tuple(updates)), path)
    a_note = VIEW[language]["details"].format(message="a note")
    expect(page.locator("[data-lane=speculative] .race-note").first).to_have_text(a_note)
    open_file(page, path)
    play_to_the_end(page)
    notes = page.locator("[data-lane=speculative] .race-note").all_text_contents()
    assert notes == [a_note, VIEW[language]["note_context_full"].format(limit=4096)]


@pytest.mark.parametrize(
    ("locale", "words"),
    [
        *[(code, SIMPLIFIED) for code in ("zh-CN", "zh", "zh-Hans-SG")],
        *[(code, TRADITIONAL) for code in ("zh-TW", "zh-HK", "zh-MO", "zh-Hant-HK")],
    ],
)
def test_chinese_browsers_read_their_chinese(
    open_page: OpenPage, tmp_path: Path, locale: str, words: tuple[str, ...]
) -> None:
    page = open_page(locale=locale)
    race, heading, drafter, recorded = words
    expect(page.locator("#race-button")).to_have_text(race)
    expect(page.locator("[data-lane=plain] h2")).to_contain_text(heading)
    expect(page.locator("[data-ref=speculativeSub]")).to_contain_text(f"{drafter} \u00b7 K = 4")
    expect(page.locator("#drafter input")).to_have_value(re.compile(f"^{drafter}\uff1a"))
    expect(page.locator("#recorded input")).to_have_value(recorded)
    what_a_drafter_says_is_chinese(page, tmp_path / "race.json", "zh" if words is SIMPLIFIED else "zh-TW")
    page.evaluate("document.documentElement.lang = 'en'")
    expect(page.locator("[data-lane=plain] h2")).to_contain_text("Plain decoding")


def test_other_browsers_are_left_alone(open_page: OpenPage) -> None:
    page = open_page(locale="fr-FR")
    expect(page.locator("#race-button")).to_have_text("Race")
    page.wait_for_timeout(500)
    assert page.evaluate("document.documentElement.lang") == "fr"


def test_the_lane_calls_a_drafter_by_its_short_name(open_page: OpenPage, tmp_path: Path) -> None:
    names = {
        "early-exit": "early exit",
        "ngram:static": "n-gram + table",
        "ngram:2-5": "n-gram (2-5)",
        "hybrid:quantized": "hybrid (four-bit target)",
        "eagle3:some/folder:x": "EAGLE-3 (some/folder:x)",
        "constructor": "constructor",
    }
    trace = recorded_race("leaves", "chat", ScriptedSource())
    page = open_page()
    for i, (name, text) in enumerate(names.items()):
        save(replace(trace, request={**trace.request, "drafter": name}), tmp_path / f"{i}.json")
        open_file(page, tmp_path / f"{i}.json")
        expect(page.locator("[data-ref=speculativeSub]")).to_have_text(f"{text} \u00b7 K = 4")


def test_without_motion_no_draft_flickers(open_page: OpenPage) -> None:
    page = open_page(reduced_motion="reduce")
    page.wait_for_selector(TOKENS)
    for _ in range(10):
        assert page.locator(".race-text .tok.w").count() == 0
        page.wait_for_timeout(40)


def test_while_the_model_is_fetched_the_page_says_so_and_replays(open_page: OpenPage, source: ScriptedSource) -> None:
    source.state, source.progress = "fetching", 0.42
    page = open_page()
    expect(page.locator("[data-ref=engine]")).to_contain_text("fetching the model 42 %")
    page.click("#race-button")
    expect(page.locator(".toast-body")).to_contain_text("42%", timeout=2500)
    source.state = "ready"
    expect(page.locator("[data-ref=engine]")).to_contain_text("model ready", timeout=4000)
    expect(page.locator("#drafter input")).to_have_value("target in 4 bits")


def test_with_neither_model_nor_recorded_races_the_page_says_so(
    open_page: OpenPage, browser: Browser, tmp_path: Path
) -> None:
    page, url = serve(ScriptedSource(state="failed"), tmp_path)
    visit = open_page(url=url)
    expect(visit.locator("[data-ref=headline]")).to_have_text("No race yet")
    expect(visit.locator("[data-ref=engine]")).to_contain_text("not available", timeout=3000)
    assert visit.locator("[data-ref=play]").is_disabled()
    page.close()
