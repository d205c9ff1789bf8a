"""The commands `pairs` and `preflight`: what was published, and whether two of it fit. Compute nothing themselves."""

import argparse
import json
import sys
from importlib import import_module
from typing import Any

from specdemo.catalog import EMBEDDED_TARGET
from specdemo.findings import Report
from specdemo.pairs import NOT_CHECKED, DrafterEntry, Pairs, TargetEntry, load_pairs

_REFUSED = 2
MODES = {"on": True, "off": False, "auto": None}


def add_pair_commands(commands: Any) -> None:
    """Both commands with their options."""
    text = "published targets and the drafters made for them"
    pairs = commands.add_parser("pairs", help=text, description=text, allow_abbrev=False)
    pairs.add_argument("--target", metavar="REPOSITORY", help="only this target's")
    pairs.add_argument("--json", action="store_true", help="one JSON document on stdout")
    pairs.set_defaults(run=_pairs)
    text = "whether a target and a drafter fit each other and this machine; downloads no weights; exit code 2 if not"
    preflight = commands.add_parser("preflight", help=text, description=text, allow_abbrev=False)
    preflight.add_argument("--target", default=EMBEDDED_TARGET, metavar="NAME", help="a name, folder or repository")
    preflight.add_argument("--drafter", default="none", metavar="NAME", help="the same; what it is gets detected")
    add_thinking(preflight)
    preflight.add_argument("--json", action="store_true", help="one JSON document on stdout")
    preflight.set_defaults(run=_preflight)


def add_thinking(command: argparse.ArgumentParser) -> None:
    """The switch of chat templates that have one."""
    command.add_argument(
        "--thinking", choices=list(MODES), default="auto", help="of targets that can; auto is the chat template's own"
    )


def _pairs(arguments: argparse.Namespace) -> int:
    pairs = load_pairs()
    wanted = [entry for entry in pairs.targets if arguments.target in (None, entry.repository)]
    if arguments.json:
        names = {entry.repository for entry in wanted}
        document = {
            "note": NOT_CHECKED,
            "targets": [entry.model_dump() for entry in wanted],
            "drafters": [entry.model_dump() for entry in pairs.drafters if names & set(entry.targets)],
        }
        _print_json(document)
        return 0
    for target in wanted:
        _print_target(pairs, target)
    sys.stdout.write(
        f"{NOT_CHECKED}\n" if wanted else f"{arguments.target} is not in the list; any repository can be named.\n"
    )
    return 0


def _print_target(pairs: Pairs, target: TargetEntry) -> None:
    sys.stdout.write(f"{target.repository}  ({_facts(target)})\n")
    for entry in pairs.drafters_of(target.repository):
        thinking = "" if entry.thinking is None else f", thinking {'on' if entry.thinking else 'off'}"
        sys.stdout.write(f"  {entry.family or 'not read':16} {entry.repository}  ({_facts(entry)}{thinking})\n")
    sys.stdout.write(f"  {'without files':16} {', '.join(target.families)}\n")


def _facts(entry: TargetEntry | DrafterEntry) -> str:
    gate = {True: "gated", False: "open", None: "gate not known"}[entry.is_gated]
    return f"{entry.dtype}, licence {entry.licence or 'not known'}, {gate}"


def _preflight(arguments: argparse.Namespace) -> int:
    run = import_module("specdemo.preflight").preflight
    report: Report = run(arguments.target, arguments.drafter, thinking=MODES[arguments.thinking])
    if arguments.json:
        _print_json(report.to_dict())
    else:
        for finding in report.findings:
            sys.stdout.write(f"{finding.grade:8} {finding.sentence}\n")
    return _REFUSED if report.is_refused else 0


def _print_json(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n")
