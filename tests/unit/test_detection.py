"""What a checkpoint is goes by its config and its tensors: every published layout, whatever its folder is called."""

import pytest

from specdemo.catalog import SHIPPED_DRAFTERS
from specdemo.detection import LANGUAGE_MODEL, Shapes, Values, detect, is_language_model
from specdemo.drafters import shipped_folder_of
from specdemo.places import look_at_folder

_NONE: Shapes = {}
_EAGLE1: Shapes = {"fc.weight": (64, 128), "layers.0.self_attn.q_proj.weight": (64, 64), "embed_tokens.weight": (9, 64)}
_MODEL: Shapes = {"model.embed_tokens.weight": (9, 64), "model.layers.0.mlp.up_proj.weight": (9, 64)}


def arch(name: str, **values: object) -> Values:
    return {"architectures": [name], **values}


CASES: dict[str, tuple[Values, Shapes, str, str]] = {
    "speculators eagle3": (arch("Eagle3Speculator", speculators_model_type="eagle3"), _NONE, "eagle3", "speculators"),
    "speculators dflash": (arch("DFlashSpeculator", speculators_model_type="dflash"), _NONE, "dflash", "speculators"),
    "speculators dspark": ({"speculators_config": {"algorithm": "dspark"}}, _NONE, "dspark", "speculators"),
    "speculators mtp": ({"speculators_model_type": "mtp"}, _NONE, "mtp", "speculators"),
    "speculators peagle": ({"speculators_model_type": "peagle"}, _NONE, "", "speculators"),
    "DeepSpec DSpark": (arch("Qwen3DSparkModel", markov_rank=256), _NONE, "dspark", "DeepSpec"),
    "DeepSpec DFlash": (arch("Qwen3DSparkModel", markov_rank=0), _NONE, "dflash", "DeepSpec"),
    "DeepSpec EAGLE-3": (arch("Qwen3Eagle3Model", target_layer_ids=[1]), {"d2t": (9,)}, "eagle3", "DeepSpec"),
    "SpecForge DSpark": (arch("DSparkDraftModel", dflash_config={}), _NONE, "dspark", "SpecForge"),
    "SpecForge by projector": (
        arch("DFlashDraftModel", dflash_config={"projector_type": "dspark"}),
        _NONE,
        "dspark",
        "SpecForge",
    ),
    "NVIDIA DSpark": (arch("LlamaForCausalLM"), {"markov_w1.weight": (9, 4)}, "dspark", "SpecForge"),
    "z-lab DFlash": (arch("DFlashDraftModel", dflash_config={}), _NONE, "dflash", "z-lab"),
    "DFlash2": (arch("DFlash2DraftModel", dflash_config={}), _NONE, "", "z-lab"),
    "EAGLE-3 by architecture": (arch("LlamaForCausalLMEagle3"), _NONE, "eagle3", "official EAGLE-3"),
    "EAGLE-3 by its layer": (arch("LlamaForCausalLM"), {"midlayer.norm.weight": (9,)}, "eagle3", "official EAGLE-3"),
    "EAGLE-3 by its map": (arch("LlamaForCausalLM"), {"d2t": (9,), "fc.weight": (4, 12)}, "eagle3", "official EAGLE-3"),
    "EAGLE-1": (arch("LlamaForCausalLM"), _EAGLE1, "", "SafeAILab"),
    "Medusa by config": ({"medusa_num_heads": 5}, _NONE, "medusa", "Medusa"),
    "Medusa by tensors": ({}, {"0.0.linear.weight": (4, 4), "0.1.weight": (9, 4)}, "medusa", "Medusa"),
    "merged Medusa": (arch("LlamaForCausalLM"), {"medusa_head.0.0.linear.weight": (4, 4)}, "medusa", "Medusa"),
    "Gemma 4 assistant": (arch("Gemma4AssistantForCausalLM"), _NONE, "mtp", "Google"),
    "Qwen's MTP": (arch("Qwen3_5ForConditionalGeneration"), {"mtp.fc.weight": (4, 8), **_MODEL}, "mtp", "Qwen"),
    "DeepSeek's MTP": (arch("DeepseekV3ForCausalLM"), {"model.layers.61.eh_proj.weight": (4, 8)}, "mtp", "DeepSeek"),
    "a language model": (arch("Qwen3ForCausalLM"), _MODEL, LANGUAGE_MODEL, "transformers"),
    "one without architectures": ({"model_type": "llama"}, _MODEL, LANGUAGE_MODEL, "transformers"),
    "something else": (arch("BertModel"), {"encoder.weight": (4, 4)}, "", ""),
    "nothing": ({}, _NONE, "", ""),
}


@pytest.mark.parametrize(("values", "shapes", "family", "layout"), CASES.values(), ids=CASES.keys())
def test_what_it_is_and_in_whose_layout(values: Values, shapes: Shapes, family: str, layout: str) -> None:
    found = detect(values, shapes)
    assert (found.family, found.layout) == (family, layout)
    assert found.title
    assert found.because


@pytest.mark.parametrize("name", [name for name in SHIPPED_DRAFTERS if not name.startswith("ngram")])
def test_the_drafters_that_ship_are_found_to_be_what_they_are_called(name: str) -> None:
    seen = look_at_folder(shipped_folder_of(name, "smollm2-135m-instruct"), "a folder")
    family = detect(seen.values, seen.shapes).family
    assert family == (LANGUAGE_MODEL if name == "universal" else name)


def test_a_target_may_hold_a_drafter_besides_and_a_drafter_is_no_target() -> None:
    values, shapes, *_ = CASES["Qwen's MTP"]
    assert is_language_model(values, shapes)
    assert not is_language_model({"model_type": "llama"}, {"mtp.fc.weight": (4, 8)})
    assert not is_language_model(*CASES["EAGLE-1"][:2])
