"""Fits the drafter of `universal`: its own tokenizer, and a small Llama, on the target's own text.

    OMP_NUM_THREADS=2 python -m specdemo.train.universal DATA RUN --minutes 60 --learning-rate 3e-3

DATA is what collect and annotate filled. The first run trains the tokenizer, kept in RUN/tokenizer; the text is decoded
and encoded anew at each start. As in fit the learning rate follows the clock of the steps, and a run with the same RUN
goes on from its last checkpoint. RUN/best is an ordinary folder with the weights that guess most held-out tokens;
`python -m specdemo.train.score universal:RUN/best` measures it. In RUN/log.jsonl `all` is the share that was guessed,
`held_out_loss` is in nats a token.

B conversations, T tokens of the drafter.
"""

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from tqdm import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

from specdemo.catalog import EMBEDDED_TARGET, TARGETS
from specdemo.drafters.retokenize import Codec, DrafterText
from specdemo.train.batches import groups
from specdemo.train.corpus import Conversation, read_shard, shards
from specdemo.train.export import write_folder
from specdemo.train.fit import Run, train
from specdemo.train.held_out import held_out_answers
from specdemo.weights import fetch

_PROMPT_WEIGHT = 0.1
"""Of a token before the answer. It is not drafted, but it is text from which a model without knowledge can learn."""

_PART_TOKENS = 12
"""A round may end inside a word, whose beginning the drafter then reads as a word: every so many tokens of the target
the text of an answer is parted, and what follows is encoded by itself, so that it has seen such beginnings."""

_HEAD_SIZE = 64
_EMBEDDING_SCALE = 0.1
_SMOKE_MINUTES = 0.05


# --- text ---


def train_tokenizer(target: Codec, conversations: Sequence[Conversation], num_words: int) -> PreTrainedTokenizerBase:
    """A tokenizer of the target's kind and with its control tokens, of few words: those of the conversations."""
    # What control tokens are written as is no text to make words of.
    texts = (
        target.tokenizer.decode(conversation.ids.tolist(), skip_special_tokens=True) for conversation in conversations
    )
    return target.tokenizer.train_new_from_iterator(texts, num_words, show_progress=False)


def translate(target: Codec, drafter: Codec, conversation: Conversation, source: random.Random | None) -> Conversation:
    """The conversation in the drafter's ids, as it is read in drafting; with a `source` the answer is parted."""
    ids, start = conversation.ids.tolist(), conversation.answer_start
    ends = [start, *(i for i in range(start + 1, len(ids)) if source and source.random() < 1 / _PART_TOKENS), len(ids)]
    parts = [_read(target, drafter, ids[a:b]) for a, b in zip([0, *ends], ends, strict=False)]
    found = torch.tensor([token_id for part in parts for token_id in part])
    nothing = torch.empty(len(found), 0)
    translated = replace(conversation, ids=found, answer_start=len(parts[0]))
    return replace(translated, top_ids=nothing, top_probs=nothing, hidden=nothing)


def _read(target: Codec, drafter: Codec, ids: Sequence[int]) -> list[int]:
    text = DrafterText(target, drafter)
    text.read(ids)
    return text.ids


@dataclass(frozen=True, slots=True)
class TextBatch:
    """ids (B, T), padded behind with 0; `weights` (B, T) of each token in the loss, 0 for the first and for padding."""

    ids: Tensor
    weights: Tensor

    @classmethod
    def of(cls, conversations: Sequence[Conversation]) -> "TextBatch":
        """Conversations side by side."""
        ids = torch.zeros(len(conversations), max(len(c.ids) for c in conversations), dtype=torch.long)
        weights = torch.zeros(ids.shape)
        for row, c in enumerate(conversations):
            ids[row, : len(c.ids)] = c.ids
            weights[row, 1 : c.answer_start] = _PROMPT_WEIGHT
            weights[row, c.answer_start : len(c.ids)] = 1.0
        return cls(ids, weights)

    def to(self, device: str) -> "TextBatch":
        """The same on a device."""
        return TextBatch(self.ids.to(device), self.weights.to(device))


# --- student ---


class Student(nn.Module):
    """A Llama with tied embeddings, which may be given; all else begins at random."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, hidden_size: int, num_layers: int, context: int) -> None:
        super().__init__()
        self.tokenizer = tokenizer
        config = LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=hidden_size,
            intermediate_size=3 * hidden_size,
            num_hidden_layers=num_layers,
            num_attention_heads=hidden_size // _HEAD_SIZE,
            num_key_value_heads=max(1, hidden_size // _HEAD_SIZE // 2),
            head_dim=_HEAD_SIZE,
            max_position_embeddings=context,
            tie_word_embeddings=True,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
        self.model = LlamaForCausalLM(config)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits (B, T - 1, words) for all tokens but the first."""
        # Conversations are padded behind, where a causal pass never looks: no mask is needed.
        return self.model(ids[:, :-1], use_cache=False).logits.float()

    def loss(self, batch: TextBatch) -> Tensor:
        """Mean cross-entropy of the batch's tokens by their weights."""
        weights = batch.weights[:, 1:]
        entropy = F.cross_entropy(self(batch.ids).transpose(1, 2), batch.ids[:, 1:], reduction="none")
        return (entropy * weights).sum() / weights.sum()

    def save(self, folder: Path) -> None:
        """Write an ordinary folder, weights in half precision."""
        values = json.loads(self.model.config.to_json_string())
        values |= {"architectures": ["LlamaForCausalLM"], "dtype": "float16"}
        tensors = self.model.state_dict()
        tensors.pop("lm_head.weight")  # tied
        write_folder(folder, values, tensors)
        self.tokenizer.save_pretrained(folder)


