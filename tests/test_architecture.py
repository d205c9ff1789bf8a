"""The house stands as the README draws it: layers, sizes, top level, tree. Each check is first tried on a breach."""

import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture import (
    MAX_FILE_LINES,
    MAX_FUNCTION_LINES,
    PACKAGE,
    TOP_LEVEL,
    layer_breaches,
    modules_on_disk,
    print_and_global_breaches,
    required_packages,
    size_breaches,
    sources,
    top_level_names,
    tree_in,
)

ROOT = Path(__file__).resolve().parent.parent
PYTHON_FILES = [*sources(ROOT), *sorted((ROOT / "tests").rglob("*.py"))]


def write(root: Path, files: dict[str, str]) -> Path:
    """A small tree of source files."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


BREACHES = {
    "values that know the fold": ("specdemo/events.py", "import specdemo.metrics", "downward only"),
    "a fold that knows the engine": ("specdemo/race.py", "from specdemo.decoding import decode", "downward only"),
    "hidden inside a function": ("specdemo/race.py", "def f():\n    from specdemo import live", "downward only"),
    "relative": ("specdemo/drafters/ngram.py", "from ..live import Engine", "downward only"),
    "torch among the values": ("specdemo/settings.py", "import torch", "standard library"),
    "torch among the folds": ("specdemo/spans.py", "from torch import Tensor", "standard library"),
    "torch in the page": ("specdemo/ui/page.py", "import torch.nn", "ui/ imports"),
    "transformers in the page": ("specdemo/ui/page.py", "from transformers import AutoTokenizer", "ui/ imports"),
    "the engine in the page": ("specdemo/ui/page.py", "from specdemo.live import Engine", "L0-L1 only"),
    "the command line in the page": ("specdemo/ui/page.py", "from specdemo import cli", "L0-L1 only"),
    "training in the app": ("app.py", "from specdemo.train import fit", "nobody imports train"),
    "both sides in one": ("specdemo/space.py", "import specdemo.ui.page\nimport specdemo.live", "both the page and"),
    "a module without a layer": ("specdemo/helpers.py", "", "has no layer"),
}


@pytest.mark.parametrize(("name", "source", "complaint"), BREACHES.values(), ids=BREACHES.keys())
def test_a_breach_of_the_layers_is_found(name: str, source: str, complaint: str, tmp_path: Path) -> None:
    found = layer_breaches(write(tmp_path, {name: source}))
    assert any(complaint in breach for breach in found)


def test_what_the_layers_allow_is_not_called_a_breach(tmp_path: Path) -> None:
    allowed = {
        "app.py": "import specdemo.ui.page\nfrom specdemo.live import Engine",
        "specdemo/__init__.py": "",
        "specdemo/traces.py": "import json\nfrom pydantic import TypeAdapter\nfrom specdemo.race import race",
        "specdemo/ui/page.py": "import gradio as gr\nfrom specdemo.ui import text\nfrom specdemo.race import race",
        "specdemo/drafters/ngram.py": "import torch\nfrom .base import Draft",
        "specdemo/__main__.py": "from specdemo.live import Engine\nfrom specdemo.ui import page",
    }
    assert layer_breaches(write(tmp_path, allowed)) == []


def test_imports_run_downward_only() -> None:
    assert layer_breaches(ROOT) == []


def test_requirements_are_what_is_imported_and_nothing_else() -> None:
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    declared = {canonicalize_name(Requirement(line).name) for line in lines if not line.startswith("#")}
    assert required_packages(ROOT) - declared == set(), "imported but not in requirements.txt"
    assert declared - required_packages(ROOT) == set(), "in requirements.txt but not imported"


def test_importing_the_page_loads_no_model_library() -> None:
    modules = [f"{PACKAGE}.ui", *(f"{PACKAGE}.ui.{path.stem}" for path in (ROOT / PACKAGE / "ui").glob("[a-z]*.py"))]
    code = f"import sys, {', '.join(modules)}; print(*{{'torch', 'transformers'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


@pytest.mark.parametrize("path", PYTHON_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_functions_and_parameter_lists_are_short(path: Path) -> None:
    assert size_breaches(path, ROOT) == []


def test_what_is_too_long_is_found(tmp_path: Path) -> None:
    body = "\n".join(["    x = 0"] * MAX_FUNCTION_LINES)
    long_function = f"class A:\n  def f(self, a, b, c, d, e, *, g):\n{body}\n"
    seven = "async def h(a, b, c, /, d, *args, e, **others): ...\n"
    write(tmp_path, {"long.py": long_function + seven + "\n" * MAX_FILE_LINES})
    found = " ".join(size_breaches(tmp_path / "long.py", tmp_path))
    assert "lines; at most 300" in found
    assert "f has 51 lines" in found
    assert "f has 6 parameters" not in found
    assert "h has 7 parameters" in found


def test_nothing_prints_or_uses_global_but_the_command_line() -> None:
    assert print_and_global_breaches(ROOT) == []


def test_print_and_global_are_found(tmp_path: Path) -> None:
    uses = "def f():\n    global x\n    x = 1\n    print(x)\n"
    write(tmp_path, {"specdemo/live.py": uses, "specdemo/cli.py": uses, "specdemo/train/fit.py": uses})
    places = [breach.split()[0] for breach in print_and_global_breaches(tmp_path)]
    assert places == ["specdemo/live.py:2", "specdemo/live.py:4"]


def test_the_top_level_is_the_fixed_set() -> None:
    assert top_level_names(ROOT) - TOP_LEVEL == set(), "only dotfiles may stand beside the fixed top level"
    assert {name for name in TOP_LEVEL if not (ROOT / name).exists()} == set(), "missing from the top level"


def test_the_top_level_is_read_from_the_folder_where_there_is_no_git(tmp_path: Path) -> None:
    write(tmp_path, {"app.py": "", "notes.txt": "", ".gitignore": "", "specdemo/__init__.py": ""})
    assert top_level_names(tmp_path) == {"app.py", "notes.txt", "specdemo"}


def test_the_tree_in_the_readme_is_the_tree_on_disk() -> None:
    readme = ROOT / "README.md"
    named = tree_in(readme.read_text(encoding="utf-8")) if readme.exists() else None
    assert named is not None, "README.md has no block fenced as ```tree that names every module"
    inside = {path for path in named if path.startswith(f"{PACKAGE}/")}
    assert inside - modules_on_disk(ROOT) == set(), "named in the README but not on disk"
    assert modules_on_disk(ROOT) - inside == set(), "on disk but not named in the README"
    assert {path for path in named if not (ROOT / path).exists()} == set(), "named in the README but not on disk"


def test_a_tree_is_read_by_its_indentation() -> None:
    tree = "app.py   starts\nspecdemo/\n  ui/   the page\n    page.py  x\n  race.py L1\ntests/ t\n"
    inside = {"specdemo/ui/", "specdemo/ui/page.py", "specdemo/race.py"}
    assert tree_in(f"# Title\n```tree\n{tree}```\n") == {"app.py", "specdemo/", *inside, "tests/"}
    assert tree_in("# no tree\n```\napp.py\n```\n") is None
