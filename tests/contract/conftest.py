"""Tiny models need one core; more would only wait for each other."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from specdemo.target import Target
from tests.fakes import make_model, make_tokenizer, wrap

VOCAB_SIZE = 16


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def small_target() -> Target:
    """A target of 16 tokens, which repeats itself, so that every drafter is sometimes right."""
    return wrap(make_model("llama", 0, vocab_size=VOCAB_SIZE))


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Saved models with the tokenizer: the small target itself, and another one of its shape."""
    root = tmp_path_factory.mktemp("models")
    for name, seed in (("same", 0), ("other", 1)):
        make_model("llama", seed, vocab_size=VOCAB_SIZE).save_pretrained(root / name)
        make_tokenizer().save_pretrained(root / name)
    return {"same": root / "same", "other": root / "other"}
