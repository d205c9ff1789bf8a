"""How a target wants to be spoken to: chat template, system role, thinking on or off."""

from collections.abc import Iterator

from specdemo.chat import has_system_role, thinking_by_default
from specdemo.findings import Finding
from specdemo.pairs import load_pairs
from specdemo.preflight.facts import TargetFacts


def check_template(facts: TargetFacts) -> Iterator[Finding]:
    """Whether there is a chat template, and what it knows."""
    tokenizer, name = facts.tokenizer, facts.seen.name
    if tokenizer is None:
        return
    if tokenizer.chat_template is None:
        yield Finding("warning", "template", f"{name} has no chat template: prompts are given to it as they are.")
        return
    if has_system_role(tokenizer):
        yield Finding("ok", "system", f"the chat template of {name} has a system role.")
    else:
        yield Finding(
            "warning", "system", f"the chat template of {name} has no system role: a system text opens the user's turn."
        )
    if (mode := thinking_by_default(tokenizer)) is not None:
        yield Finding(
            "ok",
            "thinking",
            f"{name} thinks before it answers or does not, as --thinking says; by default {_word(mode)}.",
        )


def default_thinking(facts: TargetFacts) -> bool | None:
    """The mode of the chat template alone; None where it has no switch."""
    tokenizer = facts.tokenizer
    return None if tokenizer is None or tokenizer.chat_template is None else thinking_by_default(tokenizer)


def check_thinking(facts: TargetFacts, drafter: str, mode: bool | None) -> Iterator[Finding]:
    """Whether the drafter was trained for the mode, and for the target, as far as the list of pairs says."""
    pairs = load_pairs()
    entry = pairs.drafter(drafter)
    if entry is None:
        return
    if pairs.target(facts.seen.name) is not None and facts.seen.name not in entry.targets:
        yield Finding("warning", "pair", f"{drafter} was published for {' and '.join(entry.targets)}.")
    if entry.thinking is not None and mode is not None and entry.thinking != mode:
        yield Finding(
            "warning",
            "thinking",
            f"{drafter} was trained with thinking {_word(entry.thinking)} and the target would run with it "
            f"{_word(mode)}, which costs acceptance; choose --thinking {_word(entry.thinking)}.",
        )


def _word(mode: bool) -> str:
    return "on" if mode else "off"