@torch.no_grad()
def projected_embedding(embedding: Tensor, target: Codec, drafter: Codec, size: int) -> Tensor:
    """What the target's embedding (V, D) knows of the drafter's words, in the `size` directions that hold most of it.

    A word's row is the mean of its text's tokens in the target. -> (words, size); the median word's root mean square is
    `_EMBEDDING_SCALE`.
    """
    known = target.tokenizer.get_vocab()
    rows = torch.zeros(drafter.num_tokens, embedding.shape[1])
    for token, token_id in drafter.tokenizer.get_vocab().items():
        # Byte pairs are written alike in both; what the target has no token of is read as text.
        ids = [known[token]] if token in known else target.encode(drafter.decode([token_id]))["input_ids"]
        if ids:  # part of a character is no text
            rows[token_id] = embedding[ids].float().mean(0)
    rows -= rows.mean(0)  # what all words share tells none from another
    directions = torch.linalg.svd(rows, full_matrices=False).Vh[:size]
    projected = rows @ directions.T
    # By the median word: control tokens that the target hardly ever saw lie far out.
    return projected * (_EMBEDDING_SCALE / projected.square().mean(1).median().sqrt())


class TextRun(Run):
    """A run whose batches are text and nothing else."""

    def loss(self, batch: TextBatch) -> Tensor:
        """See Run.loss."""
        return self.student.loss(batch)


@torch.no_grad()
def guessed(student: Student, held_out: Sequence[Conversation], max_tokens: int, device: str) -> dict[str, float]:
    """On the answers' tokens: the share that is the student's first choice, and its mean cross-entropy."""
    num_right, entropy, num_tokens = 0, 0.0, 0
    student.eval()
    for batch in epoch(held_out, max_tokens, 0):
        batch = batch.to(device)
        with torch.autocast(device, torch.bfloat16):
            logits = student(batch.ids)
        is_answer = batch.weights[:, 1:] == 1.0
        logits, ids = logits[is_answer], batch.ids[:, 1:][is_answer]
        num_right += int((logits.argmax(-1) == ids).sum())
        entropy += float(F.cross_entropy(logits, ids, reduction="sum"))
        num_tokens += len(ids)
    student.train()
    return {"all": num_right / num_tokens, "held_out_loss": entropy / num_tokens}


# --- the script ---


def epoch(conversations: Sequence[Conversation], max_tokens: int, seed: int) -> Iterator[TextBatch]:
    """All conversations once, shuffled."""
    return map(TextBatch.of, groups(conversations, max_tokens, random.Random(seed)))


def main(arguments: list[str] | None = None) -> None:
    """Load target and text, train the tokenizer where there is none yet, and fit."""
    options = _parser().parse_args(arguments)
    options.run.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    folder = fetch(TARGETS[EMBEDDED_TARGET], lambda message, share: None)
    target = Codec(AutoTokenizer.from_pretrained(folder))
    paths = shards(options.data)[: 1 if options.smoke else None]
    conversations = [c for path in paths for c in read_shard(path, with_hidden=False)]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    if options.smoke:
        options.minutes, held_out = _SMOKE_MINUTES, conversations[:2]
    else:
        held_out = held_out_answers(model, target.tokenizer, options.data / "held_out" / "answers.safetensors")
    kept = options.run / "tokenizer"
    if not kept.exists():
        train_tokenizer(target, conversations, options.words).save_pretrained(kept)
    drafter = Codec(AutoTokenizer.from_pretrained(kept))
    student = Student(drafter.tokenizer, options.hidden_size, options.layers, model.config.max_position_embeddings)
    known = projected_embedding(model.get_input_embeddings().weight, target, drafter, options.hidden_size)
    student.model.get_input_embeddings().weight.data[: len(known)] = known
    source = random.Random(0)
    texts = [translate(target, drafter, c, source) for c in tqdm(conversations, desc="Encoding", unit="text")]
    asked = [translate(target, drafter, c, None) for c in held_out]
    train(
        TextRun(student, options),
        lambda number: epoch(texts, options.batch_tokens, number),
        lambda: guessed(student, asked, options.batch_tokens, options.device),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m specdemo.train.universal", description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="the folder that collect or annotate filled")
    parser.add_argument("run", type=Path, help="where checkpoints, the learning curve and the weights go")
    parser.add_argument("--minutes", type=float, default=60.0, help="of training, evaluation not counted")
    parser.add_argument("--words", type=int, default=4096, help="of the drafter's tokenizer, control tokens included")
    parser.add_argument("--hidden-size", type=int, default=256, help=f"a multiple of {_HEAD_SIZE}")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--batch-tokens", type=int, default=4096, help="tokens of a step, padding included")
    parser.add_argument("--evaluate-every", type=float, default=120.0, help="seconds of training")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--smoke", action="store_true", help="a few steps on one shard, to see that it runs")
    return parser


if __name__ == "__main__":
    main()
