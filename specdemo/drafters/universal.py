"""`universal`: a causal language model with its own tokenizer; the text it drafts becomes ids of the target.

String-level exact match, SLEM, of "Accelerating LLM inference with lossless speculative decoding algorithms for
heterogeneous vocabularies" (arXiv 2502.05202): the drafter writes text greedily, the target judges its own ids of that
text. There is no law over the target's ids, so the proposal is one-hot and the noise of `coupled` cannot be shared.
"""

from collections.abc import Sequence

from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from specdemo.acceptance import Draft
from specdemo.causal_lm import CausalLM, CausalLMSession, TransformersLM, require_rollback
from specdemo.drafters.draft_model import load_pretrained
from specdemo.drafters.retokenize import Codec, Conversion, DrafterText, TargetTail, shared_controls
from specdemo.errors import ModelError
from specdemo.four_bit import in_eight_bits
from specdemo.llama import LlamaLM
from specdemo.sampling import Sampler
from specdemo.target import Target

NAME = "universal"
_STEPS_PER_TOKEN, _MORE_STEPS = 2, 4
"""The most drafter tokens of a round are twice K and four: a word has to begin behind the last one that is offered."""
_CONTEXT = 4  # drafter's tokens before a draft that are decoded with it: some tokenizers drop a text's first space


def load_universal(source: str, target: Target) -> "UniversalDrafter":
    """Load a model and its tokenizer. Raises ModelError when they are missing or do not fit each other."""
    tokenizer = load_pretrained(AutoTokenizer, source)
    model = load_pretrained(AutoModelForCausalLM, source, dtype=target.lm.dtype).to(target.lm.device)
    lm: CausalLM
    if LlamaLM.fits(model):
        whole = LlamaLM.from_transformers(model)
        lm = in_eight_bits(whole)
        # A prompt is read with the weights as they were, so both are held.
        memory_bytes = whole.memory_bytes + (0 if lm is whole else lm.weight_bytes)
    else:
        lm = TransformersLM(model)
        memory_bytes = lm.memory_bytes
    require_rollback(lm, source)
    codec = Codec(tokenizer)
    if codec.num_tokens > lm.vocab_size:
        raise ModelError(
            f"the tokenizer in {source} knows {codec.num_tokens} tokens, and the model there {lm.vocab_size}; "
            "give a folder whose model and tokenizer belong together."
        )
    return UniversalDrafter(lm, codec, Codec(target.tokenizer), memory_bytes)


class UniversalDrafter:
    """See drafters.base.Drafter."""

    name = NAME
    feature_layers = ()

    def __init__(self, lm: CausalLM, codec: Codec, target_codec: Codec, memory_bytes: int) -> None:
        self.lm, self.codec, self.target_codec, self.memory_bytes = lm, codec, target_codec, memory_bytes
        tokenizer = codec.tokenizer
        opening = list(tokenizer("")["input_ids"])
        self.opening = opening if opening == [tokenizer.bos_token_id] else []
        self.controls = shared_controls(codec, target_codec)
        """The target's control token for each of the drafter's; its end of text is the target's whatever its name."""
        if tokenizer.eos_token_id is not None and self.controls.get(tokenizer.eos_token_id) is None:
            self.controls[tokenizer.eos_token_id] = target_codec.tokenizer.eos_token_id
        # A sliding window lets go of what it can no longer see whenever it is cropped.
        self.forgets = isinstance(lm, TransformersLM) and any(DynamicCache(config=lm.model.config).is_sliding)

    def open(self, target_session: CausalLMSession, prompt_ids: Sequence[int], sampler: Sampler) -> "UniversalSession":
        """See drafters.base.Drafter.open."""
        return UniversalSession(self, prompt_ids)

    def cache_bytes(self, num_tokens: int) -> int:
        """The model's keys and values, were the text as many of its tokens as of the target's."""
        return self.lm.cache_bytes(num_tokens)


