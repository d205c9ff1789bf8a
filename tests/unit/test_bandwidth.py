"""Whether passes wait for memory: bytes over time of the right lanes, beside a copy's."""

from dataclasses import replace

import pytest

from specdemo import bandwidth, bench
from specdemo.engine import Engine
from specdemo.events import Round
from specdemo.points import points
from specdemo.prompt_set import SweepPrompt
from specdemo.sweeps import PLAIN, HeatResult, SweepRequest
from tests.fakes import make_target


def asked(drafters: tuple[str, ...], ks: tuple[int, ...]) -> SweepRequest:
    return SweepRequest(prompts=(SweepPrompt("chat", "en", "hi"),), drafters=drafters, ks=ks, max_new_tokens=8)


def test_a_copy_takes_time() -> None:
    assert bandwidth.copy_bandwidth(make_target()) > 0


def test_the_word_turns_at_half_of_what_copying_reaches() -> None:
    assert [bandwidth.bound(share) for share in (None, 0.49, 0.5, 1.2)] == [None, "launch", "memory", "memory"]


def test_bench_says_of_each_pair_what_it_waits_for() -> None:
    request = asked(("quantized", "ngram"), (2,))
    document = bench.run(Engine(make_target()), bench.Plan(request), lambda text, share: None)
    assert document["copy_gigabytes_per_second"] > 0
    assert set(bandwidth.COLUMNS) < set(document["columns"])
    by_drafter = {row["drafter"]: row for row in document["rows"]}
    for row in by_drafter.values():
        assert row["target_bound"] == bandwidth.bound(row["target_of_copy_bandwidth"])
    assert by_drafter["quantized"]["draft_bound"] in ("memory", "launch")
    assert by_drafter["ngram"]["draft_bound"] is None, "it reads no weights"


def test_shares_are_of_the_plain_lanes_passes_and_of_the_drafting_at_that_k() -> None:
    request = asked(("quantized",), (2, 4))
    engine = Engine(make_target())
    results: list[HeatResult] = [
        update for update in bench.run_sweep(engine, request, (), None) if isinstance(update, HeatResult)
    ]

    def timed(lane: int, event: object) -> object:
        """Passes of 100 bytes a second in the plain lane, drafting of 10 * K elsewhere."""
        if not isinstance(event, Round):
            return event
        seconds = event.verify_bytes / (100 if lane == PLAIN else 7)
        return replace(event, verify_seconds=seconds, draft_seconds=event.draft_bytes / (10 * max(lane, 1)))

    made = [
        replace(
            result, lanes={lane: tuple(timed(lane, event) for event in events) for lane, events in result.lanes.items()}
        )
        for result in results
    ]
    for point in points(request, made):
        row = bandwidth.bound_row(point, made, 200.0)
        assert row["target_of_copy_bandwidth"] == pytest.approx(0.5)
        assert row["draft_of_copy_bandwidth"] == pytest.approx(10 * point.k / 200)
        assert (row["target_bound"], row["draft_bound"]) == ("memory", "launch")
