"""`space check`: all that would keep the Space from building or from being what the Spacefile says, offline."""

from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

from specdemo.errors import SpaceError
from specdemo.space.card import README, front_matter
from specdemo.space.files import NOTE, upload_problems
from specdemo.space.manifest import Spacefile
from specdemo.space.reading import read
from specdemo.space.requirements import parse_requirements, pin_problems, version_problems


def check(root: Path) -> list[str]:
    """A line for each fault, all at once; lines that begin with NOTE are no faults."""
    problems: list[str] = []
    requirements: list[Requirement] = []
    spacefile = None
    try:
        spacefile = read(root)
    except SpaceError as error:
        problems += str(error).splitlines()
    try:
        requirements, found = parse_requirements(root)
        problems += found
    except SpaceError as error:
        problems.append(str(error))
    problems += [problem for requirement in requirements for problem in pin_problems(requirement)]
    if spacefile is None:
        return problems
    card = spacefile.card
    if not (root / card.app_file).is_file():
        problems.append(f"Spacefile, card.app_file: found no {card.app_file}; name the file that builds `demo`.")
    problems += version_problems(card, requirements)
    problems += _readme_problems(root, spacefile)
    problems += upload_problems(root, card, spacefile.upload)
    return [*problems, *_unused(spacefile)]


def _readme_problems(root: Path, spacefile: Spacefile) -> Iterator[str]:
    readme = root / README
    if not readme.is_file():
        yield f"{README}: found none; write one, then run `python -m specdemo space render`."
    elif not readme.read_bytes().startswith(front_matter(spacefile)):
        yield f"{README}: its front matter is not what the Spacefile says; run `python -m specdemo space render`."


def _unused(spacefile: Spacefile) -> Iterator[str]:
    used = {pair for profile in spacefile.profiles.values() for pair in profile.pairs}
    for pair in spacefile.models:
        if pair not in used:
            yield f"{NOTE}Spacefile, models.{pair}: no profile has this pair"
