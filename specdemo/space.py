"""The Spacefile: checks it offline, and writes its card into the README's front matter, which Hugging Face reads.

Knows no engine, no page and no network; the README's block is generated, never read back as a source.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Annotated, Literal

import yaml
from huggingface_hub import SpaceCardData
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from specdemo.errors import SpaceError

ROOT = Path(__file__).resolve().parent.parent
NOTE = "note: "
MAX_PLAIN_FILE_BYTES = 10_000_000
# The Spaces builder installs these versions or lower beside requirements.txt; a higher floor cannot be resolved there.
BUILDER_CEILINGS = {"torch": Version("2.13.0"), "pydantic": Version("2.12.5")}
_FLOORS = frozenset({">=", ">", "==", "===", "~="})
_FRONT_MATTER = re.compile(rb"\A(?:\xef\xbb\xbf)?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)

Colour = Literal["red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"]
Place = tuple[str | int, ...]
VersionText = Annotated[str, Field(pattern=r"^\d+(\.\d+){1,2}$")]


class Card(BaseModel):
    """The Hub's own fields of a Space's front matter, by the Hub's own names."""

    model_config = ConfigDict(extra="forbid", strict=True)

    title: str = Field(min_length=1)
    emoji: str = Field(pattern=r"^[^\x00-\x7f]+$")
    color_from: Colour = Field(alias="colorFrom")
    color_to: Colour = Field(alias="colorTo")
    sdk: Literal["gradio"]
    sdk_version: VersionText
    python_version: VersionText
    app_file: str
    short_description: str = Field(min_length=1, max_length=60)
    license: str
    tags: list[str] = []
    models: list[str] | None = None
    datasets: list[str] | None = None
    preload_from_hub: list[str] | None = None
    suggested_hardware: str | None = None
    startup_duration_timeout: str | None = None
    header: Literal["mini", "default"] | None = None
    full_width: bool | None = Field(None, alias="fullWidth")
    pinned: bool | None = None
    thumbnail: str | None = None


class Spacefile(BaseModel):
    """The whole file, version 1."""

    model_config = ConfigDict(extra="forbid", strict=True)

    v: Literal[1]
    card: Card


def main(argv: list[str], root: Path = ROOT) -> int:
    """`space check` and `space render`: 0 when all is well, 2 with one line on stderr for each problem."""
    command = {"check": _run_check, "render": _run_render}.get(" ".join(argv))
    if command is None:
        sys.stderr.write(f"space: found {' '.join(argv) or 'nothing'}; expected check or render.\n")
        return 2
    try:
        return command(root)
    except SpaceError as error:
        sys.stderr.write(f"{error}\n")
        return 2


def check(root: Path) -> list[str]:
    """What would keep the Space from building, a line each, found offline; lines that begin with NOTE are no faults."""
    try:
        card = read(root).card
        requirements, problems = _requirements(root)
    except SpaceError as error:
        return str(error).splitlines()
    if not (root / card.app_file).is_file():
        problems.append(f"Spacefile, card.app_file: found no {card.app_file}; name the file that builds `demo`.")
    problems += _version_problems(card, requirements)
    problems += [problem for requirement in requirements for problem in _pin_problems(requirement)]
    problems += _readme_problems(root, card)
    sizes = {path: path.stat().st_size for path in _uploaded_files(root)}
    large = [path for path, size in sizes.items() if size > MAX_PLAIN_FILE_BYTES]
    return problems + [f"{NOTE}{p.relative_to(root)} has {sizes[p] / 1e6:.1f} MB; plain git refuses it" for p in large]


def render(root: Path) -> bool:
    """Rewrite the YAML block at the head of README.md from the Spacefile, keep the body; True when that changed it.

    Raises SpaceError when either file is missing or the Spacefile is wrong.
    """
    readme = root / "README.md"
    before = _read_bytes(readme)
    after = front_matter(read(root).card) + _body(before)
    if after == before:
        return False
    temporary = readme.with_name(".README.md.tmp")
    temporary.write_bytes(after)
    temporary.replace(readme)
    return True


def read(root: Path) -> Spacefile:
    """The validated Spacefile; raises SpaceError with one line for each fault."""
    text = _read_bytes(root / "Spacefile")
    try:
        has_alias = any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader))
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SpaceError(f"Spacefile is not YAML: {' '.join(str(error).split())}") from error
    if has_alias:
        raise SpaceError("Spacefile refers to a part of itself (`*name`); write the value out where it belongs.")
    lines: dict[Place, int] = {}
    faults = list(_index_lines(node, (), lines)) if node else []
    try:
        spacefile = Spacefile.model_validate(values)
    except ValidationError as error:
        faults += [_fault(details, lines) for details in error.errors()]
    if faults:
        raise SpaceError("\n".join(faults))
    return spacefile


def front_matter(card: Card) -> bytes:
    """The README's first bytes: the card between two lines of dashes."""
    values = card.model_dump(by_alias=True, exclude_none=True)
    return f"---\n{SpaceCardData(**values).to_yaml()}\n---\n".encode()


