"""`medusa`: heads on the target's last hidden state, each of which guesses one token (Medusa, Cai et al. 2401.10774).

All that a head sees is the hidden state, behind the final norm, of the newest token that the target has read. The
token after that one is committed already; head i, from 0, guesses the one i + 1 behind the committed, whatever the
other heads guess. A head is residual blocks, x + SiLU(W x + b), and a linear layer to the words.

Published files (`medusa_lm_head.pt` or safetensors) name the blocks `{head}.{block}.linear.weight` and `.bias` and the
linear layer, V words wide, `{head}.{number of blocks}.weight`. At V words and a small D that layer is most of a head.
Ours stands in two factors: under the same name a (D, D) for each head, and behind it the target's own rows (C, D) of C
frequent words, which all heads share; `d2t` tells their ids as in EAGLE-3. A round reads them once.

Shapes: K heads, T rows, D hidden size, C draft words, V the target's vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from specdemo.acceptance import Draft
from specdemo.causal_lm import CausalLMSession
from specdemo.drafters.chain import draw_chain
from specdemo.drafters.checkpoint import Checkpoint, Parts
from specdemo.drafters.layers import WordHead
from specdemo.drafters.tree import Tree, grow_tree, tree_or_note
from specdemo.int8_linear import Int8Linear
from specdemo.sampling import Sampler
from specdemo.target import Target

NAME = "medusa"
_SHARED = {"lm_head.weight", "d2t", "t2d"}  # of words that all heads share


@dataclass(frozen=True, slots=True)
class MedusaHead:
    """`blocks`: weight and bias (D,) of each; `linear` (V, D), or (D, D) before the shared words."""

    blocks: Sequence[tuple[Int8Linear, Tensor]]
    linear: Int8Linear

    def __call__(self, x: Tensor) -> Tensor:
        """x (T, D) -> (T, V), or (T, D) before the shared words."""
        for weight, bias in self.blocks:
            x = x + F.silu(weight(x) + bias)
        return self.linear(x)

    @property
    def pass_bytes(self) -> int:
        """Read for a draft."""
        return self.linear.pass_bytes + sum(weight.pass_bytes + bias.nbytes for weight, bias in self.blocks)

    @property
    def memory_bytes(self) -> int:
        """Held, for passes of few rows and of many."""
        return self.linear.memory_bytes + sum(weight.memory_bytes + bias.nbytes for weight, bias in self.blocks)


class MedusaDrafter:
    """See drafters.base.Drafter. `words` is what the heads share, None where each has its own."""

    name = NAME
    is_tree = False
    """Whether it drafts trees."""

    def __init__(self, heads: Sequence[MedusaHead], words: WordHead | None, feature_layer: int) -> None:
        self.heads, self.words = heads, words
        self.feature_layers = (feature_layer,)
        shared = 0 if words is None else words.memory_bytes
        self.memory_bytes = shared + sum(head.memory_bytes for head in heads)

    def open(self, target_session: CausalLMSession, prompt_ids: Sequence[int], sampler: Sampler) -> "MedusaSession":
        """See drafters.base.Drafter.open."""
        return MedusaSession(self, target_session.features if len(prompt_ids) > 1 else None, prompt_ids, sampler)

    def cache_bytes(self, num_tokens: int) -> int:
        """None: of the text a session keeps one hidden state."""
        return 0

    def logits(self, feature: Tensor, num_heads: int) -> Tensor:
        """feature (1, D) -> what the first K heads say, (K, V)."""
        rows = torch.cat([head(feature) for head in self.heads[:num_heads]])
        return rows if self.words is None else self.words(rows)

    def pass_bytes(self, num_heads: int) -> int:
        """What `logits` reads."""
        shared = 0 if self.words is None else self.words.rows.pass_bytes
        return shared + sum(head.pass_bytes for head in self.heads[:num_heads])


class MedusaSession:
    """See drafters.base.DraftSession. Nothing is kept but the newest hidden state."""

    def __init__(
        self, drafter: MedusaDrafter, features: Tensor | None, prompt_ids: Sequence[int], sampler: Sampler
    ) -> None:
        self._drafter, self._sampler = drafter, sampler
        self._ids = list(prompt_ids)
        # A copy, so that the features of a long prompt need not be held for their last row.
        self._newest = None if features is None else features[-1:].clone()
        self.bytes_read = 0
        self._grows, self.note = tree_or_note(sampler, wants_tree=drafter.is_tree)

    @torch.inference_mode()
    def propose(self, max_tokens: int) -> Draft:
        """Ask all heads at once, then draw from the law of each."""
        num_heads = len(self._drafter.heads)
        if max_tokens > num_heads and not self._grows:
            self.note = f"the drafter has {num_heads} heads, so that no round has more drafts."
        num_tokens = min(max_tokens, num_heads)
        if self._newest is None or not num_tokens:
            return Draft(())  # after a prompt of one token the target has read nothing yet
        logits = self._drafter.logits(self._newest, num_tokens)
        self.bytes_read += self._drafter.pass_bytes(num_tokens)
        if self._grows:
            return self._grow(logits, max_tokens)
        rows = iter(logits.split(1))
        return draw_chain(self._sampler, self._ids, num_tokens, lambda token_ids: next(rows))

    def _grow(self, logits: Tensor, max_tokens: int) -> Draft:
        """A tree in which what a head says follows all that the head before it says; logits (K, V)."""

        def next_logits(tree: Tree) -> Tensor | None:
            depth = len(tree.path(tree.frontier[0]))
            return logits[depth].expand(len(tree.frontier), -1) if depth < len(logits) else None

        return grow_tree(self._sampler, self._ids, max_tokens, next_logits)

    def commit(self, token_ids: Sequence[int], features: Tensor | None) -> None:
        """Remember the tokens, and the last of the features."""
        assert features is not None, "the decode loop hands over the features that feature_layers asks for"
        self._ids += token_ids
        self._newest = features[-1:]

    def close(self) -> None:
        """Free the hidden state."""
        self._newest = None


def load_medusa(folder: Path, target: Target) -> MedusaDrafter:
    """Read heads of the published layout, or ours. Raises ModelError where they do not fit the target."""
    checkpoint = Checkpoint.read(folder, "Medusa")
    num_heads, num_blocks = _check(checkpoint, target)
    parts, lm = Parts(checkpoint.tensors, target), target.lm

    def block(name: str) -> tuple[Int8Linear, Tensor]:
        return parts.linear(name), checkpoint.tensors[f"{name}.bias"].to(lm.device, lm.dtype)

    heads = [
        MedusaHead(
            [block(f"{head}.{index}.linear") for index in range(num_blocks)], parts.linear(f"{head}.{num_blocks}")
        )
        for head in range(num_heads)
    ]
    words = WordHead.from_checkpoint(checkpoint, target) if _SHARED & set(checkpoint.tensors) else None
    return MedusaDrafter(heads, words, int(target.model.config.get_text_config().num_hidden_layers))


def _check(checkpoint: Checkpoint, target: Target) -> tuple[int, int]:
    """Numbers of heads, and of blocks in each, counted in the tensors: published config.json files say other ones."""
    tensors = checkpoint.tensors
    num_heads = max(1, len({name.partition(".")[0] for name in tensors if name[:1].isdecimal()}))
    num_blocks = sum(name.startswith("0.") and name.endswith(".linear.weight") for name in tensors)
    size = int(target.model.config.get_text_config().hidden_size)
    is_shared = bool(_SHARED & set(tensors))
    shapes: dict[str, tuple[int, ...]] = {}
    for head in range(num_heads):
        for index in range(num_blocks):
            shapes |= {f"{head}.{index}.linear.weight": (size, size), f"{head}.{index}.linear.bias": (size,)}
        shapes[f"{head}.{num_blocks}.weight"] = (size if is_shared else target.lm.vocab_size, size)
    if "lm_head.weight" in tensors:
        shapes["lm_head.weight"] = (len(tensors["lm_head.weight"]), size)
    checkpoint.check_names(shapes, _SHARED, layout="Medusa")
    for name, shape in shapes.items():
        checkpoint.check_shape(name, shape)
    return num_heads, num_blocks
