"""A batch as values: what can be asked for, and where the curve crosses 1."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdemo.batches import BATCH_SIZES, MAX_BATCH_SIZE, BatchPoint, BatchRequest, crossing, crossing_sentence
from specdemo.errors import SpecdemoError
from specdemo.prompts import load_prompts
from tests.fakes_batches import SPEEDUPS, scripted_batches, scripted_point
from tests.fakes_ui import ScriptedSource

SIZES = st.lists(st.integers(1, MAX_BATCH_SIZE), min_size=1, max_size=6, unique=True)


def curve(speedups: dict[int, float]) -> list[BatchPoint]:
    return [scripted_point(size, speedup) for size, speedup in speedups.items()]


@given(st.dictionaries(st.integers(1, MAX_BATCH_SIZE), st.floats(0.1, 8.0), min_size=1, max_size=6), st.randoms())
def test_a_crossing_lies_between_a_size_that_pays_and_the_next_one_that_does_not(speedups: dict, random) -> None:
    points = curve(speedups)
    random.shuffle(points)
    found, sizes = crossing(points), sorted(speedups)
    falls = [(a, b) for a, b in zip(sizes, sizes[1:], strict=False) if speedups[a] >= 1.0 > speedups[b]]
    if not falls:
        assert found is None
    else:
        assert found is not None
        assert falls[0][0] <= found <= falls[0][1]
    sentence = crossing_sentence(points)
    assert ("interpolated" in sentence) == bool(falls)
    assert sentence.endswith(".")
    assert "\n" not in sentence


@given(st.floats(0.1, 3.0), st.floats(1.01, 15.9) | st.sampled_from([0.5, 20.0]))
def test_a_speedup_that_falls_evenly_with_each_doubling_crosses_where_it_is_one(fall: float, at: float) -> None:
    points = curve({size: 1.0 + fall * math.log2(at / size) for size in BATCH_SIZES})
    found = crossing(points)
    if 1 <= at < 16:
        assert found == pytest.approx(at)
    else:
        assert found is None


def test_each_kind_of_curve_has_its_sentence() -> None:
    assert crossing_sentence(curve(SPEEDUPS)) == (
        "The speedup crosses 1 at about 11.3 requests at once (interpolated between 8 and 16)."
    )
    assert "does not fall below 1" in crossing_sentence(curve({1: 2.0, 16: 1.0}))
    assert "below 1 at every size" in crossing_sentence(curve({1: 0.9, 16: 0.8}))
    assert "rises above" in crossing_sentence(curve({1: 0.9, 16: 1.2}))
    assert "No batch size" in crossing_sentence([])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"drafter": "nonsense"}, "must be one of"),
        ({"drafter": "none"}, "plain decoding itself"),
        ({"k": 17}, "K is 17"),
        ({"temperature": 3.0}, "temperature is 3"),
        ({"rule": "magic"}, "the rule|rule is"),
        ({"batch_sizes": ()}, "no batch size"),
        ({"batch_sizes": (1, 32)}, "from 1 to 16"),
        ({"batch_sizes": (2.5,)}, "from 1 to 16"),
        ({"max_new_tokens": 0}, "max-new-tokens is 0"),
        ({"precision": "int3"}, "precision is"),
        ({"prompts": ("",)}, "empty"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_a_sentence(values: dict, message: str) -> None:
    with pytest.raises(SpecdemoError, match=message) as caught:
        BatchRequest(**{"drafter": "ngram", **values})
    assert "\n" not in str(caught.value)


def test_requests_beyond_the_prompts_have_another_seed() -> None:
    request = BatchRequest(drafter="ngram", prompts=("one", "two", "three"), seed=5)
    assert [request.settings(number).seed for number in range(7)] == [5, 5, 5, 6, 6, 6, 7]
    assert BatchRequest(drafter="ngram").all_prompts() == tuple(item.prompt for item in load_prompts())


@given(SIZES)
def test_the_scripted_source_gives_a_point_for_each_size(sizes: list[int]) -> None:
    request = BatchRequest(drafter="ngram", batch_sizes=tuple(sizes))
    source = ScriptedSource()
    assert list(source.batch(request)) == list(scripted_batches(request))
    points = [update for update in source.batch(request) if isinstance(update, BatchPoint)]
    assert [point.batch_size for point in points] == sizes
    updates = source.batch(request)
    next(updates)
    updates.close()  # type: ignore[attr-defined]
    assert (source.running, source.closed) == (0, 3)
