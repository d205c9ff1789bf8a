"""The settings for other engines: each drafter has lines or a sentence in each, and K stands in them as it counts."""

import ast
import inspect
import json
import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import GenerationConfig, GenerationMixin

from specdemo.catalog import DRAFTER_LABELS
from specdemo.drafters.ngram import DEFAULT_MAX_N, DEFAULT_MIN_N
from specdemo.engine_settings import CHECKED, ENGINES, EngineSettings, engine_settings
from specdemo.engine_texts import SENTENCES
from specdemo.errors import SettingsError
from specdemo.settings import MAX_DRAFT_TOKENS

DRAFTERS = [
    *DRAFTER_LABELS,
    "ngram:1-4",
    "ngram:3-3",
    "early-exit:12",
    "hybrid:quantized",
    "hybrid:mtp",
    "hybrid:medusa",
]
DRAFTER = st.sampled_from(DRAFTERS)
K = st.integers(1, MAX_DRAFT_TOKENS)
TEMPERATURE = st.sampled_from([0.0, 0.7, 1.0])


def settings_of(engine: str, drafter: str, k: int = 4, temperature: float = 0.0) -> EngineSettings:
    """One engine's entry."""
    return engine_settings(drafter, k, temperature)[ENGINES.index(engine)]


def options(found: EngineSettings) -> dict[str, str]:
    """Long options of a command line with what follows each, "" for a switch."""
    words = shlex.split(found.lines[0])
    return {
        word: "" if after.startswith("--") else after
        for word, after in zip(words, [*words[1:], "--"], strict=True)
        if word.startswith("--")
    }


@given(DRAFTER, K, TEMPERATURE)
def test_every_engine_has_lines_or_says_in_a_sentence_that_it_has_not(drafter: str, k: int, temperature: float) -> None:
    found = engine_settings(drafter, k, temperature)
    assert [entry.engine for entry in found] == list(ENGINES)
    for entry in found:
        assert (entry.version, entry.source) == CHECKED[entry.engine]
        texts = (entry.k_note, entry.counts, entry.note)
        assert all(text == "" or (text[0] != " " and text.endswith(".")) for text in texts)
        if not entry.lines:
            assert entry.note
            assert (entry.request, entry.k_name, entry.k_value, entry.counts) == ("", "", None, "")
        elif drafter != "none":
            assert entry.k_note
            assert entry.counts
            assert "TARGET" in " ".join(entry.lines)


@given(DRAFTER, K, TEMPERATURE)
def test_k_stands_behind_its_name_as_often_as_it_is_counted(drafter: str, k: int, temperature: float) -> None:
    for entry in engine_settings(drafter, k, temperature):
        if entry.k_name:
            assert re.search(rf"{entry.k_name}\W+{entry.k_value}\b", "\n".join(entry.lines)), entry
            assert entry.k_value == k + (entry.k_note == SENTENCES["k_window"])
        else:
            assert not re.search(r"num_speculative_tokens|n-max|size-m|num-draft-tokens", " ".join(entry.lines))


@given(DRAFTER, K, TEMPERATURE)
def test_the_temperature_reaches_every_engine(drafter: str, k: int, temperature: float) -> None:
    for entry in engine_settings(drafter, k, temperature):
        if entry.request:
            request = json.loads(entry.request)
            assert request["temperature"] == temperature
            assert ("top_k" in request) == (temperature > 0)
        elif entry.engine == "llama.cpp" and entry.lines:
            assert float(options(entry)["--temp"]) == temperature
            assert ("--top-k" in options(entry)) == (temperature > 0)
        elif entry.lines:
            assert (f"temperature={temperature:g}" in entry.lines[-1]) == (temperature > 0)
            assert f"do_sample={temperature > 0}" in entry.lines[-1]


@given(DRAFTER, K)
def test_llama_drafts_from_ngrams_at_all_and_with_the_options_it_has_now(drafter: str, k: int) -> None:
    found = settings_of("llama.cpp", drafter, k)
    if found.lines:
        chosen = options(found)
        assert not {"--draft", "--draft-max", "--draft-n", "--spec-ngram-size-m"} & set(chosen)
        if "--spec-ngram-simple-size-m" in chosen:
            # A draft shorter than the n-gram that was looked up is thrown away.
            assert 1 <= int(chosen["--spec-ngram-simple-size-n"]) <= int(chosen["--spec-ngram-simple-size-m"]) == k


