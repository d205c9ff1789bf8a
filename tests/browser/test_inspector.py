"""The round inspector in a browser: its figures are the trace's, its keys, its cost, and that nobody else pays."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from specdemo.events import Round
from specdemo.metrics import summarize
from specdemo.traces import Trace, load, save
from tests.browser.conftest import recorded_race, serve
from tests.browser.test_access import violations
from tests.browser.test_page import play_to_the_end
from tests.fakes_evidence import with_evidence
from tests.fakes_ui import ScriptedSource

OpenPage = Callable[..., Page]
TOKEN, VERDICT, TITLE = "[data-ref=insideToken]", ".inside-verdict", "[data-ref=insideTitle]"
NUM_LONG = 500
MARKED = """() => [...document.querySelectorAll('.race-text .tok:is(.matched, .copied)')].map((node) => [
  node.closest('[data-lane]').dataset.lane,
  [...node.parentElement.querySelectorAll('.tok:is(.a, .b, .c, .p)')].indexOf(node),
  node.matches('.copied'), getComputedStyle(node).outlineStyle])"""
PAINTED = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)))"
COUNT_WORK = """(act) => {
  const made = document.createElement.bind(document);
  let count = 0;
  document.createElement = (name) => { count += 1; return made(name); };
  document.querySelector(act).click();
  document.createElement = made;
  return count;
}"""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[tuple[str, Trace]]:
    """A page whose recorded races carry evidence: a short one, one of 500 tokens, and one that kept none."""
    folder = tmp_path_factory.mktemp("looked-into")
    bare = recorded_race("bare", "story", ScriptedSource())
    short = with_evidence(recorded_race("short", "chat", ScriptedSource()))
    save(short, folder / "1.json.gz")
    save(with_evidence(recorded_race("long", "code", ScriptedSource(num_tokens=NUM_LONG))), folder / "2.json.gz")
    save(bare, folder / "3.json.gz")
    assert load(folder / "1.json.gz") == short
    page, url = serve(ScriptedSource(), folder)
    yield url, short
    page.close()


def pick(page: Page, name: str) -> None:
    """Show another recorded race, whole."""
    page.select_option("[data-ref=speed]", "0.25")  # slow enough to be seen beginning
    page.click("#recorded input")
    page.get_by_role("option", name=name).click()
    expect(page.locator(".race-verdict.over")).to_have_count(0, timeout=4000)
    play_to_the_end(page)


def rounds_of(trace: Trace) -> list[Round]:
    return [event for event in trace.events("speculative") if isinstance(event, Round)]


def short_figure(value: float) -> str:
    """Three digits that count, as the page writes them."""
    digits = f"{value:.3g}"
    decimals = max(0, 2 - int(f"{value:e}".split("e")[1]))
    return digits if value in (0, 1) else f"{value:.{decimals}f}"


def test_figures_are_the_traces_and_keys_go_token_by_token(open_page: OpenPage, address: tuple[str, Trace]) -> None:
    url, trace = address
    page = open_page(url=url)
    play_to_the_end(page)
    page.click(".race [data-ref=look][aria-expanded=false]")
    expect(page.locator(".race [data-ref=look][aria-expanded=true]")).to_be_visible()
    for place in [i for i, event in enumerate(rounds_of(trace)) if event.num_rejected][:3]:
        event = rounds_of(trace)[place]
        page.evaluate(
            """(index) => [...document.querySelectorAll('[data-lane=speculative] .tok.r')]
            .find((node) => node.token.row.i === index).click()""",
            place,
        )
        failed = event.evidence.positions[-1]  # type: ignore[union-attr]
        drawn, accept = short_figure(failed.uniform or 0), short_figure(failed.accept_prob)
        expect(page.locator(VERDICT)).to_have_text(f"Rejected: {drawn} was drawn, not below {accept}.")
        numbers = page.locator(f"{TOKEN} .inside-number").all_text_contents()
        assert numbers[:2] == [short_figure(failed.draft_prob), short_figure(failed.target_prob)]
        mark = page.locator(".inside-gauge .inside-mark").get_attribute("style") or ""
        assert float(mark.removeprefix("left: ").removesuffix("%;")) == pytest.approx(
            (failed.uniform or 0) * 100, abs=1e-3
        )
        expect(page.locator(TOKEN)).to_contain_text("copied from token 1 of the prompt, behind 1 equal tokens")
        expect(page.locator(TOKEN)).to_contain_text("<b>seven</b>")
        page.locator(f"{TOKEN} [aria-current]").focus()
        for _ in range(len(event.draft_token_ids) - event.num_accepted):
            page.keyboard.press("ArrowDown")
        expect(page.locator(TITLE)).to_contain_text(f"corrected · round {place + 1}")
        next_token = event.evidence.next_token  # type: ignore[union-attr]
        assert next_token is not None
        expect(page.locator(TOKEN)).to_contain_text(f"{short_figure(next_token.uniform or 0)} was drawn")
        page.keyboard.press("ArrowUp")
        assert page.locator(f"{TOKEN} [aria-current]").evaluate("(chip) => chip === document.activeElement")
    assert page.evaluate(MARKED) == [], "a rejected draft that was copied from the prompt"
    index = page.locator(TITLE).text_content()
    page.keyboard.press("ArrowLeft")
    assert page.locator(TITLE).text_content() != index
    copied_draft_is_marked(page)
    page.click("[data-ref=otherLane]")
    expect(page.locator(TITLE)).to_contain_text("Plain decoding")
    expect(page.locator(VERDICT)).to_contain_text("Drawn from the target's distribution.")
    assert page.evaluate(MARKED) == []
    page.click("[data-ref=otherLane]")
    assert violations(page) == []
    copied_draft_is_marked(page)
    page.locator(f"{TOKEN} [aria-current]").focus()
    page.keyboard.press("Escape")
    assert page.evaluate(MARKED) == []
    expect(page.locator("[data-ref=inside]")).to_be_hidden()
    expect(page.locator(".race [data-ref=look]")).to_be_focused()


def copied_draft_is_marked(page: Page) -> None:
    """Where it stands in the lane and in the excerpt."""
    page.locator("[data-lane=speculative] .tok.a").last.click()
    expect(page.locator(TOKEN)).to_contain_text("copied from token 1 of the answer, behind 2 equal tokens")
    # The match reaches back into the prompt, which no lane shows.
    assert page.evaluate(MARKED) == [["speculative", 0, False, "dotted"], ["speculative", 1, True, "dashed"]]
    assert page.locator(".inside-excerpt mark").all_text_contents() == [" p3", " Why", " do"]


def test_all_rounds_show_each_verdict_and_open_its_token(open_page: OpenPage, address: tuple[str, Trace]) -> None:
    url, trace = address
    page = open_page(url=url, viewport={"width": 390, "height": 844})
    play_to_the_end(page)
    page.click(".race [data-ref=look]")
    page.click("[data-ref=viewRounds]")
    lines = page.eval_on_selector_all(
        ".rounds-line", "(lines) => lines.map((one) => one.querySelectorAll('.a').length)"
    )
    assert lines == [event.num_accepted for event in rounds_of(trace)]
    summary = summarize(trace.events("speculative"))
    rates = zip(summary.acceptance_by_position, summary.survival_by_position, strict=True)
    shown = page.locator("[data-ref=positions] .inside-number").all_text_contents()
    assert shown == [f"{(rate or 0) * 100:.1f} %" for pair in rates for rate in pair]
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert violations(page) == []
    page.focus(".rounds-line [tabindex='0']")  # the newest round's
    for key in ("ArrowUp", "ArrowUp", "ArrowDown", *["ArrowLeft"] * 4, "ArrowRight", "Enter"):
        page.keyboard.press(key)
    expect(page.locator(TITLE)).to_contain_text(f"round {len(lines) - 1}")
    chip = page.locator(f"{TOKEN} button").nth(1)
    expect(chip).to_have_attribute("aria-current", "true")
    expect(chip).to_be_focused()
    page.click("[data-ref=viewRounds]")
    page.locator(".rounds-line").nth(4).locator(".cell").first.click()
    expect(page.locator(TITLE)).to_contain_text("round 5")


def test_a_long_race_opens_and_steps_as_a_short_one(open_page: OpenPage, address: tuple[str, Trace]) -> None:
    """Counted: nodes made and layouts, which do not grow with the race; only the rounds, once, do."""
    page = open_page(url=address[0])
    play_to_the_end(page)
    work = []
    for name in ("short", "long"):
        if name == "long":
            pick(page, "long")
            assert page.locator("[data-lane=plain] .tok").count() == NUM_LONG
        work.append(
            [page.evaluate(COUNT_WORK, f".race [data-ref={ref}]") for ref in ("look", "back", "tokenBack", "step")]
        )
        page.click("[data-ref=viewRounds]")
        num_cells = page.locator(".rounds-line .cell").count()
        page.click("[data-ref=viewToken]")
        assert page.evaluate(COUNT_WORK, "[data-ref=viewRounds]") == 0, "built once"
        page.click("[data-ref=viewToken]")
        page.click(".race [data-ref=look]")
    assert num_cells > NUM_LONG
    assert max(max(one) for one in work) < 300


def test_opening_and_stepping_style_and_lay_out_no_more_than_they_change(
    open_page: OpenPage, address: tuple[str, Trace], tmp_path: Path
) -> None:
    """Of the 1,300 elements of a long race, and once for a step: what opening costs does not grow with the race."""
    page = open_page(url=address[0])
    play_to_the_end(page)
    pick(page, "long")
    assert page.locator(".race-text .tok").count() > 2 * NUM_LONG
    look, step = "document.querySelector('.race [data-ref=look]').click()", "window.__step()"
    opened = work_of(page, look, tmp_path)
    assert opened["styled"] < 300
    page.evaluate(
        """() => { window.__step = () => document.activeElement.dispatchEvent(
      new KeyboardEvent('keydown', { key: 'ArrowUp', bubbles: true })); }"""
    )
    page.focus(f"{TOKEN} [aria-current]")
    before = page.text_content(TITLE)
    stepped = work_of(page, step, tmp_path)
    assert page.text_content(TITLE) != before
    assert stepped["styled"] < 200
    assert stepped["layouts"] <= 1


def work_of(page: Page, act: str, folder: Path) -> dict[str, int]:
    """Elements styled anew and layouts, from an act until it is painted."""
    browser = page.context.browser
    assert browser is not None
    page.evaluate(PAINTED)
    browser.start_tracing(page=page, path=folder / "trace.json", categories=["devtools.timeline"])
    page.evaluate(act)
    page.evaluate(PAINTED)
    browser.stop_tracing()
    events = json.loads((folder / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
    styled = [event["args"].get("elementCount", 0) for event in events if event["name"] == "UpdateLayoutTree"]
    assert sum(styled) > 0, "the browser no longer tells"
    return {"styled": sum(styled), "layouts": sum(event["name"] == "Layout" for event in events)}


def test_numbers_are_kept_only_while_someone_looks(
    open_page: OpenPage, source: ScriptedSource, address: tuple[str, Trace]
) -> None:
    source.seconds_per_update, source.num_tokens = 0.002, 12
    page = open_page()
    play_to_the_end(page)
    asked = []
    for number, is_open in enumerate((False, True, False), 1):
        if page.locator("[data-ref=inside]").is_visible() != is_open:
            page.click(".race [data-ref=look]")
            page.wait_for_timeout(300)
        page.click("#race-button")
        for _ in range(200):
            if source.closed == number:
                break
            page.wait_for_timeout(100)
        expect(page.locator(".race-verdict.over")).to_be_visible(timeout=15_000)
        asked.append(source.kept_evidence)
        if is_open:
            expect(page.locator(".inside-missing")).to_contain_text("This race kept no numbers")
    assert asked == [False, True, False]
