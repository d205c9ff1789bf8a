"""The commands `bench` and `advise`: parse what is to be measured, print what came out. Compute nothing themselves."""

import argparse
import json
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from specdemo.advice import NONE, Advice, AdviceRequest, AdviceStep
from specdemo.catalog import EMBEDDED_TARGET, PRECISIONS
from specdemo.cli_engine import add_engine_options, check_nothing_local, remote_engine, server_drafter
from specdemo.console import Show, loading_bar
from specdemo.engine_settings import EngineSettings, engine_settings
from specdemo.errors import SettingsError
from specdemo.prompt_set import read_prompt_file
from specdemo.prompts import load_prompts
from specdemo.settings import RULES, DecodeSettings

_DEFAULTS = DecodeSettings()
_INTERRUPTED = 130
_NOT_OF_SERVERS = {
    "target": EMBEDDED_TARGET,
    "precision": "auto",
    "k": None,
    "rule": None,
    "sweep": False,
    "minutes": None,
    "report": None,
    "profile": False,
    "batch": None,
    "against": None,
}


def add_tune_commands(commands: Any) -> None:
    """Both commands with their options."""
    text = "measure drafters, K and temperatures, and print ratios"
    bench = commands.add_parser("bench", help=text, description=text, allow_abbrev=False)
    _add_bench_options(bench)
    bench.set_defaults(run=_bench)
    text = "which drafter and K pay for your prompts on this device, or that none does"
    advise = commands.add_parser("advise", help=text, description=text, allow_abbrev=False)
    _add_advise_options(advise)
    advise.set_defaults(run=_advise)


