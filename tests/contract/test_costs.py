"""`bench --profile`: parts of a pass are parts of it, and every row is a ratio to the one-token pass."""

import pytest

from specdemo.costs import WIDTHS, pass_costs, profile
from specdemo.engine import Engine
from tests.fakes import make_target


def test_a_profile_of_a_small_model_is_whole_and_plain() -> None:
    document = profile(Engine(make_target()), ["none", "ngram", "quantized", "early-exit:1"], lambda items, text: items)
    rows = {row["what"]: row for row in document["rows"]}
    assert set(rows) == {
        *(f"target pass of {width}" for width in WIDTHS),
        "draft token of quantized",
        "draft token of early-exit:1",
        "reading the weights",
        "copying memory",
    }
    one = rows["target pass of 1"]
    for name in ("target pass of 1", "draft token of quantized", "draft token of early-exit:1"):
        share = rows[name]["gigabytes_per_second"] / rows["copying memory"]["gigabytes_per_second"]
        assert rows[name]["of_copy_bandwidth"] == pytest.approx(share)
        assert rows[name]["bound"] == ("memory" if share >= 0.5 else "launch")
    for row in rows.values():
        assert row["milliseconds"] > 0
        assert abs(row["of_one_token_pass"] - row["milliseconds"] / one["milliseconds"]) < 1e-9
        if "products" in row:
            assert 0 <= row["attention_and_rest"] <= row["milliseconds"]
    assert set(document["columns"]) >= {key for row in rows.values() for key in row}


def test_a_target_in_four_bits_has_no_parts_but_every_width() -> None:
    document = profile(Engine(make_target()).at("int4"), ["ngram"], lambda items, text: items)
    rows = {row["what"]: row for row in document["rows"]}
    assert {f"target pass of {width}" for width in WIDTHS} < set(rows)
    assert not any("products" in row for row in rows.values())


def test_a_model_without_the_compiled_pass_has_no_parts() -> None:
    document = profile(Engine(make_target("qwen2")), ["ngram"], lambda items, text: items)
    assert not any("products" in row for row in document["rows"])


def test_a_page_is_told_the_seconds_of_a_pass_at_every_width() -> None:
    costs = pass_costs(Engine(make_target()))
    assert tuple(width for width, _ in costs) == WIDTHS
    assert all(seconds > 0 for _, seconds in costs)
