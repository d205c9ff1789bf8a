"""What each drafter family does at its edges: vocabularies, contexts, settings, and the law of what it proposes."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from torch import Tensor

from specdemo.catalog import read_note
from specdemo.drafters import make_drafter
from specdemo.drafters.autoregressive import AutoregressiveDrafter
from specdemo.drafters.base import Drafter
from specdemo.drafters.early_exit import EarlyExitDrafter
from specdemo.drafters.hybrid import HybridDrafter
from specdemo.errors import ModelError, SettingsError, SpecdemoError
from specdemo.events import Finished
from specdemo.sampling import Sampler
from specdemo.settings import DecodeSettings
from specdemo.target import Target
from tests.fakes import (
    VOCAB_SIZE,
    answer,
    draws_from,
    guesses,
    make_model,
    make_target,
    make_tokenizer,
    plain,
    rounds_of,
    run,
    wrap,
)

PROMPT = [5, 9, 7, 5, 9, 7, 5, 9]


def save(folder: Path, tokens: tuple[str, ...] = (), *, renamed: dict[str, str] | None = None, size: int = 0) -> str:
    """A draft model with the tokenizer's tokens behind the bytes, some of them under another name."""
    tokenizer = make_tokenizer(tokens)
    make_model("llama", 0, vocab_size=size or len(tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    file = folder / "tokenizer.json"
    text = file.read_text(encoding="utf-8")
    for old, new in (renamed or {}).items():
        assert f'"{old}": ' in text
        text = text.replace(f'"{old}": ', f'"{new}": ')
    file.write_text(text, encoding="utf-8")
    return f"draft-model:{folder}"


def test_a_vocabulary_of_the_same_size_with_other_strings_is_refused_with_both(tmp_path: Path) -> None:
    spec = save(tmp_path, renamed={"a": "\u4f60"})
    index = make_tokenizer().convert_tokens_to_ids("a")
    with pytest.raises(ModelError) as caught:
        make_drafter(spec, make_target())
    assert f"id {index} is '\u4f60' there and 'a' here" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("size", [0, 320, VOCAB_SIZE], ids=["fitting", "padded", "short"])
def test_one_more_token_is_allowed_and_never_drafted(tmp_path: Path, size: int) -> None:
    """Also where the head has rows for no token at all, or none for the added one."""
    target = make_target()
    drafter = make_drafter(save(tmp_path, ("<extra>",), size=size), target)
    expected = plain(target, PROMPT, max_new_tokens=30)
    events = run(target, drafter, PROMPT, max_new_tokens=30)
    assert answer(events) == expected
    assert all(token_id < VOCAB_SIZE for event in rounds_of(events) for token_id in event.draft_token_ids)
    sampled = run(target, drafter, PROMPT, max_new_tokens=30, temperature=1.5)
    assert all(token_id < VOCAB_SIZE for event in rounds_of(sampled) for token_id in event.draft_token_ids)


def test_a_target_with_more_tokens_reads_those_the_drafter_lacks(tmp_path: Path) -> None:
    target = wrap(make_model("llama", 0, vocab_size=VOCAB_SIZE + 5))
    drafter = make_drafter(save(tmp_path), target)
    prompt = [VOCAB_SIZE + 2, 9, VOCAB_SIZE + 4, 5]
    assert answer(run(target, drafter, prompt, max_new_tokens=30)) == plain(target, prompt, max_new_tokens=30)


@pytest.mark.parametrize("context", [10, 14, 20])
def test_where_the_drafters_context_ends_decoding_goes_on_without_it_and_says_so(context: int) -> None:
    target = make_target("llama", 0, 16)
    lm = wrap(make_model("llama", 0, vocab_size=16, max_position_embeddings=context)).lm
    events = run(target, AutoregressiveDrafter("draft", lm, 0), PROMPT, num_draft_tokens=4, max_new_tokens=30)
    assert answer(events) == plain(target, PROMPT, max_new_tokens=30)
    last = events[-1]
    assert isinstance(last, Finished)
    assert read_note(last.message) == ("note_context_full", {"limit": str(context)})
    rounds = rounds_of(events)
    assert rounds[0].draft_token_ids
    assert {event.next_token_kind for event in rounds[-5:]} == {"plain"}


def test_a_prompt_beyond_the_drafters_context_is_never_read_by_it() -> None:
    target = make_target("llama", 0, 16)
    lm = wrap(make_model("llama", 0, vocab_size=16, max_position_embeddings=4)).lm
    events = run(target, AutoregressiveDrafter("draft", lm, 0), PROMPT, max_new_tokens=10)
    assert answer(events) == plain(target, PROMPT, max_new_tokens=10)
    assert {event.next_token_kind for event in rounds_of(events)} == {"plain"}
    assert sum(event.draft_bytes for event in rounds_of(events)) == 0


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("nonsense", "must be one of none, ngram, ngram:static"),
        ("ngram:3", "must be MIN-MAX"),
        ("ngram:hash", "or static, code, hashed or map"),
        ("ngram:map:3", "or static, code, hashed or map"),
        ("ngram:5-2", "1 <= min <= max <= 16"),
        ("early-exit:0", "from 1 to 2"),
        ("early-exit:3", "from 1 to 2"),
        ("early-exit:./no/such/folder", "there is no folder ./no/such/folder"),
        ("draft-model", "name one: draft-model:FOLDER"),
        ("draft-model:./no/such/folder", "there is no folder"),
        ("hybrid:" * 3000, "is a hybrid; name another"),
        ("ngram:static", "choose another drafter"),
        ("hybrid:nonsense", "must be one of none, ngram, ngram:static"),
        ("eagle3", "name one: eagle3:FOLDER"),
        ("eagle3:./no/such/folder", "there is no folder"),
        ("medusa", "name one: medusa:FOLDER"),
        ("medusa:./no/such/folder", "there is no folder"),
        ("mtp", "name one: mtp:FOLDER"),
        ("mtp:./no/such/folder", "there is no folder"),
        ("dspark", "name one: dspark:FOLDER"),
        ("dspark:./no/such/folder", "there is no folder"),
        ("./no/such/folder", "there is no folder"),
        ("dflash", "name one: dflash:FOLDER"),
        ("universal", "name one: universal:FOLDER"),
    ],
)
def test_a_drafter_that_cannot_be_made_says_so_in_a_sentence(spec: str, message: str) -> None:
    with pytest.raises(SpecdemoError) as caught:
        make_drafter(spec, make_target())
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_early_exit_needs_a_target_whose_layers_can_run_alone() -> None:
    with pytest.raises(ModelError, match="Llama architecture"):
        EarlyExitDrafter(make_target("mistral").lm)


