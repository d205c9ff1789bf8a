"""What a person chooses for one generation, checked once, where it enters the program.

Knows no model: limits that depend on one (context length, prompt length) are checked where the model is.
"""

from dataclasses import asdict, dataclass, fields

from specdemo.errors import SettingsError

MAX_DRAFT_TOKENS = 16
MAX_NEW_TOKENS = 4096
RULES = ("auto", "rejection", "coupled", "block", "typical")
SCHEDULES = ("constant", "adaptive")

# (field, lowest, highest, what a person calls it); every bound is inclusive.
_RANGES = (
    ("num_draft_tokens", 1, MAX_DRAFT_TOKENS, "K"),
    ("max_new_tokens", 1, MAX_NEW_TOKENS, "max-new-tokens"),
    ("temperature", 0.0, 2.0, "temperature"),
    ("top_p", 0.0, 1.0, "top-p"),
    ("top_k", 0, 1_000_000, "top-k"),
    ("min_p", 0.0, 1.0, "min-p"),
    ("repetition_penalty", 0.1, 5.0, "repetition-penalty"),
    ("seed", 0, 2**63 - 1, "seed"),
)
_LOWEST_SAMPLING_TEMPERATURE = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeSettings:
    """Settings of one generation; the same object drives both lanes of a race.

    `rule` is the acceptance rule; `auto` means greedy at temperature 0 and `rejection` above it. `top_k` 0, `top_p` 1,
    `min_p` 0 and `repetition_penalty` 1 switch a filter off. `schedule` says whether K stays as set or adapts.

    Raises SettingsError from the constructor when a value is outside its range.
    """

    num_draft_tokens: int = 4
    max_new_tokens: int = 128
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0
    rule: str = "auto"
    schedule: str = "constant"
    stop: tuple[str, ...] = ()
    evidence: bool = False

    def __post_init__(self) -> None:
        for name, low, high, label in _RANGES:
            # JSON and sliders may write 4 as 4.0; what counts tokens must be an int.
            object.__setattr__(self, name, _checked(label, getattr(self, name), low, high))
        if 0.0 < self.temperature < _LOWEST_SAMPLING_TEMPERATURE:
            raise SettingsError(
                f"temperature is {self.temperature:g}; it must be 0 (greedy) or from "
                f"{_LOWEST_SAMPLING_TEMPERATURE} to 2. Use 0 for greedy decoding."
            )
        if self.top_p == 0.0:
            raise SettingsError("top-p is 0, which keeps no token; give a number above 0, or 1 to switch it off.")
        _check_choice("rule", self.rule, RULES)
        _check_choice("schedule", self.schedule, SCHEDULES)
        _check_choice("evidence", self.evidence, (True, False))
        if any(not text for text in self.stop):
            raise SettingsError("a stop string is empty, which would stop at once; give at least one character.")
        if any("\ud800" <= character <= "\udfff" for character in "".join(self.stop)):
            raise SettingsError("a stop string holds half a character (an unpaired surrogate); type it again.")

    @property
    def resolved_rule(self) -> str:
        """The rule that acts: temperature 0 is greedy under every rule, `auto` samples by `rejection`."""
        if self.temperature == 0.0:
            return "greedy"
        return "rejection" if self.rule == "auto" else self.rule

    def to_dict(self) -> dict[str, object]:
        """Plain JSON values, `rule` both as chosen and as resolved."""
        return {**asdict(self), "stop": list(self.stop), "resolved_rule": self.resolved_rule}

    @classmethod
    def from_dict(cls, values: dict[str, object]) -> "DecodeSettings":
        """Inverse of `to_dict`; unknown keys are refused by name."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - known - {"resolved_rule"})
        if unknown:
            raise SettingsError(f"unknown settings: {', '.join(unknown)}; known are {', '.join(sorted(known))}.")
        chosen = {name: value for name, value in values.items() if name in known}
        if "stop" in chosen:
            chosen["stop"] = _strings(chosen["stop"])
        return cls(**chosen)  # type: ignore[arg-type]


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or any(not isinstance(item, str) for item in value):
        raise SettingsError(f"stop is {value!r}; it must be a list of strings.")
    return tuple(value)


def _checked(label: str, value: object, low: float, high: float) -> float:
    is_whole = isinstance(low, int)
    if isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high:
        if not is_whole:
            return float(value)
        if value == int(value):
            return int(value)
    kind = "a whole number" if is_whole else "a number"
    raise SettingsError(f"{label} is {value!r}; it must be {kind} from {low} to {high}.")


def _check_choice(label: str, value: object, choices: tuple[object, ...]) -> None:
    if value not in choices:
        raise SettingsError(f"{label} is {value!r}; it must be one of {', '.join(map(str, choices))}.")
