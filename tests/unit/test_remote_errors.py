"""What goes wrong with a server, and the commands that name one, over real sockets."""

import json
import socket
from typing import Any

import pytest

from specdemo.cli import main
from specdemo.errors import ModelError, SettingsError, SpecdemoError
from specdemo.events import Round, Started
from specdemo.remote.engine import RemoteEngine
from specdemo.remote.servers import find_server
from specdemo.remote.source import RemoteSource
from tests.engine_servers import PASSES, TEXT, Script, asked, llama_cpp, of, raced, serving, vllm


def refusing(status: int, page: Any) -> Script:
    return Script({}, {}, refuses=(status, page))


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (refusing(503, {"error": {"message": "Loading model", "code": 503}}), "is not ready (Loading model)"),
        (refusing(200, {"object": "list", "data": []}), "serves no model"),
        (refusing(200, "<html>"), "is no JSON object"),
        (refusing(404, {"detail": "Not Found"}), "check address and model"),
        (refusing(500, {"message": "out of memory"}), "refused with 500: out of memory"),
        (llama_cpp(PASSES, key="secret"), "wants a key (401)"),
        (Script({"/v1/models": {"data": [{"id": "x", "owned_by": "me"}]}}, {}), "no vLLM, SGLang or llama.cpp"),
    ],
)
def test_what_answers_wrongly_is_refused_in_one_sentence(script: Script, said: str) -> None:
    with serving(script) as url, pytest.raises(SpecdemoError) as caught:
        find_server(url)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_addresses_that_lead_nowhere() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ModelError, match="nothing answers at"):
        find_server(f"http://127.0.0.1:{port}")
    for url in ("localhost:8080", "ftp://localhost", "http://", "http://localhost:many"):
        with pytest.raises(SettingsError, match="must be an address such as"):
            find_server(url)
    with pytest.raises(SettingsError, match="password"):
        find_server("http://me:secret@localhost")


def test_a_stream_that_breaks_keeps_what_came() -> None:
    with serving(llama_cpp(PASSES, breaks_after=4)) as url:
        updates = raced(RemoteEngine(find_server(url)))
    for lane in ("plain", "speculative"):
        events = of(lane, updates)
        assert isinstance(events[0], Started)
        assert sum(isinstance(event, Round) for event in events) > 0
        assert events[-1].reason == "failed"
        assert "without saying why" in events[-1].message


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
