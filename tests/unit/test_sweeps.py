"""What a sweep asks, keeps and adds up, on heats that are made here: no model."""

import csv
import io
import json
from pathlib import Path

import pytest

from specdemo import sweep_file
from specdemo.advice import AdviceRequest, Estimate, best_of_each, decide, obstacle
from specdemo.errors import SpecdemoError
from specdemo.events import Event, Finished, Round, Started
from specdemo.points import correlation, points, points_by_category
from specdemo.prompt_set import SweepPrompt
from specdemo.sweep_file import SweepFile
from specdemo.sweep_report import DEFINITIONS, markdown, rows_csv, sweep_document
from specdemo.sweeps import PLAIN, HeatResult, SweepRequest

# With a line separator that is not one in JSON lines.
PROMPTS = (SweepPrompt("code", "en", "one\u2028"), SweepPrompt("chat", "en", "two"), SweepPrompt("code", "zh", "三"))
REQUEST = SweepRequest(prompts=PROMPTS, drafters=("ngram", "quantized"), ks=(1, 3), temperatures=(0.0, 0.7))
PROVENANCE = {"target": "tiny", "device": "none"}


def lane(rounds: list[tuple[int, int]], draft: float = 0.01) -> tuple[Event, ...]:
    """A generation by (drafted, accepted); a pass takes 0.1 s whatever its width."""
    events: list[Event] = [Started((1, 2), {}, 0.2)]
    for index, (drafted, accepted) in enumerate(rounds):
        kind = "plain" if not drafted else "bonus" if accepted == drafted else "corrected"
        spent = {"draft_seconds": draft * drafted, "verify_seconds": 0.1}
        events.append(Round(index, (5,) * drafted, accepted, 5, kind, **spent))  # type: ignore[arg-type]
    return (*events, Finished("length"))