@given(DRAFTER, K, TEMPERATURE)
def test_what_generate_is_given_is_known_to_it(drafter: str, k: int, temperature: float) -> None:
    found = settings_of("transformers", drafter, k, temperature)
    call = ast.parse("\n".join(found.lines)).body[-1:]
    names = {
        word.arg for node in ast.walk(ast.Module(call, [])) if isinstance(node, ast.Call) for word in node.keywords
    }
    # The tokenizers are taken out of what `generate` is given before the rest becomes a configuration.
    known = set(inspect.signature(GenerationMixin.generate).parameters) | set(vars(GenerationConfig()))
    assert names - {None} <= known | {"tokenizer", "assistant_tokenizer"}
    for name in re.findall(r"generation_config\.(\w+)", "\n".join(found.lines)):
        assert name in known


def test_the_settings_that_people_will_look_for() -> None:
    config = json.loads(options(settings_of("vLLM", "eagle3", 3))["--speculative-config"])
    assert config == {"method": "eagle3", "model": "EAGLE3_DRAFTER", "num_speculative_tokens": 3}
    drawn = json.loads(options(settings_of("vLLM", "eagle3", 3, 0.7))["--speculative-config"])
    assert drawn == config | {"draft_sample_method": "probabilistic"}
    ngram = json.loads(options(settings_of("vLLM", "ngram", 6))["--speculative-config"])
    assert (ngram["prompt_lookup_min"], ngram["prompt_lookup_max"]) == (DEFAULT_MIN_N, DEFAULT_MAX_N)

    sglang = options(settings_of("SGLang", "eagle3", 3))
    chain = {"steps": "3", "num-draft-tokens": "4"}
    assert {sglang["--speculative-num-steps"], sglang["--speculative-num-draft-tokens"]} == set(chain.values())
    assert sglang["--speculative-eagle-topk"] == "1"
    assert options(settings_of("SGLang", "dflash", 7))["--speculative-dflash-block-size"] == "8"
    assert options(settings_of("SGLang", "dspark", 7))["--speculative-dspark-block-size"] == "7"

    assert options(settings_of("llama.cpp", "quantized", 5))["--spec-type"] == "draft-simple"
    hybrid = options(settings_of("llama.cpp", "hybrid", 5))
    assert hybrid["--spec-type"] == "ngram-simple,draft-eagle3"
    assert hybrid["--spec-draft-n-max"] == hybrid["--spec-ngram-simple-size-m"] == "5"
    assert settings_of("llama.cpp", "ngram:static", 4).k_value == 8

    assert "prompt_lookup_num_tokens=6" in settings_of("transformers", "ngram", 6).lines[-1]
    assert "assistant.generation_config.num_assistant_tokens = 6" in settings_of("transformers", "quantized", 6).lines
    assert "assistant_early_exit=12" in settings_of("transformers", "early-exit:12").lines[-1]


def test_what_an_engine_lacks() -> None:
    lacking = {
        drafter: [e.engine for e in engine_settings(drafter, 4, 0.0) if not e.lines] for drafter in DRAFTER_LABELS
    }
    assert lacking == {
        "none": [],
        "ngram": [],
        "ngram:static": ["vLLM", "transformers"],
        "ngram:code": ["vLLM", "transformers"],
        "ngram:hashed": ["vLLM", "SGLang", "transformers"],
        "ngram:map": ["transformers"],
        "quantized": [],
        "eagle3": ["transformers"],
        "eagle3:tree": ["transformers"],
        "mtp": [],
        "dspark": ["transformers"],
        "dflash": ["transformers"],
        "medusa": list(ENGINES),
        "medusa:tree": list(ENGINES),
        "draft-model": [],
        "universal": ["SGLang", "llama.cpp"],
        "hybrid": ["vLLM", "SGLang", "transformers"],
        "early-exit": ["vLLM", "SGLang", "llama.cpp"],
    }


def test_every_sentence_is_said_somewhere() -> None:
    said = " ".join(
        text
        for drafter in DRAFTERS
        for temperature in (0.0, 0.7)
        for entry in engine_settings(drafter, 4, temperature)
        for text in (entry.k_note, entry.counts, entry.note)
    )
    assert not [key for key, text in SENTENCES.items() if text not in said]


@pytest.mark.parametrize(("drafter", "k", "temperature"), [("magic", 4, 0.0), ("ngram", 0, 0.0), ("ngram", 4, 9.0)])
def test_what_this_program_has_not_is_refused(drafter: str, k: int, temperature: float) -> None:
    with pytest.raises(SettingsError):
        engine_settings(drafter, k, temperature)


def test_a_tree_is_a_tree_where_the_engine_has_one_and_else_says_that_it_is_a_chain() -> None:
    for found in engine_settings("eagle3:tree", 9, 0.0):
        if found.engine == "SGLang":
            assert "--speculative-eagle-topk 4" in found.lines[0]
        elif found.lines:
            assert "drafts chains" in found.note
    assert (
        "--speculative-eagle-topk 1"
        in next(e for e in engine_settings("eagle3", 9, 0.0) if e.lines and e.engine == "SGLang").lines[0]
    )
