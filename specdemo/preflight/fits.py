"""Whether a drafter's settings and shapes are those that a target asks for; each thing by itself, all of them said."""

from collections.abc import Callable, Iterator, Sequence

from specdemo.detection import Found
from specdemo.drafters.block_formats import read_settings
from specdemo.drafters.eagle3 import feature_layers, read_layout
from specdemo.errors import ModelError
from specdemo.findings import Finding
from specdemo.places import Seen
from specdemo.preflight.facts import TargetFacts, inner_values
from specdemo.preflight.words import check_words

_Checks = Iterator[Finding]


def check_fit(facts: TargetFacts, found: Found, seen: Seen | None, spec: str) -> _Checks:
    """What the family of the drafter asks of the target."""
    name = seen.name if seen else spec
    if found.family == "early-exit" or spec.startswith("early-exit"):
        yield from _check_llama(facts, spec)
    if seen is None:
        return
    values, shapes = seen.values, seen.shapes
    if found.family not in ("draft-model", "universal"):
        yield from _check_said_sizes(facts, seen)
        if shapes:
            yield from check_words(facts, seen)
    try:
        if found.family in _CHECKS and shapes:
            yield from _CHECKS[found.family](facts, found, seen)
    except ModelError as error:
        yield Finding("refusal", "config", str(error))
    context = int(inner_values(values).get("max_position_embeddings") or 0)
    if 0 < context < facts.context_length:
        yield Finding(
            "warning",
            "context",
            f"{name} reads {context:,} tokens and the target {facts.context_length:,}: behind that there are fewer "
            "drafts or none.",
        )
    elif context:
        yield Finding("ok", "context", f"{name} reads as many tokens as the target, {facts.context_length:,}.")
    if name == facts.seen.name and found.family == "draft-model":
        yield Finding("warning", "pair", f"{name} is its own draft model: every draft is right and none pays.")


def _check_llama(facts: TargetFacts, spec: str) -> _Checks:
    if facts.config.model_type != "llama":
        yield Finding(
            "refusal",
            "architecture",
            f"early-exit needs a target of the Llama architecture; {facts.seen.name} is a {facts.config.model_type}.",
        )
    layer = spec.partition(":")[2]
    if layer.isdecimal() and not 1 <= int(layer) < facts.num_layers:
        yield Finding(
            "refusal",
            "layers",
            f"the exit layer is {layer}; it must be from 1 to {facts.num_layers - 1} for this target.",
        )


def _check_said_sizes(facts: TargetFacts, seen: Seen) -> _Checks:
    """What the config says of the target it was made for."""
    for key, ours, what in (
        ("num_target_layers", facts.num_layers, "layers"),
        ("target_hidden_size", facts.hidden_size, "numbers in a hidden state"),
    ):
        said = seen.values.get(key)
        if isinstance(said, int) and said != ours:
            yield Finding(
                "refusal", key, f"{seen.name} was made for a target of {said:,} {what}; this one has {ours:,}."
            )
    said = inner_values(seen.values).get("vocab_size")
    # Of speculators' own tensors the maps say it: its configs were written by several versions.
    if isinstance(said, int) and said != facts.vocab_size and "speculators_model_type" not in seen.values:
        yield Finding(
            "refusal",
            "vocabulary",
            f"{seen.name} was made for {said:,} token ids; this target has {facts.vocab_size:,}.",
        )


def _check_eagle3(facts: TargetFacts, found: Found, seen: Seen) -> _Checks:
    layout = read_layout(seen.name, seen.values, found)
    yield from _check_features(facts, seen, feature_layers(layout, facts.num_layers))


def _check_block(facts: TargetFacts, found: Found, seen: Seen) -> _Checks:
    settings = read_settings(seen.name, seen.values, found, facts.num_layers)
    yield from _check_features(facts, seen, settings.feature_layers)
    yield from _check_width(facts, seen, "norm.weight", 0)
    if not 0 <= settings.mask_token_id < facts.vocab_size:
        yield Finding(
            "refusal",
            "mask_token",
            f"the mask token of {seen.name} is {settings.mask_token_id:,}; this target has ids 0 to "
            f"{facts.vocab_size - 1:,}.",
        )
    else:
        yield Finding("ok", "mask_token", f"the mask token of {seen.name} is {settings.mask_token_id:,}.")
    if settings.block_size < 2:
        yield Finding(
            "refusal", "block", f"the block size of {seen.name} is {settings.block_size}; it must be at least 2."
        )


