"""The named endpoints over HTTP, as a script uses them."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError, ValidationError

from specdemo.ui.layout import build_page, launch_options
from tests.fakes_ui import ScriptedSource


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ScriptedSource, Client]]:
    """The engine and a client of a page over it."""
    source = ScriptedSource()
    page = build_page(source, tmp_path_factory.mktemp("none"))
    _, url, _ = page.launch(prevent_thread_lock=True, **{**launch_options(), "quiet": True})
    client = Client(url, verbose=False)
    yield source, client
    client.close()
    page.close()


def test_only_the_two_endpoints_are_public(served: tuple[ScriptedSource, Client]) -> None:
    endpoints = served[1].view_api(return_format="dict", print_info=False)["named_endpoints"]
    assert set(endpoints) == {"/race", "/race_summary"}
    for endpoint in endpoints.values():
        names = [parameter["parameter_name"] for parameter in endpoint["parameters"]]
        assert names[:3] == ["prompt", "drafter", "k"]
        assert len(names) == 16
        assert [p["parameter_has_default"] for p in endpoint["parameters"]] == [False] + [True] * 15


def test_an_idle_page_asks_its_queue_seldom_also_when_launched(tmp_path: Path) -> None:
    """A thousand times a second, as Gradio does by itself, takes a good part of a core from the decode for ever."""
    page = build_page(ScriptedSource(), tmp_path)
    page.launch(prevent_thread_lock=True, **{**launch_options(), "quiet": True})
    try:
        assert page._queue.sleep_when_free >= 0.02
    finally:
        page.close()


def test_the_summary_returns_numbers_and_texts(served: tuple[ScriptedSource, Client]) -> None:
    result = served[1].predict("Why?", k=4, max_new_tokens=64, stop=["zzz"], api_name="/race_summary")
    assert result["identical"] is True
    assert result["speedup"] > 1
    assert result["plain_text"] == result["speculative_text"] != ""
    assert result["speculative"]["finish_reason"] == "length"
    assert result["plain"]["target_passes"] == 64
    assert 0 < result["speculative"]["acceptance_rate"] <= result["speculative"]["alpha"] <= 1


def test_the_race_streams_and_ends_done(served: tuple[ScriptedSource, Client]) -> None:
    served[0].seconds_per_update = 0.01
    job = served[1].submit("Why?", max_new_tokens=64, api_name="/race")
    last = job.result()
    served[0].seconds_per_update = 0.0
    states = job.outputs()
    assert 3 <= len(states) <= 12, "coalesced by time"
    assert [state["done"] for state in states].count(True) >= 1
    assert last["done"] is True
    texts = [state["plain_text"] for state in states]
    assert all(after.startswith(before) for before, after in zip(texts, texts[1:], strict=False))


def test_hostile_text_comes_back_unchanged(served: tuple[ScriptedSource, Client]) -> None:
    prompt = "<b>x</b> ${7*7} {{7*7}} \\d"
    result = served[1].predict(prompt, max_new_tokens=32, api_name="/race_summary")
    assert result["plain_text"].startswith(" " + prompt)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"prompt": "  "}, "empty"),
        ({"prompt": "x" * 200_000}, "200,000"),
        ({"prompt": "Why?", "k": 17}, "K is 17"),
        ({"prompt": "Why?", "drafter": "none such"}, "no drafter"),
        ({"prompt": "forbidden"}, "<b>forbidden</b>"),
    ],
)
def test_what_cannot_run_is_refused_in_a_sentence(
    served: tuple[ScriptedSource, Client], arguments: dict[str, object], sentence: str
) -> None:
    started = served[0].started
    for name in ("/race", "/race_summary"):
        with pytest.raises((ValidationError, AppError), match=sentence):
            served[1].predict(**arguments, api_name=name)
    assert served[0].started == started


def stream_as_the_readme(client: Client, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What the README's streaming example prints, with this client."""
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    blocks = [block.partition("```")[0] for block in readme.split("```python\n")]
    [example] = [block for block in blocks if "client.submit" in block]
    raised: list[Exception] = []

    def run() -> None:
        try:
            exec(example, {"client": client})
        except (ValidationError, AppError) as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive(), "it waits for ever"
    for error in raised:
        raise error
    return capsys.readouterr().out.splitlines()


def test_the_readmes_stream_prints_a_race_as_it_goes(
    served: tuple[ScriptedSource, Client], capsys: pytest.CaptureFixture[str]
) -> None:
    served[0].seconds_per_update = 0.01
    *lines, speedup = stream_as_the_readme(served[1], capsys)
    served[0].seconds_per_update = 0.0
    texts = [line for line in lines if line]
    assert texts[-1].startswith(" Name three fruits.")
    assert len(set(texts)) > 2
    assert float(speedup) > 1


def test_the_readmes_stream_ends_with_the_sentence_of_a_refused_race(
    served: tuple[ScriptedSource, Client], capsys: pytest.CaptureFixture[str]
) -> None:
    served[0].state, started = "loading", served[0].started
    try:
        with pytest.raises((ValidationError, AppError), match="not ready"):
            stream_as_the_readme(served[1], capsys)
    finally:
        served[0].state = "ready"
    assert served[0].started == started


def test_a_cancelled_stream_ends_the_race(served: tuple[ScriptedSource, Client]) -> None:
    source, client = served
    source.seconds_per_update = 0.02
    job = client.submit("Why?", api_name="/race")
    while not job.outputs():
        pass
    job.cancel()
    assert source.is_idle_within(5)
    source.seconds_per_update = 0.0
