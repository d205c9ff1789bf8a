"""How user turns begin, by category: the target writes the rest. Filled in with random words so that few are alike.

None of them is an example prompt of the page or a held-out prompt; both are for measuring only.
"""

import json
import random
import string
from pathlib import Path

_DATA = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
OPENINGS: dict[str, list[str]] = _DATA["openings"]
CATEGORIES = sorted(OPENINGS)
_WORDS: dict[str, list[str]] = _DATA["words"]


def draw_opening(source: random.Random, passages: list[str]) -> tuple[str, str]:
    """A category and the first words of a user turn in it; a `{passage}` is filled with one of `passages`."""
    category = source.choice(CATEGORIES)
    words = {**_WORDS, "passage": passages}
    pieces = list(string.Formatter().parse(source.choice(OPENINGS[category])))
    if not all(words[field] for _, field, _, _ in pieces if field):
        return "free", ""
    return category, "".join(text + (source.choice(words[field]) if field else "") for text, field, _, _ in pieces)
