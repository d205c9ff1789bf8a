"""Tiny real models, a byte-level tokenizer and scripted drafters: what the engine's tests run without a download."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from specdemo.acceptance import Draft
from specdemo.branches import Parents
from specdemo.causal_lm import CausalLM, CausalLMSession
from specdemo.decoding import decode
from specdemo.drafters.base import Drafter, DraftSession
from specdemo.drafters.null import NullDrafter
from specdemo.events import Event, Finished, Round
from specdemo.metrics import emitted_token_ids
from specdemo.sampling import Sampler, draw
from specdemo.settings import DecodeSettings
from specdemo.target import Target
from tests.fakes_models import CONFIGS as CONFIGS
from tests.fakes_models import CONTEXT as CONTEXT
from tests.fakes_models import CROPPABLE as CROPPABLE
from tests.fakes_models import NOT_CROPPABLE as NOT_CROPPABLE
from tests.fakes_models import RECURRENT as RECURRENT
from tests.fakes_models import VOCAB_SIZE as VOCAB_SIZE

EOS, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@cache
def make_tokenizer(extra_tokens: tuple[str, ...] = (), chat_template: str = CHAT_TEMPLATE) -> PreTrainedTokenizerFast:
    """One token a byte behind three control tokens; `extra_tokens` are added behind the bytes."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate([EOS, START, END, *alphabet])}
    core = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token=END, pad_token=EOS, additional_special_tokens=[START]
    )
    tokenizer.chat_template = chat_template
    tokenizer.add_tokens(list(extra_tokens))
    return tokenizer


def make_model(kind: str = "llama", seed: int = 0, **changes: object) -> PreTrainedModel:
    """Random weights, large enough that the answers vary and no two logits are close to a tie."""
    config = CONFIGS[kind]()
    for name, value in changes.items():
        setattr(config, name, value)
    torch.manual_seed(seed)
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()


def wrap(model: PreTrainedModel, *, eos: Sequence[int] = (), name: str = "tiny") -> Target:
    """A target that ends at the ids `eos` only."""
    made = Target.from_model(name, model, make_tokenizer(), revision="random", gguf_path=None)
    return replace(made, eos_token_ids=frozenset(eos))


def ending_at(target: Target, token_id: int) -> Target:
    """The same target with another end-of-text token."""
    return replace(target, eos_token_ids=frozenset([token_id]))


@cache
def make_target(kind: str = "llama", seed: int = 0, vocab_size: int = VOCAB_SIZE) -> Target:
    """A tiny target that never ends by itself; shared, so it must not be changed. A small vocabulary repeats itself."""
    return wrap(make_model(kind, seed, vocab_size=vocab_size))


def run(target: Target, drafter: Drafter, prompt_ids: Sequence[int], **settings: object) -> list[Event]:
    """One generation, whole."""
    return list(decode(target, drafter, prompt_ids, DecodeSettings(**settings)))  # type: ignore[arg-type]


def answer(events: Sequence[Event]) -> tuple[tuple[int, ...], str]:
    """What a generation comes to: its ids and why it ended."""
    last = events[-1]
    assert isinstance(last, Finished)
    return emitted_token_ids(events), last.reason


def plain(target: Target, prompt_ids: Sequence[int], **settings: object) -> tuple[tuple[int, ...], str]:
    """Plain decoding's answer."""
    return answer(run(target, NullDrafter(), prompt_ids, **settings))


def rounds_of(events: Sequence[Event]) -> list[Round]:
    return [event for event in events if isinstance(event, Round)]


Propose = Callable[[list[int], int, Sampler], Draft]


class ScriptedDrafter:
    """Proposes what a function of (committed ids, number asked for, sampler) says."""

    name = "scripted"
    memory_bytes = 0
    feature_layers = ()

    def __init__(self, propose: Propose) -> None:
        self.propose = propose

    def open(self, target_session: CausalLMSession, prompt_ids: Sequence[int], sampler: Sampler) -> DraftSession:
        return ScriptedSession(self.propose, prompt_ids, sampler)

    def cache_bytes(self, num_tokens: int) -> int:
        return 0


class ScriptedSession:
    note = ""
    bytes_read = 0

    def __init__(self, propose: Propose, prompt_ids: Sequence[int], sampler: Sampler) -> None:
        self._propose, self._ids, self._sampler = propose, list(prompt_ids), sampler

    def propose(self, max_tokens: int) -> Draft:
        return self._propose(list(self._ids), max_tokens, self._sampler)

    def commit(self, token_ids: Sequence[int], features: Tensor | None) -> None:
        self._ids += token_ids

    def close(self) -> None:
        self._ids.clear()


