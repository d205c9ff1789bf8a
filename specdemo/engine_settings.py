"""What to write in other engines for a drafter, K and temperature of this one: vLLM, SGLang, llama.cpp, transformers.

The option names were read from the engines' own argument parsers, in the versions that `CHECKED` names. Words in
capitals stand for a person's own files. Draft tokens and acceptance are counted differently from engine to engine;
`k_value` and `counts` say how.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from specdemo.branches import MOST_BRANCHES
from specdemo.catalog import check_drafter_name, read_tree_setting
from specdemo.engine_texts import SENTENCES
from specdemo.settings import DecodeSettings

ENGINES = ("vLLM", "SGLang", "llama.cpp", "transformers")

CHECKED = {
    "vLLM": ("0.33.0", "vllm/config/speculative.py, vllm/v1/spec_decode, vllm/v1/core/sched/scheduler.py"),
    "SGLang": (
        "0.5.23",
        "sglang/srt/arg_groups: fields/spec.py, speculative_hook.py; srt/managers/tokenizer_manager.py",
    ),
    "llama.cpp": ("b10434", "the options and help texts of llama-server; pull requests 22397 and 19164"),
    "transformers": ("5.24.0", "transformers/generation: configuration_utils.py, candidate_generator.py, utils.py"),
}
"""Version and source files of each engine that the options were read from."""

_NGRAM_LENGTHS = (2, 5)  # of `ngram` where it does not name its own: drafters/ngram.py
_LLAMA_CACHE_DRAFTS = 8  # fixed in llama.cpp's common/speculative.cpp
# The target, sampled from the whole vocabulary, as this program does where no filter is set.
_WHOLE_VOCABULARY = {
    "vLLM": {"top_p": 1.0, "top_k": 0, "min_p": 0.0},
    "SGLang": {"top_p": 1.0, "top_k": -1, "min_p": 0.0},
}
_FILES = {
    "quantized": "TARGET_IN_FOUR_BITS",
    "draft-model": "DRAFT_MODEL",
    "universal": "DRAFT_MODEL",
    "eagle3": "EAGLE3_DRAFTER",
    "dflash": "DFLASH_DRAFTER",
    "dspark": "DSPARK_DRAFTER",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """How one engine does what was measured here; `lines` is empty where it has no such drafter, and `note` says so.

    `lines` are shell commands, Python for transformers. `request` is the JSON object that each request carries, empty
    where the lines hold all. `k_name` is what the engine calls K, empty where K cannot be set; `k_value` is the number
    to write, which is not always K; `k_note` says what it counts. `counts` says what the acceptance that the
    engine reports is a ratio of. All sentences stand in engine_texts.SENTENCES.
    """

    engine: str
    lines: tuple[str, ...] = ()
    request: str = ""
    k_name: str = ""
    k_value: int | None = None
    k_note: str = ""
    counts: str = ""
    note: str = ""
    version: str = ""
    source: str = ""


def engine_settings(drafter: str, k: int, temperature: float) -> tuple[EngineSettings, ...]:
    """One entry for each of ENGINES, in that order.

    `drafter` is a name as on the command line, with or without its setting. Raises SettingsError for a drafter, a K or
    a temperature that this program does not have.
    """
    check_drafter_name(drafter)
    chosen = DecodeSettings(num_draft_tokens=k, temperature=temperature)
    found = []
    for engine in ENGINES:
        settings = _BUILDERS[engine](*_family(drafter), chosen)
        version, source = CHECKED[engine]
        counts = SENTENCES[f"counts_{engine}"] if settings.lines and drafter != "none" else ""
        found.append(replace(settings, counts=counts, version=version, source=source))
    return tuple(found)


def _family(drafter: str) -> tuple[str, str]:
    """The name that the tables below know, and the setting; folders are no part of it, other people have their own."""
    name, _, setting = drafter.partition(":")
    if name == "ngram" and setting in ("static", "code", "hashed", "map"):
        # Tables differ in what was counted, not in how they are asked.
        return drafter.replace("code", "static"), ""
    if name == "hybrid":
        return name, (setting or "eagle3").partition(":")[0]
    if name in ("eagle3", "mtp", "medusa"):
        return name, "tree" if read_tree_setting(setting)[0] else ""
    return name, setting if name in ("ngram", "early-exit") else ""


def _lengths(setting: str) -> tuple[int, int]:
    """Shortest and longest n-gram that `ngram:MIN-MAX` looks up."""
    low, _, high = setting.partition("-")
    return (int(low), int(high)) if low.isdecimal() and high.isdecimal() else _NGRAM_LENGTHS


def _notes(*keys: str) -> str:
    """The sentences of those keys that there are, one after the other."""
    return " ".join(SENTENCES[key] for key in keys if key in SENTENCES)


def _request(engine: str, chosen: DecodeSettings) -> str:
    filters = _WHOLE_VOCABULARY[engine] if chosen.temperature else {}
    return json.dumps({"temperature": chosen.temperature, **filters})


def _missing(engine: str, family: str) -> EngineSettings:
    """The sentence of this engine and family, or the one that holds for every engine without it."""
    return EngineSettings(engine=engine, note=SENTENCES.get(f"no_{engine}_{family}", SENTENCES[f"no_{family}"]))


def _vllm(family: str, setting: str, chosen: DecodeSettings) -> EngineSettings:
    low, high = _lengths(setting)
    ways: dict[str, dict[str, object]] = {
        "ngram": {"method": "ngram", "prompt_lookup_min": low, "prompt_lookup_max": high},
        "ngram:map": {
            "method": "suffix",
            "suffix_decoding_max_cached_requests": 0,
            "suffix_decoding_min_token_prob": 0.67,
        },
        "mtp": {"method": "mtp"},
        **{name: {"method": "draft_model", "model": _FILES[name]} for name in ("quantized", "draft-model")},
        "universal": {"method": "draft_model", "model": "DRAFT_MODEL", "use_heterogeneous_vocab": True},
        **{name: {"method": name, "model": _FILES[name]} for name in ("eagle3", "dflash", "dspark")},
    }
    plain = EngineSettings(engine="vLLM", lines=("vllm serve TARGET",), request=_request("vLLM", chosen))
    if family == "none":
        return plain
    if family not in ways:
        return _missing("vLLM", family)
    config = {**ways[family], "num_speculative_tokens": chosen.num_draft_tokens}
    can_draw = family not in ("ngram", "ngram:map", "universal")
    if chosen.temperature and can_draw:
        config["draft_sample_method"] = "probabilistic"
    return replace(
        plain,
        lines=(f"vllm serve TARGET --speculative-config '{json.dumps(config)}'",),
        k_name="num_speculative_tokens",
        k_value=chosen.num_draft_tokens,
        k_note=SENTENCES["k_drafts"],
        note=_notes(f"vLLM_{family}", f"chain_for_{setting}", "vLLM_draws" if "draft_sample_method" in config else ""),
    )


def _sglang(family: str, setting: str, chosen: DecodeSettings) -> EngineSettings:
    k = chosen.num_draft_tokens
    width = MOST_BRANCHES if setting == "tree" else 1
    chain = f"--speculative-num-steps {k} --speculative-eagle-topk {width} --speculative-num-draft-tokens {k + 1}"
    trie = (
        f"--speculative-algorithm NGRAM --speculative-num-draft-tokens {k + 1} "
        "--speculative-ngram-min-bfs-breadth 1 --speculative-ngram-max-bfs-breadth 1"
    )
    standalone = f"--speculative-algorithm STANDALONE --speculative-draft-model-path {{}} {chain}"
    ways = {
        "ngram": f"{trie} --speculative-ngram-match-type BFS",
        "ngram:map": f"{trie} --speculative-ngram-match-type PROB",
        "ngram:static": f"{trie} --speculative-ngram-external-corpus-path CORPUS.jsonl "
        f"--speculative-ngram-external-sam-budget {max(1, k // 2)}",
        "quantized": standalone.format("TARGET_IN_FOUR_BITS --speculative-draft-model-quantization METHOD"),
        "draft-model": standalone.format("DRAFT_MODEL"),
        "eagle3": f"--speculative-algorithm EAGLE3 --speculative-draft-model-path EAGLE3_DRAFTER {chain}",
        "mtp": f"--speculative-algorithm NEXTN {chain}"
        + (" --speculative-use-rejection-sampling" if chosen.temperature else ""),
        "dflash": "--speculative-algorithm DFLASH --speculative-draft-model-path DFLASH_DRAFTER "
        f"--speculative-dflash-block-size {k + 1}",
        "dspark": "--speculative-algorithm DSPARK --speculative-draft-model-path DSPARK_DRAFTER "
        f"--speculative-dspark-block-size {k}",
    }
    command = "sglang serve --model-path TARGET"
    plain = EngineSettings(engine="SGLang", lines=(command,), request=_request("SGLang", chosen))
    if family == "none":
        return plain
    if family not in ways:
        return _missing("SGLang", family)
    names = {"dflash": "speculative-dflash-block-size", "dspark": "speculative-dspark-block-size"}
    return replace(
        plain,
        lines=(f"{command} {ways[family]}",),
        k_name=f"--{names.get(family, 'speculative-num-draft-tokens')}",
        k_value=k if family == "dspark" else k + 1,
        k_note=SENTENCES["k_drafts" if family == "dspark" else "k_window"],
        note=_notes(f"SGLang_{family}", "SGLang_cpu" if chosen.temperature and chain in ways[family] else ""),
    )


def _llama(family: str, setting: str, chosen: DecodeSettings) -> EngineSettings:
    k = chosen.num_draft_tokens
    # A draft shorter than the n-gram looked up is thrown away, so n may not exceed K.
    n = min(_lengths(setting)[0], k)
    simple = f"--spec-ngram-simple-size-n {n} --spec-ngram-simple-size-m {k}"
    drafts = f"--spec-draft-n-max {k} --spec-draft-p-min 0"
    types = {"quantized": "simple", "draft-model": "simple", "mtp": "mtp"}
    types |= {name: name for name in ("eagle3", "dflash", "dspark")}
    models = {name: f" --spec-draft-model {_FILES[name]}.gguf" for name in types if name in _FILES}
    ways = {
        "ngram": f"--spec-type ngram-simple {simple}",
        "ngram:hashed": f"--spec-type ngram-mod --spec-ngram-mod-n-match 2 --spec-ngram-mod-n-min 1 "
        f"--spec-ngram-mod-n-max {k}",
        "ngram:map": f"--spec-type ngram-map-k4v --spec-ngram-map-k4v-size-n 2 --spec-ngram-map-k4v-size-m {k} "
        "--spec-ngram-map-k4v-min-hits 1",
        "ngram:static": "--spec-type ngram-cache --lookup-cache-static STATIC_CACHE_FILE",
        **{name: f"--spec-type draft-{kind}{models.get(name, '')} {drafts}" for name, kind in types.items()},
    }
    if family == "hybrid" and setting in types:
        ways["hybrid"] = f"--spec-type ngram-simple,draft-{types[setting]}{models.get(setting, '')} {simple} {drafts}"
    filters = " --top-k 0 --top-p 1 --min-p 0" if chosen.temperature else ""
    command, ending = "llama-server -m TARGET.gguf", f"--temp {chosen.temperature:g}{filters}"
    if family == "none":
        return EngineSettings(engine="llama.cpp", lines=(f"{command} {ending}",))
    if family not in ways:
        return _missing("llama.cpp", family)
    names = {"ngram": "ngram-simple-size-m", "ngram:hashed": "ngram-mod-n-max", "ngram:map": "ngram-map-k4v-size-m"}
    is_fixed = family == "ngram:static"  # K is a number in llama.cpp's source
    return EngineSettings(
        engine="llama.cpp",
        lines=(f"{command} {ways[family]} {ending}",),
        k_name="" if is_fixed else f"--spec-{names.get(family, 'draft-n-max')}",
        k_value=_LLAMA_CACHE_DRAFTS if is_fixed else k,
        k_note=SENTENCES["k_cache" if is_fixed else "k_drafts"],
        note=_notes(
            f"llama.cpp_{family}",
            f"chain_for_{setting}",
            "llama.cpp_draws" if chosen.temperature and drafts in ways[family] else "",
        ),
    )


def _transformers(family: str, setting: str, chosen: DecodeSettings) -> EngineSettings:
    k = chosen.num_draft_tokens
    lookup = f"prompt_lookup_num_tokens={k}, max_matching_ngram_size={_lengths(setting)[1]}"
    assisted = "assistant_model=assistant"
    ways = {
        "none": "",
        "ngram": lookup,
        "quantized": assisted,
        "draft-model": assisted,
        "universal": f"{assisted}, tokenizer=tokenizer, assistant_tokenizer=assistant_tokenizer",
        "early-exit": f"assistant_early_exit={int(setting) if setting.isdecimal() else 'NUM_LAYERS'}",
        "mtp": "use_mtp=True",
    }
    if family not in ways:
        return _missing("transformers", family)
    sampling = f"do_sample=True, temperature={chosen.temperature:g}, top_k=0, top_p=1.0"
    arguments = ["**inputs", ways[family], sampling if chosen.temperature else "do_sample=False"]
    lines = [
        "from transformers import AutoModelForCausalLM, AutoTokenizer",
        'tokenizer = AutoTokenizer.from_pretrained("TARGET")',
        'model = AutoModelForCausalLM.from_pretrained("TARGET")',
        'inputs = tokenizer("PROMPT", return_tensors="pt")',
    ]
    if assisted in ways[family]:
        lines.append(f'assistant = AutoModelForCausalLM.from_pretrained("{_FILES[family]}")')
    if "assistant_tokenizer" in ways[family]:
        lines.append(f'assistant_tokenizer = AutoTokenizer.from_pretrained("{_FILES[family]}")')
    drafter = {"early-exit": "model", "ngram": "", "none": "", "mtp": ""}.get(family, "assistant")
    if drafter:
        # Their defaults stop a draft early and let K drift; with these two lines K is the number that was measured.
        lines += [
            f"{drafter}.generation_config.num_assistant_tokens = {k}",
            f'{drafter}.generation_config.num_assistant_tokens_schedule = "constant"',
            f"{drafter}.generation_config.assistant_confidence_threshold = 0.0",
        ]
    lines.append(f"model.generate({', '.join(filter(None, arguments))})")
    name = "num_assistant_tokens" if drafter else "prompt_lookup_num_tokens" if family == "ngram" else ""
    return EngineSettings(
        engine="transformers",
        lines=tuple(lines),
        k_name=name,
        k_value=k if name else None,
        k_note=SENTENCES["k_drafts"] if name else SENTENCES["k_layers"] if family == "mtp" else "",
        note=_notes(f"transformers_{family}"),
    )


_BUILDERS: dict[str, Callable[[str, str, DecodeSettings], EngineSettings]] = {
    "vLLM": _vllm,
    "SGLang": _sglang,
    "llama.cpp": _llama,
    "transformers": _transformers,
}
