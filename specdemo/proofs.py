"""What can be proved about the program on its own device: what is asked for and what comes back, as plain values.

Knows no model. A proof is an iterator of updates: steps, which only say how far it is, and results.
"""

from dataclasses import asdict, dataclass
from typing import Any

from specdemo.errors import SettingsError
from specdemo.prompts import check_prompt, load_prompts
from specdemo.settings import DecodeSettings

PROOFS = ("greedy", "sampling", "seeds", "mistakes")
RIGHT = ""
MISTAKES = (
    "accept_all",
    "soft_argmax",
    "target_for_residual",
    "one_sided_temperature",
    "late_truncation",
    "one_number",
)
"""What can be planted in the rule `rejection`; see the module of that name. RIGHT is none of them."""

PROVED_RULES = ("rejection", "coupled", "block", "typical")
ALPHA = 1e-6
"""How often the right rule turns red by chance, at most: over both comparisons of a sampling proof together."""

TOP_K = 20
"""Of target and drafter alike in a sampling proof: so few tokens that every law behind each of them can be known."""

_GREEDY_PROMPTS = (0, 6)  # of the shipped ones: an answer in prose, and one that repeats its prompt
_LONGEST_PROMPT = 2000
_FEWEST_DRAWS, _MOST_DRAWS = 1000, 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofRequest:
    """What is to be proved. Raises SettingsError or PromptError from the constructor.

    `prompts`, `drafters`, `ks` and `temperatures` are tried in every combination by `greedy` and `seeds`; `sampling`
    and `mistakes` take the first of each. `rule`, `mistake` and `num_draws` are theirs alone.
    """

    proof: str
    prompts: tuple[str, ...]
    drafters: tuple[str, ...]
    ks: tuple[int, ...] = (4,)
    temperatures: tuple[float, ...] = (0.7,)
    max_new_tokens: int = 48
    rule: str = "rejection"
    mistake: str = RIGHT
    num_draws: int = 6000
    seed: int = 0

    def __post_init__(self) -> None:
        _check_choice("proof", self.proof, PROOFS)
        _check_choice("rule", self.rule, PROVED_RULES)
        _check_choice("mistake", self.mistake, (RIGHT, *MISTAKES))
        if self.mistake != RIGHT and self.rule != "rejection":
            raise SettingsError(f"the rule is {self.rule!r}; mistakes are planted in rejection. Choose that one.")
        for name, values in (("prompt", self.prompts), ("drafter", self.drafters), ("K", self.ks)):
            if not values:
                raise SettingsError(f"no {name} was chosen; choose one at least.")
        for prompt in self.prompts:
            check_prompt(prompt)
            if len(prompt) > _LONGEST_PROMPT:
                raise SettingsError(
                    f"the prompt has {len(prompt):,} characters; a proof reads at most {_LONGEST_PROMPT:,}. Shorten it."
                )
        if not _FEWEST_DRAWS <= self.num_draws <= _MOST_DRAWS:
            raise SettingsError(
                f"the number of draws is {self.num_draws}; it must be a whole number from {_FEWEST_DRAWS} to "
                f"{_MOST_DRAWS}."
            )
        if self.proof != "greedy" and not (self.temperatures and min(self.temperatures) > 0.0):
            raise SettingsError("a temperature is 0, where nothing is drawn; give one above 0, up to 2.")
        for k in self.ks:
            for temperature in self.temperatures:
                DecodeSettings(
                    num_draft_tokens=k, temperature=temperature, max_new_tokens=self.max_new_tokens, seed=self.seed
                )


@dataclass(frozen=True, slots=True)
class Step:
    """So many parts of the work are done."""

    num_done: int
    num_all: int


@dataclass(frozen=True, slots=True)
class Difference:
    """The first token in which two answers differ, counted from 0, and how far apart the target holds the two.

    `gap` is the target's logit of the plain answer's token minus the other's; `top_gap` its highest minus its second
    highest logit there. Logits have no unit.
    """

    index: int
    texts: tuple[str, str]
    gap: float
    top_gap: float
    is_tie: bool
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRow:
    """An answer beside plain decoding's. `drafter` "" is plain decoding itself, in passes of `k` tokens."""

    prompt: str
    drafter: str
    k: int
    temperature: float
    dtype: str
    num_tokens: int
    difference: Difference | None
    text: str

    @property
    def verdict(self) -> str:
        """same, tie (rounding, where the numbers are short) or fault."""
        if self.difference is None:
            return "same"
        return "tie" if self.difference.is_tie else "fault"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Draws beside the law they should follow, outcome by outcome; the last outcome is all that is rarer.

    `distance` is the total variation between the two, `expected_distance` and `spread` the mean and the standard
    deviation of what so many draws from the law itself would show; `p_value` that of the chi-square test.
    """

    labels: tuple[str, ...]
    expected: tuple[float, ...]
    observed: tuple[float, ...]
    distance: float
    expected_distance: float
    spread: float
    p_value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleState:
    """A sampling proof so far: the next token, and the pair of the next two. The verdict is given at the end only."""

    rule: str
    mistake: str
    num_draws: int
    num_all: int
    next_token: Comparison
    pair: Comparison

    @property
    def verdict(self) -> str:
        """ "" while draws are missing, then green or red."""
        if self.num_draws < self.num_all:
            return ""
        return "red" if min(self.next_token.p_value, self.pair.p_value) < ALPHA / 2 else "green"


ProofUpdate = Step | AnswerRow | SampleState


def is_alarm(request: ProofRequest, update: ProofUpdate) -> bool:
    """Whether a result is not as it should be. Of the planted mistakes it is the green ones."""
    if isinstance(update, AnswerRow):
        return update.verdict == "fault"
    if isinstance(update, SampleState):
        right = "red" if request.proof == "mistakes" and update.mistake != RIGHT else "green"
        return update.verdict not in ("", right)
    return False


def default_drafters(proof: str) -> tuple[str, ...]:
    """The drafters of a proof unless others are named: for answers three that cost little, for laws one that errs."""
    return ("ngram:static", "quantized", "draft-model") if proof in ("greedy", "seeds") else ("draft-model",)


def default_ks(proof: str) -> tuple[int, ...]:
    """The numbers of drafts a round of a proof unless others are named."""
    return (1, 4, 8) if proof == "greedy" else (4,)


def default_prompts(proof: str) -> tuple[str, ...]:
    """The prompts of a proof unless others are named."""
    shipped = [example.prompt for example in load_prompts()]
    return tuple(shipped[i] for i in _GREEDY_PROMPTS) if proof == "greedy" else (shipped[0],)


def proof_document(request: ProofRequest, updates: list[ProofUpdate]) -> dict[str, Any]:
    """A proof as the command line's JSON document: what was asked, the results, and whether all is as it should be."""
    results = [update for update in updates if isinstance(update, AnswerRow) or _is_final(update)]
    return {
        "request": asdict(request),
        "alpha": ALPHA,
        "results": [{**asdict(update), "verdict": update.verdict} for update in results],  # type: ignore[union-attr]
        "as_it_should_be": bool(results) and not any(is_alarm(request, update) for update in results),
    }


def _is_final(update: ProofUpdate) -> bool:
    return isinstance(update, SampleState) and update.verdict != ""


def _check_choice(label: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        named = ", ".join(choice or "none" for choice in choices)
        raise SettingsError(f"the {label} is {value!r}; it must be one of {named}.")
