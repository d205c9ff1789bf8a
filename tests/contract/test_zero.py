"""Races on ZeroGPU: lent for a time that the request decides, over a real process border, errors as sentences."""

import os
import sys
import time
from pathlib import Path

import gradio as gr
import pytest

from specdemo.engine import Engine
from specdemo.errors import PromptError, SettingsError
from specdemo.events import Finished, Started
from specdemo.limits import GPU_SENTENCES, LentGPUError, Limits
from specdemo.metrics import emitted_token_ids
from specdemo.proofs import ProofRequest
from specdemo.race import LANES, LaneUpdate, RaceRequest
from specdemo.settings import DecodeSettings
from specdemo.ui.edge import spoken
from specdemo.ui.texts import SENTENCES
from specdemo.zero import SHORTEST_RACE, ZeroSource, _in_time, borrow_gpu, translated
from tests.fake_spaces import FakeSpaces
from tests.fakes import make_model, make_tokenizer

# Loans so long that no machine is too slow for a race within one.
LIMITS = Limits(max_new_tokens=64, gpu_seconds=2000, reraces=False, drafters=("ngram", "none"))
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def spaces() -> FakeSpaces:
    return FakeSpaces()


@pytest.fixture(scope="module")
def source(spaces: FakeSpaces, tmp_path_factory: pytest.TempPathFactory, one_thread: None) -> ZeroSource:
    folder = tmp_path_factory.mktemp("target")
    # No Llama: the compiled pass has threads of its own, which a forked process lacks. CUDA, as there, has none.
    make_model("qwen2").save_pretrained(folder)
    make_tokenizer().save_pretrained(folder)
    return ZeroSource(spaces.GPU, str(folder), LIMITS)


@pytest.fixture(autouse=True)
def willing(spaces: FakeSpaces) -> None:
    spaces.refusal = None
    spaces.loans.clear()
    spaces.processes.clear()


def request(source: ZeroSource, num_tokens: int = 16, **changed: object) -> RaceRequest:
    values = {"prompt": "one two one two", "drafter": "ngram", "target": source.target, **changed}
    return RaceRequest(settings=DecodeSettings(max_new_tokens=num_tokens), **values)  # type: ignore[arg-type]


def test_it_is_ready_at_once_with_what_the_profile_offers(source: ZeroSource) -> None:
    source.start()
    assert source.status().state == "ready"
    assert [info.name for info in source.drafters()] == ["ngram", "none"]


def test_a_race_happens_in_another_process_and_is_the_same(source: ZeroSource, spaces: FakeSpaces) -> None:
    asked = request(source)
    updates = list(source.race(asked))
    assert spaces.processes[0].pid != os.getpid()
    assert spaces.processes[0].exitcode == 0
    here = list(Engine.load(source.target, lambda *_: None).race(asked))
    for lane in LANES:
        ids = [emitted_token_ids([u.event for u in found if u.lane == lane]) for found in (updates, here)]
        assert ids[0] == ids[1] != []
    started = next(update.event for update in updates if isinstance(update.event, Started))
    assert source.provenance(asked)["device"] == started.provenance["device"], "the lent one's name"


def test_the_loan_grows_with_the_answer_and_never_beyond_the_profile(source: ZeroSource) -> None:
    loans = [source.seconds(request(source, num)) for num in (1, 16, 32, 48, 64)]
    assert loans == sorted(loans)
    assert loans[0] >= SHORTEST_RACE
    assert loans[-1] == LIMITS.gpu_seconds


def test_stop_ends_the_process(source: ZeroSource, spaces: FakeSpaces) -> None:
    updates = source.race(request(source, 64))
    next(updates)
    updates.close()  # type: ignore[attr-defined]
    assert not spaces.processes[0].is_alive()
    assert len(list(source.race(request(source)))) > 2, "and the next one may go"


REFUSED = {
    "too many tokens": ({"num_tokens": 65}, SettingsError, "at most 64"),
    "a drafter that is not loaded": ({"drafter": "eagle3"}, SettingsError, "this page has ngram, none"),
    "another precision": ({"precision": "int4"}, SettingsError, "on ZeroGPU it is auto"),
    "an empty prompt": ({"prompt": " "}, PromptError, "empty"),
}