class UniversalSession:
    """See drafters.base.DraftSession. Its cache holds ids of the drafter, `_fed`."""

    def __init__(self, drafter: UniversalDrafter, prompt_ids: Sequence[int]) -> None:
        self._drafter = drafter
        self._session = drafter.lm.open()
        self._text = DrafterText(drafter.target_codec, drafter.codec, drafter.opening)
        self._tail = TargetTail(drafter.target_codec)
        self._fed: list[int] = []
        self._num_kept = 0  # of what was fed, at the last crop
        self.bytes_read = 0
        self.note = ""
        self._text.read(prompt_ids)
        self._tail.read(prompt_ids)
        # What follows may change the last token; a prompt beyond the drafter's context is never read.
        if len(self._text.ids) > 1 and self._room() > 0:
            self._feed(self._text.ids[:-1], 0)

    def propose(self, max_tokens: int) -> Draft:
        """Write text until enough ids of the target are certain in it, or the drafter ends it."""
        num_steps = _STEPS_PER_TOKEN * max_tokens + _MORE_STEPS
        if not self.note and self._room() < num_steps:
            limit = self._drafter.lm.context_length
            self.note = f"the drafter's context of {limit} tokens is full; the rest is decoded with fewer drafts."
        drafted: list[int] = []
        due = max_tokens
        for _ in range(min(num_steps, self._room()) if self._text.ids else 0):
            token_id = self._choose(drafted)
            if token_id in self._drafter.controls:
                return Draft(self._ended(drafted, self._drafter.controls[token_id])[:max_tokens])
            drafted.append(token_id)
            # An encoding costs about as much as a small drafter's token: none before there can be enough ids.
            if len(drafted) == due:
                found = self._convert(drafted)
                if not found.is_possible or found.num_certain >= max_tokens:
                    return Draft(found.ids[:max_tokens])
                due += max_tokens - found.num_certain
        return Draft(self._convert(drafted).likely[:max_tokens])

    def commit(self, token_ids: Sequence[int], features: Tensor | None) -> None:
        """Keep what the cache shares with the text as it is encoded now, forget the rest."""
        # Before this no id can differ; and the last one is fed again where all are known, for what follows it.
        shared = min(self._text.num_settled, len(self._fed))
        self._text.read(token_ids)
        self._tail.read(token_ids)
        ids = self._text.ids
        last = max(0, len(ids) - 1)
        shared = min(shared, last)
        while shared < min(len(self._fed), last) and self._fed[shared] == ids[shared]:
            shared += 1
        if self._drafter.forgets and shared < self._num_kept:
            self._session.close()
            self._session, shared = self._drafter.lm.open(), 0
        else:
            self._session.crop(shared)
        del self._fed[shared:]
        self._num_kept = shared

    def close(self) -> None:
        """Free the cache."""
        self._session.close()

    def _choose(self, drafted: Sequence[int]) -> int:
        """The likeliest token behind the text and `drafted`; a head may have rows that no token belongs to."""
        unread = [*self._text.ids[len(self._fed) :], *drafted[-1:]]
        return int(self._feed(unread, 1)[0, : self._drafter.codec.num_tokens].argmax())

    def _convert(self, drafted: Sequence[int]) -> Conversion:
        """The drafted text as the target's ids; a character whose bytes are not all drafted is held back."""
        decode = self._drafter.codec.decode
        before = self._text.ids[-_CONTEXT:]
        return self._tail.convert(decode([*before, *drafted])[len(decode(before)) :].rstrip("\ufffd"))

    def _ended(self, drafted: Sequence[int], control_id: int | None) -> tuple[int, ...]:
        """All of a draft that the drafter ended with a control token, and the target's own one in its place."""
        found = self._convert(drafted)
        return (*found.ids, control_id) if control_id is not None and found.is_possible else found.ids

    def _feed(self, token_ids: Sequence[int], num_logits: int) -> Tensor:
        self._fed += token_ids
        self.bytes_read += self._drafter.lm.weight_bytes
        return self._session.forward(token_ids, num_logits)

    def _room(self) -> int:
        """How many tokens can be drafted: the last one is never fed."""
        return max(0, self._drafter.lm.context_length - len(self._text.ids) + 1)
