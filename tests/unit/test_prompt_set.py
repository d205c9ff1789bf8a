"""The shipped prompts of a sweep, and what is read from a person's own file."""

import json
import re
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdemo.errors import PromptError
from specdemo.prompt_set import (
    CATEGORIES,
    MAX_FILE_BYTES,
    MAX_PROMPTS,
    OWN_CATEGORY,
    OWN_LANGUAGE,
    SweepPrompt,
    load_prompt_set,
    parse_prompts,
    read_prompt_file,
)
from specdemo.prompts import load_prompts

ROOT = Path(__file__).resolve().parents[2]
PER_LANGUAGE = {"en": 8, "zh": 4}
# Two prompts with this share of words in common, or a larger one, would be one prompt in other words.
NEARLY_EQUAL = 0.4
HAN = re.compile(r"[\u4e00-\u9fff]")
PROMPTS = load_prompt_set()


def words(text: str) -> frozenset[str]:
    """Lower-case words, and each Chinese character with the one behind it."""
    plain = re.sub(r"[^\w]+", " ", text.lower())
    han = HAN.findall(plain)
    return frozenset(HAN.sub(" ", plain).split()) | {a + b for a, b in zip(han, han[1:], strict=False)}


def share_in_common(one: str, other: str) -> float:
    """Jaccard's index of the two sets of words, 0 to 1."""
    mine, others = words(one), words(other)
    return len(mine & others) / max(len(mine | others), 1)


def known_texts() -> list[str]:
    """What training or another measurement reads: held-out prompts, examples, and how training's prompts begin."""
    train = ROOT / "specdemo" / "train"
    held_out = [entry["prompt"] for entry in json.loads((train / "held_out.json").read_text())["prompts"]]
    openings = json.loads((train / "openings.json").read_text())["openings"]
    starts = [re.sub(r"\{\w+\}", " ", text) for texts in openings.values() for text in texts]
    return [*held_out, *(example.prompt for example in load_prompts()), *starts]


def passage(prompt: str) -> str:
    """What stands below the first blank line: the text to work on."""
    return prompt.split("\n\n", 1)[1]


def test_there_are_eight_english_and_four_chinese_prompts_of_each_category() -> None:
    found = Counter((entry.category, entry.language) for entry in PROMPTS)
    assert found == {(c, language): n for c in CATEGORIES for language, n in PER_LANGUAGE.items()}
    assert list(dict.fromkeys(entry.category for entry in PROMPTS)) == list(CATEGORIES)


def test_prompts_are_in_the_language_they_say() -> None:
    for entry in PROMPTS:
        share = len(HAN.findall(entry.prompt)) / len(re.sub(r"\s", "", entry.prompt))
        assert share > 0.3 if entry.language == "zh" else share == 0, entry.prompt


def test_summaries_and_rewrites_bring_a_short_text() -> None:
    for entry in PROMPTS:
        if entry.category in ("summary", "rewrite"):
            text = passage(entry.prompt)
            length = len(text.split()) if entry.language == "en" else len(text)
            low, high = (60, 120) if entry.language == "en" else (90, 200)
            assert low <= length <= high, entry.prompt


def test_no_prompt_is_nearly_one_that_training_or_another_measurement_reads() -> None:
    known = known_texts()
    closest = {entry.prompt: max(share_in_common(entry.prompt, text) for text in known) for entry in PROMPTS}
    assert not {prompt: share for prompt, share in closest.items() if share >= NEARLY_EQUAL}
    # The measure sees what it has to: a known prompt, one that lost a word, and other letters and marks.
    first = known[2]
    for changed in (first, first.rsplit(" ", 1)[0], first.upper() + "!"):
        assert max(share_in_common(changed, text) for text in known) > NEARLY_EQUAL


def test_no_two_prompts_of_the_set_are_nearly_equal() -> None:
    shares = {(a.prompt, b.prompt): share_in_common(a.prompt, b.prompt) for a, b in combinations(PROMPTS, 2)}
    assert not {pair: share for pair, share in shares.items() if share >= NEARLY_EQUAL}


