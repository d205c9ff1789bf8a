"""The README's front matter, which Hugging Face reads: written from the Spacefile, never read back as a source."""

import re
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import SpaceCardData

from specdemo.space.manifest import Spacefile
from specdemo.space.reading import read, read_bytes

README = "README.md"
_FRONT_MATTER = re.compile(rb"\A(?:\xef\xbb\xbf)?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)


def front_matter(spacefile: Spacefile) -> bytes:
    """The README's first bytes: the card, its models and what the build fetches, between two lines of dashes."""
    values: dict[str, Any] = spacefile.card.model_dump(by_alias=True, exclude_none=True)
    used = [weights for name in spacefile.models for weights in spacefile.weights(name)]
    if used:
        values["models"] = list(dict.fromkeys(weights.repo for weights in used))
    if spacefile.preload:
        values["preload_from_hub"] = preloaded(spacefile)
    return f"---\n{SpaceCardData(**values).to_yaml()}\n---\n".encode()


def preloaded(spacefile: Spacefile) -> list[str]:
    """As the builder reads it: "REPOSITORY FILE,FILE COMMIT", each once."""
    found = [weights for pair in spacefile.preload for weights in spacefile.weights(pair)]
    return list(dict.fromkeys(f"{w.repo} {','.join(w.files)} {w.revision}" for w in found))


def render(root: Path) -> bool:
    """Rewrite the YAML block at the head of README.md from the Spacefile, keep the body; True when that changed it.

    Raises SpaceError when either file is missing or the Spacefile is wrong.
    """
    readme = root / README
    before = read_bytes(readme)
    after = front_matter(read(root)) + _body(before)
    if after == before:
        return False
    temporary = readme.with_name(".README.md.tmp")
    temporary.write_bytes(after)
    temporary.replace(readme)
    return True


def _body(readme: bytes) -> bytes:
    block = _FRONT_MATTER.match(readme)
    if block is None:
        return readme
    try:
        is_card = isinstance(yaml.safe_load(block[1]), dict | None)
    except (yaml.YAMLError, UnicodeDecodeError):
        is_card = True  # damaged by hand; to keep it would leave two blocks
    return readme[block.end() :] if is_card else readme
