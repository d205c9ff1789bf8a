"""The training scripts run from end to end on the embedded target, a few tokens each."""

import json
from pathlib import Path

import pytest

from specdemo.drafters.ngram_table import FILE_NAME, NgramTable
from specdemo.train import collect, count, fit, score, universal
from specdemo.train.corpus import read_shard, shards

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a few conversations that the target wrote."""
    folder = tmp_path_factory.mktemp("data")
    collect.main([str(folder), "--smoke"])
    return folder


def test_collected_answers_are_what_the_target_thinks_likeliest_where_they_are_greedy(data: Path) -> None:
    found = [c for path in shards(data) for c in read_shard(path, with_hidden=False)]
    assert found
    for c in (c for c in found if c.temperature == 0):
        assert c.top_ids[c.answer_start - 1 : -1, 0].tolist() == c.ids[c.answer_start :].tolist()


@pytest.mark.parametrize("family", sorted(fit.FAMILIES))
def test_every_family_fits_and_saves(family: str, data: Path, tmp_path: Path) -> None:
    fit.main([family, str(data), str(tmp_path), "--smoke"])
    assert (tmp_path / "best" / "config.json").exists()


def test_a_drafter_of_another_vocabulary_fits_goes_on_and_drafts(data: Path, tmp_path: Path) -> None:
    for _ in range(2):
        universal.main([str(data), str(tmp_path), "--smoke"])
    steps = [json.loads(line)["step"] for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert steps == sorted(set(steps))
    score.main([f"universal:{tmp_path / 'best'}", "--smoke", "--json", str(tmp_path / "score.json")])
    assert json.loads((tmp_path / "score.json").read_text())["categories"]["all"]["tokens_per_round"] >= 1


def test_counting_writes_a_table_that_knows_the_text(data: Path, tmp_path: Path) -> None:
    count.main([str(data), str(tmp_path), "--smoke"])
    table = NgramTable.load(tmp_path / FILE_NAME)
    ids = read_shard(shards(data)[0], with_hidden=False)[0].ids.tolist()
    assert table.after(ids[-2:-1]) is not None


def test_scoring_decodes_and_writes_its_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    score.main(["ngram", "--smoke", "--json", str(tmp_path / "score.json")])
    figures = json.loads((tmp_path / "score.json").read_text())["categories"]
    assert figures["all"]["tokens_per_round"] >= 1
    assert "all" in capsys.readouterr().out
