"""The Spacefile is checked strictly and offline, and rendering touches the README's front matter and nothing else."""

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specdemo.errors import SpaceError
from specdemo.space.card import front_matter, render
from specdemo.space.checks import check
from specdemo.space.command import main
from specdemo.space.files import MAX_PLAIN_FILE_BYTES, NOTE
from specdemo.space.reading import read
from tests.spacefiles import CARD

ROOT = Path(__file__).resolve().parent.parent.parent
SPACEFILE = (
    "v: 1\n"
    + CARD
    + """\
  tags: [education]
"""
)
REQUIREMENTS = "# direct\ntorch>=2.9,<2.14  # first\n\ngradio>=6.31,<7\npydantic>=2.11\nspaces\n"
BODIES = st.binary(max_size=80).filter(lambda body: not body.lstrip(b"\xef\xbb\xbf").startswith(b"---"))
IN_ONE_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project in which everything is in order."""
    (tmp_path / "Spacefile").write_text(SPACEFILE, encoding="utf-8")
    (tmp_path / "requirements.txt").write_text(REQUIREMENTS, encoding="utf-8")
    (tmp_path / "app.py").touch()
    (tmp_path / "README.md").write_text("# A race\n", encoding="utf-8")
    assert render(tmp_path)
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    """Replace what stands exactly once."""
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_this_repository_has_nothing_to_complain_about() -> None:
    assert [line for line in check(ROOT) if not line.startswith(NOTE)] == []


def test_a_project_in_order_passes(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(root) == []
    assert main(["check"], root) == 0
    assert capsys.readouterr().out.startswith("Spacefile is in order; 4 files")


MISTAKES = {
    "a version that YAML reads as a number": ('"3.12.12"', "3.12", "line 9, card.python_version: found 3.12, .*quotes"),
    "a description over sixty characters": ("Watch it", "x" * 61, "card.short_description: has 61 .*shorten it to 60"),
    "a colour the Hub does not have": ("indigo", "teal", "line 5, card.colorFrom: found 'teal'.*'indigo'"),
    "a misspelt field": ("license", "licence", "line 12, card.licence: is not a field of version 1"),
    "a field left out": ("  app_file: app.py\n", "", "line 2, card.app_file: is missing"),
    "a field of our own at the top": ("v: 1\n", "v: 1\nhardwear: x\n", "line 2, hardwear: is not a field"),
    "a later version": ("v: 1", "v: 2", "line 1, v: found 2"),
    "a version in quotes": ("v: 1", 'v: "1"', "line 1, v: found '1'"),
    "another kind of Space": ("sdk: gradio", "sdk: docker", "card.sdk: found 'docker'.*'gradio'"),
    "a version that is none": ('"6.31.0"', '"latest"', "card.sdk_version: found 'latest'"),
    "no emoji": ("🏁", "flag", "card.emoji: found 'flag'"),
    "a tag that is no text": ("[education]", "[education, 7]", "line 13, card.tags.1: found 7"),
    "a key that stands twice": ("  sdk: gradio\n", "  sdk: gradio\n  title: B\n", "line 8, card.title: stands twice"),
    "broken YAML": ("[education]", "[education", "Spacefile is not YAML: .*line 14"),
    "an app file that is not there": ("app_file: app.py", "app_file: main.py", "card.app_file: found no main.py"),
    "another gradio than required": ('"6.31.0"', '"6.30.0"', "card.sdk_version: found 6.30.0, .* gradio.*6.31"),
    "a Python too old for a requirement": ('"3.12.12"', '"3.8.1"', "found 3.8.1, but torch needs Python"),
}


@pytest.mark.parametrize(("old", "new", "complaint"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_in_the_spacefile_is_found(
    old: str, new: str, complaint: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(root / "Spacefile", old, new)
    assert main(["check"], root) == 2
    printed = capsys.readouterr()
    assert re.search(complaint, printed.err)
    assert printed.out == ""


PINS = {
    "pydantic above the builder's": ("pydantic>=2.11", "pydantic>2.12.5", "pydantic up to 2.12.5"),
    "pydantic pinned above it": ("pydantic>=2.11", "pydantic==2.13.*", "pydantic up to 2.12.5"),
    "torch above the builder's": ("torch>=2.9,<2.14", "torch>=2.14", "torch up to 2.13.0"),
    "spaces pinned": ("spaces", "spaces==0.51.3", "the builder pins spaces itself"),
    "the project itself": ("spaces", "-e .", "line 6: found '-e .'.*this file alone"),
    "another file": ("spaces", "-r other.txt", "line 6: found '-r other.txt'.*this file alone"),
    "gradio without the sdk_version": ("gradio>=6.31,<7", "gradio>=5,<6", "card.sdk_version: found 6.31.0"),
}


@pytest.mark.parametrize(("old", "new", "complaint"), PINS.values(), ids=PINS.keys())
def test_a_requirement_that_fights_the_builder_is_found(old: str, new: str, complaint: str, root: Path) -> None:
    edit(root / "requirements.txt", old, new)
    assert re.search(complaint, "\n".join(check(root)))


@pytest.mark.parametrize("line", ["pydantic<2.12.5", "pydantic==2.12.5", "pydantic!=2.13.0", "PyDantic~=2.11"])
def test_a_requirement_that_the_builder_can_meet_is_left_alone(line: str, root: Path) -> None:
    edit(root / "requirements.txt", "pydantic>=2.11", line)
    assert check(root) == []


@pytest.mark.parametrize("name", ["Spacefile", "requirements.txt", "README.md"])
def test_a_missing_file_is_named_without_a_traceback(name: str, root: Path) -> None:
    (root / name).unlink()
    assert [line for line in check(root) if name in line] != []
    assert main(["check"], root) == 2


def test_a_readme_that_was_edited_by_hand_is_found_and_mended(root: Path) -> None:
    edit(root / "README.md", "A race\nsdk", "A hand-made race\nsdk")
    assert [line.split(":")[0] for line in check(root)] == ["README.md"]
    assert main(["render"], root) == 0
    assert check(root) == []


def test_a_file_too_large_for_plain_git_is_noted_but_is_no_fault(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (root / "weights.safetensors").open("wb") as file:
        file.truncate(MAX_PLAIN_FILE_BYTES + 1)
    assert main(["check"], root) == 0
    assert "note: weights.safetensors has 10.0 MB" in capsys.readouterr().out


def test_what_the_hub_reads_is_the_card(root: Path) -> None:
    text = (root / "README.md").read_text(encoding="utf-8")
    assert text.startswith("---\n")
    assert yaml.safe_load(text.split("---\n")[1]) == yaml.safe_load(SPACEFILE)["card"]
    assert "🏁" in text


@IN_ONE_FOLDER
@given(body=BODIES)
def test_rendering_keeps_the_body_byte_for_byte_and_changes_nothing_the_second_time(root: Path, body: bytes) -> None:
    readme = root / "README.md"
    readme.write_bytes(body)
    assert render(root)
    first = readme.read_bytes()
    assert first == front_matter(read(root)) + body
    assert not render(root)
    assert readme.read_bytes() == first


HEADS = {
    "an older card": b"---\ntitle: Old\n---\n",
    "an empty card": b"---\n---\n",
    "a card with Windows line ends": b"---\r\ntitle: Old\r\n---\r\n",
    "a card behind a byte order mark": b"\xef\xbb\xbf---\ntitle: Old\n---\n",
    "a damaged card": b"---\ntitle: [\n---\n",
}


@IN_ONE_FOLDER
@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS.keys())
@given(body=BODIES)
def test_an_earlier_front_matter_is_replaced_whole(root: Path, head: bytes, body: bytes) -> None:
    (root / "README.md").write_bytes(head + body)
    assert render(root)
    assert (root / "README.md").read_bytes() == front_matter(read(root)) + body


def test_text_between_two_rules_is_no_front_matter(root: Path) -> None:
    body = b"---\nA quotation.\n---\nText\n"
    (root / "README.md").write_bytes(body)
    assert render(root)
    assert (root / "README.md").read_bytes().endswith(b"---\n" + body)


def test_nothing_is_rendered_from_a_wrong_spacefile(root: Path) -> None:
    before = (root / "README.md").read_bytes()
    edit(root / "Spacefile", "indigo", "teal")
    with pytest.raises(SpaceError, match="teal"):
        render(root)
    assert (root / "README.md").read_bytes() == before


@pytest.mark.parametrize("text", ["", "just words", "- a\n- b\n", "v: 1\ncard: none\n", "a: &a [*a]\n", "\0"])
def test_a_file_that_is_no_spacefile_is_refused_in_words(text: str, root: Path) -> None:
    (root / "Spacefile").write_text(text, encoding="utf-8")
    with pytest.raises(SpaceError, match="Spacefile"):
        read(root)


@pytest.mark.parametrize("argv", [[], ["publish"], ["--profile"], ["-x"]])
def test_an_unknown_command_gets_one_line_and_exit_2(
    argv: list[str], root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv, root) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "expected check, render, plan or deploy" in error
