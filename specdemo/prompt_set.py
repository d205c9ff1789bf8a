"""The prompts of a sweep: the set "Where it pays" that ships with the program, and a person's own file.

The set was written for this project. It has nine categories with the same number of prompts each, in English and in
simplified Chinese; no prompt of it was seen in training, none is a held-out prompt or an example of the page.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdemo.errors import PromptError
from specdemo.prompts import check_prompt

CATEGORIES = ("code", "json", "summary", "rewrite", "facts", "chat", "maths", "list", "story")
# What a prompt of a person's own file is filed under where the file does not say.
OWN_CATEGORY = "own"
OWN_LANGUAGE = "any"

MAX_PROMPTS = 500
MAX_FILE_BYTES = 2_000_000
MAX_LABEL_CHARS = 40
_FILE = Path(__file__).parents[1] / "assets" / "prompt_set.json"
_FORMATS = 'one prompt per line, or JSON objects such as {"prompt": "...", "category": "...", "language": "..."}'


@dataclass(frozen=True, slots=True)
class SweepPrompt:
    """One prompt of a sweep, with the row (`category`) and the column (`language`) of the grid it counts in."""

    category: str
    language: str
    prompt: str


def load_prompt_set() -> tuple[SweepPrompt, ...]:
    """The shipped set: of each category eight prompts in English ("en"), then four in Chinese ("zh")."""
    return read_prompt_file(_FILE)


def read_prompt_file(path: Path | str) -> tuple[SweepPrompt, ...]:
    """The prompts of a person's file, as `parse_prompts` reads them.

    Raises PromptError where the file cannot be opened, is too large, or is not text in UTF-8.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise PromptError(
            f"the prompt file {path} cannot be read ({error.strerror or error}); give a file that exists."
        ) from error
    if len(content) > MAX_FILE_BYTES:
        raise PromptError(f"{path.name} has more than {MAX_FILE_BYTES:,} bytes; keep to fewer or shorter prompts.")
    try:
        # The signature that some editors put first is not part of the first prompt.
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PromptError(f"{path.name} is not text in UTF-8; save it in that encoding.") from error
    return parse_prompts(text, path.name)


def parse_prompts(text: str, name: str) -> tuple[SweepPrompt, ...]:
    """Prompts from a file's text: a JSON list of objects, JSON objects line by line, or one prompt per line.

    It is read as JSON where it begins with `[` or `{`, and as lines where `name` ends in `.txt`. An object has a
    `prompt` and may have a `category` and a `language`; blank lines and other keys are passed over. `name` is what
    error sentences call the file. Raises PromptError.
    """
    start, suffix = text.lstrip()[:1], Path(name).suffix.lower()
    if suffix == ".txt" or (start not in ("[", "{") and suffix not in (".json", ".jsonl")):
        found = [(f"line {number}", {"prompt": line.strip()}) for number, line in _lines(text)]
    else:
        found = _json_items(text, name, is_list=start == "[")
    if not found:
        raise PromptError(f"{name} holds no prompt; write {_FORMATS}.")
    if len(found) > MAX_PROMPTS:
        raise PromptError(f"{name} holds {len(found):,} prompts; at most {MAX_PROMPTS} are taken. Leave some out.")
    return tuple(_prompt(item, f"{name}, {place}") for place, item in found)


def _lines(text: str) -> list[tuple[int, str]]:
    """Lines that are not blank, numbered from 1; only line feeds and carriage returns end one, as in JSON lines."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return [(number, line) for number, line in enumerate(lines, 1) if line.strip()]


def _json_items(text: str, name: str, *, is_list: bool) -> list[tuple[str, Any]]:
    """The values of a JSON list, or of each line, with the words that say where they stand."""
    if is_list:
        return [(f"prompt {number}", item) for number, item in enumerate(_json(text, name), 1)]
    return [(f"line {number}", _json(line, f"{name}, line {number},")) for number, line in _lines(text)]


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        at = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) and "\n" in text else ""
        raise PromptError(
            f"{where} is not valid JSON{at}; write {_FORMATS}; plain lines go into a .txt file."
        ) from error


def _prompt(item: Any, where: str) -> SweepPrompt:
    """One object as a prompt; `where` is the file and the place in it."""
    if not isinstance(item, dict) or not isinstance(item.get("prompt"), str):
        raise PromptError(f'{where}, has no text under "prompt"; write {_FORMATS}.')
    try:
        check_prompt(item["prompt"])
    except PromptError as error:
        raise PromptError(f"{where}: {error}") from error
    category = _label(item, "category", OWN_CATEGORY, where)
    return SweepPrompt(category, _label(item, "language", OWN_LANGUAGE, where), item["prompt"])


def _label(item: dict[str, Any], key: str, default: str, where: str) -> str:
    """A category or a language: a few printable characters, for it names a row or a column of the grid."""
    label = item.get(key)
    if label is None:
        return default
    if not isinstance(label, str) or not 0 < len(label.strip()) <= MAX_LABEL_CHARS or not label.isprintable():
        raise PromptError(f"{where}: the {key} is {str(label)[:60]!r}; it must be 1 to {MAX_LABEL_CHARS} characters.")
    return label.strip()
