"""Bytes of caches as computed are those of the buffers that hold them; the peak is what the process really used."""

import gc
import sys
import tracemalloc
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from specdemo.causal_lm import TransformersLM
from specdemo.drafters import make_drafter
from specdemo.drafters.early_exit import EarlyExitSession
from specdemo.drafters.hybrid import HybridDrafter, HybridSession
from specdemo.drafters.layers import KeyValues
from specdemo.drafters.ngram_table import NgramTable
from specdemo.engine import Engine
from specdemo.llama import LlamaLM, LlamaSession
from specdemo.memory import memory_of, peak_bytes, reset_peak
from specdemo.precision import in_precision
from specdemo.sampling import Sampler
from specdemo.settings import DecodeSettings
from specdemo.train import eagle3, medusa, mtp
from specdemo.train.block import DFLASH, DSPARK
from tests.fakes import VOCAB_SIZE, make_model, make_target, make_tokenizer
from tests.fakes_models import CROPPABLE, NOT_CROPPABLE
from tests.students import change_config

LENGTHS = (1, 7, 300)
WINDOW = 8  # of the tiny models that have one
LAYERS = [0, 1, 2]
CPU = torch.device("cpu")
WORDS = torch.arange(VOCAB_SIZE)  # all of them may be drafted


def held(session: Any) -> int:
    """Keys and values in the cache of transformers that a session holds, of as many tokens as it has read."""
    tensors = [getattr(layer, name, None) for layer in session._cache.layers for name in ("keys", "values")]
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("num_groups", [1, 4])
def test_a_llamas_cache_is_as_large_as_computed(dtype: torch.dtype, num_groups: int) -> None:
    model = make_model("llama", num_key_value_heads=num_groups).to(dtype)
    lm = LlamaLM.from_transformers(model)  # type: ignore[arg-type]
    for length in LENGTHS:
        session = lm.open()
        session.forward([3] * length, 0)
        assert lm.cache_bytes(length) == session.keys_and_values().nbytes
        assert session._cache is not None
        assert lm.cache_bytes(session._cache.shape[3]) == session._cache.nbytes, "the room for more as well"


@pytest.mark.parametrize("kind", [*(kind for kind in CROPPABLE if kind != "llama"), *NOT_CROPPABLE])
def test_a_cache_of_transformers_is_as_large_as_computed(kind: str) -> None:
    lm = make_target(kind).lm
    assert isinstance(lm, TransformersLM)
    for length in (1, WINDOW, WINDOW + 5):
        session = lm.open()
        session.forward([3] * length, 0)
        if lm.can_crop:
            session.crop(length)  # a window lets go of what is behind it at a crop only
        assert lm.cache_bytes(length) == held(session)


STUDENTS: dict[str, Callable[[PreTrainedModel], Any]] = {
    "eagle3": lambda model: eagle3.make(model, WORDS, Namespace(unrolled=2)),
    "mtp": lambda model: mtp.make(model, WORDS, Namespace(unrolled=2)),
    "medusa": lambda model: medusa.make(model, WORDS, Namespace(unrolled=2, blocks=1)),
    **{
        name: lambda model, family=family: family.make(model, WORDS, Namespace(layers=[1, 2], start=None))
        for name, family in (("dspark", DSPARK), ("dflash", DFLASH))
    },
}


@pytest.fixture(scope="module")
def specs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A drafter of each family for the tiny target, trained ones with the weights that they begin from."""
    target, root = make_target().model, tmp_path_factory.mktemp("drafters")
    for name, make in STUDENTS.items():
        make(target).save(root / name)
    change_config(root / "eagle3", eagle_config={"eagle_aux_hidden_state_layer_ids": LAYERS})
    for name in ("dspark", "dflash"):
        change_config(root / name, aux_hidden_state_layer_ids=LAYERS)
    for name in ("draft-model", "universal"):
        make_model("llama", 1, num_hidden_layers=2).save_pretrained(root / name)
        make_tokenizer().save_pretrained(root / name)
    folders = {path.name: f"{path.name}:{path}" for path in root.iterdir()}
    names = ("none", "ngram", "ngram:hashed", "ngram:map", "quantized", "early-exit:1")
    return folders | {name: name for name in names} | {"hybrid": f"hybrid:{folders['eagle3']}"}


def buffers(session: Any) -> list[Tensor]:
    """What a drafter's session holds of its text in tensors: of the layers' own caches, or of a model's."""
    if isinstance(session, HybridSession):
        return buffers(session.model)
    if isinstance(cache := _either(session, "cache"), KeyValues):
        return [cache._held[..., : cache.length, :]]
    model_session = _either(session, "session")
    # The early exit has a cache in hand too: the target's.
    is_own = isinstance(model_session, LlamaSession) and not isinstance(session, EarlyExitSession)
    return [model_session.keys_and_values()] if is_own else []


def _either(session: Any, name: str) -> Any:
    """What a session calls so, for the other sessions of a batch or for itself alone."""
    return getattr(session, name, None) or getattr(session, f"_{name}", None)


FAMILIES = (*STUDENTS, "draft-model", "universal", "hybrid", "quantized", "early-exit:1", "none")


