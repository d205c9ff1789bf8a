"""A race whose drafts are trees, in the browser: every draft is drawn, and the text is the answer's."""

import random
from dataclasses import asdict, replace
from pathlib import Path

from playwright.sync_api import Browser, expect

from specdemo.events import Finished, Round, Started
from specdemo.export import export
from specdemo.race import LaneUpdate, RaceRequest
from specdemo.settings import DecodeSettings
from specdemo.spans import LaneSpans
from specdemo.traces import Trace, save
from specdemo.ui.view_texts import VIEW
from tests.browser.conftest import new_page
from tests.browser.test_access import violations
from tests.browser.test_page import play_to_the_end
from tests.fakes_ui import ScriptedSource
from tests.trees import tree_round


def race_with_trees() -> tuple[Trace, list[Round]]:
    """Each lane the same answer; what a stop cut is the last round's alone."""
    numbers = random.Random(5)
    rounds = [one for one in (tree_round(numbers, 7) for _ in range(40)) if not one.num_unused][:12]
    rounds = [
        replace(one, index=index, draft_seconds=0.01, verify_seconds=0.04, overhead_seconds=0.001)
        for index, one in enumerate(rounds)
    ]
    settings = DecodeSettings(num_draft_tokens=7)
    request = RaceRequest(prompt="Why do trees fork?", drafter="eagle3:tree", settings=settings)
    updates = []
    answer = [token_id for one in rounds for token_id in one.emitted_token_ids]
    plain = [Round(i, (), 0, token_id, "plain", verify_seconds=0.03) for i, token_id in enumerate(answer)]
    for lane, events in (("plain", plain), ("speculative", rounds)):
        spans = LaneSpans(lambda ids: "".join(f" word{i}" for i in ids))
        updates.append(LaneUpdate(lane, Started((1, 2), settings.to_dict(), 0.1)))
        updates += [LaneUpdate(lane, event, spans.add(event)) for event in events]
        updates.append(LaneUpdate(lane, Finished("length")))
    asked = {**asdict(request), "settings": settings.to_dict()}
    return Trace("trees", "chat", asked, ScriptedSource().provenance(request), tuple(updates)), rounds


def test_a_round_is_drawn_as_its_tree(browser: Browser, tmp_path: Path) -> None:
    trace, rounds = race_with_trees()
    (tmp_path / "traces").mkdir()
    save(trace, tmp_path / "traces" / "trees.json")
    complaints: list[str] = []
    page = new_page(browser, complaints)
    page.goto(export(tmp_path / "site", tmp_path / "traces").as_uri())
    page.wait_for_selector(".race-text .tok")
    play_to_the_end(page)
    kept = "(nodes) => nodes.map((n) => n.textContent).join('')"
    assert page.eval_on_selector_all("[data-lane=speculative] .tok:is(.a,.c,.b)", kept) == trace.text("speculative")
    assert page.locator(".race-box-row .tree-node").count() == len(rounds[-1].draft_token_ids) + 1
    assert page.locator(".tok.left-branch:visible").count() == 0
    # A column is a depth: what stands in one column of the drawing would stand at one place of the text.
    columns = page.eval_on_selector_all(
        ".race-box-row .tree-node", "(nodes) => nodes.map((n) => n.style.gridColumnStart)"
    )
    assert max(map(int, columns)) >= rounds[-1].num_drafted_deep
    places = page.eval_on_selector_all(
        ".race-box-row .tree-node", "(nodes) => nodes.map((n) => n.style.gridRowStart + '/' + n.style.gridColumnStart)"
    )
    assert len(set(places)) == len(places), "no token covers another"
    page.click("[data-ref=look]")
    chips = page.locator(".inside-chips.race-tree button")
    assert chips.count() == len(rounds[-1].draft_token_ids) + 1
    page.locator(".inside-chips.race-tree button.d").first.click()
    expect(page.locator("[data-ref=insideToken]")).to_contain_text(VIEW["en"]["inside_branch_left"])
    assert violations(page) == []
    assert complaints == []
    page.context.close()