def knows(prompt_ids: Sequence[int], answer: Sequence[int], wrong_every: int = 0) -> ScriptedDrafter:
    """Proposes the known answer, each `wrong_every`-th token of it replaced by another; 0 replaces none."""
    script = [
        (token_id + 1) % 16 if wrong_every and index % wrong_every == wrong_every - 1 else token_id
        for index, token_id in enumerate(answer)
    ]

    def propose(ids: list[int], max_tokens: int, sampler: Sampler) -> Draft:
        done = len(ids) - len(prompt_ids)
        return Draft(tuple(script[done : done + max_tokens]))

    return ScriptedDrafter(propose)


def proposes_nothing() -> ScriptedDrafter:
    return ScriptedDrafter(lambda ids, max_tokens, sampler: Draft(()))


def guesses(seed: int, known_ids: Sequence[int] = (), start: int = 0, vocab_size: int = 16) -> ScriptedDrafter:
    """As many tokens as it likes: each that of `known_ids`, the answer to a prompt of `start` tokens, or any other."""

    def propose(ids: list[int], max_tokens: int, sampler: Sampler) -> Draft:
        generator = torch.Generator().manual_seed(seed * 1009 + len(ids))
        count = int(torch.randint(max_tokens + 1, (1,), generator=generator))
        wild = torch.randint(vocab_size, (count,), generator=generator).tolist()
        is_right = torch.rand(count, generator=generator).lt(0.7).tolist()
        known = list(known_ids[len(ids) - start :])
        known += wild[len(known) :]
        return Draft(tuple(right if yes else other for right, other, yes in zip(known, wild, is_right, strict=False)))

    return ScriptedDrafter(propose)


def draws_from(law: Callable[[list[int]], Tensor]) -> ScriptedDrafter:
    """An honest stochastic drafter: each token is drawn from `law(prefix)`, (V,), and the rows are handed over."""

    def propose(ids: list[int], max_tokens: int, sampler: Sampler) -> Draft:
        tokens: list[int] = []
        rows = []
        for index in range(max_tokens):
            rows.append(law([*ids, *tokens]))
            tokens.append(draw(rows[-1], sampler.noise.uniform(len(ids), f"scripted/{index}")))
        return Draft(tuple(tokens), torch.stack(rows) if rows else None)

    return ScriptedDrafter(propose)


class WatchedLM:
    """A model that remembers its sessions, and whether each was closed."""

    def __init__(self, lm: CausalLM) -> None:
        self._lm = lm
        self.sessions: list[WatchedSession] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._lm, name)

    def open(self, feature_layers: Sequence[int] = ()) -> "WatchedSession":
        self.sessions.append(WatchedSession(self._lm.open(feature_layers)))
        return self.sessions[-1]


class WatchedSession:
    """See WatchedLM; `token_ids` is what the cache must hold."""

    def __init__(self, session: CausalLMSession) -> None:
        self.inner = session
        self.token_ids: list[int] = []
        self._newest: list[int] = []
        self.is_closed = False

    @property
    def length(self) -> int:
        return self.inner.length

    @property
    def features(self) -> Tensor | None:
        return self.inner.features

    @features.setter
    def features(self, features: Tensor | None) -> None:
        self.inner.features = features

    def forward(self, token_ids: Sequence[int], num_logits: int, parents: Parents = ()) -> Tensor:
        self._newest = list(token_ids)
        self.token_ids += token_ids
        return self.inner.forward(token_ids, num_logits, parents)

    def keep(self, rows: Sequence[int]) -> None:
        self.token_ids[len(self.token_ids) - len(self._newest) :] = [self._newest[row] for row in rows]
        self.inner.keep(rows)

    def crop(self, length: int) -> None:
        del self.token_ids[length:]
        self.inner.crop(length)

    def close(self) -> None:
        self.is_closed = True
        self.inner.close()


class WatchedDrafter:
    """A drafter that remembers the target session it was opened on."""

    def __init__(self, drafter: Drafter) -> None:
        self._drafter = drafter
        self.name, self.memory_bytes = drafter.name, drafter.memory_bytes
        self.feature_layers = drafter.feature_layers
        self.target_session: CausalLMSession | None = None

    def open(self, target_session: CausalLMSession, prompt_ids: Sequence[int], sampler: Sampler) -> DraftSession:
        self.target_session = target_session
        return self._drafter.open(target_session, prompt_ids, sampler)

    def cache_bytes(self, num_tokens: int) -> int:
        return self._drafter.cache_bytes(num_tokens)