def results(request: SweepRequest = REQUEST) -> list[HeatResult]:
    """Every drafter accepts all, so that K tokens cost one pass and K drafts."""
    return [
        HeatResult(heat, {PLAIN: lane([(0, 0)] * 12)} | {k: lane([(k, k)] * (12 // (k + 1))) for k in request.ks})
        for heat in request.heats()
    ]


def test_heats_are_all_combinations_once_with_prompts_outermost() -> None:
    heats = REQUEST.heats()
    assert len(heats) == len(set(heats)) == 3 * 2 * 2
    assert [heat.prompt_index for heat in heats] == sorted(heat.prompt_index for heat in heats)


def test_at_temperature_0_one_rule_stands_for_all() -> None:
    request = SweepRequest(
        prompts=PROMPTS[:1], drafters=("ngram",), temperatures=(0.0, 0.7), rules=("coupled", "block")
    )
    assert [(heat.temperature, heat.rule) for heat in request.heats()] == [
        (0.0, "coupled"),
        (0.7, "coupled"),
        (0.7, "block"),
    ]


def test_points_are_the_ratios_of_their_lanes() -> None:
    found = points(REQUEST, results())
    assert [(p.drafter, p.temperature, p.k) for p in found] == [
        (drafter, temperature, k) for drafter in REQUEST.drafters for temperature in (0.0, 0.7) for k in (1, 3)
    ]
    for point in found:
        expected = (point.k + 1) * 0.1 / (0.1 + 0.01 * point.k)
        assert point.speedup == pytest.approx(expected)
        assert point.predicted_speedup == pytest.approx(expected)
        assert point.interval == pytest.approx((expected, expected))
        assert (point.alpha, point.tokens_per_round, point.correlation) == (1.0, point.k + 1, None)
        assert point.draft_cost == pytest.approx(0.1 * point.k)
        assert point.verify_cost == pytest.approx(1)
        assert point.target_passes == pytest.approx(100 / (point.k + 1))
        assert point.drafted_in_vain == 0
        assert point.num_identical == point.num_prompts == 3


def test_points_of_categories_hold_each_prompt_once() -> None:
    kinds = {(one.category, one.language): one.point.num_prompts for one in points_by_category(REQUEST, results())}
    assert kinds == {("code", "en"): 1, ("chat", "en"): 1, ("code", "zh"): 1}


def test_what_alternates_is_anticorrelated_and_what_clusters_correlated() -> None:
    assert correlation([lane([(2, 1)] * 20)]) == pytest.approx(-1, abs=0.05)
    assert (correlation([lane([(3, 3)] * 20 + [(3, 0)] * 20)]) or 0) > 0.8


def test_a_sweep_goes_on_from_its_file_and_loses_no_heat(tmp_path: Path) -> None:
    path, done = tmp_path / "sweep.jsonl", results()
    kept = SweepFile(path, REQUEST, PROVENANCE)
    for result in done[:3]:
        kept.add(result)
    with path.open("a") as file:
        file.write('{"heat": {"prompt_ind')  # a crash in the middle of a line
    again = SweepFile(path, REQUEST, PROVENANCE)
    assert again.results == done[:3]
    again.add(done[3])
    assert sweep_file.read(path.read_text(), "x") == (REQUEST, done[:4])
    assert sweep_file.provenance_of(path.read_text()) == PROVENANCE


@pytest.mark.parametrize("content", ["", "nonsense\n", "[]\n", '{"specdemo_sweep": 9}\n', '{"specdemo_sweep": 1}\n'])
def test_what_is_not_a_sweep_is_refused_in_a_line(content: str) -> None:
    with pytest.raises(SpecdemoError) as caught:
        sweep_file.read(content, "some.jsonl")
    assert "some.jsonl" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_another_sweep_in_the_file_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "sweep.jsonl"
    SweepFile(path, REQUEST, PROVENANCE).add(results()[0])
    before = path.read_bytes()
    other = SweepRequest(prompts=PROMPTS, drafters=("ngram",), ks=(1, 3), temperatures=(0.0, 0.7))
    with pytest.raises(SpecdemoError, match="another sweep .other drafters"):
        SweepFile(path, other, PROVENANCE)
    assert path.read_bytes() == before


def test_reports_hold_every_point_and_define_their_columns() -> None:
    document = sweep_document(REQUEST, results(), PROVENANCE)
    assert json.loads(json.dumps(document, allow_nan=False))["rows"] == json.loads(json.dumps(document["rows"]))
    table = rows_csv(document["rows"]).splitlines()
    assert len(table) == 1 + len(document["rows"])
    cells = list(csv.DictReader(io.StringIO(rows_csv(document["rows"]))))
    for row, point in zip(cells, document["rows"], strict=True):
        for name in ("interval", "tokens_per_round_interval", "alpha_interval"):
            expected = ["", ""] if point[name] is None else [str(bound) for bound in point[name]]
            assert [row[f"{name}_from"], row[f"{name}_to"]] == expected
    report = markdown(document)
    assert report.count("| quantized |") == 4 + 4 * 3
    assert all(f"`{name}`" in report for name in DEFINITIONS)
    assert set(DEFINITIONS) <= set(document["rows"][0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"drafters": ()}, "choose at least one"),
        ({"prompts": ()}, "choose at least one"),
        ({"drafters": ("none",)}, "which is plain decoding itself"),
        ({"drafters": ("magic",)}, "the drafter is 'magic'"),
        ({"ks": (0,)}, "K is 0"),
        ({"temperatures": (9.0,)}, "temperature is 9"),
        ({"precision": "int3"}, "precision"),
        ({"prompts": (SweepPrompt("a", "en", " "),)}, "the prompt is empty"),
    ],
)
def test_a_sweep_that_cannot_be_run_is_one_sentence(changes: dict, message: str) -> None:
    with pytest.raises(SpecdemoError, match=message) as caught:
        SweepRequest(**{"prompts": PROMPTS, "drafters": ("ngram",), **changes})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "changes", [{"prompts": ()}, {"prompts": ("x",) * 0}, {"drafters": ()}, {"seconds": 1.0}, {"temperature": -1.0}]
)
def test_advice_that_cannot_be_given_is_one_sentence(changes: dict) -> None:
    with pytest.raises(SpecdemoError):
        AdviceRequest(**{"prompts": ("x",), **changes})


def estimate(drafter: str, k: int, tokens: float, draft: float, verify: float) -> Estimate:
    """Its speedup is what its costs make of it."""
    speedup = tokens / (draft + verify)
    return Estimate(
        drafter=drafter, k=k, tokens_per_round=tokens, draft_cost=draft, verify_cost=verify, speedup=speedup
    )


def test_the_best_k_of_each_drafter_comes_first() -> None:
    found = best_of_each(
        [
            estimate("a", 1, 1.5, 0.1, 1),
            estimate("a", 4, 3.0, 0.2, 1),
            estimate("b", 2, 4.0, 0.1, 1),
            estimate("b", 8, 4.0, 0.1, 1),
        ]
    )
    assert [(one.drafter, one.k) for one in found] == [("b", 2), ("a", 4)]


@pytest.mark.parametrize(
    ("tokens", "draft", "verify", "reason"),
    [(1.5, 1.0, 1.0, "draft"), (1.5, 0.1, 1.6, "verification"), (1.0, 0.0, 1.0, "acceptance")],
)
def test_what_stands_in_the_way_is_what_would_have_to_be_free(
    tokens: float, draft: float, verify: float, reason: str
) -> None:
    assert obstacle([estimate("a", 2, tokens, draft, verify)]) == reason


def test_the_measurement_decides() -> None:
    slow = points(REQUEST, [HeatResult(r.heat, {PLAIN: r.lanes[PLAIN], 3: lane([(3, 0)] * 12)}) for r in results()])
    fast = points(REQUEST, results())
    promising = [estimate("ngram", 3, 4.0, 0.1, 1)]
    assert decide(promising, slow) == (None, "doubt")
    assert decide([estimate("ngram", 3, 1.0, 0.3, 1)], slow) == (None, "acceptance")
    best, reason = decide(promising, fast)
    assert reason == "pays"
    assert best is not None
    assert best.k == 3
