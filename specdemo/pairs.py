"""Published targets and drafters as data, read from assets/pairs.json and checked. Loads nothing, asks no network.

Names come from their publishers' repositories and papers; that a repository is on the Hub was not checked where this
list was written, so no revision is pinned. `None` is "not known": what the Hub says counts.
"""

from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from specdemo.errors import ModelError

SHIPPED_PAIRS = Path(__file__).parent.parent / "assets" / "pairs.json"
NOT_CHECKED = (
    "Names from repositories and papers; that they are on the Hub was not checked here, and no revision is pinned."
)


class _Entry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    repository: str = Field(pattern=r"^[\w.-]+/[\w.-]+$")
    revision: str | None = Field(pattern=r"^[0-9a-f]{40}$")
    """A commit, once somebody has checked one."""
    files: list[Literal["config", "tokenizer", "safetensors", "safetensors or pickle"]] = Field(min_length=1)
    """Kinds of files that loading takes."""
    licence: str | None
    is_gated: bool | None
    num_bytes: int | None
    dtype: Literal["bfloat16", "float16", "float32"]
    """As published."""


class TargetEntry(_Entry):
    """A target. `families` draft from it without a repository of their own.

    `has_thinking_switch`: whether its chat template can turn thinking on and off.
    """

    families: list[str]
    has_thinking_switch: bool


class DrafterEntry(_Entry):
    """A drafter and the targets it was made for.

    `family` as --drafter calls it, None for a network that is not read; `thinking` is the mode it was trained for,
    None where nobody says or the target has none.
    """

    family: str | None
    thinking: bool | None
    targets: list[str] = Field(min_length=1)


class Pairs(BaseModel):
    """The whole list."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: Literal[1]
    targets: list[TargetEntry]
    drafters: list[DrafterEntry]

    @model_validator(mode="after")
    def _check_names(self) -> "Pairs":
        targets = [entry.repository for entry in self.targets]
        for names in (targets, [entry.repository for entry in self.drafters]):
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise ValueError(f"{', '.join(twice)} stands there twice")
        for entry in self.drafters:
            if unknown := sorted(set(entry.targets) - set(targets)):
                raise ValueError(f"{entry.repository} is for {', '.join(unknown)}, which is no target of the list")
        return self

    def target(self, repository: str) -> TargetEntry | None:
        """The entry of a target; None for one that is not listed."""
        return next((entry for entry in self.targets if entry.repository == repository), None)

    def drafter(self, repository: str) -> DrafterEntry | None:
        """The entry of a drafter; None for one that is not listed."""
        return next((entry for entry in self.drafters if entry.repository == repository), None)

    def drafters_of(self, target: str) -> list[DrafterEntry]:
        """Those that were made for a target."""
        return [entry for entry in self.drafters if target in entry.targets]


@cache
def load_pairs(path: Path = SHIPPED_PAIRS) -> Pairs:
    """Read and check a list. Raises ModelError in one sentence."""
    try:
        return Pairs.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ModelError(f"the list of pairs {path} cannot be read ({error.strerror}).") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the whole"
        raise ModelError(f"the list of pairs {path.name} is wrong at {where}: {first['msg']}.") from None


def pinned_revision(repository: str) -> str | None:
    """The commit that the list pins a repository to, None where it pins none."""
    pairs = load_pairs()
    entry = pairs.target(repository) or pairs.drafter(repository)
    return entry.revision if entry else None
