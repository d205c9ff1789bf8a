"""What a target with a drafter takes, as a value; see `memory`, which computes and measures it."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """Bytes of one target with one drafter, for a text of `num_tokens`, prompt and answer together.

    `*_bytes` are weights and tables that all generations share; of the drafter, those it holds besides the target's.
    `*_cache_bytes` belong to one generation of that length, without the room that buffers keep for more;
    `*_cache_bytes_per_token` is what the last of its tokens added. `peak_bytes` is the most that was in use since
    `memory.reset_peak`, or since the start, and `peak_of` says of what: "device", "process", or "" where nothing can
    say.
    """

    drafter: str
    num_tokens: int
    target_bytes: int
    drafter_bytes: int
    target_cache_bytes: int
    target_cache_bytes_per_token: int
    drafter_cache_bytes: int
    drafter_cache_bytes_per_token: int
    peak_bytes: int | None
    peak_of: str

    @property
    def plain_bytes(self) -> int:
        """Computed, without the drafter."""
        return self.target_bytes + self.target_cache_bytes

    @property
    def added_bytes(self) -> int:
        """Computed, what the drafter adds."""
        return self.drafter_bytes + self.drafter_cache_bytes

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values, sums included."""
        return {**asdict(self), "plain_bytes": self.plain_bytes, "added_bytes": self.added_bytes}