LABELS = st.text("abcXYZ-\u4e2d", min_size=1, max_size=12).filter(lambda text: bool(text.strip()))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60).filter(
    lambda text: bool(text.strip())
)
ENTRIES = st.lists(st.builds(SweepPrompt, LABELS, LABELS, TEXTS), min_size=1, max_size=6)


@given(ENTRIES, st.sampled_from(["list", "lines"]), st.booleans(), st.sampled_from(["mine.json", "mine.jsonl", "mine"]))
def test_prompts_written_as_json_are_read_back(
    entries: list[SweepPrompt], form: str, is_ascii: bool, name: str
) -> None:
    objects = [{"language": e.language, "id": 3, "prompt": e.prompt, "category": e.category} for e in entries]
    lines = [json.dumps(one, ensure_ascii=is_ascii) for one in objects]
    text = f"[{','.join(lines)}]" if form == "list" else "\n \r\n".join(lines) + "\n"
    assert list(parse_prompts(text, name)) == entries


@given(st.lists(st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), max_size=30), max_size=8))
def test_plain_lines_are_prompts_and_blank_ones_are_not(lines: list[str]) -> None:
    expected = [line.strip() for line in lines if line.strip()]
    if expected:
        found = parse_prompts("\r\n".join(lines), "mine.txt")
        assert found == tuple(SweepPrompt(OWN_CATEGORY, OWN_LANGUAGE, line) for line in expected)
    else:
        with pytest.raises(PromptError, match="holds no prompt"):
            parse_prompts("\n".join(lines), "mine.txt")


@given(st.text(max_size=80), st.sampled_from(["a.txt", "a.json", "a.jsonl", "a"]))
def test_any_text_gives_prompts_or_one_sentence(text: str, name: str) -> None:
    try:
        found = parse_prompts(text, name)
    except PromptError as error:
        said = str(error)
        assert said.startswith(name)
        assert said.endswith(".")
    else:
        assert found


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("", "a", "holds no prompt"),
        ("[]", "a", "holds no prompt"),
        ("[1]", "a", 'a, prompt 1, has no text under "prompt"'),
        ('{"prompt": "x"}\n{"category": "y"}', "a", 'a, line 2, has no text under "prompt"'),
        ('{"prompt": " "}', "a", "a, line 1: the prompt is empty"),
        ('{"prompt": "x"}\n\n{"prompt": ', "a", "a, line 3, is not valid JSON"),
        ('[{"prompt": "x"},\n{"prompt" "y"}]', "a", r"a is not valid JSON \(line 2\)"),
        ("[" * 100_000, "a", "not valid JSON"),
        ("one line", "a.json", "not valid JSON"),
        ('[{"prompt": "x", "category": 3}]', "a", "the category is '3'"),
        ('[{"prompt": "x", "language": ""}]', "a", "the language is ''"),
        ("x\n" * (MAX_PROMPTS + 1), "a", "501 prompts; at most 500"),
    ],
)
def test_bad_files_are_answered_with_one_sentence(text: str, name: str, said: str) -> None:
    with pytest.raises(PromptError, match=said) as raised:
        parse_prompts(text, name)
    assert "\n" not in str(raised.value)
    assert str(raised.value).endswith(".")


def test_files_that_cannot_be_read_are_answered_with_one_sentence(tmp_path: Path) -> None:
    for name, content, said in (
        ("utf16", "hello".encode("utf-16"), "not text in UTF-8"),
        ("large", b"x" * (MAX_FILE_BYTES + 1), "2,000,000 bytes"),
        ("missing", None, "cannot be read"),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        with pytest.raises(PromptError, match=said):
            read_prompt_file(tmp_path / name)
    with pytest.raises(PromptError, match="cannot be read"):
        read_prompt_file(tmp_path)


def test_an_editors_signature_is_not_part_of_the_first_prompt(tmp_path: Path) -> None:
    path = tmp_path / "mine"
    path.write_bytes(b"\xef\xbb\xbf[INST] is no JSON here")
    with pytest.raises(PromptError, match=r"\.txt file"):
        read_prompt_file(path)
    path = path.rename(tmp_path / "mine.txt")
    assert [entry.prompt for entry in read_prompt_file(path)] == ["[INST] is no JSON here"]
