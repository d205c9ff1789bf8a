"""The prompts of an advice or a sweep: a person's own, typed or from a file, or those of the shipped set."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gradio as gr

from specdemo.errors import SettingsError
from specdemo.prompt_set import CATEGORIES, SweepPrompt, load_prompt_set, parse_prompts, read_prompt_file
from specdemo.ui.edge import sentences
from specdemo.ui.form import check_prompt
from specdemo.ui.texts import language_of
from specdemo.ui.texts_tune import TUNE

_t = gr.I18n()
_LANGUAGES = ("en", "zh")


def prompt_fields(section: str) -> dict[str, Any]:
    """The boxes in which a person gives or chooses prompts; `section` makes their names on the page."""
    own = gr.Textbox(
        "",
        label=_t("own_prompts"),
        info=_t("own_prompts_info"),
        placeholder=_t("own_prompts_placeholder"),
        lines=2,
        max_lines=6,
        elem_id=f"{section}-own",
    )
    label: Any = _t("from_file")
    file = gr.UploadButton(label, file_types=[".txt", ".json", ".jsonl"], size="sm", elem_id=f"{section}-file")
    file.upload(
        read_file, file, own, queue=True, concurrency_limit=None, show_progress="hidden", api_visibility="private"
    )
    with gr.Row():
        categories = gr.CheckboxGroup(
            [(_t(f"kind_{category}"), category) for category in CATEGORIES],
            value=list(CATEGORIES),
            label=_t("kinds"),
            min_width=300,
            elem_id=f"{section}-categories",
        )
        languages = gr.CheckboxGroup(
            [(_t(f"language_{language}"), language) for language in _LANGUAGES],
            value=["en"],
            label=_t("languages"),
            elem_id=f"{section}-languages",
            scale=0,
            min_width=190,
        )
    return {"own": own, "categories": categories, "languages": languages}


def read_file(path: str, request: gr.Request) -> str:
    """A file's prompts as the text of the box, which reads the same prompts from it."""
    with sentences(TUNE[language_of(request)]["no_file"]):
        prompts = read_prompt_file(path)
        if Path(path).suffix.lower() == ".txt" and prompts[0].prompt[:1] not in "[{":
            return "\n".join(one.prompt for one in prompts)
        keys = ("category", "language", "prompt")
        lines = [json.dumps({key: getattr(one, key) for key in keys}, ensure_ascii=False) for one in prompts]
        return "\n".join(lines)


def own_prompts(text: str | None, language: str) -> tuple[SweepPrompt, ...]:
    """The prompts of the box, none where it is blank: one per line, or JSON as in a file."""
    if not (text or "").strip():
        return ()
    prompts = parse_prompts(text or "", TUNE[language]["the_box"])
    for one in prompts:
        check_prompt(one.prompt, language)
    return prompts


def chosen_prompts(
    language: str, categories: Sequence[str] | None, languages: Sequence[str] | None, most: int | None = None
) -> tuple[SweepPrompt, ...]:
    """At most `most` prompts of each category and language, in turn: any number from the front is a fair sample.

    Raises SettingsError of none.
    """
    shipped = load_prompt_set()
    kinds = [(category, spoken) for category in categories or () for spoken in languages or ()]
    of_kind = [[one for one in shipped if (one.category, one.language) == kind][:most] for kind in kinds]
    longest = max(map(len, of_kind), default=0)
    found = tuple(prompts[turn] for turn in range(longest) for prompts in of_kind if turn < len(prompts))
    if not found:
        raise SettingsError(TUNE[language]["no_prompts"])
    return found