def _check_mtp(facts: TargetFacts, found: Found, seen: Seen) -> _Checks:
    if found.layout == "DeepSeek" and f"model.layers.{facts.num_layers}.eh_proj.weight" not in seen.shapes:
        yield Finding(
            "refusal",
            "layers",
            f"{seen.name} keeps no layer behind the target's {facts.num_layers}; it is for another target.",
        )
    kind = str(facts.config.model_type)
    if found.layout == "Google" and not kind.startswith("gemma4"):
        said = f"{seen.name} reads a Gemma 4 target's own keys and values; this target is a {kind}."
        yield Finding("refusal", "target", said)
    names = ("mtp.fc.weight", "mtp_layers.0.input_proj.weight", f"model.layers.{facts.num_layers}.eh_proj.weight")
    names += ("pre_projection.weight",)
    fc = next((name for name in names if name in seen.shapes), "")
    if fc:
        yield from _check_width(facts, seen, fc, 1, times=2)


def _check_medusa(facts: TargetFacts, found: Found, seen: Seen) -> _Checks:
    block = next((name for name in seen.shapes if name.endswith("0.0.linear.weight")), "")
    if block:
        yield from _check_width(facts, seen, block, 1)


def _check_early_exit(facts: TargetFacts, found: Found, seen: Seen) -> _Checks:
    yield from _check_width(facts, seen, "input_norm.weight", 0)
    layer = seen.values.get("exit_layer")
    if not isinstance(layer, int) or not 1 <= layer < facts.num_layers:
        yield Finding(
            "refusal",
            "layers",
            f"{seen.name} leaves behind layer {layer!r}; this target has {facts.num_layers} layers.",
        )


def _check_draft_model(facts: TargetFacts, found: Found, seen: Seen) -> _Checks:
    if found.layout != "specdemo":
        return
    size = seen.values.get("hidden_size")
    if size != facts.hidden_size:
        yield Finding(
            "refusal",
            "hidden_size",
            f"{seen.name} reads embeddings of {size} numbers; this target's have {facts.hidden_size:,}.",
        )


def _check_features(facts: TargetFacts, seen: Seen, layers: Sequence[int]) -> _Checks:
    """The hidden states that it reads, as transformers counts them, all before the final norm."""
    wrong = [layer for layer in layers if not 0 <= layer < facts.num_layers]
    if wrong or not layers:
        yield Finding(
            "refusal",
            "layers",
            f"{seen.name} reads the hidden states {list(layers)}; this target has 0 to {facts.num_layers - 1}.",
        )
    else:
        yield Finding("ok", "layers", f"{seen.name} reads the target's hidden states {list(layers)}.")
    yield from _check_width(facts, seen, "fc.weight", 1, times=max(1, len(layers)))


def _check_width(facts: TargetFacts, seen: Seen, tensor: str, dimension: int, times: int = 1) -> _Checks:
    """Whether a dimension of a tensor is so many hidden states wide."""
    shape = seen.shapes.get(tensor)
    if shape is None or len(shape) <= dimension:
        yield Finding("refusal", "tensors", f"{seen.name} holds no {tensor} of the shape that its layout asks for.")
        return
    expected = times * facts.hidden_size
    if shape[dimension] != expected:
        states = "a hidden state" if times == 1 else f"{times} hidden states"
        yield Finding(
            "refusal",
            "hidden_size",
            f"{tensor} of {seen.name} is for {shape[dimension]:,} numbers; {states} of this target are {expected:,}.",
        )
    else:
        yield Finding("ok", "hidden_size", f"{tensor} of {seen.name} is for hidden states of {facts.hidden_size:,}.")


_CHECKS: dict[str, Callable[[TargetFacts, Found, Seen], _Checks]] = {
    "eagle3": _check_eagle3,
    "dflash": _check_block,
    "dspark": _check_block,
    "mtp": _check_mtp,
    "medusa": _check_medusa,
    "early-exit": _check_early_exit,
    "draft-model": _check_draft_model,
}
