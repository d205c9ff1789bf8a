"""Where a site is written and where not, and what it holds. `tests/browser/test_site.py` opens one."""

import json
import re
from pathlib import Path

import pytest

from specdemo.cli import main
from specdemo.errors import SiteError, TraceError
from specdemo.export import export
from specdemo.traces import save
from specdemo.ui.texts_room import SITE
from specdemo.ui.theme import theme_css
from specdemo.ui.wire import finished_race
from tests.browser.conftest import recorded_race
from tests.fakes_ui import HOSTILE, ScriptedSource


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two races of a teacher's own, whose file names a web address would have to escape."""
    folder = tmp_path_factory.mktemp("traces")
    save(recorded_race("Mein Rennen & mehr", "own", ScriptedSource(num_tokens=12)), folder / "Mein Rennen #1.json")
    hostile = recorded_race("</script><b>", "chat", ScriptedSource(tokens=[*HOSTILE, "\u2028"]))
    save(hostile, folder / "mein-rennen-1.json.gz")
    return folder


@pytest.fixture
def site(tmp_path: Path, traces: Path) -> Path:
    """A site that was exported before."""
    export(tmp_path / "site", traces)
    return tmp_path / "site"


def content(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_site_is_one_folder_that_names_nothing_outside(site: Path) -> None:
    files = content(site)
    assert set(files) == {
        "index.html", "mount.js", "page.js", "specdemo-site.json", "races/mein-rennen-1.js", "races/mein-rennen-1-2.js",
    }  # fmt: skip
    for name, text in files.items():
        assert not re.search(rb"(src|href)=\"(?!data:)[^\"]*[:/]{2}", text), name
        assert not re.search(rb"\b(fetch|XMLHttpRequest)\b|type=\"module\"", text), name
    assert b"<!--" not in files["index.html"]
    assert files["index.html"].count(b'data-ref="root"') == 1


def test_a_race_in_the_site_is_the_value_that_the_page_shows(site: Path, traces: Path) -> None:
    script = (site / "races" / "mein-rennen-1-2.js").read_text(encoding="ascii")
    name, _, value = script.removeprefix("takeRace(").removesuffix(");\n").partition(", ")
    shown = json.loads(value)
    assert json.loads(name) == shown["run"] == "mein-rennen-1-2"
    wanted = finished_race(recorded_race("Mein Rennen & mehr", "own", ScriptedSource(num_tokens=12)), "recorded")
    assert {**shown, "run": ""} == {**wanted, "run": ""}


def test_an_earlier_export_is_replaced_and_what_an_office_left_goes_with_it(site: Path, traces: Path) -> None:
    before = content(site)
    (site / "races" / ".DS_Store").write_text("x")
    (site / "index.html").write_text("old")
    export(site, traces)
    assert content(site) == before
    assert [path.name for path in site.parent.iterdir()] == ["site"]


def test_an_empty_folder_is_taken(tmp_path: Path, traces: Path) -> None:
    (tmp_path / "site").mkdir()
    assert export(tmp_path / "site", traces) == tmp_path / "site" / "index.html"


def test_what_no_export_wrote_is_left_alone_and_named(site: Path, traces: Path) -> None:
    (site / "homework.txt").write_text("mine")
    before = content(site)
    with pytest.raises(SiteError, match=r"holds homework.txt, which no export wrote; name a folder that is new"):
        export(site, traces)
    assert content(site) == before
    (site / "specdemo-site.json").write_text("{}")
    with pytest.raises(SiteError, match="which no export wrote"):
        export(site, traces)


@pytest.mark.parametrize(("place", "sentence"), [("a-file", "is a file"), ("none/site", "does not exist; make it")])
def test_a_place_that_is_none_is_a_sentence(tmp_path: Path, traces: Path, place: str, sentence: str) -> None:
    (tmp_path / "a-file").write_text("x")
    with pytest.raises(SiteError, match=sentence):
        export(tmp_path / place, traces)


def test_traces_that_are_none_are_a_sentence_and_a_broken_one_is_named(site: Path, tmp_path: Path) -> None:
    before = content(site)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SiteError, match="holds no trace"):
        export(site, tmp_path / "empty")
    with pytest.raises(SiteError, match="does not exist"):
        export(site, tmp_path / "nowhere")
    (tmp_path / "empty" / "tuesday.json").write_text('{"specdemo_trace": 1}')
    with pytest.raises(TraceError, match=r"tuesday.json is damaged") as error:
        export(site, tmp_path / "empty")
    assert "\n" not in str(error.value)
    assert content(site) == before


@pytest.mark.parametrize("method", ["write_text", "rename"])
@pytest.mark.parametrize("call", [1, 2])
def test_a_failure_in_the_middle_loses_nothing(
    site: Path, traces: Path, monkeypatch: pytest.MonkeyPatch, method: str, call: int
) -> None:
    before, native, calls = content(site), getattr(Path, method), iter(range(1, 100))

    def failing(self: Path, *args: object, **options: object) -> object:
        if next(calls) == call:
            raise OSError(28, "No space left on device")
        return native(self, *args, **options)

    monkeypatch.setattr(Path, method, failing)
    with pytest.raises(SiteError, match="No space left on device"):
        export(site, traces)
    monkeypatch.undo()
    assert content(site) == before
    assert [path.name for path in site.parent.iterdir()] == ["site"]


def test_the_command_prints_the_page_or_one_line(
    tmp_path: Path, traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(tmp_path / "site"), "--traces", str(traces)]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'site' / 'index.html'}\n"
    (tmp_path / "site" / "x").write_text("")
    assert main(["export", str(tmp_path / "site"), "--traces", str(traces)]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert captured.err.startswith("specdemo: ")


def test_the_theme_of_a_site_holds_what_its_styles_use_and_nothing_else() -> None:
    css = theme_css("a { color: var(--body-text-color); background: var(--none-such); }")
    light, dark = css.split(":root.dark")
    assert set(re.findall(r"(--[\w-]+):", light)) == {"--body-text-color", "--neutral-800", "--neutral-100"}
    assert "--body-text-color: var(--neutral-800);" in light
    assert "--body-text-color: var(--neutral-100);" in dark


def test_the_site_says_the_same_in_every_language() -> None:
    assert SITE["en"].keys() == SITE["zh"].keys() == SITE["zh-TW"].keys()
    assert all(text and "{" not in text for texts in SITE.values() for text in texts.values())
