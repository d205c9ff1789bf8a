"""Fits a drafter to the target's own text.

    OMP_NUM_THREADS=2 python -m specdemo.train.fit draft-model DATA RUN --minutes 40

The learning rate follows the clock of the steps: it has decayed when the minutes are over, however fast the machine
was; time for which the process was paused does not count. Run again with the same RUN it goes on from the last
checkpoint. RUN/best holds the best weights by held-out tokens per round, RUN/log.jsonl the learning curve. This took
41 minutes for 467 steps of 3,780 tokens on two cores that other work shared.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from tqdm import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer

from specdemo.catalog import EMBEDDED_TARGET, TARGETS
from specdemo.train import draft_model, eagle3, early_exit, medusa, mtp
from specdemo.train.batches import Batch, Batches, choose_vocabulary, places_of
from specdemo.train.block import DFLASH, DSPARK
from specdemo.train.corpus import read_shard, shards
from specdemo.train.evaluation import expected_tokens_per_round
from specdemo.train.held_out import held_out_answers
from specdemo.train.optimizers import make_optimizers, set_learning_rate
from specdemo.weights import fetch

FAMILIES: dict[str, Any] = {
    "draft-model": draft_model,
    "eagle3": eagle3,
    "dspark": DSPARK,
    "dflash": DFLASH,
    "medusa": medusa,
    "mtp": mtp,
    "early-exit": early_exit,
}
NUM_DRAFTS = 4
_SMOKE_MINUTES = 0.05
_NUM_FIRST_STEPS, _SLOW = 20, 4.0


class Run:
    """One training run: what it has done so far stands in its folder."""

    def __init__(self, student: nn.Module, options: argparse.Namespace) -> None:
        self.student, self.options = student.to(options.device), options
        self.optimizers = make_optimizers(student, options.weight_decay)
        self.seconds, self.num_steps, self.num_tokens, self.num_epochs, self.best = 0.0, 0, 0, 0, 0.0
        self._checkpoint = options.run / "checkpoint.pt"
        if self._checkpoint.exists():
            self._load()

    @property
    def progress(self) -> float:
        """From 0 to 1, by the clock."""
        return self.seconds / (60 * self.options.minutes)

    def step(self, batch: Batch) -> float:
        """Learn from one batch; returns its loss."""
        started = time.monotonic()
        options = self.options
        set_learning_rate(self.optimizers, options.learning_rate, self.progress)
        with torch.autocast(options.device, torch.bfloat16):
            loss = self.loss(batch.to(options.device))
        loss.backward()
        nn.utils.clip_grad_norm_(self.student.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        self.num_steps += 1
        self.num_tokens += batch.ids.numel()
        self.seconds += self._counted(time.monotonic() - started)
        return float(loss.detach())

    def loss(self, batch: Batch) -> Tensor:
        """What the student makes of a batch; families that learn otherwise say so here."""
        return self.student.loss(batch, self.options.sharpness, self.options.tv_share)

    def _counted(self, seconds: float) -> float:
        """A step during which the process was paused counts as a slow one."""
        is_usual_known = self.num_steps > _NUM_FIRST_STEPS
        return min(seconds, _SLOW * self.seconds / self.num_steps) if is_usual_known else seconds

    def report(self, loss: float, rates: dict[str, float]) -> None:
        """Append to the learning curve, keep a checkpoint, and the weights if they are the best so far."""
        entry = {
            "step": self.num_steps,
            "tokens": self.num_tokens,
            "seconds": round(self.seconds),
            "loss": round(loss, 4),
        }
        with (self.options.run / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({**entry, **{name: round(rate, 3) for name, rate in rates.items()}}) + "\n")
        if rates["all"] >= self.best:
            self.best = rates["all"]
            self.student.save(self.options.run / "best")
        self._save()

    def _save(self) -> None:
        state = {
            "student": self.student.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "done": (self.seconds, self.num_steps, self.num_tokens, self.num_epochs, self.best),
        }
        partial = self._checkpoint.with_suffix(".partial")
        torch.save(state, partial)
        partial.rename(self._checkpoint)

    def _load(self) -> None:
        state = torch.load(self._checkpoint, map_location=self.options.device, weights_only=True)
        self.student.load_state_dict(state["student"])
        for optimizer, values in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(values)
        self.seconds, self.num_steps, self.num_tokens, self.num_epochs, self.best = state["done"]


def train(run: Run, epoch: Callable[[int], Iterator[Any]], rate: Callable[[], dict[str, float]]) -> None:
    """Learn until the time is over; the held-out answers are asked every so many seconds, and at the end.

    `epoch` gives the batches of an epoch by its number, `rate` what the student reaches now, `all` above all.
    """
    due = run.seconds
    bar = tqdm(unit="tok", initial=run.num_tokens)
    for batch in _endless(run, epoch):
        loss = run.step(batch)
        bar.update(batch.ids.numel())
        is_over = run.progress >= 1
        if run.seconds >= due or is_over:
            due = run.seconds + run.options.evaluate_every
            rates = rate()
            run.report(loss, rates)
            bar.set_postfix(loss=f"{loss:.3f}", reached=f"{rates['all']:.3f}")
        if is_over:
            return


def _endless(run: Run, epoch: Callable[[int], Iterator[Any]]) -> Iterator[Any]:
    while True:
        yield from epoch(run.num_epochs)
        run.num_epochs += 1


def main(arguments: list[str] | None = None) -> None:
    """Load target and text, and fit."""
    options = _parser().parse_args(arguments)
    options.run.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    folder = fetch(TARGETS[EMBEDDED_TARGET], lambda message, share: None)
    target = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval().requires_grad_(False)
    family = FAMILIES[options.family]
    paths = shards(options.data)[: 1 if options.smoke else None]
    conversations = [c for path in paths for c in read_shard(path, with_hidden=family.READS_HIDDEN)]
    if options.smoke:
        options.minutes, held_out = _SMOKE_MINUTES, conversations[:2]
    else:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        held_out = held_out_answers(target, tokenizer, options.data / "held_out" / "answers.safetensors")
    vocabulary = choose_vocabulary(conversations, options.vocabulary, [target.config.eos_token_id])
    places = places_of(vocabulary, target.config.vocab_size)
    steps = family.num_steps(options)
    batches = Batches(places, options.batch_tokens, options.labels, steps, family.READS_HIDDEN)
    run = Run(family.make(target, vocabulary, options), options)
    train(
        run,
        lambda number: batches.epoch(conversations, seed=number),
        lambda: expected_tokens_per_round(run.student, batches, held_out, NUM_DRAFTS, options.device),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m specdemo.train.fit", description=__doc__.splitlines()[0])
    parser.add_argument("family", choices=sorted(FAMILIES))
    parser.add_argument("data", type=Path, help="the folder that collect filled")
    parser.add_argument("run", type=Path, help="where checkpoints, the learning curve and the weights go")
    parser.add_argument("--minutes", type=float, default=40.0, help="of training, evaluation not counted")
    parser.add_argument("--layers", type=int, nargs="+", help="the target's layers to begin with, where several learn")
    parser.add_argument("--start", type=Path, help="a folder of weights to begin with instead")
    parser.add_argument(
        "--unrolled", type=int, default=4, help="eagle3, mtp: steps of training-time test; medusa: heads"
    )
    parser.add_argument("--blocks", type=int, default=2, help="medusa: residual blocks of a head")
    parser.add_argument("--exit-layer", type=int, default=2, help="early-exit: how many layers a draft runs")
    parser.add_argument("--width", type=int, default=768, help="early-exit: of the block behind the exit")
    parser.add_argument("--vocabulary", type=int, default=8192, help="words of the drafter's head")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--batch-tokens", type=int, default=4096, help="tokens of a step, padding included")
    parser.add_argument("--labels", type=int, default=2048, help="places of a step that are learnt from")
    parser.add_argument("--sharpness", type=float, default=1.5, help="power of the target's law in the cross-entropy")
    parser.add_argument("--tv-share", type=float, default=0.5, help="share of the total variation in the loss")
    parser.add_argument("--evaluate-every", type=float, default=120.0, help="seconds of training")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--smoke", action="store_true", help="a few steps on one shard, to see that it runs")
    return parser


if __name__ == "__main__":
    main()
