"""What one visitor of a page may take, and why a lent GPU did not run: values that both sides of the page speak of."""

from collections.abc import Mapping
from dataclasses import dataclass

from specdemo.errors import SettingsError, SpecdemoError
from specdemo.settings import MAX_NEW_TOKENS


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The defaults are those of a machine of one's own.

    `queue_max` people may wait, None for the page's own number; `reraces`: letting go of a knob races again;
    `gpu_seconds` is the longest time a GPU is lent for one race, None where none is; `drafters` are all that a visitor
    may choose, the default first, empty for every one.
    """

    max_new_tokens: int = MAX_NEW_TOKENS
    queue_max: int | None = None
    reraces: bool = True
    gpu_seconds: int | None = None
    drafters: tuple[str, ...] = ()

    def check_tokens(self, num: int) -> None:
        """Raise SettingsError for a longer answer than this page gives."""
        if num > self.max_new_tokens:
            raise SettingsError(f"max-new-tokens is {num}; this page gives at most {self.max_new_tokens}.")

    def check_drafter(self, name: str) -> None:
        """Raise SettingsError for a drafter that this page does not offer."""
        if self.drafters and name not in self.drafters:
            raise SettingsError(f"the drafter is {name!r}; this page has {', '.join(self.drafters)}. Choose one.")


def is_zero_gpu(environment: Mapping[str, str]) -> bool:
    """Whether this is a ZeroGPU Space, as `spaces` itself reads it."""
    return environment.get("SPACES_ZERO_GPU", "").lower() in ("1", "t", "true")


GPU_SENTENCES = {
    "gpu_quota": "The ZeroGPU quota does not cover this race.{when} Log in to Hugging Face for more, ask for fewer "
    "tokens, or watch a recorded race.",
    "gpu_pending": "Too much of the ZeroGPU quota is held by tasks that still run. Try again when they are done.",
    "gpu_too_long": "This race asks for more GPU time than is lent at once. Ask for fewer tokens.",
    "gpu_none_free": "No GPU became free in time. Try again in a minute; recorded races play meanwhile.",
    "gpu_taken_back": "The GPU was taken back before the race was over. Ask for fewer tokens.",
    "gpu_stale_page": "The page has been open for too long to borrow a GPU. Reload it and race again.",
    "gpu_race_only": "On ZeroGPU only races run: this would use up a visitor's quota for the day. Run it on your own "
    "machine.",
    "gpu_when": " Try again in {wait}.",
    "gpu_failed": "The GPU could not be used ({kind}). Try again; recorded races play meanwhile.",
}
"""By the keys under which the page has them in its languages."""


class LentGPUError(SpecdemoError):
    """A lent GPU did not do what was asked: `key` of GPU_SENTENCES; `kind` of the error and `wait` as far as known."""

    def __init__(self, key: str, kind: str = "", wait: str = "") -> None:
        self.key, self.kind, self.wait = key, kind, wait
        super().__init__(self.words(GPU_SENTENCES))

    def words(self, sentences: Mapping[str, str]) -> str:
        """The sentence in the language of `sentences`."""
        when = sentences["gpu_when"].format(wait=self.wait) if self.wait else ""
        return sentences[self.key].format(kind=self.kind, when=when)
