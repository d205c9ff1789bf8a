"""The prompts of sweeps."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SweepPrompt:
    """One prompt of a sweep; `language` as a tag ("en", "zh")."""

    category: str
    language: str
    prompt: str