def test_a_draft_model_whose_cache_cannot_be_shortened_is_refused(tmp_path: Path) -> None:
    make_model("mamba").save_pretrained(tmp_path)
    make_tokenizer().save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="cannot be shortened"):
        make_drafter(f"draft-model:{tmp_path}", make_target())


@pytest.mark.parametrize("spec", ["ngram:1-2", "quantized", "early-exit:1", "other"])
def test_every_run_of_one_drafter_is_as_the_first(small_target: Target, folders: dict[str, Path], spec: str) -> None:
    """What one generation leaves behind, its K or its settings, must not reach the next."""
    drafter = make_drafter(f"draft-model:{folders[spec]}" if spec in folders else spec, small_target)

    def say(**settings: object) -> list[tuple[int, ...]]:
        events = run(small_target, drafter, PROMPT, max_new_tokens=24, **settings)
        return [event.draft_token_ids for event in rounds_of(events)]

    first = say(num_draft_tokens=3)
    assert max(map(len, first)) <= 3
    say(num_draft_tokens=10, schedule="adaptive")
    say(num_draft_tokens=2, temperature=1.0, repetition_penalty=1.5, stop=("!",))
    assert say(num_draft_tokens=3) == first


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_two_tokens_follow_the_targets_joint_law_with_a_stochastic_drafter(rule: str) -> None:
    """Chi-square over fixed seeds, on a model with top-k and a penalty; the drafter is another one."""
    target, other = (wrap(make_model("llama", seed, vocab_size=4, num_hidden_layers=1)) for seed in (0, 1))
    chosen = {"temperature": 1.5, "top_k": 3, "repetition_penalty": 1.2}
    assert_law_is_the_targets(target, AutoregressiveDrafter("draft", other.lm, 0), rule, chosen)


def test_two_tokens_follow_the_targets_joint_law_with_scripted_draws() -> None:
    rows = torch.tensor([[0.6, 0.1, 0.2, 0.1], [0.1, 0.3, 0.1, 0.5]])

    def law(prefix: list[int]) -> Tensor:
        return rows[sum(prefix) % 2]

    target = wrap(make_model("llama", 2, vocab_size=4, num_hidden_layers=1))
    assert_law_is_the_targets(target, draws_from(law), "block", {"temperature": 1.0})


