"""Adds what the target knows to conversations that it wrote before: a file of JSON lines becomes shards.

    python -m specdemo.train.annotate TEXT.jsonl.gz DATA

The lines are {"ids": [...], "temperature": t}, system turn first; see collect for text that is still to be written.
A pass over given text is several times cheaper than writing it: 40,000 tokens took 25 s on two shared cores.
"""

import argparse
import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor
from tqdm import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

from specdemo.catalog import EMBEDDED_TARGET, TARGETS
from specdemo.train.conversation import Format
from specdemo.train.corpus import DEFAULT_HIDDEN, NUM_CANDIDATES, Conversation, write_shard
from specdemo.train.openings import CATEGORIES
from specdemo.train.teacher import top_candidates
from specdemo.train.writer import Writer
from specdemo.weights import fetch

_BATCH_TOKENS = 4096
_MAX_TOKENS = 512
_UNKNOWN_CATEGORY = CATEGORIES.index("free")


def annotate(model: LlamaForCausalLM, lines: list[dict], kept: Sequence[int], form: Format) -> list[Conversation]:
    """Read some conversations in one padded batch. Padding stands behind them, where a causal pass never looks."""
    length = max(len(line["ids"]) for line in lines)
    ids = torch.zeros(len(lines), length, dtype=torch.long)
    for row, line in enumerate(lines):
        ids[row, : len(line["ids"])] = torch.tensor(line["ids"])
    with torch.inference_mode():
        states = model.model(ids.to(model.device), output_hidden_states=True, use_cache=False).hidden_states
    hidden = torch.stack([states[i] for i in kept], 2).cpu()
    return [
        _conversation(
            model, line, _answer_start(line["ids"], list(form.before_answer)), hidden[row, : len(line["ids"])].clone()
        )
        for row, line in enumerate(lines)
    ]


def _conversation(model: LlamaForCausalLM, line: dict, answer_start: int, hidden: Tensor) -> Conversation:
    ids = torch.tensor(line["ids"])
    top_ids = torch.zeros(len(ids), NUM_CANDIDATES, dtype=torch.int32)
    top_probs = torch.zeros(len(ids), NUM_CANDIDATES)
    judged = slice(answer_start - 1, len(ids) - 1)
    found, logits = top_candidates(hidden[judged, -1].to(model.device), model.get_output_embeddings().weight, 64)
    top_ids[judged] = found[:, :NUM_CANDIDATES].cpu().int()
    top_probs[judged] = logits.softmax(-1)[:, :NUM_CANDIDATES].cpu()
    return Conversation(ids, answer_start, line["temperature"], _UNKNOWN_CATEGORY, top_ids, top_probs, hidden)


def _answer_start(ids: list[int], before_answer: list[int]) -> int:
    """Where the answer begins: behind the last opening of an assistant's turn; 0 without an answer."""
    size = len(before_answer)
    return next((i for i in range(len(ids) - 1, size, -1) if ids[i - size : i] == before_answer), 0)


def _batches(lines: list[dict]) -> Iterator[list[dict]]:
    """Lines of like length together, so that little is padding."""
    batch: list[dict] = []
    for line in sorted(lines, key=lambda line: len(line["ids"])):
        if batch and (len(batch) + 1) * len(line["ids"]) > _BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(line)
    if batch:
        yield batch


def main(arguments: list[str] | None = None) -> None:
    """Annotate a whole file, a shard for every 40,000 tokens or so."""
    options = _parser().parse_args(arguments)
    folder = fetch(TARGETS[EMBEDDED_TARGET], lambda message, share: None)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).to(options.device).eval()
    form = Writer(AutoTokenizer.from_pretrained(folder), "").form
    with gzip.open(options.text, "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file][: 8 if options.smoke else None]
    lines = [{**line, "ids": line["ids"][:_MAX_TOKENS]} for line in lines]
    lines = [line for line in lines if _answer_start(line["ids"], list(form.before_answer))]
    for number, group in enumerate(_groups(lines)):
        path = options.folder / f"{options.text.name.split('.')[0]}-{number:05d}.safetensors"
        if not path.exists():
            write_shard(path, [c for batch in _batches(group) for c in annotate(model, batch, options.hidden, form)])


def _groups(lines: list[dict], size: int = 160) -> Iterator[list[dict]]:
    for start in tqdm(range(0, len(lines), size), unit="shard"):
        yield lines[start : start + size]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m specdemo.train.annotate", description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path, help="gzipped JSON lines")
    parser.add_argument("folder", type=Path, help="where the shards go")
    parser.add_argument("--hidden", type=int, nargs="+", default=DEFAULT_HIDDEN, help="hidden states kept")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--smoke", action="store_true", help="only the first eight conversations")
    return parser


if __name__ == "__main__":
    main()
