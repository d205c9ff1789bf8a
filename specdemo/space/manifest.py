"""What a Spacefile holds, version 1, as values. Strict: no field beyond these, no text taken for a number.

Knows no file, no page and no network.
"""

from typing import Annotated, Literal

from huggingface_hub import SpaceHardware
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from specdemo.settings import MAX_NEW_TOKENS

Colour = Literal["red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"]
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
VersionText = Annotated[str, Field(pattern=r"^\d+(\.\d+){1,2}$")]
Repository = Annotated[str, Field(pattern=rf"^{NAME}/{NAME}$")]
VariableName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
SecretName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\??$")]
Pattern = Annotated[str, Field(min_length=1)]


def _flavor(text: str) -> str:
    known = [flavor.value for flavor in SpaceHardware]
    if text not in known:
        raise ValueError(f"expected one of {', '.join(known)}. Choose one")
    return text


Hardware = Annotated[str, AfterValidator(_flavor)]

ZERO = "zero-a10g"
BASIC = "cpu-basic"


class Strict(BaseModel):
    """Base of all parts."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Card(Strict):
    """The Hub's own fields of a Space's front matter, by the Hub's own names; `models` and the like are derived."""

    title: str = Field(min_length=1)
    emoji: str = Field(pattern=r"^[^\x00-\x7f]+$")
    color_from: Colour = Field(alias="colorFrom")
    color_to: Colour = Field(alias="colorTo")
    sdk: Literal["gradio"]
    sdk_version: VersionText
    python_version: VersionText
    app_file: str
    short_description: str = Field(min_length=1, max_length=60)
    license: str
    tags: list[str] = []
    datasets: list[str] | None = None
    suggested_hardware: Hardware | None = None
    startup_duration_timeout: str | None = Field(None, pattern=r"^\d+[smh]$")
    header: Literal["mini", "default"] | None = None
    full_width: bool | None = Field(None, alias="fullWidth")
    pinned: bool | None = None
    thumbnail: str | None = None


class Weights(Strict):
    """A repository of the Hub; `revision` is a commit, `files` those that are read (names or patterns)."""

    repo: Repository
    revision: str | None = Field(None, pattern=r"^[0-9a-f]{40}$")
    files: list[Annotated[str, Field(pattern=r"^[^\s,]+$")]] = []


class Pair(Strict):
    """A target with what drafts for it: a draft model of its own, drafters by name, or both."""

    target: Weights
    draft: Weights | None = None
    drafters: list[str] = []


class LimitsOfProfile(Strict):
    """What one visitor may take; whatever stands here, the app keeps to. See limits.Limits."""

    max_new_tokens: int = Field(default=MAX_NEW_TOKENS, ge=16, le=MAX_NEW_TOKENS)
    queue_max: int | None = Field(default=None, ge=1, le=1000)
    reraces: bool = True
    gpu_seconds: int | None = Field(default=None, ge=10, le=120)


class Profile(Strict):
    """One place to run: hardware of a Space, or `local` for a machine of one's own.

    `drafters` are those that a visitor may choose, the default first; none named means those of the pair.
    """

    hardware: Hardware | None = None
    local: bool = False
    pairs: list[str] = Field(min_length=1)
    drafters: list[str] = []
    limits: LimitsOfProfile = LimitsOfProfile()
    sleep_time: int | None = Field(default=None, ge=60)
    visibility: Literal["public", "private"] = "public"
    variables: dict[VariableName, str] = {}


class Upload(Strict):
    """Which of git's files go to the Space: patterns as the Hub's client matches them, where * goes across folders."""

    include: list[Pattern] = ["*"]
    exclude: list[Pattern] = []
    max_megabytes: int = Field(default=1000, ge=1)


class Spacefile(Strict):
    """The whole file. `name` is the Space's, with or without its owner; `preload` names pairs of `models`."""

    v: Literal[1]
    name: str | None = Field(None, pattern=rf"^({NAME}/)?{NAME}$")
    card: Card
    profiles: dict[str, Profile] = {}
    models: dict[str, Pair] = {}
    preload: list[str] = []
    upload: Upload = Upload()
    secrets: list[SecretName] = []

    def weights(self, pair: str) -> list[Weights]:
        """The repositories of a pair, the target's first."""
        found = self.models[pair]
        return [found.target, *([found.draft] if found.draft else [])]