def assert_law_is_the_targets(target: Target, drafter: Drafter, rule: str, chosen: dict[str, float]) -> None:
    prompt, num_seeds = [3, 1, 2], 1500
    counts: dict[tuple[int, ...], int] = {}
    for seed in range(num_seeds):
        # Three tokens, so that the second often comes from a round behind one that threw drafts away.
        events = run(target, drafter, prompt, rule=rule, seed=seed, max_new_tokens=3, num_draft_tokens=2, **chosen)
        tokens = answer(events)[0][:2]
        counts[tokens] = counts.get(tokens, 0) + 1
    expected = exact_joint(target, prompt, DecodeSettings(**chosen))  # type: ignore[arg-type]
    assert set(counts) <= set(expected)
    statistic = sum(
        (counts.get(key, 0) - share * num_seeds) ** 2 / (share * num_seeds) for key, share in expected.items()
    )
    freedom = len(expected) - 1
    assert statistic < freedom + 4 * (2 * freedom) ** 0.5, f"{statistic:.1f} for {freedom} degrees of freedom"


def exact_joint(target: Target, prompt: list[int], settings: DecodeSettings) -> dict[tuple[int, ...], float]:
    """The law of the first two tokens, from transformers' own pass and the definition of each setting."""
    first = next_law(target, prompt, settings)
    total: dict[tuple[int, ...], float] = {}
    for one, share in enumerate(first.tolist()):
        for two, then in enumerate(next_law(target, [*prompt, one], settings).tolist()):
            if share * then > 0.0:
                total[one, two] = share * then
    assert sum(total.values()) == pytest.approx(1.0)
    return total


@torch.inference_mode()
def next_law(target: Target, prefix: list[int], settings: DecodeSettings) -> Tensor:
    scores = target.model(torch.tensor([prefix])).logits[0, -1]
    seen = torch.tensor(sorted(set(prefix)))
    penalty = settings.repetition_penalty
    scores[seen] = torch.where(scores[seen] < 0, scores[seen] * penalty, scores[seen] / penalty)
    scores = scores / settings.temperature
    if settings.top_k:
        scores[scores < scores.topk(settings.top_k).values[-1]] = float("-inf")
    return scores.softmax(-1)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_draft_tokens": 0}, "K is 0"),
        ({"num_draft_tokens": 17}, "K is 17"),
        ({"temperature": 1e-6}, "Use 0 for greedy"),
        ({"rule": "magic"}, "must be one of auto"),
        ({"stop": ("\ud83d",)}, "half a character"),
    ],
)
def test_settings_that_no_generation_can_have_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        DecodeSettings(**values)  # type: ignore[arg-type]


def test_the_drafter_that_the_readme_adds_is_lossless_and_sometimes_right() -> None:
    """With the code as it is printed there."""
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    (source,) = (block for block in re.findall(r"```python\n(.*?)```", readme, re.DOTALL) if "EchoDrafter" in block)
    names: dict[str, Any] = {}
    exec(source, names)
    target = wrap(make_model("llama", 0, vocab_size=4))
    prompt = [1, 2, 3, 1]
    events = run(target, names["EchoDrafter"](), prompt, max_new_tokens=60)
    assert answer(events) == plain(target, prompt, max_new_tokens=60)
    assert sum(event.num_accepted for event in rounds_of(events)) > 0


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40))
@hypothesis_settings(max_examples=30, deadline=None)
def test_hybrid_copies_where_there_is_a_match_and_asks_the_model_elsewhere(prompt: list[int]) -> None:
    target = make_target("llama", 0, 4)
    model = guesses(1, plain(target, prompt, max_new_tokens=60)[0], len(prompt), 4)
    drafter = HybridDrafter(model)
    events = run(target, drafter, prompt, num_draft_tokens=4, max_new_tokens=60)
    assert answer(events) == plain(target, prompt, max_new_tokens=60)
    ids = list(prompt)
    for event in rounds_of(events):
        copies = drafter.ngram.open(target.open().session, ids, Sampler(DecodeSettings(), 4)).propose(4).token_ids
        wanted = len(event.draft_token_ids)
        assert event.draft_token_ids[:wanted] == copies[:wanted] or not copies
        ids += event.emitted_token_ids
