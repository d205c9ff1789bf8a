"""The command line: fetch, generate, race, bench, record, export, space. Parses, calls, prints; computes nothing.

Bad input is one line on stderr and exit code 2.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from specdemo.catalog import DRAFTER_LABELS, EMBEDDED_TARGET, PRECISIONS, TARGETS, check_drafter_name, check_precision
from specdemo.cli_engine import add_engine_options, check_nothing_local, remote_engine, server_drafter
from specdemo.cli_pairs import MODES, add_pair_commands, add_thinking
from specdemo.cli_prove import add_prove_options
from specdemo.cli_tune import add_tune_commands
from specdemo.console import Show, loading_bar
from specdemo.errors import SettingsError, SpecdemoError
from specdemo.events import Finished
from specdemo.prompts import check_prompt, load_prompts
from specdemo.race import LaneUpdate, RaceRequest
from specdemo.reports import lane_document, race_document, request_document
from specdemo.settings import MAX_DRAFT_TOKENS, RULES, DecodeSettings
from specdemo.space import command as space
from specdemo.traces import Trace, save

if TYPE_CHECKING:
    from specdemo.engine import Engine
    from specdemo.remote.engine import RemoteEngine

_DEFAULTS = DecodeSettings()
_NOT_OF_SERVERS = {"target": EMBEDDED_TARGET, "k": None, "rule": "auto", "precision": "auto", "evidence": False}
_FASTEST = {"precision": "int4", "drafter": "ngram:static", "k": "3"}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line instead of the usage text."""
        raise SettingsError(f"{message}; see `{self.prog} --help`.")


class _Fast(argparse.Action):
    """Sets several options at once; those that are named behind it still count."""

    def __init__(self, option_strings: Sequence[str], dest: str, **rest: Any) -> None:
        super().__init__(option_strings, dest=argparse.SUPPRESS, nargs=0, **rest)

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: str | None = None) -> None:
        """See argparse.Action."""
        for name, value in _FASTEST.items():
            setattr(namespace, name, value)


