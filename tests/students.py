"""What tests of trained drafters share: text with all that the target knows of it, and folders that are made wrong."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from specdemo.drafters.base import Drafter
from specdemo.train.batches import Batch, Batches, places_of
from specdemo.train.corpus import Conversation
from specdemo.train.teacher import top_candidates
from tests.fakes import VOCAB_SIZE, answer, make_target, plain, rounds_of, run

NUM_TOKENS = 32


def answer_to(prompt: tuple[int, ...]) -> tuple[int, ...]:
    """What the tiny target answers."""
    return plain(make_target(), prompt, max_new_tokens=NUM_TOKENS)[0]


def labelled(prompt: tuple[int, ...], layers: Sequence[int], vocabulary: Tensor, num_steps: int) -> Batch:
    """A prompt and its answer with the target's hidden states and choices, as the training reads it."""
    model, ids = make_target().model, torch.tensor((*prompt, *answer_to(prompt)))
    with torch.no_grad():
        states = model.model(ids[None], output_hidden_states=True).hidden_states
        top_ids, logits = top_candidates(states[-1][0], model.lm_head.weight, 16)
    hidden = torch.stack([states[i][0] for i in layers], 1)
    made = Conversation(ids, len(prompt), 0.0, 0, top_ids, logits.softmax(-1), hidden)
    batch = Batches(places_of(vocabulary, VOCAB_SIZE), 1000, 1000, num_steps, with_hidden=True).make([made], None)
    return Batch(batch.ids, batch.labels, hidden[None])


def learn(student: nn.Module, loss: Callable[[], Tensor], num_steps: int) -> None:
    """Learn a batch by heart; then the weights that learnt are as exact as half precision keeps them."""
    weights = [weight for weight in student.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=3e-3)
    for _ in range(num_steps):
        loss().backward()
        optimizer.step()
        optimizer.zero_grad()
    for weight in weights:
        weight.data = weight.half().float()


def first_choices(batch: Batch) -> Batch:
    """The batch without other choices: who learns it holds no two words so near that eight bits decide between them."""
    batch.labels.probs[..., 1:] = 0.0
    return batch


def learn_first_choices(student: nn.Module, batch: Batch, num_steps: int) -> None:
    """Learn these alone."""
    first = first_choices(batch)
    learn(student, lambda: student.loss(first, 1.5, 0.0), num_steps)


def check_accepted(drafter: Drafter, prompt: tuple[int, ...], accepted_lengths: list[int], k: int, most: int) -> None:
    """Decode greedily: the answer is the target's, and each round accepts what training says of its place.

    `accepted_lengths` of every place, up to K; at the length cap, and where a drafter ends a draft, there are fewer.
    """
    events = run(make_target(), drafter, prompt, num_draft_tokens=k, max_new_tokens=NUM_TOKENS)
    assert answer(events)[0] == answer_to(prompt)
    place = 0
    for event in rounds_of(events):
        assert event.num_accepted == min(accepted_lengths[place], len(event.draft_token_ids))
        place += len(event.emitted_token_ids)
    num_whole = sum(accepted == most for accepted in accepted_lengths)
    assert num_whole > NUM_TOKENS // 4, "what it knows by heart is accepted"


def check_sampled(drafter: Drafter, prompt: tuple[int, ...], rule: str) -> None:
    """A sampled answer has its length, and under `coupled` plain sampling's ids."""
    settings = {"temperature": 1.0, "rule": rule, "max_new_tokens": 24, "seed": 3}
    found, reason = answer(run(make_target(), drafter, prompt, **settings))
    assert (len(found), reason) == (24, "length")
    if rule == "coupled":
        assert found == plain(make_target(), prompt, **settings)[0]


def config_of(folder: Path) -> dict:
    return json.loads((folder / "config.json").read_text())


def change_config(folder: Path, **changes: object) -> None:
    """Rewrite the configuration; None takes a key away."""
    values = {**config_of(folder), **changes}
    (folder / "config.json").write_text(json.dumps({k: v for k, v in values.items() if v is not None}))


def read_tensors(folder: Path) -> dict[str, Tensor]:
    return {k: v for path in folder.glob("*.safetensors") for k, v in load_file(path).items()}


def write_tensors(folder: Path, tensors: dict[str, Tensor]) -> None:
    """In one file, in place of all others."""
    for path in folder.glob("*.safetensors"):
        path.unlink()
    save_file(tensors, folder / "model.safetensors")


def change_tensors(folder: Path, **changes: Tensor | None) -> None:
    """None takes a tensor away."""
    merged = {**read_tensors(folder), **changes}
    write_tensors(folder, {k: v for k, v in merged.items() if v is not None})
