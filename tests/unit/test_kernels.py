"""The compiled pass: right by torch's own arithmetic, and the same bits however many rows are fed at once."""

import os
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from torch import Tensor

from specdemo.blocks import to_q4_1, to_q8_0
from specdemo.kernels.decoder import normalize
from specdemo.kernels.dot import multiply
from specdemo.kernels.llama import MOST_ROWS, fits
from specdemo.llama import LlamaLM
from specdemo.llama_layers import normalize as normalize_in_torch
from tests.fakes import make_model, make_target
from tests.gguf_files import Q4_1, Q8_0, expand

EXPAND = {
    "float32": lambda weight: weight,
    "q4_1": lambda blocks: expand(blocks, Q4_1),
    "q8_0": lambda blocks: expand(blocks, Q8_0),
}
PACK = {"float32": lambda weight: weight, "q4_1": to_q4_1, "q8_0": to_q8_0}


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def product(hidden: Tensor, weight: Tensor, num_outputs: int) -> Tensor:
    found = torch.full((len(hidden), num_outputs), float("nan"))
    multiply(hidden.numpy(), weight.numpy(), found.numpy())
    return found


@pytest.mark.parametrize("kind", EXPAND)
@given(num_rows=st.integers(1, 45), num_steps=st.integers(1, 5), num_outputs=st.integers(2, 33))
@hypothesis_settings(max_examples=25, deadline=None)
def test_a_product_is_torchs_and_each_row_of_it_has_the_bits_it_has_alone(
    kind: str, num_rows: int, num_steps: int, num_outputs: int
) -> None:
    hidden, weight = random(num_rows, 32 * num_steps), PACK[kind](random(num_outputs, 32 * num_steps, seed=1))
    found = product(hidden, weight, num_outputs)
    torch.testing.assert_close(found, hidden @ EXPAND[kind](weight).T, atol=1e-4, rtol=1e-4)
    alone = torch.cat([product(hidden[row : row + 1], weight, num_outputs) for row in range(num_rows)])
    assert torch.equal(found, alone)


@pytest.mark.parametrize("kind", ["q4_1", "q8_0"])
def test_a_product_with_blocks_has_the_bits_of_one_with_their_float32_weights(kind: str) -> None:
    hidden, blocks = random(3, 96), PACK[kind](random(20, 96, seed=1))
    assert torch.equal(product(hidden, blocks, 20), product(hidden, EXPAND[kind](blocks), 20))


def test_values_of_every_size_go_through_the_norm_as_through_torchs() -> None:
    hidden = torch.cat([random(3, 64), 1e4 * random(2, 64), 1e-4 * random(2, 64), torch.zeros(1, 64)])
    found = torch.empty_like(hidden)
    normalize(hidden.numpy(), random(64, seed=2).numpy(), 1e-5, found.numpy())
    torch.testing.assert_close(found, normalize_in_torch(hidden, random(64, seed=2), 1e-5), atol=1e-5, rtol=1e-5)


@given(widths=st.lists(st.integers(1, MOST_ROWS), min_size=1, max_size=6))
@hypothesis_settings(max_examples=30, deadline=None)
def test_logits_have_the_same_bits_whatever_the_widths_of_the_passes(widths: list[int]) -> None:
    """So a draft is verified by the very logits that plain decoding would have had: ties cannot break differently."""
    lm = make_target().lm
    ids = [(31 * index) % 259 for index in range(30 + sum(widths))]
    plain, wide = lm.open(), lm.open()
    plain.forward(ids[:30], 0)
    wide.forward(ids[:30], 0)
    at = 30
    for width in widths:
        alone = torch.cat([plain.forward([token_id], 1) for token_id in ids[at : at + width]])
        assert torch.equal(wide.forward(ids[at : at + width], width), alone)
        at += width


@pytest.mark.parametrize("num_threads", [1, 2])
def test_the_number_of_threads_changes_no_bit(num_threads: int) -> None:
    before, lm = torch.get_num_threads(), make_target().lm
    expected = lm.open().forward([1, 2, 3], 3)
    try:
        torch.set_num_threads(num_threads)
        assert torch.equal(lm.open().forward([1, 2, 3], 3), expected)
    finally:
        torch.set_num_threads(before)


def test_large_scores_overflow_nothing() -> None:
    """Attention scores and gates far beyond what exp holds in float32."""
    model = make_model("llama", 2, initializer_range=1.0)
    ids = [5, 9, 7, 3]
    with torch.inference_mode():
        expected = model(torch.tensor([ids])).logits[0].log_softmax(-1)
    lm = LlamaLM.from_transformers(model)  # type: ignore[arg-type]
    assert lm.compiled is not None
    found = lm.open().forward(ids, len(ids))
    assert bool(found.isfinite().all())
    assert found.argmax(-1).tolist() == expected.argmax(-1).tolist()


@pytest.mark.parametrize("changes", [{"hidden_size": 48, "num_attention_heads": 4}, {"head_dim": 16}], ids=str)
def test_widths_the_compiled_pass_does_not_take_go_through_torch(changes: dict[str, object]) -> None:
    lm = LlamaLM.from_transformers(make_model("llama", 1, **changes))  # type: ignore[arg-type]
    assert lm.compiled is None
    assert lm.open().forward([1, 2, 3], 3).shape == (3, 259)


def test_only_float32_on_the_cpu_fits() -> None:
    assert fits(torch.zeros(2, 32), 32, 64)
    assert not fits(torch.zeros(2, 32), 32, 40)
    assert not fits(torch.zeros(2, 32, dtype=torch.bfloat16), 32)
    assert not fits(torch.zeros(2, 32, device="meta"), 32)


_PROGRAM = """
from tests.fakes import make_target
print(make_target().lm.open().forward([1, 2, 3], 3).double().sum().item())
"""


@pytest.mark.parametrize("layer", [None, "workqueue"])
def test_code_from_the_cache_runs_in_a_fresh_process_under_any_scheduler(layer: str | None) -> None:
    """Machine code that is loaded and not compiled does not start Numba's threads by itself."""
    environment = {**os.environ, **({"NUMBA_THREADING_LAYER": layer} if layer else {})}
    expected = make_target().lm.open().forward([1, 2, 3], 3).double().sum().item()
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stderr[-500:]
    assert float(ended.stdout) == expected