def main(argv: Sequence[str]) -> int:
    """Run one command; returns the exit code."""
    if list(argv[:1]) == ["space"]:
        return space.main(list(argv[1:]))
    try:
        arguments = _parser().parse_args(argv)
        return int(arguments.run(arguments))
    except SpecdemoError as error:
        sys.stderr.write(f"specdemo: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("specdemo: stopped.\n")
        return 130
    except BrokenPipeError:
        # Whoever read our output has gone; the interpreter must not try to flush the rest at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m specdemo", description=sys.modules["specdemo"].__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    _add(commands, "fetch", _fetch, "download and convert the embedded target")
    for name, run, text in (
        ("generate", _generate, "one generation with the drafter that --drafter names"),
        ("race", _race, "plain and speculative decoding side by side"),
        ("record", _record, "a race as a trace file that the page replays"),
    ):
        command = _add(commands, name, run, text)
        command.add_argument("prompt", metavar="PROMPT")
        _add_request_options(command)
        if name == "record":
            command.add_argument("-o", "--output", required=True, metavar="FILE", help="the trace file to write")
        else:
            command.add_argument("--json", action="store_true", help="one JSON document on stdout")
    add_tune_commands(commands)
    add_pair_commands(commands)
    add_prove_options(
        commands.add_parser("prove", help="that answers and distributions are the target's own", allow_abbrev=False)
    )
    site = _add(commands, "export", _export, "a folder of recorded races that opens without a server")
    site.add_argument("site", metavar="SITE", help="the folder to write; an earlier export is replaced")
    site.add_argument("--traces", metavar="FOLDER", help="your own recorded races instead of those that ship")
    _add(commands, "space", _fetch, "check or render the Spacefile")
    return parser


def _add(commands, name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
    command.set_defaults(run=run)
    return command


def _add_request_options(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    names = ", ".join(DRAFTER_LABELS)
    add("--target", default=EMBEDDED_TARGET, metavar="NAME", help=f"{', '.join(TARGETS)}, a folder or a repository")
    add(
        "--drafter",
        metavar="NAME",
        help=f"{names}; NAME:SETTING as in ngram:2-5; or a folder or a repository of any drafter; quantized by default",
    )
    add(
        "--k",
        metavar="N",
        help=f"drafts a round, 1-{MAX_DRAFT_TOKENS}, or adaptive; {_DEFAULTS.num_draft_tokens} by default",
    )
    add("--temperature", type=float, default=_DEFAULTS.temperature, metavar="T", help="0 (greedy) to 2")
    add("--top-p", type=float, default=_DEFAULTS.top_p, metavar="P")
    add("--top-k", type=int, default=_DEFAULTS.top_k, metavar="N")
    add("--min-p", type=float, default=_DEFAULTS.min_p, metavar="P")
    add("--repetition-penalty", type=float, default=_DEFAULTS.repetition_penalty, metavar="R")
    add("--seed", type=int, default=_DEFAULTS.seed, metavar="S")
    add("--rule", default=_DEFAULTS.rule, metavar="RULE", help=", ".join(RULES))
    add("--max-new-tokens", type=int, default=_DEFAULTS.max_new_tokens, metavar="N")
    add("--system", default="", metavar="TEXT", help="the system turn; the template's own by default")
    add("--raw", action="store_true", help="no chat template: the prompt as it is")
    add_thinking(command)
    add("--stop", action="append", default=[], metavar="TEXT", help="a string that ends the answer; repeatable")
    _add_precision(command)
    fastest = " ".join(f"--{name} {value}" for name, value in _FASTEST.items())
    add("--fast", action=_Fast, help=f"what was measured to be fastest for the embedded target: {fastest}")
    add("--evidence", action="store_true", help="with the numbers behind every verdict")
    add_engine_options(command)


def _add_precision(command: argparse.ArgumentParser) -> None:
    names = ", ".join(PRECISIONS)
    command.add_argument("--precision", default="auto", metavar="NAME", help=f"the target's: {names}")


def _fetch(arguments: argparse.Namespace) -> int:
    weights = import_module("specdemo.weights")
    with loading_bar() as progress:
        folder = weights.fetch(TARGETS[EMBEDDED_TARGET], progress)
        progress("Compiling the pass that decodes.", None)
        import_module("specdemo.kernels.llama").prepare()
    sys.stdout.write(f"{folder}\n")
    return 0


def _generate(arguments: argparse.Namespace) -> int:
    request, engine = _opened(arguments)
    updates = _collect(engine.generate(request), Show(is_quiet=arguments.json))
    if arguments.json:
        _print_json(lane_document(updates))
    return _exit_code(updates)


def _race(arguments: argparse.Namespace) -> int:
    request, engine = _opened(arguments)
    updates = _collect(engine.race(request), Show(is_quiet=arguments.json, is_race=True))
    if arguments.json:
        _print_json(race_document(updates))
    return _exit_code(updates)


def _record(arguments: argparse.Namespace) -> int:
    output = Path(arguments.output)
    if not output.parent.is_dir():
        raise SettingsError(f"the folder {output.parent} does not exist; make it or choose another -o FILE.")
    request, engine = _opened(arguments)
    updates = _collect(engine.race(request), Show(is_quiet=True))
    known = next((item for item in load_prompts() if item.prompt == request.prompt), None)
    title, category = (known.titles["en"], known.category) if known else (request.prompt[:60], "own")
    save(
        Trace(title, category, request_document(request), engine.provenance(request.drafter, request), tuple(updates)),
        output,
    )
    sys.stdout.write(f"{output}\n")
    return _exit_code(updates)


def _export(arguments: argparse.Namespace) -> int:
    export = import_module("specdemo.export")
    folder = Path(arguments.traces) if arguments.traces else export.SHIPPED_TRACES
    sys.stdout.write(f"{export.export(Path(arguments.site), folder)}\n")
    return 0


def _opened(arguments: argparse.Namespace) -> tuple[RaceRequest, "Engine | RemoteEngine"]:
    """What is asked for, and what answers: the server that is named, or a model that is loaded here."""
    request = _request(arguments)
    remote = remote_engine(arguments)
    if remote is not None:
        return replace(request, target=remote.server.model), remote
    engine = _load(request)
    engine.drafter(request.drafter)
    return request, engine


def _request(arguments: argparse.Namespace) -> RaceRequest:
    if arguments.engine:
        check_nothing_local(arguments, _NOT_OF_SERVERS)
        arguments.drafter = server_drafter(arguments.drafter)
    else:
        arguments.drafter = arguments.drafter or "quantized"
        check_drafter_name(arguments.drafter)
    is_adaptive = arguments.k == "adaptive"
    settings = DecodeSettings(
        num_draft_tokens=_DEFAULTS.num_draft_tokens if is_adaptive or not arguments.k else parse_k(arguments.k),
        schedule="adaptive" if is_adaptive else "constant",
        max_new_tokens=arguments.max_new_tokens,
        temperature=arguments.temperature,
        top_p=arguments.top_p,
        top_k=arguments.top_k,
        min_p=arguments.min_p,
        repetition_penalty=arguments.repetition_penalty,
        seed=arguments.seed,
        rule=arguments.rule,
        stop=tuple(arguments.stop),
        evidence=arguments.evidence,
    )
    check_prompt(arguments.prompt, arguments.system)
    check_precision(arguments.precision)
    return RaceRequest(
        prompt=arguments.prompt,
        target=arguments.target,
        drafter=arguments.drafter,
        system=arguments.system,
        raw=arguments.raw,
        thinking=MODES[arguments.thinking],
        precision=arguments.precision,
        settings=settings,
    )


def parse_k(text: str) -> int:
    """K as typed; raises SettingsError when it is no whole number."""
    if not text.strip().lstrip("-").isdecimal():
        raise SettingsError(f"K is {text!r}; it must be a whole number from 1 to {MAX_DRAFT_TOKENS}, or adaptive.")
    return int(text)


def _load(request: RaceRequest) -> "Engine":
    with loading_bar() as progress:
        import_module("specdemo.preflight").check_before_download(request.target, request.drafter, request.thinking)
        engine = import_module("specdemo.engine").Engine.load(request.target, progress).at(request.precision)
        engine.encode(request)
        import_module("specdemo.places").drafter_folder(request.drafter, progress)
        progress("Preparing the drafter.", None)
        engine.warm_up(request.drafter)
    return engine


def _collect(updates: Iterator[LaneUpdate], show: Show) -> list[LaneUpdate]:
    """Run to the end, showing each update; an interrupt keeps what is there."""
    collected = []
    try:
        for update in updates:
            collected.append(update)
            show.update(update)
    except KeyboardInterrupt:
        lanes = {update.lane for update in collected}
        collected += [LaneUpdate(lane, Finished("cancelled")) for lane in sorted(lanes)]
    show.finish(collected)
    return collected


def _exit_code(updates: Sequence[LaneUpdate]) -> int:
    ends = [update.event for update in updates if isinstance(update.event, Finished)]
    failed = [event.message for event in ends if event.reason == "failed"]
    for message in failed:
        sys.stderr.write(f"specdemo: {message}\n")
    if failed:
        return 2
    return 130 if any(event.reason == "cancelled" for event in ends) else 0


def _print_json(document: dict) -> None:
    sys.stdout.write(json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n")