@pytest.mark.parametrize(("changed", "kind", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_race_asks_for_no_gpu(
    changed: dict[str, object], kind: type[Exception], words: str, source: ZeroSource, spaces: FakeSpaces
) -> None:
    with pytest.raises(kind, match=words):
        next(source.race(request(source, **changed)))  # type: ignore[arg-type]
    assert spaces.loans == []


def test_an_error_of_ours_crosses_the_border_as_itself(source: ZeroSource, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PromptError("said over there.")

    monkeypatch.setattr(source._engine, "race", refuse)
    with pytest.raises(PromptError, match="said over there"):
        next(source.race(request(source)))


def test_a_process_that_dies_is_a_sentence(source: ZeroSource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source._engine, "race", lambda *_: os._exit(1))
    with pytest.raises(LentGPUError, match="taken back"):
        next(source.race(request(source)))


SAID = {
    "gpu_quota": (
        "ZeroGPU quota exceeded",
        "You have exceeded your quota. Try again in 3:12:09. ",
    ),
    "gpu_too_long": (
        "ZeroGPU illegal duration",
        "The requested GPU duration is larger than the maximum",
    ),
    "gpu_none_free": ("ZeroGPU queue timeout", "No GPU was available after 60s"),
    "gpu_pending": ("ZeroGPU pending credits exceeded", "You have too many ZeroGPU credits allocated"),
    "gpu_taken_back": ("ZeroGPU worker error", "GPU task aborted"),
    "gpu_stale_page": ("ZeroGPU client error", "Expired ZeroGPU proxy token"),
    "gpu_failed": ("ZeroGPU worker error", "OutOfMemoryError"),
}


@pytest.mark.parametrize(("key", "said"), SAID.items(), ids=SAID)
def test_what_zerogpu_says_is_one_sentence_in_every_language(
    key: str, said: tuple[str, str], source: ZeroSource, spaces: FakeSpaces
) -> None:
    spaces.refusal = gr.Error(said[1], title=said[0], print_exception=False)
    with pytest.raises(LentGPUError) as raised:
        next(source.race(request(source)))
    assert raised.value.key == key
    for language in SENTENCES:
        words = spoken(raised.value, language)
        assert "{" not in words
        assert ("3:12:09" in words) == (key == "gpu_quota")
    assert spoken(raised.value, "en") == str(raised.value)


def test_every_language_has_every_sentence() -> None:
    for sentences in SENTENCES.values():
        assert set(GPU_SENTENCES) <= set(sentences)
    assert translated(RuntimeError("Connection closed")).key == "gpu_failed"


def test_what_takes_minutes_is_refused(source: ZeroSource) -> None:
    with pytest.raises(LentGPUError, match="only races run"):
        source.prove(ProofRequest(proof="greedy", prompts=("x",), drafters=("ngram",)))
    with pytest.raises(LentGPUError, match="only races run"):
        source.pass_costs()


def test_a_race_ends_before_its_loan() -> None:
    def endless():  # type: ignore[no-untyped-def]
        while True:
            time.sleep(0.001)
            yield from (LaneUpdate(lane, Started((1,), {}, 0.0)) for lane in LANES)

    ends = list(_in_time(endless(), 5))[-2:]
    assert [update.lane for update in ends] == list(LANES)
    assert all(isinstance(u.event, Finished) and u.event.reason == "cancelled" for u in ends)
    assert "lent for 5 seconds" in ends[0].event.message  # type: ignore[union-attr]


def test_spaces_is_asked_for_only_on_its_hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPACES_ZERO_GPU", raising=False)
    assert borrow_gpu() is None
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    monkeypatch.setitem(sys.modules, "spaces", FakeSpaces())  # type: ignore[arg-type]
    assert callable(borrow_gpu())
    assert Path("requirements.txt").read_text(encoding="utf-8").count("\nspaces") == 0
