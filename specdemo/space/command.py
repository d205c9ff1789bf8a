"""`space check`, `render`, `plan` and `deploy`: parses, calls, prints.

Exit codes: 0 all is as it should be; 1 the Hub refused, or the Space does not run; 2 bad input; 3 a plan has changes.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from specdemo.errors import SpaceError
from specdemo.space.card import render
from specdemo.space.checks import check
from specdemo.space.files import NOTE, uploaded_files
from specdemo.space.reading import ROOT, read
from specdemo.space.requirements import install_problems

if TYPE_CHECKING:
    from specdemo.space.plan import Plan

_COMMANDS = ("check", "render", "plan", "deploy")
DONE, FAILED, BAD_INPUT, CHANGES = 0, 1, 2, 3


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line instead of the usage text."""
        raise SpaceError(f"{message}; see `python -m specdemo space --help`.")


def main(argv: list[str], root: Path = ROOT) -> int:
    """Run one command; returns the exit code, with one line on stderr for each problem."""
    if not argv or argv[0] not in (*_COMMANDS, "-h", "--help"):
        sys.stderr.write(f"space: found {' '.join(argv) or 'nothing'}; expected check, render, plan or deploy.\n")
        return BAD_INPUT
    try:
        arguments = _parser().parse_args(argv)
        return int(arguments.run(root, arguments))
    except SpaceError as error:
        sys.stderr.write(f"{error}\n")
        # The Hub's client takes a second to load: whoever did not need it has no error of it.
        hub = sys.modules.get("specdemo.space.hub")
        return FAILED if hub is not None and isinstance(error, hub.HubError) else BAD_INPUT
    except KeyboardInterrupt:
        sys.stderr.write("space: stopped; `space plan` says what is still to be done.\n")
        return 130


def _parser() -> argparse.ArgumentParser:
    epilog = (__doc__ or "").strip().splitlines()[-1]
    parser = _Parser(prog="python -m specdemo space", description="The Spacefile.", epilog=epilog)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_Parser)

    def add(name: str, run: Callable[[Path, argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text, epilog=epilog, allow_abbrev=False)
        command.set_defaults(run=run)
        return command

    checking = add("check", _check, "all that is wrong with the Spacefile, offline")
    checking.add_argument("--install", action="store_true", help="resolve what the builder installs, with pip; online")
    add("render", _render, "write README.md's front matter from the Spacefile")
    planning = add("plan", _plan, "what a deploy would change; writes nothing")
    planning.add_argument("--json", action="store_true", help="as one JSON document")
    deploying = add("deploy", _deploy, "create or update the Space, wait until it runs, and race on it once")
    deploying.add_argument("--yes", action="store_true", help="do not ask")
    deploying.add_argument("--pr", action="store_true", help="the files as a pull request; settings stay")
    deploying.add_argument("--dry-run", action="store_true", help="as plan")
    for command in (planning, deploying):
        command.add_argument("--profile", required=True, metavar="NAME", help="one of the Spacefile's profiles")
        command.add_argument("--space", metavar="OWNER/NAME", help="instead of the Spacefile's name")
    return parser


def _check(root: Path, arguments: argparse.Namespace) -> int:
    found = check(root)
    problems = [line for line in found if not line.startswith(NOTE)]
    if arguments.install and not problems:
        problems = list(install_problems(root, read(root).card))
    sys.stdout.writelines(f"{line}\n" for line in found if line.startswith(NOTE))
    sys.stderr.writelines(f"{line}\n" for line in problems)
    if problems:
        return BAD_INPUT
    sizes = [path.stat().st_size for path in uploaded_files(root, read(root).upload)]
    sys.stdout.write(f"Spacefile is in order; {len(sizes)} files, {sum(sizes) / 1e6:.1f} MB to upload.\n")
    return DONE


def _render(root: Path, arguments: argparse.Namespace) -> int:
    sys.stdout.write("README.md was rewritten.\n" if render(root) else "README.md was up to date.\n")
    return DONE


def _plan(root: Path, arguments: argparse.Namespace) -> int:
    _, plan = _planned(root, arguments)
    document = json.dumps(plan.document(), ensure_ascii=False) + "\n"
    sys.stdout.write(document if getattr(arguments, "json", False) else plan.text())
    return CHANGES if plan.changes else DONE


def _deploy(root: Path, arguments: argparse.Namespace) -> int:
    if arguments.dry_run:
        return _plan(root, arguments)
    api, plan = _planned(root, arguments)
    sys.stdout.write(plan.text())
    if not plan.changes:
        return DONE
    if arguments.pr and (not plan.exists or not plan.of_kind("upload", "delete")):
        why = "no file differs" if plan.exists else f"{plan.space} does not exist yet"
        raise SpaceError(f"a pull request holds files, but {why}; deploy without --pr.")
    if not arguments.yes and not _agreed():
        return BAD_INPUT
    deploy, smoke = import_module("specdemo.space.deploy"), import_module("specdemo.space.smoke")
    if arguments.pr:
        _say(f"opened {deploy.push(api, root, plan, _say, as_pull_request=True).pr_url}")
        return DONE
    profile = read(root).profiles[arguments.profile]
    commit = deploy.apply(api, root, plan, profile, os.environ, _say)
    runtime = deploy.wait(api, plan.space, commit, deploy.Pace(), _say)
    is_private = api.space_info(plan.space).private
    _say(smoke.smoke_race(smoke.address_of(api, plan.space, runtime), api.token if is_private else None))
    return DONE


def _planned(root: Path, arguments: argparse.Namespace):  # type: ignore[no-untyped-def]  # of a late import
    """The Hub's client and the plan, after everything that can be said offline has been."""
    if problems := [line for line in check(root) if not line.startswith(NOTE)]:
        raise SpaceError("\n".join(problems))
    spacefile = read(root)
    hub, planning = import_module("specdemo.space.hub"), import_module("specdemo.space.plan")
    planning.space_profile(spacefile, arguments.profile)
    if (name := arguments.space or spacefile.name) is None:
        raise SpaceError("Spacefile, name: is missing; add the Space's name, or give --space OWNER/NAME.")
    api = hub.connect()
    live = hub.live_space(api, hub.full_name(api, name), with_secrets=bool(spacefile.secrets))
    plan: Plan = planning.make_plan(root, spacefile, arguments.profile, live, os.environ)
    return api, plan


def _agreed() -> bool:
    if not sys.stdin.isatty():
        sys.stderr.write("space: found nobody to ask; add --yes to make these changes.\n")
        return False
    sys.stdout.write("Go on? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
