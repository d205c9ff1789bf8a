"""What the source says about itself: imports, layers, sizes, the tree in the README. Runs none of the code it reads.

Every check returns sentences, one for each breach, so that it can be tried on a tree that is made to be wrong.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = "specdemo"
LAYERS = {
    **dict.fromkeys(("errors", "settings", "events", "branches", "catalog", "limits"), 0),
    **dict.fromkeys(
        (
            "metrics",
            "race",
            "traces",
            "spans",
            "theory",
            "reports",
            "stopping",
            "schedule",
            "prompts",
            "engine_settings",
            "engine_texts",
            "proofs",
        ),
        1,
    ),
    **dict.fromkeys(
        (
            "prompt_set",
            "sweeps",
            "sweep_file",
            "points",
            "spread",
            "counterfactual",
            "advice",
            "sweep_report",
            "stretches",
            "memory_use",
            "batches",
        ),
        1,
    ),
    **dict.fromkeys(("figures", "lessons", "pairs", "detection", "findings"), 1),
    **dict.fromkeys(("sampling", "acceptance", "evidence", "goodness", "mistakes", "experiment"), 2),
    **dict.fromkeys(
        (
            "target",
            "causal_lm",
            "recurrent",
            "folders",
            "blocks",
            "int4_linear",
            "int8_linear",
            "kernels",
            "llama",
            "llama_layers",
            "llama_session",
            "gguf_index",
            "four_bit",
            "chat",
            "weights",
            "conversion",
            "loading",
            "precision",
            "drafters",
            "hub",
            "places",
            "preflight",
        ),
        3,
    ),
    "decoding": 4,
    **dict.fromkeys(
        (
            "engine",
            "live",
            "offers",
            "device",
            "turns",
            "divergence",
            "costs",
            "bandwidth",
            "baselines",
            "bench",
            "memory",
            "batching",
            "zero",
        ),
        5,
    ),
    **dict.fromkeys(("train", "proof", "tune", "remote"), 5),
    **dict.fromkeys(
        (
            "ui",
            "space",
            "classroom",
            "export",
            "cli",
            "cli_prove",
            "cli_tune",
            "cli_pairs",
            "cli_engine",
            "console",
            "__main__",
        ),
        6,
    ),
}
LOWEST_ENGINE_LAYER = 2
SEES_BOTH_SIDES = {"app", "cli", "__main__"}
MAY_PRINT = {"cli", "__main__", "train"}
# Packages beside the standard library; None means any.
ALLOWED_PACKAGES: dict[int, set[str] | None] = {0: set(), 1: {"pydantic"}}
UI_PACKAGES = {"gradio"}

# What pip calls a package that is imported by another name; and what is needed without being imported here.
PIP_NAMES = {
    "yaml": "pyyaml",
    "huggingface_hub": "huggingface-hub",
    "pydantic_core": "pydantic",
    "gradio_client": "gradio-client",
}
NEEDED_BY_OTHERS = {"accelerate"}  # by transformers, to place weights

MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 50
MAX_PARAMETERS = 6
# The parameters of an endpoint are what its callers write: its public signature, not a choice of ours.
ENDPOINTS = {f"{PACKAGE}/ui/api.py"}

TOP_LEVEL = {"app.py", "requirements.txt", PACKAGE, "assets", "tests", "README.md", "Spacefile"}
_TREE = re.compile(r"^```tree\n(.*?)^```", re.DOTALL | re.MULTILINE)


def sources(root: Path) -> list[Path]:
    """app.py and every module of the package."""
    found = sorted((root / PACKAGE).rglob("*.py"))
    return [*found, root / "app.py"] if (root / "app.py").exists() else found


def part(path: Path, root: Path) -> str:
    """What the layers speak of: the module's or sub-package's name, `""` for the package itself, `app` for app.py."""
    inside = path.relative_to(root).with_suffix("").parts
    if inside[0] != PACKAGE:
        return inside[0]
    return "" if inside[1:] == ("__init__",) else inside[1]


def imports(path: Path, root: Path) -> Iterator[str]:
    """Full dotted names of all that a file imports, at any depth of its code."""
    package = ".".join(path.relative_to(root).parent.parts)
    for node in ast.walk(_parse(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            module = ".".join(filter(None, (above, node.module)))
            yield from (f"{module}.{alias.name}" for alias in node.names)


def layer_breaches(root: Path) -> list[str]:
    """Imports that run upward, see what they must not see, or come from a module without a layer."""
    return [breach for path in sources(root) for breach in _breaches_of(path, root)]


def _breaches_of(path: Path, root: Path) -> Iterator[str]:
    here, name = part(path, root), path.relative_to(root)
    if here not in LAYERS and here not in ("app", ""):
        yield f"{name} has no layer; add it to LAYERS in tests/architecture.py, and to the README's tree."
        return
    layer = {"app": 6, "": 0}.get(here, LAYERS.get(here, 0))
    seen = set()
    for imported in sorted(set(imports(path, root))):
        package, _, inside = imported.partition(".")
        if package != PACKAGE:
            yield from _package_breach(name, here, layer, package)
            continue
        other = inside.split(".")[0]
        if other not in LAYERS:
            continue
        seen.add("ui" if other == "ui" else "engine" if LAYERS[other] >= LOWEST_ENGINE_LAYER else "values")
        if LAYERS[other] > layer:
            yield f"{name} (L{layer}) imports {imported} (L{LAYERS[other]}); imports run downward only."
        if other == "train" and here != "train":
            yield f"{name} imports {imported}; nobody imports train/."
        if here == "ui" and other != "ui" and LAYERS[other] >= LOWEST_ENGINE_LAYER:
            yield f"{name} imports {imported}; ui/ imports L0-L1 only."
    if {"ui", "engine"} <= seen and here not in SEES_BOTH_SIDES:
        yield f"{name} imports both the page and the engine; only {', '.join(sorted(SEES_BOTH_SIDES))} may."


def _package_breach(name: Path, here: str, layer: int, package: str) -> Iterator[str]:
    allowed = UI_PACKAGES if here == "ui" else ALLOWED_PACKAGES.get(layer)
    if allowed is not None and package not in sys.stdlib_module_names and package not in allowed:
        where = "ui/" if here == "ui" else f"L{layer}"
        yield f"{name} imports {package}; {where} imports the standard library and {sorted(allowed) or 'nothing else'}."


def required_packages(root: Path) -> set[str]:
    """What the program needs of others, by pip's names, as its imports say."""
    found = {name.split(".")[0] for path in sources(root) for name in imports(path, root)}
    outside = found - sys.stdlib_module_names - {PACKAGE}
    return {PIP_NAMES.get(name, name) for name in outside} | NEEDED_BY_OTHERS


