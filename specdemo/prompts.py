"""The prompts that ship with the program, and what can be said about a person's prompt without a model."""

import json
from dataclasses import dataclass
from pathlib import Path

from specdemo.errors import PromptError

MAX_PROMPT_CHARS = 100_000
_FILE = Path(__file__).parents[1] / "assets" / "prompts.json"


@dataclass(frozen=True, slots=True)
class ExamplePrompt:
    """One example; `titles` by language, `loses` where speculation is expected to lose."""

    category: str
    titles: dict[str, str]
    prompt: str
    loses: bool = False


def load_prompts() -> tuple[ExamplePrompt, ...]:
    """The shipped examples, two for each category."""
    items = json.loads(_FILE.read_text(encoding="utf-8"))["prompts"]
    return tuple(
        ExamplePrompt(item["category"], item["title"], item["prompt"], item.get("loses", False)) for item in items
    )


def check_prompt(prompt: str, system: str = "") -> None:
    """Raise PromptError for a prompt that is empty or blank, and for a text too long or not text at all."""
    if not prompt.strip():
        raise PromptError("the prompt is empty; type a question or some text.")
    for name, text in (("prompt", prompt), ("system text", system)):
        if len(text) > MAX_PROMPT_CHARS:
            raise PromptError(
                f"the {name} has {len(text):,} characters; at most {MAX_PROMPT_CHARS:,} are read. Shorten it."
            )
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise PromptError(f"the {name} holds half a character (an unpaired surrogate); remove it or type it again.")
