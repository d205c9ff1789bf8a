"""Sweeps as plain values: drafters by K by temperature by prompts, what was measured of them, and how far it is.

The unit is a heat: one prompt at one temperature with one drafter. Every K is a lane of it beside one plain lane, and
the lane whose own clock is lowest advances (see race.race): a slow minute of the machine slows all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from specdemo.catalog import EMBEDDED_TARGET, SERVER_DRAFTER, check_drafter_name, check_precision
from specdemo.errors import SettingsError
from specdemo.events import Event
from specdemo.memory_use import MemoryUse
from specdemo.prompt_set import SweepPrompt
from specdemo.prompts import check_prompt
from specdemo.settings import DecodeSettings

PLAIN = 0
"""The lane of plain decoding among lanes that are named by their K."""


@dataclass(frozen=True, slots=True)
class Heat:
    """Which heat; `prompt_index` counts the request's prompts."""

    prompt_index: int
    temperature: float
    rule: str
    drafter: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRequest:
    """What is to be measured. Raises SettingsError or PromptError from the constructor."""

    prompts: tuple[SweepPrompt, ...]
    drafters: tuple[str, ...]
    ks: tuple[int, ...] = (1, 2, 4, 6, 8)
    temperatures: tuple[float, ...] = (0.0,)
    rules: tuple[str, ...] = ("auto",)
    max_new_tokens: int = 64
    seed: int = 0
    target: str = EMBEDDED_TARGET
    precision: str = "auto"

    def __post_init__(self) -> None:
        for name in ("prompts", "drafters", "ks", "temperatures", "rules"):
            # Each once, in the order in which they were named; JSON brings lists.
            object.__setattr__(self, name, tuple(dict.fromkeys(getattr(self, name))))
            if not getattr(self, name):
                raise SettingsError(f"a sweep needs {_SAID[name]}; choose at least one.")
        for prompt in self.prompts:
            check_prompt(prompt.prompt)
        for drafter in self.drafters:
            if drafter != SERVER_DRAFTER:
                check_drafter_name(drafter)
            if drafter == "none":
                raise SettingsError(
                    "the drafter is 'none', which is plain decoding itself and in every sweep; name another."
                )
        check_precision(self.precision)
        for temperature, rule, k in product(self.temperatures, self.rules, self.ks):
            self._settings(temperature, rule, k)

    def heats(self) -> tuple[Heat, ...]:
        """All heats, prompts outermost: whatever drifts, drifts over all configurations, and any part is a sample."""
        indices = range(len(self.prompts))
        heats = (Heat(*one) for one in product(indices, self.temperatures, self.rules, self.drafters))
        # At temperature 0 every rule is greedy.
        return tuple(heat for heat in heats if heat.temperature or heat.rule == self.rules[0])

    def settings(self, heat: Heat, k: int) -> DecodeSettings:
        """Of a lane of a heat; the plain lane has those of any other."""
        return self._settings(heat.temperature, heat.rule, k or self.ks[0])

    def _settings(self, temperature: float, rule: str, k: int) -> DecodeSettings:
        return DecodeSettings(
            num_draft_tokens=k, temperature=temperature, rule=rule, max_new_tokens=self.max_new_tokens, seed=self.seed
        )


@dataclass(frozen=True, slots=True)
class HeatResult:
    """What a finished heat was: the events of its lanes by K, PLAIN among them."""

    heat: Heat
    lanes: Mapping[int, tuple[Event, ...]]


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """How far a sweep is: heats done of all, and the seconds that are left, by what was measured so far."""

    num_done: int
    num_all: int
    seconds_left: float | None = None


SweepUpdate = SweepProgress | HeatResult | MemoryUse
"""A MemoryUse for each drafter comes before the first heat."""

_SAID = {
    "prompts": "a prompt",
    "drafters": "a drafter",
    "ks": "a K",
    "temperatures": "a temperature",
    "rules": "an acceptance rule",
}
