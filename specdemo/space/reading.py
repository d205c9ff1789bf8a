"""A Spacefile from disk: YAML to values, and a line for every fault, all of them at once.

A line says the file, the line where it is known, what was found, what is expected and what to do; never a token.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from specdemo.errors import SpaceError
from specdemo.space.contradictions import contradictions
from specdemo.space.manifest import Spacefile

ROOT = Path(__file__).resolve().parents[2]
FILE_NAME = "Spacefile"
Place = tuple[str | int, ...]
_TOKEN = re.compile(r"hf_\w{6,}")
_DERIVED = {"models": "models", "preload_from_hub": "preload"}
_EXPECTED = {
    "emoji": "expected an emoji, such as 🏁",
    "sdk_version": 'expected a version, such as "6.31.0"',
    "python_version": 'expected a version, such as "3.12.12"',
    "repo": "expected OWNER/NAME of a repository on the Hub",
    "revision": "expected the 40 digits of a commit; copy it from the repository's history, or leave it out",
    "files": "expected names or patterns of files without blanks or commas",
    "name": "expected NAME or OWNER/NAME of letters, digits, dots, dashes and underscores",
    "secrets": "expected the name alone, such as HF_TOKEN, with ? behind it when it may be missing; the value comes "
    "from the environment",
    "variables": "expected a name of letters, digits and underscores",
    "startup_duration_timeout": "expected a number of seconds, minutes or hours, such as 30m",
}

_FIELDS = "found {found}; expected fields below it, each as `name: value`."
_WORDS = {
    "missing": "is missing; add it.",
    "extra_forbidden": "is not a field of version 1; correct its name or remove it.",
    "string_type": "found {found}, which is no text to YAML; put it in quotes.",
    "string_too_long": "has {num} characters; shorten it to {max_length}.",
    "string_too_short": "is empty; write what belongs there.",
    "too_short": "is empty; name at least one.",
    "literal_error": "found {found}; expected {expected}. Choose one.",
    "model_type": _FIELDS,
    "dict_type": _FIELDS,
    "list_type": "found {found}; expected a list: [one, two], or a line `- one` for each.",
    "int_type": "found {found}; expected a whole number, without quotes.",
    "bool_type": "found {found}; expected true or false, without quotes.",
    "greater_than_equal": "found {found}; expected at least {ge}.",
    "less_than_equal": "found {found}; expected at most {le}.",
}
"""By pydantic's type of error."""


def read(root: Path) -> Spacefile:
    """The validated Spacefile; raises SpaceError with one line for each fault."""
    text = read_bytes(root / FILE_NAME)
    try:
        has_alias = any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.SafeLoader))
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SpaceError(_not_yaml(error)) from error
    if has_alias:
        raise SpaceError("Spacefile refers to a part of itself (`*name`); write the value out where it belongs.")
    lines: dict[Place, int] = {}
    faults = list(_index_lines(node, (), lines)) if node else []
    try:
        spacefile = Spacefile.model_validate(values)
    except ValidationError as error:
        faults += [_fault(details, lines) for details in error.errors()]
    else:
        faults += [_placed(place, words, lines) for place, words in contradictions(spacefile)]
    if faults:
        raise SpaceError("\n".join(_TOKEN.sub("a token", fault) for fault in faults))
    return spacefile


def read_bytes(path: Path) -> bytes:
    """The file's bytes; raises SpaceError where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise SpaceError(f"cannot read {path.name} in {path.parent}: {error.strerror}. It belongs there.") from error


def _not_yaml(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    where = f", line {mark.line + 1}" if mark else ""
    problem = getattr(error, "problem", None) or str(error)
    context = f" {error.context}" if getattr(error, "context", None) else ""  # type: ignore[attr-defined]
    return f"Spacefile is not YAML: {' '.join(str(problem).split())}{context}{where}; mend what stands there or above."


def _index_lines(node: yaml.Node, place: Place, lines: dict[Place, int]) -> Iterator[str]:
    """Note the line of every value, and yield a fault for every key that stands twice, which YAML itself lets pass."""
    lines[place] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inside = (*place, key.value if isinstance(key.value, str) else str(key.start_mark.line))
            if inside in lines:
                yield f"Spacefile, line {key.start_mark.line + 1}, {_dotted(inside)}: stands twice; keep one."
            yield from _index_lines(value, inside, lines)
            lines[inside] = key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _index_lines(value, (*place, index), lines)


def _placed(place: Place, words: str, lines: dict[Place, int]) -> str:
    known = next((place[:n] for n in range(len(place), -1, -1) if place[:n] in lines), ())
    return f"Spacefile, line {lines.get(known, 1)}, {_dotted(place) or 'the whole'}: {words}"


def _fault(details: ErrorDetails, lines: dict[Place, int]) -> str:
    # pydantic speaks of a mapping's key as (..., key, "[key]").
    place = tuple(part for part in details["loc"] if part != "[key]")
    return _placed(place, _words(details, place), lines)


def _words(details: ErrorDetails, place: Place) -> str:
    kind, found = details["type"], details["input"]
    if kind == "extra_forbidden" and place[:-1] == ("card",) and place[-1] in _DERIVED:
        return f"is written from `{_DERIVED[str(place[-1])]}` at the top level; remove it here."
    if kind == "string_pattern_mismatch":
        field = next((str(part) for part in reversed(place) if part in _EXPECTED), "")
        return f"found {found!r}; {_EXPECTED.get(field, 'expected another form')}."
    template = _WORDS.get(kind, "found {found}; {message}.")
    num = len(found) if isinstance(found, str) else 0
    message = details["msg"].removeprefix("Value error, ")
    return template.format(found=_short(found), num=num, message=message, **details.get("ctx", {}))


def _short(value: object) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _dotted(place: Place) -> str:
    return ".".join(map(str, place))
