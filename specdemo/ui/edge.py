"""Errors at the edge of the page: what a person did becomes a sentence, never a traceback."""

import html
from collections.abc import Iterator
from contextlib import contextmanager

import gradio as gr

from specdemo.errors import SpecdemoError
from specdemo.limits import LentGPUError
from specdemo.ui.texts import SENTENCES


def page_error(error: SpecdemoError | str, title: str) -> gr.Error:
    """An error for the page, which renders HTML: the sentence may quote what a person typed."""
    return gr.Error(html.escape(str(error)), title=html.escape(title), print_exception=False)


def spoken(error: SpecdemoError, language: str) -> str:
    """The error's sentence, in the page's language where there is one."""
    return error.words(SENTENCES[language]) if isinstance(error, LentGPUError) else str(error)


@contextmanager
def sentences(title: str) -> Iterator[None]:
    """Turn a SpecdemoError inside the block into an error for the page."""
    try:
        yield
    except SpecdemoError as error:
        raise page_error(error, title) from error
