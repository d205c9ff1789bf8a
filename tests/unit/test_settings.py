"""Every setting inside its range is kept, everything outside is refused with a sentence that helps."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdemo.errors import SettingsError
from specdemo.settings import MAX_DRAFT_TOKENS, MAX_NEW_TOKENS, RULES, SCHEDULES, DecodeSettings

VALID = st.fixed_dictionaries(
    {},
    optional={
        "num_draft_tokens": st.integers(1, MAX_DRAFT_TOKENS),
        "max_new_tokens": st.integers(1, MAX_NEW_TOKENS),
        "temperature": st.just(0.0) | st.floats(1e-4, 2),
        "top_p": st.floats(0, 1, exclude_min=True),
        "top_k": st.integers(0, 1_000_000),
        "min_p": st.floats(0, 1),
        "repetition_penalty": st.floats(0.1, 5),
        "seed": st.integers(0, 2**63 - 1),
        "rule": st.sampled_from(RULES),
        "schedule": st.sampled_from(SCHEDULES),
        "stop": st.lists(st.text(min_size=1, max_size=5), max_size=3).map(tuple),
        "evidence": st.booleans(),
    },
)
OUTSIDE = {
    "num_draft_tokens": [0, MAX_DRAFT_TOKENS + 1, 2.5],
    "max_new_tokens": [0, MAX_NEW_TOKENS + 1],
    "temperature": [-0.1, 2.1, 5e-5],
    "top_p": [0.0, -0.1, 1.1],
    "top_k": [-1, 0.5],
    "min_p": [-0.1, 1.1],
    "repetition_penalty": [0.0, 5.1],
    "seed": [-1, 2**63, 10**400],
    "rule": ["fast", "", None],
    "schedule": ["random"],
    "evidence": ["no", 2],
    "stop": [("end", "")],
}
NUMBERS = [name for name, values in OUTSIDE.items() if not isinstance(values[0], str | tuple)]
LABELS = {"num_draft_tokens": "K"}


@given(values=VALID)
def test_settings_survive_json_unchanged(values: dict[str, Any]) -> None:
    settings = DecodeSettings(**values)
    assert DecodeSettings.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings


@given(values=VALID)
def test_values_inside_their_range_are_kept(values: dict[str, Any]) -> None:
    settings = DecodeSettings(**values)
    assert {name: getattr(settings, name) for name in values} == values


@pytest.mark.parametrize(
    ("name", "value"),
    [pytest.param(name, value, id=f"{name}-{value!s:.9}") for name, values in OUTSIDE.items() for value in values],
)
def test_a_value_outside_its_range_is_named_with_what_is_expected(name: str, value: object) -> None:
    with pytest.raises(SettingsError) as caught:
        DecodeSettings(**{name: value})
    message = str(caught.value)
    assert message.startswith(LABELS.get(name, name.replace("_", "-"))) or name == "stop"
    assert "\n" not in message
    assert message.endswith(".")


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "4", None, [4]])
def test_what_is_no_finite_number_is_refused_where_a_number_is_due(name: str, value: object) -> None:
    with pytest.raises(SettingsError, match="must be"):
        DecodeSettings(**{name: value})


@pytest.mark.parametrize("name", ["num_draft_tokens", "max_new_tokens", "top_k", "seed"])
def test_a_whole_float_becomes_an_int_because_counts_are_used_as_lengths(name: str) -> None:
    value = getattr(DecodeSettings(**{name: 8.0}), name)
    assert value == 8
    assert type(value) is int


def test_truth_values_are_no_numbers() -> None:
    with pytest.raises(SettingsError, match="K is True"):
        DecodeSettings(num_draft_tokens=True)


@pytest.mark.parametrize("rule", RULES)
def test_temperature_zero_is_greedy_under_every_rule(rule: str) -> None:
    assert DecodeSettings(temperature=0.0, rule=rule).resolved_rule == "greedy"


@given(temperature=st.floats(1e-4, 2), rule=st.sampled_from(RULES))
def test_above_zero_the_chosen_rule_acts_and_auto_means_rejection(temperature: float, rule: str) -> None:
    resolved = DecodeSettings(temperature=temperature, rule=rule).resolved_rule
    assert resolved == ("rejection" if rule == "auto" else rule)


def test_unknown_settings_are_refused_by_name() -> None:
    with pytest.raises(SettingsError, match="unknown settings: temprature; known are .*temperature"):
        DecodeSettings.from_dict({"temprature": 1.0})


@pytest.mark.parametrize("stop", ["END", [1], {"a": "b"}, None])
def test_a_stop_that_is_no_list_of_strings_is_refused(stop: object) -> None:
    with pytest.raises(SettingsError, match="stop is .*; it must be a list of strings"):
        DecodeSettings.from_dict({"stop": stop})
