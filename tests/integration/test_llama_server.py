"""A real llama.cpp server on the embedded target, where `llama-server` is on PATH: what its stream says holds."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from specdemo.catalog import EMBEDDED_TARGET, TARGETS
from specdemo.errors import ModelError
from specdemo.events import Round
from specdemo.race import RaceRequest
from specdemo.remote.engine import RemoteEngine
from specdemo.remote.servers import find_server
from specdemo.reports import race_document
from specdemo.settings import DecodeSettings
from specdemo.weights import fetch

BINARY = shutil.which("llama-server")
SPECULATION = ("--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "2", "--spec-ngram-simple-size-m", "4")
MOST_SECONDS = 120

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BINARY is None, reason="there is no llama-server on PATH; install llama.cpp to run this"),
]


@contextmanager
def llama_server(*options: str) -> Iterator[str]:
    """Its address, with the model loaded."""
    model = fetch(TARGETS[EMBEDDED_TARGET], lambda *_: None) / TARGETS[EMBEDDED_TARGET].file_name
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = ["--host", "127.0.0.1", "--port", str(port)]
    command = [str(BINARY), "-m", str(model), "-c", "2048", "--parallel", "1", *address, *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(url, server)
            yield url
        finally:
            server.terminate()


def _wait(url: str, server: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + MOST_SECONDS
    while time.monotonic() < until and server.poll() is None:
        try:
            find_server(url)
        except ModelError:
            time.sleep(0.2)
        else:
            return
    pytest.fail(f"llama-server did not come up (exit code {server.poll()})")


def test_a_race_on_a_real_server() -> None:
    """Greedy, on text that repeats itself: the same answer in both lanes, in fewer passes, and all counts add up."""
    prompt = "Repeat this line five times: one two three four five six seven eight nine ten"
    request = RaceRequest(prompt=prompt, drafter="server", settings=DecodeSettings(max_new_tokens=96))
    with ExitStack() as servers:
        fast = find_server(servers.enter_context(llama_server(*SPECULATION)))
        plain = find_server(servers.enter_context(llama_server()))
        updates = list(RemoteEngine(fast, plain).race(request))
    document = race_document(updates)
    metrics = document["speculative"]["metrics"]
    assert document["identical"]
    assert metrics["num_drafted"] == metrics["reported"]["num_drafted"] > 0
    assert metrics["num_accepted"] == metrics["reported"]["num_accepted"] > 0
    assert metrics["target_passes"] < document["plain"]["metrics"]["target_passes"]
    rounds = [update.event for update in updates if update.lane == "speculative" and isinstance(update.event, Round)]
    assert sum(len(made.emitted_token_ids) for made in rounds) == metrics["num_tokens"]
