"""What a terminal shows.

Coloured tokens, a summary, a table, progress bars. Colours only where stdout is a terminal.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from specdemo.events import Finished
from specdemo.race import LANES, LaneUpdate
from specdemo.reports import lane_document, race_document
from specdemo.spans import Span

_STYLES = {
    "accepted": "cyan",
    "rejected": "strike red",
    "discarded": "strike dim red",
    "corrected": "underline yellow",
    "bonus": "bold magenta",
    "plain": "",
    "unused": "dim",
}
_SHOWN_WITHOUT_COLOUR = {"accepted", "corrected", "bonus", "plain"}


class Show:
    """Prints one generation or race as it happens."""

    def __init__(self, *, is_quiet: bool = False, is_race: bool = False) -> None:
        # A pipe has no width of its own, and a table must not be cut for it.
        self._console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 200)
        self._is_quiet = is_quiet
        self._is_race = is_race
        self._held: Span | None = None  # the newest token, until it is known not to be the end-of-text one

    def update(self, update: LaneUpdate) -> None:
        """Print the tokens of one round; of a race only the speculative lane, which holds all that can be seen."""
        if self._is_quiet or (self._is_race and update.lane == "plain"):
            return
        is_end = isinstance(update.event, Finished) and update.event.reason == "eos"
        if self._held is not None and not is_end:
            self._print_span(self._held)
        self._held = update.spans[-1] if update.spans else None
        for span in update.spans[:-1]:
            self._print_span(span)
        if isinstance(update.event, Finished):
            if self._held is not None:
                self._print_span(self._held)
            self._console.print()

    def finish(self, updates: Sequence[LaneUpdate]) -> None:
        """Print the figures of the whole."""
        if self._is_quiet:
            return
        document = race_document(updates) if self._is_race else lane_document(updates)
        lines = _race_lines(document) if self._is_race else [_lane_line("", document)]
        for line in lines:
            self._console.print(line, style="dim" if self._console.is_terminal else None, markup=False)

    def table(self, document: dict[str, Any]) -> None:
        """Print the rows of a bench document."""
        table = Table(title=document["title"], caption=document["caption"])
        for name in document["columns"]:
            table.add_column(name, justify="left" if name in ("drafter", "rule", "what") else "right")
        for row in document["rows"]:
            table.add_row(*(_cell(row.get(name)) for name in document["columns"]))
        self._console.print(table)

    def track(self, items: Sequence[Any], text: str) -> Iterator[Any]:
        """The items, with a progress bar on stderr."""
        with _progress() as bar:
            task = bar.add_task(text, total=len(items))
            for item in items:
                yield item
                bar.advance(task)

    def _print_span(self, span: Span) -> None:
        if not self._console.is_terminal:
            if span.status in _SHOWN_WITHOUT_COLOUR:
                self._console.file.write(span.text)
            return
        text = f"{span.text}*" if span.status == "bonus" else span.text
        self._console.print(Text(text, style=_STYLES[span.status]), end="")


@contextmanager
def loading_bar() -> Iterator[Any]:
    """A progress bar on stderr, as a function of a sentence and a share 0..1 (None: unknown)."""
    with _progress() as bar:
        task = bar.add_task("Starting.", total=None)

        def report(message: str, share: float | None) -> None:
            bar.update(task, description=message, completed=share or 0.0, total=None if share is None else 1.0)

        yield report


def _progress() -> Progress:
    columns = TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()
    console = Console(file=sys.stderr)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def _race_lines(document: dict[str, Any]) -> list[str]:
    speedup = document["speedup"]
    same = (
        "same text in both lanes"
        if document["identical"]
        else f"first difference at token {document['first_divergence']}"
    )
    lines = [_lane_line(f"{lane}: ", document[lane]) for lane in LANES]
    return [*lines, f"speedup {_cell(speedup)}, {same}"]


def _lane_line(name: str, document: dict[str, Any]) -> str:
    metrics = document["metrics"]
    return (
        f"{name}{metrics['num_tokens']} tokens ({document['finish_reason']}), "
        f"{_cell(metrics['tokens_per_second'])} tokens/s, "
        f"{_cell(metrics['target_passes'])} target passes, {_cell(metrics['tokens_per_round'])} tokens per round, "
        f"acceptance rate {_cell(metrics['acceptance_rate'])}, alpha {_cell(metrics['alpha'])}"
    )


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
