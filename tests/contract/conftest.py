"""Tiny models need one core; more would only wait for each other."""

from pathlib import Path

import pytest

from specdemo.target import Target
from tests.fakes import make_model, make_tokenizer, wrap

VOCAB_SIZE = 16


@pytest.fixture(autouse=True, scope="module")
def tiny_models(one_thread: None) -> None:
    """All models here are."""


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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A saved target for the command line, with room for long prompts."""
    path = tmp_path_factory.mktemp("target")
    make_model(max_position_embeddings=4096).save_pretrained(path)
    make_tokenizer().save_pretrained(path)
    return str(path)
