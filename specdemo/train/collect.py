"""The embedded target writes text to learn from: its own user turns, begun with an opening, and its answers.

    OMP_NUM_THREADS=1 python -m specdemo.train.collect DATA --tokens 1500000 --seed 1

Resumable: run again with the same seed, it appends shards until there are enough tokens. Processes with different
seeds may fill one folder. One core of its own writes 300 to 400 tokens a second (192 rows, bfloat16).
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from specdemo.catalog import EMBEDDED_TARGET, TARGETS
from specdemo.train.conversation import Growing
from specdemo.train.corpus import DEFAULT_HIDDEN, NUM_CANDIDATES, Conversation, count_tokens, shards, write_shard
from specdemo.train.teacher import Teacher, top_candidates
from specdemo.train.writer import Writer
from specdemo.weights import fetch

_NUM_DRAWN_FROM = 64


class Collector:
    """Grows a batch of conversations; a row that ends is at once begun anew."""

    def __init__(self, teacher: Teacher, writer: Writer) -> None:
        self._teacher, self._writer = teacher, writer
        size, length = teacher.num_rows, teacher.num_slots
        hidden_size, dtype = teacher.model.config.hidden_size, teacher.model.dtype
        self._hidden = torch.zeros(size, length, len(teacher.kept), hidden_size, dtype=dtype)
        self._top_ids = torch.zeros(size, length, NUM_CANDIDATES, dtype=torch.int32)
        self._top_probs = torch.zeros(size, length, NUM_CANDIDATES, dtype=torch.float16)
        self._generator = torch.Generator().manual_seed(writer.random.getrandbits(62))
        self._rows = [writer.open() for _ in range(size)]
        self._read_prefix()

    def step(self) -> list[Conversation]:
        """Feed one token to every row; returns the conversations that ended."""
        positions = torch.tensor([row.fed for row in self._rows])
        token_ids = torch.tensor([row.ids[row.fed] for row in self._rows])
        self._read(token_ids, positions)
        finished = []
        for index, row in enumerate(self._rows):
            row.fed += 1
            if row.is_done:
                finished.append(self._finish(index, row))
        return finished

    def _read(self, token_ids: Tensor, positions: Tensor) -> None:
        device = self._teacher.model.device
        hidden = self._teacher.step(token_ids.to(device), positions.to(device))
        head = self._teacher.model.get_output_embeddings().weight
        ids, logits = (part.cpu() for part in top_candidates(hidden[:, -1], head, _NUM_DRAWN_FROM))
        rows = torch.arange(len(positions))
        self._hidden[rows, positions] = hidden.cpu()
        # The share of the 64 likeliest stands for all: what lies behind them is small and is never drawn.
        self._top_ids[rows, positions] = ids[:, :NUM_CANDIDATES].int()
        self._top_probs[rows, positions] = logits.softmax(-1)[:, :NUM_CANDIDATES].half()
        self._draw(ids, logits)

    def _draw(self, ids: Tensor, logits: Tensor) -> None:
        temperatures = torch.tensor([row.temperature for row in self._rows])
        scaled = logits / temperatures.clamp_min(1e-4)[:, None]
        chosen = torch.multinomial(scaled.softmax(-1), 1, generator=self._generator)
        drawn = ids.gather(1, chosen)[:, 0].tolist()
        for row, token_id in zip(self._rows, drawn, strict=True):
            if row.wants_token:
                row.take(token_id, self._writer.form)

    def _finish(self, index: int, row: Growing) -> Conversation:
        self._writer.keep_passage(row)
        end = row.useful_length()
        parts = (self._top_ids, self._top_probs, self._hidden)
        top_ids, top_probs, hidden = (part[index, :end].clone() for part in parts)
        self._rows[index] = self._writer.open()
        ids = torch.tensor(row.ids[:end])
        return Conversation(ids, row.answer_start, row.answer_temperature, row.category, top_ids, top_probs, hidden)

    def _read_prefix(self) -> None:
        """Read the constant start into all rows; it stays there, for every conversation begins with it."""
        for position, token_id in enumerate(self._writer.prefix[:-1]):
            token_ids = torch.full((self._teacher.num_rows,), token_id)
            self._read(token_ids, torch.full_like(token_ids, position))


def main(arguments: list[str] | None = None) -> None:
    """Collect until the folder holds enough tokens of this seed."""
    options = _parser().parse_args(arguments)
    if options.smoke:
        options.rows, options.tokens = 8, 100
    folder = fetch(TARGETS[EMBEDDED_TARGET], lambda message, share: None)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).to(options.device).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    collect(model, tokenizer, options)


def collect(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, options: argparse.Namespace) -> None:
    """Append shards to the folder until this seed's hold `options.tokens` tokens."""
    name = f"seed{options.seed}"
    done = [path for path in shards(options.folder) if path.name.startswith(f"{name}-")]
    num_tokens = count_tokens(done)
    writer = Writer(tokenizer, f"{name}-{len(done)}")
    collector = Collector(Teacher(model, options.rows, writer.form.max_tokens, options.hidden), writer)
    waiting: list[Conversation] = []
    with tqdm(total=options.tokens, initial=num_tokens, unit="tok", smoothing=0.02) as bar:
        while bar.n < options.tokens:
            for conversation in collector.step():
                waiting.append(conversation)
                bar.update(len(conversation.ids))
            if sum(len(c.ids) for c in waiting) >= options.shard_tokens or (waiting and bar.n >= options.tokens):
                done.append(options.folder / f"{name}-{len(done):05d}.safetensors")
                write_shard(done[-1], waiting)
                waiting = []


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m specdemo.train.collect", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the shards are")
    parser.add_argument("--tokens", type=int, default=1_500_000, help="how many tokens this seed shall have")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rows", type=int, default=192, help="conversations that grow at once")
    parser.add_argument("--shard-tokens", type=int, default=40_000, help="tokens in a file")
    parser.add_argument("--hidden", type=int, nargs="+", default=DEFAULT_HIDDEN, help="hidden states kept")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--smoke", action="store_true", help="a few tokens, to see that it runs")
    return parser


if __name__ == "__main__":
    main()
