"""The same target at another precision: what a pass costs changes, and with it whether speculation pays.

`int4` computes from the GGUF file's own blocks what float32 computes from their expansion, bit for bit; a target that
was never in four bits is rounded. `bfloat16` is a copy, and rounds.
"""

import copy
from dataclasses import replace

import torch

from specdemo import four_bit
from specdemo.catalog import check_precision
from specdemo.errors import ModelError
from specdemo.target import Target

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def in_precision(target: Target, precision: str) -> Target:
    """The target at a precision; itself where it has it already, or for "auto".

    Raises SettingsError for an unknown precision, ModelError for one that cannot be had on this device.
    """
    check_precision(precision)
    if precision in ("auto", target.precision):
        return target
    if precision == "int4":
        return _in_four_bits(target)
    model = copy.deepcopy(target.model).to(_DTYPES[precision])
    made = Target.from_model(target.name, model, target.tokenizer, revision=target.revision, gguf_path=target.gguf_path)
    return replace(made, eos_token_ids=target.eos_token_ids)


def _in_four_bits(target: Target) -> Target:
    if target.lm.device.type != "cpu":
        raise ModelError(f"int4 runs on the CPU; the target is on {target.lm.device}. Choose float32 or bfloat16.")
    if target.gguf_path is not None:
        lm = four_bit.from_gguf(target.gguf_path, target.model, target.lm)
    else:
        lm = four_bit.from_weights(target.model, target.lm)
    return replace(target, lm=lm, precision="int4")
