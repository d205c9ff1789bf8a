"""DFlash and DSpark checkpoints: every published layout, slots, confidence, and drafts that are what was trained."""

from collections.abc import Callable
from pathlib import Path

import pytest

from specdemo.drafters import block, slot_probe
from specdemo.drafters.block import BlockDrafter
from specdemo.drafters.block_formats import load_block
from specdemo.drafters.slot_probe import first_slot_by_probe
from specdemo.errors import ModelError
from specdemo.train.block import BLOCK_SIZE, BlockStudent
from tests.block_students import PROMPT, as_deepspec, as_specforge, as_z_lab, block_student, known, saved
from tests.fakes import VOCAB_SIZE, answer, make_target, plain, rounds_of, run
from tests.students import (
    NUM_TOKENS,
    answer_to,
    change_config,
    change_tensors,
    check_accepted,
    check_sampled,
    config_of,
)


@pytest.fixture(scope="module")
def dspark() -> BlockStudent:
    return block_student("dspark")


@pytest.fixture(scope="module")
def dflash() -> BlockStudent:
    return block_student("dflash")


@pytest.fixture(scope="module")
def z_lab() -> BlockStudent:
    return block_student("z-lab")


@pytest.mark.parametrize("k", [1, 3, 7])
@pytest.mark.parametrize("family", ["dspark", "dflash"])
def test_every_round_accepts_what_the_trained_block_says(
    k: int, family: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    student = request.getfixturevalue(family)
    drafter = load_block(saved(student, tmp_path), make_target())
    assert drafter.name == family
    check_accepted(drafter, PROMPT, student.accepted_lengths(known(), k).tolist(), k, most=k)


LAYOUTS = {"speculators": saved, "DeepSpec": as_deepspec, "SpecForge": as_specforge}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_of_dspark_drafts_the_same(layout: str, dspark: BlockStudent, tmp_path: Path) -> None:
    drafter = load_block(LAYOUTS[layout](dspark, tmp_path), make_target())
    reference = load_block(saved(dspark, tmp_path / "reference"), make_target())
    assert (drafter.name, drafter.weights.first_slot, drafter.note) == ("dspark", 0, "")
    settings = {"num_draft_tokens": BLOCK_SIZE, "max_new_tokens": NUM_TOKENS}
    found, expected = (rounds_of(run(make_target(), made, PROMPT, **settings)) for made in (drafter, reference))
    assert [event.draft_token_ids for event in found] == [event.draft_token_ids for event in expected]
    assert any(event.num_accepted == BLOCK_SIZE for event in found)


def test_a_block_as_z_lab_publishes_it_gives_one_draft_fewer_and_all_are_accepted(
    z_lab: BlockStudent, tmp_path: Path
) -> None:
    drafter = load_block(as_z_lab(z_lab, tmp_path), make_target())
    assert (drafter.name, drafter.weights.first_slot, drafter.note) == ("dflash", 1, "")
    events = rounds_of(run(make_target(), drafter, PROMPT, num_draft_tokens=12, max_new_tokens=NUM_TOKENS))
    assert max(len(event.draft_token_ids) for event in events) == BLOCK_SIZE - 1
    assert any(event.num_accepted == BLOCK_SIZE - 1 for event in events)


@pytest.fixture
def probe_of_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probe with the one text that the students know."""
    monkeypatch.setattr(slot_probe, "known_ids", lambda target: [*PROMPT, *answer_to(PROMPT)])
    monkeypatch.setattr(slot_probe, "_NUM_ANCHORS", NUM_TOKENS - BLOCK_SIZE)


@pytest.mark.usefixtures("probe_of_answer")
def test_the_probe_knows_the_slot_and_doubts_a_config_that_names_another(
    dspark: BlockStudent, z_lab: BlockStudent, tmp_path: Path
) -> None:
    folder = saved(dspark, tmp_path / "a")
    assert first_slot_by_probe(load_block(folder, make_target()), make_target()) == 0
    change_config(folder, sample_from_anchor=False)
    assert "by its weights slot 0" in load_block(folder, make_target()).note
    # An export that leaves it open is read as its weights say.
    change_config(folder, sample_from_anchor=None)
    assert load_block(folder, make_target()).weights.first_slot == 0
    other = saved(z_lab, tmp_path / "b")
    change_config(other, speculators_model_type="dspark", sample_from_anchor=None)
    assert load_block(other, make_target()).weights.first_slot == 1
    change_config(other, sample_from_anchor=True)
    assert "by its weights slot 1" in load_block(other, make_target()).note


def test_a_wrong_slot_is_visibly_worse(dspark: BlockStudent, tmp_path: Path) -> None:
    folder = saved(dspark, tmp_path)
    settings = {"num_draft_tokens": BLOCK_SIZE - 1, "max_new_tokens": NUM_TOKENS}
    right = rounds_of(run(make_target(), load_block(folder, make_target()), PROMPT, **settings))
    change_config(folder, sample_from_anchor=False)
    wrong = rounds_of(run(make_target(), load_block(folder, make_target()), PROMPT, **settings))
    assert sum(e.num_accepted for e in wrong) < sum(e.num_accepted for e in right) / 2


@pytest.mark.parametrize("rule", ["coupled", "rejection", "block"])
@pytest.mark.parametrize("family", ["dspark", "dflash"])
def test_sampled_answers_come_from_honest_laws(
    rule: str, family: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    check_sampled(load_block(saved(request.getfixturevalue(family), tmp_path), make_target()), PROMPT, rule)


@pytest.mark.parametrize("family", ["dspark", "dflash"])
def test_a_prompt_of_one_token_drafts_without_features(
    family: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    drafter = load_block(saved(request.getfixturevalue(family), tmp_path), make_target())
    events = run(make_target(), drafter, (10,), max_new_tokens=12)
    assert answer(events) == plain(make_target(), (10,), max_new_tokens=12)


def test_confidence_decides_how_many_are_drafted(
    dspark: BlockStudent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafter = load_block(saved(dspark, tmp_path), make_target())
    settings = {"num_draft_tokens": BLOCK_SIZE, "max_new_tokens": NUM_TOKENS}

    def drafted() -> float:
        events = run(make_target(), drafter, PROMPT, **settings, evidence=True)
        assert answer(events)[0] == answer_to(PROMPT)
        for event in rounds_of(events):
            assert event.evidence is not None
            chances = [one.origin and one.origin.confidence for one in event.evidence.positions]
            assert all(chance is not None and 0 < chance < 1 for chance in chances)
        return sum(len(event.draft_token_ids) for event in rounds_of(events)) / len(rounds_of(events))

    monkeypatch.setattr(block, "LEAST_SURVIVAL", 0.0)
    whole = drafted()
    monkeypatch.setattr(block, "LEAST_SURVIVAL", 0.5)
    some = drafted()
    monkeypatch.setattr(block, "LEAST_SURVIVAL", 1.1)
    assert drafted() == 0 < some < whole


def with_window(folder: Path, *, size: int, **changes: object) -> BlockDrafter:
    layer = {**config_of(folder)["transformer_layer_config"], "sliding_window": size}
    layer["layer_types"] = ["sliding_attention"] * layer["num_hidden_layers"]
    change_config(folder, transformer_layer_config=layer, **changes)
    return load_block(folder, make_target())


def test_a_window_wider_than_the_text_changes_nothing_and_a_narrow_one_does(
    dflash: BlockStudent, tmp_path: Path
) -> None:
    def drafts(drafter: BlockDrafter) -> list[tuple[int, ...]]:
        settings = {"num_draft_tokens": BLOCK_SIZE, "max_new_tokens": NUM_TOKENS}
        return [event.draft_token_ids for event in rounds_of(run(make_target(), drafter, PROMPT, **settings))]

    folder = saved(dflash, tmp_path)
    whole = drafts(load_block(folder, make_target()))
    assert drafts(with_window(folder, size=200, sliding_window_non_causal=True)) == whole
    assert drafts(with_window(folder, size=2, sliding_window_non_causal=True)) != whole


REFUSED = {
    "no folder": (lambda folder: (folder / "config.json").unlink(), "no config.json"),
    "no JSON": (lambda folder: (folder / "config.json").write_text("{"), "is not JSON"),
    "another network": (lambda folder: change_config(folder, architectures=["DFlash2DraftModel"]), "another network"),
    "a kind that is told by its tensors alone": (
        lambda folder: change_config(folder, speculators_model_type=None, speculators_config=None, architectures=None),
        "does not say",
    ),
    "another algorithm": (lambda folder: change_config(folder, speculators_model_type="eagle3"), "type is eagle3"),
    "no mask token": (lambda folder: change_config(folder, mask_token_id=None), "mask"),
    "a mask token beyond the vocabulary": (
        lambda folder: change_config(folder, mask_token_id=VOCAB_SIZE),
        f"0 to {VOCAB_SIZE - 1}",
    ),
    "a hidden state that is not there": (
        lambda folder: change_config(folder, aux_hidden_state_layer_ids=[0, 1, 3]),
        "0 to 2",
    ),
    "too few hidden states": (lambda folder: change_config(folder, aux_hidden_state_layer_ids=[0, 1]), "384 numbers"),
    "a block of one": (lambda folder: change_config(folder, block_size=1), "at least 2"),
    "a recurrent Markov head": (lambda folder: change_config(folder, markov_head_type="rnn"), "'rnn'"),
    "a missing tensor": (lambda folder: change_tensors(folder, **{"norm.weight": None}), "missing ['norm.weight']"),
    "half a Markov head": (
        lambda folder: change_tensors(folder, **{"markov_head.markov_w2.weight": None}),
        "half of a Markov",
    ),
}


@pytest.mark.parametrize(("damage", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_what_does_not_fit_is_refused_in_a_sentence(
    damage: Callable[[Path], None], sentence: str, dspark: BlockStudent, tmp_path: Path
) -> None:
    folder = saved(dspark, tmp_path)
    damage(folder)
    with pytest.raises(ModelError) as caught:
        load_block(folder, make_target())
    assert sentence in str(caught.value)
