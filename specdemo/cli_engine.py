"""The options that name a server in place of the model that is loaded here, for the command line and for app.py."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from specdemo.catalog import SERVER_DRAFTER
from specdemo.errors import SettingsError, SpecdemoError
from specdemo.remote.engine import RemoteEngine
from specdemo.remote.servers import find_server
from specdemo.remote.source import RemoteSource

_KEY_VARIABLE = "SPECDEMO_ENGINE_KEY"


def add_engine_options(command: argparse.ArgumentParser) -> None:
    """`--engine` and what goes with it."""
    add = command.add_argument
    add("--engine", metavar="URL", help="a vLLM, SGLang or llama.cpp server instead of a model that is loaded here")
    add("--plain-engine", metavar="URL", help="the same model without speculation, where --engine cannot switch it off")
    add(
        "--engine-key",
        default=_KEY_VARIABLE,
        metavar="VARIABLE",
        help=f"the environment variable that holds the servers' key; {_KEY_VARIABLE} by default",
    )


def remote_engine(arguments: argparse.Namespace) -> RemoteEngine | None:
    """The servers that the options name, None where they name none; raises SpecdemoError."""
    if not arguments.engine:
        if arguments.plain_engine:
            raise SettingsError("--plain-engine goes with --engine, the server that speculates; name both.")
        return None
    key = os.environ.get(arguments.engine_key, "")
    if not key and arguments.engine_key != _KEY_VARIABLE:
        raise SettingsError(f"the environment variable {arguments.engine_key} is empty; put the server's key into it.")
    plain = find_server(arguments.plain_engine, key) if arguments.plain_engine else None
    return RemoteEngine(find_server(arguments.engine, key), plain)


def asked_server(argv: Sequence[str]) -> tuple[RemoteSource | None, list[str]]:
    """The server that `python app.py` is to race on, and its other arguments; exit code 2 with a line if it cannot."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    add_engine_options(parser)
    arguments, rest = parser.parse_known_args(list(argv))
    try:
        remote = remote_engine(arguments)
    except SpecdemoError as error:
        sys.stderr.write(f"specdemo: {error}\n")
        raise SystemExit(2) from error
    return (None if remote is None else RemoteSource(remote)), rest


def server_drafter(drafter: str | None) -> str:
    """What the lane with drafts is called: a server has the drafter that it was started with."""
    if drafter not in (None, "none", SERVER_DRAFTER):
        raise SettingsError(f"the drafter is {drafter!r}; a server has the one that it was started with. Leave it out.")
    return drafter or SERVER_DRAFTER


def check_nothing_local(arguments: argparse.Namespace, defaults: Mapping[str, Any]) -> None:
    """Refuse options that only a model loaded here understands: those of `defaults` with another value than there."""
    for name, default in defaults.items():
        if getattr(arguments, name) != default:
            option = name.replace("_", "-")
            raise SettingsError(f"--{option} is for a model that is loaded here, not for a server; leave it out.")
