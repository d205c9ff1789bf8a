"""Repositories of a Hub on loopback: what is fetched, what is not, and one sentence for whatever goes wrong."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants

from specdemo import hub as real
from specdemo.cli import main
from specdemo.drafters.null import NullDrafter
from specdemo.errors import ModelError
from specdemo.loading import load_named_target, load_target
from specdemo.places import local_folder, look, split_place
from specdemo.preflight import preflight
from tests.fake_model_hub import COMMIT, FakeHub, serve
from tests.fakes import answer, make_model, make_tokenizer, run
from tests.published import write_eagle3


def silent(message: str, share: float | None) -> None:
    """No one watches."""


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A target and a drafter, each once open and once gated, and a file in the target that must not be run or read."""
    target, drafter = tmp_path / "target", write_eagle3(tmp_path / "eagle")
    make_model().save_pretrained(target)
    make_tokenizer().save_pretrained(target)
    (target / "modeling_evil.py").write_text("raise SystemExit('ran')", encoding="utf-8")
    (target / "pytorch_model.bin").write_bytes(b"not read")
    names = {"owner/target": target, "owner/drafter": drafter, "owner/gated": target, "owner/gated-drafter": drafter}
    with serve(FakeHub(names, {"owner/gated", "owner/gated-drafter"})) as served:
        monkeypatch.setattr(constants, "ENDPOINT", served.url)
        template = served.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        yield served


def test_preflight_reads_headers_and_no_weights(hub: FakeHub) -> None:
    report = preflight("owner/target", "owner/drafter")
    assert not report.is_refused, report.findings
    assert report.family == "eagle3"
    seen = look("owner/target")
    stored = (hub.repositories["owner/target"] / "model.safetensors").stat().st_size
    assert (seen.revision, seen.missing_bytes, seen.licence) == (COMMIT, stored, "apache-2.0")
    assert not list(Path(constants.HF_HUB_CACHE).rglob("*.safetensors"))
    assert not any(name.endswith((".py", ".bin")) for name in hub.bytes_sent)


def test_a_repository_is_fetched_once_and_runs_without_a_network(
    hub: FakeHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["race", "hi", "--target", "owner/target", "--drafter", "owner/drafter", "--max-new-tokens", "6"]
    assert main(command) == 0, capsys.readouterr().err
    sent = dict(hub.bytes_sent)
    target = load_named_target("owner/target", silent)
    assert target.revision == COMMIT
    assert hub.bytes_sent == sent
    assert not any(name.endswith((".py", ".bin")) for name in sent)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert local_folder("owner/target", silent).name == COMMIT
    with pytest.raises(ModelError, match=r"owner/gated has not been downloaded yet and the Hub cannot be reached"):
        local_folder("owner/gated", silent)


def test_what_cannot_be_had_is_said_with_what_to_do(hub: FakeHub, capsys: pytest.CaptureFixture[str]) -> None:
    report = preflight("owner/gated", "owner/gated-drafter")
    said = {finding.check: finding.sentence for finding in report.findings if finding.grade == "refusal"}
    assert f"owner/gated is gated: ask for access at {hub.url}/owner/gated with your account" in said["target"]
    assert "owner/gated-drafter is gated" in said["drafter"]
    missing = preflight("owner/private", "owner/nothing")
    said = {finding.check: finding.sentence for finding in missing.findings if finding.grade == "refusal"}
    assert "no repository owner/private that you may see" in said["target"]
    assert "hf auth login" in said["target"]
    assert "owner/nothing" in said["drafter"]
    for name in ("owner/gated", "owner/private"):
        assert main(["race", "hi", "--target", name]) == 2
        error = capsys.readouterr().err
        assert name in error
        assert error.count("\n") == 1


def test_of_a_pickle_on_the_hub_only_its_config_is_known(hub: FakeHub, tmp_path: Path) -> None:
    folder = tmp_path / "pickled"
    folder.mkdir()
    (folder / "config.json").write_text('{"medusa_num_heads": 2}', encoding="utf-8")
    (folder / "medusa_lm_head.pt").write_bytes(b"never asked for")
    hub.repositories["owner/pickled"] = folder
    report = preflight("owner/target", "owner/pickled")
    assert (report.family, look("owner/pickled").headers) == ("medusa", None)
    assert any("known once they are downloaded" in finding.sentence for finding in report.findings)
    assert not any(name.endswith(".pt") for name in hub.bytes_sent)


def test_names_become_places(tmp_path: Path) -> None:
    assert split_place(str(tmp_path)) is None
    assert split_place("owner/name") == ("owner/name", None)
    assert split_place("owner/name@v1.0") == ("owner/name", "v1.0")
    for wrong in (str(tmp_path / "nothing"), "./nothing", "nothing", "a/b/c", "owner/na me"):
        with pytest.raises(ModelError, match="there is no folder"):
            split_place(wrong)


def test_each_file_is_wanted_once() -> None:
    names = ["config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "x/config.json"]
    others = [
        "consolidated.safetensors",
        "pytorch_model.bin",
        "training_args.bin",
        "run.py",
        "original/model.safetensors",
    ]
    assert real.weight_files([*names, *others]) == names[1:3]
    assert real.weight_files(["training_args.bin", "pytorch_model.bin"]) == ["pytorch_model.bin"]
    assert real.weight_files(["medusa_lm_head.pt"]) == ["medusa_lm_head.pt"]
    assert real.small_files([*names, *others]) == ["config.json"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "the disk is full"),
        (PermissionError(errno.EACCES, "no", "/there"), "set HF_HOME"),
        (ConnectionError("refused"), "the Hub cannot be reached"),
        (OSError("strange"), "cannot be read: strange"),
    ],
)
def test_errors_of_the_machine_are_one_sentence(error: Exception, words: str) -> None:
    with pytest.raises(ModelError, match=words), real.explained("owner/name"):
        raise error


def test_weights_may_be_spread_over_places(hub: FakeHub, tmp_path: Path) -> None:
    folder = hub.repositories["owner/target"]
    whole = load_target("whole", folder, "", None, {})
    parts = {f"model.layers.{index}": "cpu" for index in range(3)}
    spread = {"model.embed_tokens": "cpu", **parts, "model.norm": "cpu", "model.rotary_emb": "cpu", "lm_head": "disk"}
    placed = load_target("spread", folder, "", None, {"device_map": spread, "offload_folder": str(tmp_path / "disk")})
    assert placed.lm.device == torch.device("cpu")
    answers = [answer(run(one, NullDrafter(), (5, 6, 7), max_new_tokens=8)) for one in (whole, placed)]
    assert answers[0] == answers[1]
