"""The training text on disk: shards of conversations, with what the target knew at each of their tokens.

N tokens, S conversations, D hidden size. A shard is one safetensors file:
`ids` (N,), `starts` (S + 1,) where conversations begin, `answer_starts` (S,) counted from their conversation's start,
`temperatures` (S,) of the answers, `categories` (S,) as indices of openings.CATEGORIES; for each token what the target
expects after it, at temperature 1: `top_ids` (N, 16), `top_probs` (N, 16); and `hidden` (N, kept, D).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

NUM_CANDIDATES = 16
DEFAULT_HIDDEN = (2, 15, 27, 30)  # EAGLE-3's three, and the last behind the final norm; transformers' indices
_PER_TOKEN = ("ids", "top_ids", "top_probs", "hidden")


@dataclass(frozen=True, slots=True)
class Conversation:
    """T tokens: ids (T,), top_ids and top_probs (T, 16), hidden (T, kept, D), empty where it was not asked for."""

    ids: Tensor
    answer_start: int
    temperature: float
    category: int
    top_ids: Tensor
    top_probs: Tensor
    hidden: Tensor


def write_shard(path: Path, conversations: Sequence[Conversation]) -> None:
    """Write a shard under a temporary name and rename it, so that a shard that exists is whole."""
    lengths = torch.tensor([0, *(len(c.ids) for c in conversations)])
    tensors = {
        "ids": torch.cat([c.ids for c in conversations]).int(),
        "top_ids": torch.cat([c.top_ids for c in conversations]).int(),
        "top_probs": torch.cat([c.top_probs for c in conversations]).half(),
        "hidden": torch.cat([c.hidden for c in conversations]).bfloat16(),
        "starts": lengths.cumsum(0),
        "answer_starts": torch.tensor([c.answer_start for c in conversations]),
        "temperatures": torch.tensor([c.temperature for c in conversations]),
        "categories": torch.tensor([c.category for c in conversations]),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    save_file(tensors, partial)
    partial.rename(path)


def read_shard(path: Path, *, with_hidden: bool) -> list[Conversation]:
    """The conversations of a shard; `hidden` stays unread unless asked for."""
    with safe_open(path, "pt") as file:
        held = {key: file.get_tensor(key) for key in file.keys() if with_hidden or key != "hidden"}  # noqa: SIM118
    if not with_hidden:
        held["hidden"] = torch.empty(len(held["ids"]), 0)
    bounds = held["starts"].tolist()
    return [
        Conversation(
            answer_start=int(held["answer_starts"][i]),
            temperature=float(held["temperatures"][i]),
            category=int(held["categories"][i]),
            **{key: held[key][start:end] for key in _PER_TOKEN},
        )
        for i, (start, end) in enumerate(zip(bounds, bounds[1:], strict=False))
    ]


def shards(folder: Path) -> list[Path]:
    """The shards of a folder in the order of their names."""
    return sorted(folder.glob("*.safetensors"))


def count_tokens(paths: Sequence[Path]) -> int:
    """All tokens of some shards, the constant system turns included."""
    total = 0
    for path in paths:
        with safe_open(path, "pt") as file:
            total += file.get_slice("ids").get_shape()[0]
    return total


def repeated_tail(ids: Sequence[int], longest_period: int = 48) -> tuple[int, int]:
    """How many tokens at the end only repeat those before them, and with what period; (0, 1) without any."""
    best, best_period = 0, 1
    for period in range(1, min(longest_period, len(ids) // 2) + 1):
        num = 0
        while num + period < len(ids) and ids[-1 - num] == ids[-1 - num - period]:
            num += 1
        if num > best and num >= period:
            best, best_period = num, period
    return best, best_period