@pytest.mark.parametrize("name", FAMILIES)
def test_a_drafters_cache_is_as_large_as_computed(name: str, specs: dict[str, str]) -> None:
    target = make_target()
    drafter, prompt = make_drafter(specs[name], target), list(range(10, 40))
    session = target.lm.open(drafter.feature_layers)
    session.forward(prompt[:-1], 0)
    sampler = Sampler(DecodeSettings(), target.lm.vocab_size, target.lm.device)
    draft_session = drafter.open(session, prompt, sampler)
    draft_session.propose(1)
    found = buffers(draft_session)
    lengths = {tensor.shape[3] for tensor in found}
    without_ngrams = drafter.model if isinstance(drafter, HybridDrafter) else drafter
    if name in ("medusa", "early-exit:1", "none"):
        assert (found, drafter.cache_bytes(1000)) == ([], 0)
    else:
        (length,) = lengths
        assert length >= len(prompt) - 1
        assert without_ngrams.cache_bytes(length) == sum(tensor.nbytes for tensor in found) > 0


@pytest.mark.parametrize("name", ["ngram", "ngram:map", "ngram:hashed", "ngram:4-4"])
@pytest.mark.parametrize("length", [500, 3000])
def test_ngrams_take_what_was_computed_where_no_ngram_comes_twice(name: str, length: int) -> None:
    target = make_target()
    drafter, ids = make_drafter(name, target), list(range(1000, 1000 + length))
    session = target.lm.open()
    sampler = Sampler(DecodeSettings(), target.lm.vocab_size, target.lm.device)
    # Python keeps up to 2000 small tuples of each length for reuse, which would not be counted.
    # What other tests left must not be collected meanwhile and refill them.
    gc.collect()
    spare = [(0, *ids[:n]) for n in range(5) for _ in range(2000)]
    gc.disable()
    tracemalloc.start()
    try:
        draft_session = drafter.open(session, ids, sampler)
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        gc.enable()
    # Whole numbers up to 256 are there once for all.
    assert used == pytest.approx(drafter.cache_bytes(length), rel=0.02, abs=256 * sys.getsizeof(1) + 1000)
    draft_session.close()
    spare.clear()


def test_a_table_counted_before_is_weighed_with_all_that_looks_things_up_in_it() -> None:
    keys = np.arange(1 << 30, (1 << 30) + 5000, dtype=np.uint32)
    tokens = np.arange(1000, 6000, dtype=np.uint32)
    tracemalloc.start()
    try:
        table = NgramTable(keys, tokens)
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert table.memory_bytes == pytest.approx(used + keys.nbytes + tokens.nbytes, rel=0.05)


@pytest.mark.parametrize("name", ["ngram", "hybrid", "draft-model"])
def test_what_a_target_and_a_drafter_use(name: str, specs: dict[str, str]) -> None:
    engine = Engine(make_target())
    use = memory_of(engine, specs[name], 100)
    lm, drafter = engine.target.lm, engine.drafter(specs[name])
    assert (use.num_tokens, use.target_bytes, use.drafter_bytes) == (100, lm.memory_bytes, drafter.memory_bytes)
    assert use.target_cache_bytes == 100 * use.target_cache_bytes_per_token > 0
    assert use.drafter_cache_bytes == drafter.cache_bytes(100) > 0
    assert use.plain_bytes + use.added_bytes == sum(
        (use.target_bytes, use.target_cache_bytes, use.drafter_bytes, use.drafter_cache_bytes)
    )
    nothing = memory_of(engine, specs[name], 0)
    assert (nothing.target_cache_bytes, nothing.target_cache_bytes_per_token) == (0, 0)
    assert (use.peak_bytes is None) == (use.peak_of == "")


def test_a_target_in_four_bits_holds_the_weights_it_came_from_as_well() -> None:
    whole = make_target()
    few = in_precision(whole, "int4")
    assert isinstance(few.lm, LlamaLM)
    used = memory_of(Engine(few), "none", 10)
    assert used.target_bytes == memory_of(Engine(whole), "none", 10).target_bytes + few.lm.weight_bytes


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux says so")
def test_the_peak_is_that_of_the_process_and_begins_anew() -> None:
    if not reset_peak(CPU):
        pytest.skip("this system does not let the peak begin anew")
    size = 100_000_000
    before = peak_bytes(CPU)
    block = torch.ones(size // 4)
    high = peak_bytes(CPU)
    del block
    after = peak_bytes(CPU)
    assert reset_peak(CPU)
    low = peak_bytes(CPU)
    assert before is not None and high is not None and after is not None and low is not None  # noqa: PT018
    assert high > before + 0.8 * size
    # The kernel adds up what its threads counted now and then, so that even a peak moves a little.
    assert abs(after - high) < 0.1 * size
    assert low < high - 0.8 * size


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_peak_of_a_device_is_that_of_its_allocator() -> None:
    device = torch.device("cuda")
    assert reset_peak(device)
    before = peak_bytes(device)
    block = torch.ones(1 << 20, device=device)
    del block
    after = peak_bytes(device)
    assert before is not None
    assert after is not None
    assert after >= before + (1 << 22)
