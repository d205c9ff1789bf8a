"""The curve over the batch size: its figures fit, it can be stopped, and a row that is not as alone is seen."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from specdemo.batches import BatchPoint, BatchRequest
from specdemo.batching import batch_updates
from specdemo.cli import main
from specdemo.engine import Engine
from specdemo.errors import SettingsError
from specdemo.live import LiveSource
from specdemo.llama import LlamaLM
from specdemo.proofs import Step
from tests.fakes import make_model, make_target, make_tokenizer

ASKED = {"batch_sizes": (1, 2, 4), "max_new_tokens": 8, "prompts": ("abcabcabc", "xyz", "aaaa bbbb aaaa")}


@pytest.mark.parametrize("sizes", [(1, 2, 4), (4,)])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_curve_has_a_point_for_each_size_whose_figures_fit_each_other(sizes: tuple, temperature: float) -> None:
    request = BatchRequest(drafter="ngram:1-3", temperature=temperature, **{**ASKED, "batch_sizes": sizes})
    updates = list(batch_updates(Engine(make_target()), request))
    points = [update for update in updates if isinstance(update, BatchPoint)]
    steps = [update for update in updates if isinstance(update, Step)]
    assert [point.batch_size for point in points] == list(sizes)
    assert steps[-1].num_done == steps[-1].num_all
    assert [step.num_done for step in steps] == sorted(step.num_done for step in steps)
    for point in points:
        assert (point.num_identical, point.num_rows) == (4, 4)
        assert point.low <= point.speedup <= point.high
        assert point.tokens_per_second == pytest.approx(point.batch_size / point.seconds_per_token)
        assert 1.0 <= point.tokens_per_round <= request.k + 1


def test_closing_a_curve_stops_it() -> None:
    updates = batch_updates(Engine(make_target()), BatchRequest(drafter="ngram:1-3", **ASKED))
    assert isinstance(next(updates), Step)
    updates.close()  # type: ignore[attr-defined]
    assert list(updates) == []


def test_rows_that_differ_from_their_run_alone_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch whose passes say something else is seen."""
    target = make_target()
    real = LlamaLM.forward_many

    def skewed(self, sessions, *rest):  # type: ignore[no-untyped-def]
        logits = real(self, sessions, *rest)
        return [logits[0].roll(1, -1), *logits[1:]]

    monkeypatch.setattr(LlamaLM, "forward_many", skewed)
    request = BatchRequest(drafter="ngram:1-3", **ASKED)
    points = [u for u in batch_updates(Engine(target), request) if isinstance(u, BatchPoint)]
    assert points[0].num_identical == points[0].num_rows
    assert all(point.num_identical < point.num_rows for point in points[1:])


def test_the_page_measures_on_the_target_that_it_runs(tmp_path: Path) -> None:
    make_model(max_position_embeddings=4096).save_pretrained(tmp_path)
    make_tokenizer().save_pretrained(tmp_path)
    live = LiveSource(str(tmp_path))
    live.start()
    assert live._loading is not None
    live._loading.result()
    request = BatchRequest(drafter="ngram", target=str(tmp_path), **ASKED)
    points = [update for update in live.batch(request) if isinstance(update, BatchPoint)]
    assert [point.batch_size for point in points] == [1, 2, 4]
    with pytest.raises(SettingsError, match="this page runs"):
        next(iter(live.batch(BatchRequest(drafter="ngram", **ASKED))))
    with pytest.raises(SettingsError, match="loads no model that a visitor names"):
        next(iter(live.batch(replace(request, drafter="draft-model:folder"))))


def test_bench_prints_the_curve_and_where_it_crosses(capsys: pytest.CaptureFixture[str], folder: str) -> None:
    options = ("--batch", "2", "--batch", "1", "--drafter", "ngram:1-3", "--k", "3", "--max-new-tokens", "4")
    assert main(["bench", "--target", folder, *options]) == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [(row["batch_size"], row["k"], row["identical"]) for row in document["rows"]] == [
        (1, 3, "16/16"),
        (2, 3, "16/16"),
    ]
    assert set(document["columns"]) <= set(document["rows"][0])
    (line,) = document["crossings"]
    assert "speedup" in line["sentence"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--batch", "0"), "the batch size is 0"),
        (("--batch", "17"), "from 1 to 16"),
        (("--batch", "many"), "the batch size is 'many'"),
        (("--batch", "2", "--drafter", "none"), "which is plain decoding itself"),
        (("--batch", "2", "--k", "x"), "K is 'x'"),
    ],
)
def test_a_batch_that_cannot_be_is_one_line(
    capsys: pytest.CaptureFixture[str], folder: str, options: tuple, message: str
) -> None:
    assert main(["bench", "--target", folder, *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
