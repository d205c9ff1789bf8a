"""requirements.txt against what the Spaces builder installs beside it, and the builder's own install line."""

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from specdemo.space.files import REQUIREMENTS
from specdemo.space.manifest import Card
from specdemo.space.reading import read_bytes

# The builder installs these versions or lower; a higher floor cannot be resolved there.
BUILDER_CEILINGS = {"torch": Version("2.13.0"), "pydantic": Version("2.12.5")}
_FLOORS = frozenset({">=", ">", "==", "===", "~="})


def builder_line(card: Card) -> list[str]:
    """What the builder gives pip beside requirements.txt, as public build logs show it, with ZeroGPU's cap on torch."""
    gradio = f"gradio[oauth,mcp]=={card.sdk_version}"
    return [gradio, "uvicorn>=0.14.0", "websockets>=10.4", "spaces", f"torch<={BUILDER_CEILINGS['torch']}"]


def install_problems(root: Path, card: Card) -> Iterator[str]:
    """Resolve the builder's line with this Python's pip, installing nothing; asks the package index."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--no-input"]
    command += ["--disable-pip-version-check", "-r", REQUIREMENTS, *builder_line(card)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR:") or "No module" in line]
    why = " ".join(lines[-1].removeprefix("ERROR:").split()) if lines else f"pip ended with code {done.returncode}"
    yield (
        f"{REQUIREMENTS}: beside what the builder adds ({' '.join(builder_line(card))}) pip finds no solution: {why}. "
        f"Loosen what stands in the way; `{' '.join(['pip', *command[3:5], *command[8:]])}` shows all of it."
    )


def parse_requirements(root: Path) -> tuple[list[Requirement], list[str]]:
    """The parsed lines of requirements.txt, and a problem for each that the builder cannot use."""
    found, problems = [], []
    for number, line in enumerate(read_bytes(root / REQUIREMENTS).decode(errors="replace").splitlines(), 1):
        text = line.split(" #")[0].strip()
        if not text or text.startswith("#"):
            continue
        try:
            found.append(Requirement(text))
        except InvalidRequirement:
            expected = "the builder sees this file alone, so write a package's name with its versions"
            problems.append(f"{REQUIREMENTS}, line {number}: found {text!r}; {expected}.")
    return found, problems


def version_problems(card: Card, requirements: list[Requirement]) -> Iterator[str]:
    """sdk_version and python_version against what is required."""
    for requirement in requirements:
        name = canonicalize_name(requirement.name)
        if name == "gradio" and not requirement.specifier.contains(card.sdk_version):
            yield (
                f"Spacefile, card.sdk_version: found {card.sdk_version}, but requirements.txt asks for "
                f"gradio{requirement.specifier}; bring the two together."
            )
        try:
            needed = metadata(name)["Requires-Python"]
        except (PackageNotFoundError, KeyError):
            continue
        if needed and not SpecifierSet(needed).contains(card.python_version):
            yield (
                f"Spacefile, card.python_version: found {card.python_version}, but {name} needs Python {needed}; "
                f"choose a version that fits."
            )


def pin_problems(requirement: Requirement) -> Iterator[str]:
    """A pin or floor that fights the builder's own."""
    name = canonicalize_name(requirement.name)
    if name == "spaces" and requirement.specifier:
        yield f"{REQUIREMENTS}: found {requirement}; the builder pins spaces itself, so leave it out."
    if (ceiling := BUILDER_CEILINGS.get(name)) is None:
        return
    for specifier in requirement.specifier:
        try:
            floor = Version(specifier.version.removesuffix(".*"))
        except InvalidVersion:
            continue
        is_above = floor > ceiling or (floor == ceiling and specifier.operator == ">")
        if specifier.operator in _FLOORS and is_above:
            yield f"{REQUIREMENTS}: found {requirement}; the builder has {name} up to {ceiling}, so lower the floor."