def _run_check(root: Path) -> int:
    found = check(root)
    problems = [line for line in found if not line.startswith(NOTE)]
    sys.stdout.writelines(f"{line}\n" for line in found if line.startswith(NOTE))
    sys.stderr.writelines(f"{line}\n" for line in problems)
    if problems:
        return 2
    sizes = [path.stat().st_size for path in _uploaded_files(root)]
    sys.stdout.write(f"Spacefile is in order; {len(sizes)} files, {sum(sizes) / 1e6:.1f} MB to upload.\n")
    return 0


def _run_render(root: Path) -> int:
    sys.stdout.write("README.md was rewritten.\n" if render(root) else "README.md was up to date.\n")
    return 0


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SpaceError(f"cannot read {path.name} in {path.parent}: {error.strerror}. It belongs there.") from error


def _body(readme: bytes) -> bytes:
    block = _FRONT_MATTER.match(readme)
    if block is None:
        return readme
    try:
        is_card = isinstance(yaml.safe_load(block[1]), dict | None)
    except yaml.YAMLError:
        is_card = True  # damaged by hand; to keep it would leave two blocks
    return readme[block.end() :] if is_card else readme


def _index_lines(node: yaml.Node, place: Place, lines: dict[Place, int]) -> Iterator[str]:
    """Note the line of every value, and yield a fault for every key that stands twice, which YAML itself lets pass."""
    lines[place] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inside = (*place, key.value)
            if inside in lines:
                yield f"Spacefile, line {key.start_mark.line + 1}, {_dotted(inside)}: stands twice; keep one."
            yield from _index_lines(value, inside, lines)
            lines[inside] = key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _index_lines(value, (*place, index), lines)


def _fault(details: ErrorDetails, lines: dict[Place, int]) -> str:
    place = details["loc"]
    known = next(place[:n] for n in range(len(place), -1, -1) if place[:n] in lines or n == 0)
    where = f"Spacefile, line {lines.get(known, 1)}, {_dotted(place) or 'the whole'}"
    match details["type"]:
        case "missing":
            return f"{where}: is missing; add it."
        case "extra_forbidden":
            return f"{where}: is not a field of version 1; correct its name or remove it."
        case "string_type":
            return f"{where}: found {details['input']!r}, which is no text to YAML; put it in quotes."
        case "string_too_long":
            num = len(details["input"])
            return f"{where}: has {num} characters; shorten it to {details['ctx']['max_length']}."
        case _:
            return f"{where}: found {details['input']!r}. {details['msg']}."


def _dotted(place: Place) -> str:
    return ".".join(map(str, place))


def _requirements(root: Path) -> tuple[list[Requirement], list[str]]:
    """The parsed lines of requirements.txt, and a problem for each that the builder cannot use."""
    found, problems = [], []
    for number, line in enumerate(_read_bytes(root / "requirements.txt").decode().splitlines(), 1):
        text = line.split(" #")[0].strip()
        if not text or text.startswith("#"):
            continue
        try:
            found.append(Requirement(text))
        except InvalidRequirement:
            expected = "the builder sees this file alone, so write a package's name with its versions"
            problems.append(f"requirements.txt, line {number}: found {text!r}; {expected}.")
    return found, problems


def _version_problems(card: Card, requirements: list[Requirement]) -> Iterator[str]:
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


def _pin_problems(requirement: Requirement) -> Iterator[str]:
    name = canonicalize_name(requirement.name)
    if name == "spaces" and requirement.specifier:
        yield f"requirements.txt: found {requirement}; the builder pins spaces itself, so leave it out."
    if (ceiling := BUILDER_CEILINGS.get(name)) is None:
        return
    for specifier in requirement.specifier:
        floor = Version(specifier.version.removesuffix(".*"))
        is_above = floor > ceiling or (floor == ceiling and specifier.operator == ">")
        if specifier.operator in _FLOORS and is_above:
            yield f"requirements.txt: found {requirement}; the builder has {name} up to {ceiling}, so lower the floor."


def _readme_problems(root: Path, card: Card) -> Iterator[str]:
    readme = root / "README.md"
    if not readme.is_file():
        yield "README.md: found none; write one, then run `python -m specdemo space render`."
    elif not readme.read_bytes().startswith(front_matter(card)):
        yield "README.md: its front matter is not the Spacefile's card; run `python -m specdemo space render`."


def _uploaded_files(root: Path) -> list[Path]:
    """What git tracks; where there is no git, every file outside hidden folders and caches."""
    try:
        command = ["git", "ls-files", "-z"]
        listed = subprocess.run(command, cwd=root, capture_output=True, check=False).stdout.decode().split("\0")
    except FileNotFoundError:
        listed = []
    files = [root / name for name in listed if name] or [p for p in root.rglob("*") if not _is_hidden(p.parent, root)]
    return sorted(path for path in files if path.is_file())


def _is_hidden(folder: Path, root: Path) -> bool:
    return any(name.startswith((".", "__")) for name in folder.relative_to(root).parts)
