"""plan and deploy against a Hub on loopback through huggingface_hub's own client, and a race on a real page."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants
from huggingface_hub import hf_api as client

from specdemo.space import command, deploy
from specdemo.space.card import render
from specdemo.ui.layout import build_page, launch_options
from tests.fake_hub import TOKEN, FakeHub, FakeSpace, serve
from tests.fakes_ui import ScriptedSource
from tests.spacefiles import CARD

SPACEFILE = (
    "v: 1\nname: race\n"
    + CARD
    + """\
profiles:
  cpu: {hardware: cpu-basic, pairs: [small], variables: {COLOUR: red}}
  gpu: {hardware: t4-small, pairs: [small], sleep_time: 3600, visibility: private}
  class: {local: true, pairs: [small]}
models:
  small: {target: {repo: ada/small}}
upload: {include: [app.py, requirements.txt, README.md, Spacefile, "lib/*"], exclude: ["*.pyc"]}
secrets: [SECRET_ONE, "SECRET_TWO?"]
"""
)
SECRET = "a-value-nobody-may-see"
Run = Callable[..., int]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small project that is in order."""
    (tmp_path / "Spacefile").write_text(SPACEFILE, encoding="utf-8")
    (tmp_path / "requirements.txt").write_text("gradio>=6.31,<7\n", encoding="utf-8")
    (tmp_path / "app.py").write_text("demo = None\n", encoding="utf-8")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "new.py").write_text("x = 1\n", encoding="utf-8")
    (tmp_path / "README.md").write_text("# A race\n", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("not for the Space\n", encoding="utf-8")
    render(tmp_path)
    return tmp_path


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A Hub that huggingface_hub asks instead of the real one, with a token in the environment."""
    hub = FakeHub()
    with serve(hub) as url:
        monkeypatch.setattr(constants, "ENDPOINT", url)
        monkeypatch.setattr(client.constants, "ENDPOINT", url)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setenv("SECRET_ONE", SECRET)
        monkeypatch.delenv("SECRET_TWO", raising=False)
        monkeypatch.setattr(deploy.Pace, "__init__", _quick(deploy.Pace.__init__))
        yield hub


def _quick(init: Callable[..., None]) -> Callable[..., None]:
    return lambda self: init(self, longest=20.0, between=0.01, settling=0.1)


@pytest.fixture(scope="module")
def page() -> Iterator[str]:
    """The address of a real page with a scripted engine."""
    demo = build_page(ScriptedSource())
    _, url, _ = demo.launch(prevent_thread_lock=True, **{**launch_options(), "quiet": True})
    yield url
    demo.close()


def test_a_new_space_is_planned_created_and_raced_on(
    root: Path, hub: FakeHub, page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.host = page
    assert command.main(["plan", "--profile", "cpu", "--json"], root) == command.CHANGES
    document = json.loads(capsys.readouterr().out)
    assert (document["space"], document["exists"]) == ("ada/race", False)
    kinds = [change["kind"] for change in document["changes"]]
    assert kinds == ["create", "variable", "variable", "secret", *["upload"] * 5]
    assert SECRET not in json.dumps(document)
    assert hub.writes() == [], "a plan writes nothing"
    assert command.main(["deploy", "--profile", "cpu", "--dry-run"], root) == command.CHANGES
    assert command.main(["deploy", "--profile", "cpu"], root) == command.BAD_INPUT, "nobody said yes"
    assert hub.writes() == []

    assert command.main(["deploy", "--profile", "cpu", "--yes"], root) == command.DONE
    printed = capsys.readouterr()
    assert hub.writes() == ["repos/create", "spaces/ada/race/commit/main"], "everything set first, files in one commit"
    space = hub.spaces["ada/race"]
    assert (space.hardware, space.secrets) == ("cpu-basic", {"SECRET_ONE": SECRET})
    assert space.variables == {"SPECDEMO_PROFILE": "cpu", "COLOUR": "red"}
    assert set(space.files) == {".gitattributes", "README.md", "Spacefile", "app.py", "lib/new.py", "requirements.txt"}
    assert "raced:" in printed.out
    assert "the same answer" in printed.out
    assert TOKEN not in printed.out + printed.err
    assert SECRET not in printed.out + printed.err

    assert command.main(["plan", "--profile", "cpu"], root) == command.DONE
    assert "is as profile cpu says" in capsys.readouterr().out


def test_only_what_differs_is_set_and_stale_modules_go(root: Path, hub: FakeHub, page: str) -> None:
    hub.host = page
    assert command.main(["deploy", "--profile", "cpu", "--yes"], root) == command.DONE
    hub.asked.clear()
    space = hub.spaces["ada/race"]
    space.files |= {"lib/old.py": b"", "hand-made.txt": b""}
    space.variables |= {"COLOUR": "blue", "OTHER": "1"}
    (root / "app.py").write_text("demo = 1\n", encoding="utf-8")
    assert command.main(["deploy", "--profile", "cpu", "--yes"], root) == command.DONE
    assert hub.writes() == ["spaces/ada/race/variables", "spaces/ada/race/commit/main"]
    assert space.variables == {"SPECDEMO_PROFILE": "cpu", "COLOUR": "red", "OTHER": "1"}
    assert "lib/old.py" not in space.files
    assert {"hand-made.txt", ".gitattributes"} <= set(space.files), "what the filter does not know stays"
    commit = next(body for _, path, body in hub.asked if "/commit/" in path)
    assert [line["value"]["path"] for line in commit if line["key"] == "file"] == ["app.py"]


def test_another_profile_asks_for_its_hardware(root: Path, hub: FakeHub, capsys: pytest.CaptureFixture[str]) -> None:
    hub.spaces["ada/race"] = FakeSpace(secrets={"SECRET_ONE": "?"})
    assert command.main(["plan", "--profile", "gpu"], root) == command.CHANGES
    text = capsys.readouterr().out
    assert "set hardware to t4-small, now cpu-basic" in text
    assert "set sleep_time to 3600, now 172800" in text
    assert "SECRET_ONE is there; nobody can read its value" in text


def test_a_pull_request_leaves_the_settings(root: Path, hub: FakeHub, capsys: pytest.CaptureFixture[str]) -> None:
    space = hub.spaces["ada/race"] = FakeSpace(secrets={"SECRET_ONE": "?"})
    assert command.main(["deploy", "--profile", "gpu", "--yes", "--pr"], root) == command.DONE
    assert hub.writes() == ["spaces/ada/race/commit/main"]
    assert set(space.files) == {".gitattributes"}
    assert "discussions/1" in capsys.readouterr().out


@pytest.mark.parametrize(("stage", "kind"), [("BUILD_ERROR", "build"), ("RUNTIME_ERROR", "run")])
def test_a_failed_space_shows_the_end_of_its_log(
    stage: str, kind: str, root: Path, hub: FakeHub, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.after_push = ["BUILDING", stage]
    hub.log = [f"line {number}\n" for number in range(50)] + [f"a token: {TOKEN}\n"]
    assert command.main(["deploy", "--profile", "cpu", "--yes"], root) == command.FAILED
    error = capsys.readouterr().err
    assert stage in error
    assert "line 49" in error
    assert "line 3\n" not in error
    assert TOKEN not in error
    assert any(path.endswith(f"/logs/{kind}") for _, path, _ in hub.asked)


def test_a_page_that_does_not_race_fails_the_deploy(
    root: Path, hub: FakeHub, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.host = hub.url
    assert command.main(["deploy", "--profile", "cpu", "--yes"], root) == command.FAILED
    assert "its page does not answer" in capsys.readouterr().err


REFUSALS = {
    401: "does not know the token",
    402: "asks for payment",
    403: "may not write there",
    404: "has nothing there",
    409: "changed by somebody else",
    429: "too many requests",
    500: "the Hub itself failed",
}


@pytest.mark.parametrize(("status", "words"), REFUSALS.items(), ids=map(str, REFUSALS))
def test_what_the_hub_refuses_is_one_sentence(
    status: int, words: str, root: Path, hub: FakeHub, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.failing = {"POST /api/repos/create": status}
    assert command.main(["deploy", "--profile", "cpu", "--yes"], root) == command.FAILED
    error = capsys.readouterr().err
    assert error.startswith("cannot create the Space ada/race: ")
    assert words in error
    assert error.count("\n") == 1
    assert TOKEN not in error


def test_no_network_is_one_sentence(
    root: Path, hub: FakeHub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    assert command.main(["plan", "--profile", "cpu"], root) == command.FAILED
    error = capsys.readouterr().err
    assert "127.0.0.1:9 does not answer" in error
    assert error.count("\n") == 1


BAD = {
    "an unknown profile": (["plan", "--profile", "moon"], "the Spacefile has cpu, gpu, class"),
    "a local profile": (["deploy", "--profile", "class", "--yes"], "for a machine of one's own"),
    "no profile": (["plan"], "--profile"),
}


@pytest.mark.parametrize(("argv", "words"), BAD.values(), ids=BAD.keys())
def test_bad_input_asks_nobody(
    argv: list[str], words: str, root: Path, hub: FakeHub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(argv, root) == command.BAD_INPUT
    assert words in capsys.readouterr().err
    assert hub.asked == []


def test_a_wrong_spacefile_or_no_token_or_no_secret_stops_before_any_write(
    root: Path, hub: FakeHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SECRET_ONE")
    assert command.main(["plan", "--profile", "cpu"], root) == command.BAD_INPUT
    assert "found no value for SECRET_ONE" in capsys.readouterr().err
    monkeypatch.delenv("HF_TOKEN")
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "none"))
    assert command.main(["plan", "--profile", "cpu"], root) == command.BAD_INPUT
    assert "hf auth login" in capsys.readouterr().err
    text = (root / "Spacefile").read_text(encoding="utf-8")
    (root / "Spacefile").write_text(text.replace("indigo", "teal"), encoding="utf-8")
    assert command.main(["deploy", "--profile", "cpu", "--yes"], root) == command.BAD_INPUT
    assert "teal" in capsys.readouterr().err
    assert hub.writes() == []
