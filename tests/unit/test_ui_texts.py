"""The page's texts: every language says the same, and which one a browser gets."""

import re

import pytest

from specdemo.catalog import DRAFTER_LABELS
from specdemo.ui.recorded import RecordedRaces
from specdemo.ui.texts import DRAFTERS, LABELS, SENTENCES, drafter_names, language_of, race_labels
from specdemo.ui.view import ASSETS
from specdemo.ui.view_texts import VIEW
from tests.fakes_ui import Visit


@pytest.mark.parametrize("language", ["zh", "zh-TW"])
@pytest.mark.parametrize("texts", [LABELS, SENTENCES, VIEW], ids=["labels", "sentences", "view"])
def test_all_languages_say_the_same_with_the_same_gaps(texts: dict[str, dict[str, str]], language: str) -> None:
    assert texts["en"].keys() == texts[language].keys()
    for key, english in texts["en"].items():
        gaps = [{part.split("}")[0] for part in text.split("{")[1:]} for text in (english, texts[language][key])]
        assert gaps[0] == gaps[1], key


@pytest.mark.parametrize("language", ["zh", "zh-TW"])
def test_every_drafter_has_a_name_in_every_language(language: str) -> None:
    assert DRAFTERS[language].keys() == DRAFTER_LABELS.keys()


@pytest.mark.parametrize("language", ["en", "zh", "zh-TW"])
def test_every_line_of_a_drafter_begins_with_a_short_name_of_its_own(language: str) -> None:
    lines, names = DRAFTERS.get(language, DRAFTER_LABELS), drafter_names(language)
    for name, line in lines.items():
        assert re.fullmatch(r"[^:\uff1a]{1,20}(: |\uff1a)\S.+", line), f"{name} needs a line `SHORT NAME: what it does`"
        assert line.startswith(names[name])
    assert len(set(names.values())) == len(names)


@pytest.mark.parametrize("language", ["en", "zh", "zh-TW"])
def test_every_recorded_race_that_ships_has_its_label_in_every_language(language: str) -> None:
    labels = race_labels(language)
    shipped = {label for label, _ in RecordedRaces(ASSETS / "traces").choices}
    assert shipped <= labels.keys()
    if language != "en":
        assert all(not label.isascii() for label in labels.values())


def test_traditional_chinese_holds_no_simplified_characters() -> None:
    only_simplified = set("\u8bcd\u8fd9\u4e2a\u65f6\u5f00\u8d5b\u7801\u8f93\u53d1\u4e3a\u8bf7\u8fd8\u6ca1\u9898\u95ed")
    for texts in (LABELS, SENTENCES, VIEW, DRAFTERS, {"zh-TW": race_labels("zh-TW")}):
        assert not only_simplified & set("".join(texts["zh-TW"].values()))


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("zh-CN,zh;q=0.9", "zh"),
        ("zh-TW", "zh-TW"),
        ("zh-Hant-HK,en", "zh-TW"),
        ("zh-HK;q=1", "zh-TW"),
        ("zh", "zh"),
        ("de", "en"),
        ("", "en"),
    ],
)
def test_the_language_is_the_browsers_first(header: str, language: str) -> None:
    assert language_of(Visit(header)) == language  # type: ignore[arg-type]
