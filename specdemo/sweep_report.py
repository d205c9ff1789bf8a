"""A sweep for other people: one JSON document, a CSV table and a Markdown report, with what every column means.

Pure; knows no model.
"""

import csv
import io
from collections.abc import Sequence
from typing import Any

from specdemo.points import Point, points, points_by_category
from specdemo.sweeps import HeatResult, SweepRequest

COLUMNS = (
    "drafter", "k", "temperature", "rule", "speedup", "low", "high", "tokens_per_round", "acceptance_rate", "alpha",
    "plain_tokens_per_second", "tokens_per_second", "draft_share", "overhead_share", "identical",
)  # fmt: skip
CAPTION = (
    "speedup: decode speed over our own plain lane, geometric mean over the prompts; "
    "low, high: the worst and best prompt; "
    "identical: prompts whose ids equal plain decoding's"
)
DEFINITIONS = {
    "speedup": "decode speed over the plain lane of the same heat, geometric mean over the prompts; prefill is apart",
    "interval": "where that mean lies for other prompts of this kind, 19 times of 20 (Student's t on logarithms)",
    "low": "the speedup of the worst prompt",
    "high": "the speedup of the best prompt",
    "tokens_per_round": "tokens emitted by a pass of the target, the corrected or bonus token included",
    "expected_tokens_per_round": "(1 - alpha^(K+1)) / (1 - alpha), which takes acceptances for independent",
    "predicted_speedup": "that over the measured cost of a round in which all K drafts were made",
    "acceptance_rate": "accepted / (drafted - unused), as vLLM and llama.cpp count",
    "alpha": "accepted / judged, where the drafts behind the one that failed were not judged",
    "correlation": "of a judged draft with the next judged one of the text; independent ones would give 0",
    "acceptance_by_position": "of the drafts judged at each position of a round, the share that was accepted",
    "survival_by_position": "of the drafts made at each position, the share that was accepted, reached or not",
    "draft_cost": "seconds of K drafts over those of a plain round, medians",
    "verify_cost": "seconds of the pass over K + 1 tokens over those of a plain round, medians",
    "draft_share": "of the decode time, what drafting took",
    "overhead_share": "of the decode time, what processors, noise, acceptance and events took",
    "seconds_to_first_token": "prefill of target and drafter and the first round, mean; plain_: of plain decoding",
    "drafted_in_vain": "drafts that were not accepted, for a hundred tokens of the answer",
    "target_passes": "passes of the target for a hundred tokens of the answer; plain decoding needs a hundred",
    "identical": "prompts whose token ids equal plain decoding's, of all; under rejection and block they may differ",
}
_REPORTED = (
    "drafter", "k", "temperature", "speedup", "interval", "low", "high", "tokens_per_round",
    "expected_tokens_per_round", "alpha", "acceptance_rate", "draft_cost", "verify_cost", "target_passes",
    "drafted_in_vain", "identical",
)  # fmt: skip
_BY_CATEGORY = (
    "category", "language", "drafter", "k", "temperature", "num_prompts", "speedup", "tokens_per_round", "alpha",
    "acceptance_rate",
)  # fmt: skip


def sweep_document(request: SweepRequest, results: Sequence[HeatResult], provenance: dict[str, Any]) -> dict[str, Any]:
    """All of it as plain JSON: points, points by category and language, provenance and definitions."""
    return {
        "title": f"{provenance['target']}, {len(request.prompts)} prompts",
        "caption": CAPTION,
        "columns": list(COLUMNS),
        "prompts": [
            {"category": prompt.category, "language": prompt.language, "prompt": prompt.prompt}
            for prompt in request.prompts
        ],
        "max_new_tokens": request.max_new_tokens,
        "num_heats": len(results),
        "num_all_heats": len(request.heats()),
        "rows": [point_row(point) for point in points(request, results)],
        "by_category": [
            {"category": one.category, "language": one.language, **point_row(one.point)}
            for one in points_by_category(request, results)
        ],
        "definitions": DEFINITIONS,
        "provenance": provenance,
    }


def point_row(point: Point) -> dict[str, Any]:
    """A point as a row of tables."""
    return point.to_dict() | {"identical": f"{point.num_identical}/{point.num_prompts}"}


def rows_csv(rows: Sequence[dict[str, Any]]) -> str:
    """Rows of a document as a table that spreadsheets read.

    An interval becomes two columns, `NAME_from` and `NAME_to`; longer lists are left out.
    """
    flat = [_flat(row) for row in rows]
    text = io.StringIO()
    writer = csv.DictWriter(text, dict.fromkeys(name for row in flat for name in row), lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for name, value in row.items():
        if name.endswith("interval"):
            cells[f"{name}_from"], cells[f"{name}_to"] = value or (None, None)
        elif not isinstance(value, list):
            cells[name] = value
    return cells


def markdown(document: dict[str, Any]) -> str:
    """The document of a sweep as a report."""
    done = f"{document['num_heats']} of {document['num_all_heats']} heats"
    lines = [
        f"# Speculative decoding of {document['title']}",
        "",
        f"Up to {document['max_new_tokens']} new tokens; {done} done, each a prompt with a drafter at a temperature.",
        "",
        *_table(_REPORTED, document["rows"]),
        "",
        "## By category",
        "",
        *_table(_BY_CATEGORY, document["by_category"]),
        "",
        "## What the columns mean",
        "",
        *(f"- `{name}`: {text}." for name, text in document["definitions"].items()),
        "",
        "## Where it was measured",
        "",
        *(f"- {name}: {value}" for name, value in document["provenance"].items()),
    ]
    return "\n".join(lines) + "\n"


def _table(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> list[str]:
    head = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return head + ["| " + " | ".join(_cell(row.get(name)) for name in columns) + " |" for row in rows]


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, list):
        return " to ".join(map(_cell, value))
    return f"{value:.3g}" if isinstance(value, float) else str(value)