def size_breaches(path: Path, root: Path) -> list[str]:
    """What is too long: the file, a function, a list of parameters."""
    name = path.relative_to(root)
    num_lines = len(path.read_text(encoding="utf-8").splitlines())
    found = [f"{name} has {num_lines} lines; at most {MAX_FILE_LINES}."] if num_lines > MAX_FILE_LINES else []
    for node in ast.walk(_parse(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                found.append(f"{name}:{node.lineno} {node.name} has {length} lines; at most {MAX_FUNCTION_LINES}.")
            if (num := len(_parameters(node))) > MAX_PARAMETERS and name.as_posix() not in ENDPOINTS:
                found.append(f"{name}:{node.lineno} {node.name} has {num} parameters; at most {MAX_PARAMETERS}.")
    return found


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    starred = [a for a in (arguments.vararg, arguments.kwarg) if a]
    return [a.arg for a in (*named, *starred) if a.arg not in ("self", "cls")]


def print_and_global_breaches(root: Path) -> list[str]:
    """Calls of print and global statements outside the command line's face."""
    found = []
    for path in sources(root):
        for node in ast.walk(_parse(path)) if part(path, root) not in MAY_PRINT else ():
            is_print = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
            if is_print or isinstance(node, ast.Global):
                word = "print" if is_print else "global"
                found.append(f"{path.relative_to(root)}:{node.lineno} uses {word}; only {sorted(MAY_PRINT)} may.")
    return found


def top_level_names(root: Path) -> set[str]:
    """What git tracks at the top, without dotfiles; the folder's content where there is no git."""
    try:
        listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        listed = ""
    names = {line.split("/")[0] for line in listed.splitlines()} or {path.name for path in root.iterdir()}
    return {name for name in names if not name.startswith(".") and name != "__pycache__"}


def tree_in(readme: str) -> set[str] | None:
    """The paths in the block fenced as ```tree, None without one. A name is indented below the folder it is in."""
    block = _TREE.search(readme)
    if block is None:
        return None
    paths, folders = set(), [(-1, "")]
    for line in filter(str.strip, block[1].splitlines()):
        indent, name = len(line) - len(line.lstrip()), line.split()[0]
        while folders[-1][0] >= indent:
            folders.pop()
        path = folders[-1][1] + name
        paths.add(path)
        if name.endswith("/"):
            folders.append((indent, path))
    return paths


def modules_on_disk(root: Path) -> set[str]:
    """Modules and folders of the package as the README names them; an `__init__.py` goes without saying."""
    modules = [p for p in (root / PACKAGE).rglob("*.py") if p.name != "__init__.py"]
    folders = {p.parent for p in (root / PACKAGE).rglob("*.py")}
    return {str(p.relative_to(root)) for p in modules} | {f"{p.relative_to(root)}/" for p in folders}


def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))
