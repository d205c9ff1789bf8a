"""Scores a drafter on the held-out prompts by really decoding with it.

    OMP_NUM_THREADS=2 python -m specdemo.train.score draft-model --json score.json

Greedy, K = 4, at most 128 tokens an answer. Rates are ratios of sums over a category's prompts, and over all.
"""

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from tqdm import tqdm

from specdemo.catalog import EMBEDDED_TARGET
from specdemo.engine import Engine
from specdemo.events import Event
from specdemo.metrics import summarize
from specdemo.race import RaceRequest
from specdemo.settings import DecodeSettings
from specdemo.train.held_out import held_out_prompts

_COLUMNS = ("tokens_per_round", "acceptance_rate", "alpha", "num_tokens", "num_rounds")
_SMOKE_PROMPTS = slice(0, 64, 32)


def score(engine: Engine, drafter: str, settings: DecodeSettings, *, is_smoke: bool) -> dict[str, Any]:
    """Figures by category and over `all`."""
    events: dict[str, list[Event]] = defaultdict(list)
    prompts = held_out_prompts()[_SMOKE_PROMPTS if is_smoke else slice(None)]
    for entry in tqdm(prompts, desc=drafter, unit="prompt"):
        request = RaceRequest(prompt=entry.prompt, drafter=drafter, settings=settings)
        for update in engine.generate(request):
            events[entry.category].append(update.event)
            events["all"].append(update.event)
    figures = {name: summarize(found).to_dict() for name, found in events.items()}
    return {
        "drafter": drafter,
        "num_drafts": settings.num_draft_tokens,
        "num_prompts": len(prompts),
        "categories": {name: {column: values[column] for column in _COLUMNS} for name, values in figures.items()},
    }


def main(arguments: list[str] | None = None) -> None:
    """Score one drafter; a table, and a JSON file where asked for."""
    options = _parser().parse_args(arguments)
    engine = Engine.load(EMBEDDED_TARGET, lambda message, share: None)
    settings = DecodeSettings(
        num_draft_tokens=options.k, max_new_tokens=16 if options.smoke else options.max_new_tokens
    )
    result = score(engine, options.drafter, settings, is_smoke=options.smoke)
    print(_table(result))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def _table(result: dict[str, Any]) -> str:
    lines = [f"{'category':10}" + "".join(f"{column:>18}" for column in _COLUMNS)]
    for name, values in sorted(result["categories"].items(), key=lambda item: item[0] == "all"):
        cells = (
            "–" if value is None else f"{value:.2f}" if isinstance(value, float) else str(value)
            for value in values.values()
        )
        lines.append(f"{name:10}" + "".join(f"{cell:>18}" for cell in cells))
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m specdemo.train.score", description=__doc__.splitlines()[0])
    parser.add_argument("drafter", help="as --drafter of the command line: NAME or NAME:SETTING")
    parser.add_argument("--k", type=int, default=4, help="draft tokens of a round")
    parser.add_argument("--max-new-tokens", type=int, default=128)
    parser.add_argument("--json", type=Path, help="where the figures go")
    parser.add_argument("--smoke", action="store_true", help="two prompts, 16 tokens each")
    return parser


if __name__ == "__main__":
    main()