def _add_bench_options(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    _add_target(command)
    add("--drafter", action="append", metavar="NAME", help="repeatable; all by default")
    add("--k", action="append", metavar="N", help="repeatable; 1 2 4 8 by default")
    add("--temperature", action="append", type=float, metavar="T", help="repeatable; 0 by default")
    add("--rule", action="append", metavar="RULE", help="repeatable; auto by default")
    add("--prompt-set", action="append", metavar="CATEGORY", help="repeatable; one prompt of each category by default")
    add("--language", action="append", metavar="TAG", help="of the prompt set of a sweep: en, zh; repeatable")
    add("--prompts", metavar="FILE", help="your own: one a line, or JSON objects with prompt, category and language")
    add("--max-new-tokens", type=int, default=_DEFAULTS.max_new_tokens, metavar="N")
    add("--sweep", action="store_true", help="the full grid on the prompt set of nine categories, kept in a file")
    add("-o", "--output", default="sweep.jsonl", metavar="FILE", help="of a sweep, which goes on from what is there")
    add("--minutes", type=float, metavar="N", help="end a sweep after so long; it can be gone on with")
    add("--report", metavar="FILE", help="also a report in Markdown, or with the ending .csv a table")
    add("--json", action="store_true", help="the document alone on stdout, without the table")
    add("--profile", action="store_true", help="what a pass of each width and a draft token cost, and nothing else")
    add("--batch", action="append", metavar="N", help="requests at once, repeatable; all is 1 2 4 8 16")
    add("--against", choices=["transformers"], help="also transformers' generate and assisted generation")
    add_engine_options(command)


def _add_advise_options(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("prompt", nargs="*", metavar="PROMPT", help="yours; examples by default")
    _add_target(command)
    add("--prompts", metavar="FILE", help="a file of them: one a line, or JSON objects with the key prompt")
    add("--drafter", action="append", metavar="NAME", help="repeatable; all by default")
    add("--temperature", type=float, default=_DEFAULTS.temperature, metavar="T", help="0 (greedy) to 2")
    add("--rule", default=_DEFAULTS.rule, metavar="RULE", help=", ".join(RULES))
    add("--max-new-tokens", type=int, default=64, metavar="N")
    add("--seconds", type=float, default=30.0, metavar="N", help="what it may take, loading apart")
    add("--json", action="store_true", help="one JSON document on stdout")


def _add_target(command: argparse.ArgumentParser) -> None:
    command.add_argument("--target", default=EMBEDDED_TARGET, metavar="NAME")
    command.add_argument("--precision", default="auto", metavar="NAME", help=f"the target's: {', '.join(PRECISIONS)}")


def _bench(arguments: argparse.Namespace) -> int:
    if arguments.engine or arguments.plain_engine:
        return _bench_server(arguments)
    bench = import_module("specdemo.bench")
    plan = bench.make_plan(arguments)
    batches = import_module("specdemo.batching").make_requests(arguments, plan.request.prompts)
    report = Path(arguments.report) if arguments.report else None
    if report and not report.parent.is_dir():
        raise SettingsError(f"the folder {report.parent} does not exist; make it or choose another --report FILE.")
    with loading_bar() as progress:
        engine = import_module("specdemo.engine").Engine.load(arguments.target, progress).at(arguments.precision)
    if arguments.profile:
        drafters = list(plan.request.drafters)
        document = import_module("specdemo.costs").profile(engine, drafters, Show(is_quiet=True).track)
    elif batches:
        with loading_bar() as progress:
            document = import_module("specdemo.batching").run(engine, batches, progress)
    else:
        with loading_bar() as progress:
            document = bench.run(engine, plan, progress)
    if report:
        write = import_module("specdemo.sweep_report")
        is_table = report.suffix == ".csv"
        report.write_text(write.rows_csv(document["rows"]) if is_table else write.markdown(document), encoding="utf-8")
    if not arguments.json:
        Show().table(document)
    _print_json(document)
    return _INTERRUPTED if document.get("is_interrupted") else 0


def _bench_server(arguments: argparse.Namespace) -> int:
    check_nothing_local(arguments, _NOT_OF_SERVERS)
    remote = remote_engine(arguments)
    assert remote is not None
    arguments.drafter = [server_drafter(next(iter(arguments.drafter or ()), None))]
    request = import_module("specdemo.bench").make_plan(arguments).request
    with loading_bar() as progress:
        document = import_module("specdemo.remote.bench").run(remote, request, progress)
    if not arguments.json:
        Show().table(document)
    _print_json(document)
    return _INTERRUPTED if document["is_interrupted"] else 0


def _step_text(drafter: str) -> str:
    if drafter == NONE:
        return "Writing answers by plain decoding"
    return f"Trying {drafter}" if drafter else "Measuring the best two"


def _advise(arguments: argparse.Namespace) -> int:
    request = AdviceRequest(
        prompts=_prompts(arguments),
        temperature=arguments.temperature,
        rule=arguments.rule,
        max_new_tokens=arguments.max_new_tokens,
        seconds=arguments.seconds,
        target=arguments.target,
        precision=arguments.precision,
        **({"drafters": tuple(arguments.drafter)} if arguments.drafter else {}),
    )
    with loading_bar() as progress:
        engine = import_module("specdemo.engine").Engine.load(request.target, progress).at(request.precision)
    with loading_bar() as progress:
        for update in import_module("specdemo.tune").advise(engine, request):
            if isinstance(update, AdviceStep):
                progress(_step_text(update.drafter), update.share)
    assert isinstance(update, Advice)
    settings = engine_settings(update.drafter, update.k, request.temperature) if update.k else ()
    if arguments.json:
        engines = [asdict(one) for one in settings]
        _print_json({**update.to_dict(), "engines": engines, "provenance": engine.provenance("none")})
    else:
        _print_advice(update)
        for one in settings:
            _print_engine(one)
    return 0


def _prompts(arguments: argparse.Namespace) -> tuple[str, ...]:
    if arguments.prompts:
        return tuple(item.prompt for item in read_prompt_file(Path(arguments.prompts)))
    if arguments.prompt:
        return tuple(arguments.prompt)
    return tuple({item.category: item.prompt for item in reversed(load_prompts())}.values())


_REASONS = {
    "acceptance": "the target agrees with too few drafts; nothing would pay, were drafting and checking ever so cheap",
    "draft": "drafting costs too much: with drafts for nothing the best of them would pay",
    "verification": "checking several tokens costs too much: at the price of one the best of them would pay",
    "doubt": "some were estimated to pay, and the measurement does not bear it out",
}


def _print_advice(advice: Advice) -> None:
    if advice.k:
        between = "" if advice.interval is None else " (95 %: {:.2f} to {:.2f})".format(*advice.interval)
        sys.stdout.write(f"{advice.drafter}, K = {advice.k}: {advice.speedup:.2f} times plain decoding{between}\n")
    else:
        sys.stdout.write(f"do not speculate: {_REASONS[advice.reason]}\n")
    for point in advice.measured:
        sys.stdout.write(f"measured   {_line(point.drafter, point.k, point.speedup, point.tokens_per_round)}\n")
    for one in advice.estimates:
        sys.stdout.write(f"estimated  {_line(one.drafter, one.k, one.speedup, one.tokens_per_round)}")
        sys.stdout.write(f"  drafting {one.draft_cost:.2f}, checking {one.verify_cost:.2f} of a plain round\n")
    for drafter, why in advice.failures:
        sys.stdout.write(f"left out   {drafter}: {why}\n")


def _print_engine(settings: EngineSettings) -> None:
    named = f"; {settings.k_name} = {settings.k_value}" if settings.k_name else ""
    said = filter(None, (settings.k_note, settings.note, settings.counts))
    request = [f"each request: {settings.request}"] if settings.request else []
    lines = [f"{settings.engine} {settings.version}{named}", *settings.lines, *request, *said]
    sys.stdout.write("\n" + "\n    ".join(lines) + "\n")


def _line(drafter: str, k: int, speedup: float | None, tokens_per_round: float | None) -> str:
    known = [f"{value:5.2f}" if value is not None else "    –" for value in (speedup, tokens_per_round)]
    return f"{drafter:14} K = {k:2}  {known[0]} times, {known[1]} tokens per round"


def _print_json(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n")
