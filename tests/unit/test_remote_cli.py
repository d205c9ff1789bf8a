"""The command line over a server: its key, what it takes, what it measures."""

import json
from typing import Any

import pytest

from specdemo.cli import main
from specdemo.errors import ModelError
from specdemo.remote.engine import RemoteEngine
from specdemo.remote.servers import find_server
from specdemo.remote.source import RemoteSource
from tests.engine_servers import llama_cpp, serving, vllm
from tests.unit.test_remote import PASSES, TEXT, asked


def test_a_key_goes_from_the_environment_into_the_request(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    with serving(llama_cpp(PASSES, key="secret")) as url:
        monkeypatch.setenv("MY_KEY", "secret")
        assert main(["race", "hi", "--engine", url + "/v1", "--engine-key", "MY_KEY", "--json"]) == 0
    out = capsys.readouterr()
    assert json.loads(out.out)["identical"]
    assert "secret" not in out.out + out.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--k", "4"], "--k is for a model that is loaded here"),
        (["--drafter", "eagle3"], "a server has the one that it was started with"),
        (["--fast"], "is for a model that is loaded here"),
        (["--engine-key", "NO_SUCH_KEY"], "the environment variable NO_SUCH_KEY is empty"),
    ],
)
def test_options_that_a_server_does_not_take(options: list[str], said: str, capsys: Any) -> None:
    assert main(["race", "hi", "--engine", "http://127.0.0.1:9", *options]) == 2
    assert said in capsys.readouterr().err


def test_vllm_alone_generates_and_does_not_race(capsys: Any) -> None:
    with serving(vllm(PASSES)) as url:
        assert main(["generate", "hi", "--engine", url]) == 0
        assert TEXT in capsys.readouterr().out
        assert main(["race", "hi", "--engine", url]) == 2
        assert "--plain-engine" in capsys.readouterr().err
        with pytest.raises(ModelError, match="plain-engine"):
            RemoteSource(RemoteEngine(find_server(url))).check(asked())


def test_bench_measures_a_server_over_prompts(capsys: Any) -> None:
    with serving(llama_cpp(PASSES)) as url:
        options = ["--prompt-set", "code", "--prompt-set", "chat", "--max-new-tokens", "64"]
        assert main(["bench", "--engine", url, *options]) == 0
        assert main(["bench", "--engine", url, "--k", "4"]) == 2
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    [row] = document["rows"]
    assert row["drafter"] == "server"
    assert row["identical"] == f"{row['num_prompts']}/{row['num_prompts']}"
    assert row["acceptance_rate"] == 6 / 9
    assert row["speedup"] > 1
    assert "k" not in row
    assert "draft_share" not in row
