"""What `python app.py` is asked for: where to serve the page, and whether for a class on the local network.

In class nothing is kept: what visitors open or save lies in a folder of its own that goes when the program ends.
"""

import argparse
import atexit
import io
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import segno

from specdemo.catalog import check_drafter_name
from specdemo.errors import SettingsError
from specdemo.ui.room import Room

EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - what --classroom is for
LOCALHOST = "127.0.0.1"
DEFAULT_PORT = 7860
_SERVER_HELP = (
    "--engine URL, --plain-engine URL and --engine-key VARIABLE race on a server, as for `python -m specdemo race`."
)
_FAR_AWAY = ("192.0.2.1", 9)
"""An address that is kept for documents (RFC 5737): asking for the way there sends nothing."""

_WHITE_ON_BLACK, _AS_BEFORE = "\x1b[97;40m", "\x1b[0m"


@dataclass(frozen=True, slots=True)
class Serving:
    """Where to serve, None for Gradio's own choice; `room` is None outside class.

    `target` is what the page runs, None for what its profile says; `drafters` are the places whose drafters it offers
    besides those that come along.
    """

    host: str | None = None
    port: int | None = None
    room: Room | None = None
    target: str | None = None
    drafters: tuple[str, ...] = ()

    def launch_options(self) -> dict[str, Any]:
        """Arguments for `launch`."""
        return {"server_name": self.host, "server_port": self.port}


def asked(argv: Sequence[str]) -> Serving:
    """What a command line asks for; with a line on stderr and exit code 2 where that cannot be."""
    try:
        serving = parse(argv)
    except SettingsError as error:
        sys.stderr.write(f"specdemo: {error}\n")
        raise SystemExit(2) from error
    if serving.room is not None:
        _keep_nothing()
        announce(serving)
    return serving


def parse(argv: Sequence[str], find_address: Callable[[], str | None] | None = None) -> Serving:
    """The arguments, and that the address can be bound; raises SettingsError. `find_address`: see local_address."""
    arguments = _parser().parse_args(argv)
    port, drafters = arguments.port, tuple(arguments.drafter)
    for drafter in drafters:
        check_drafter_name(drafter)
    if not arguments.classroom:
        if port is not None or arguments.host is not None:
            _check_free(arguments.host or LOCALHOST, port or 0)
        return Serving(arguments.host, port, None, arguments.target, drafters)
    port = port or DEFAULT_PORT
    address = arguments.host or (find_address or local_address)()
    # Without a network only this machine can come, and nothing is opened to others.
    host = arguments.host or (EVERY_ADDRESS if address else LOCALHOST)
    _check_free(host, port)
    return Serving(host, port, room_at(address, port), arguments.target, drafters)


def local_address() -> str | None:
    """The address that the local network knows this machine by, None without a network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(_FAR_AWAY)
        except OSError:
            return None
        address = str(asking.getsockname()[0])
    return None if address.startswith(("127.", "0.")) else address


def announce(serving: Serving) -> None:
    """Say on the terminal where the class finds the page, as text and as a QR code."""
    room = serving.room
    if room is None or not room.address:
        where = f"http://localhost:{serving.port}"
        sys.stdout.write(f"No network was found: only this machine can open the page, at {where}\n")
        return
    sys.stdout.write(f"The class opens {room.address}\n")
    if sys.stdout.isatty() and "utf" in (sys.stdout.encoding or "").lower():
        sys.stdout.write(terminal_code(room.address))


def terminal_code(address: str) -> str:
    """The QR code in half blocks, white on black whatever the terminal's colours are."""
    text = io.StringIO()
    segno.make_qr(address).terminal(text, compact=True)
    return "".join(f"{_WHITE_ON_BLACK}{line}{_AS_BEFORE}\n" for line in text.getvalue().splitlines())


def room_at(address: str | None, port: int) -> Room:
    """What the page shows where the network knows it by an address; nothing where only this machine reaches it."""
    if not address or address == LOCALHOST or address == "localhost":
        return Room()
    url = f"http://{address}:{port}"
    return Room(url, tuple(tuple(row) for row in segno.make_qr(url).matrix))


def _check_free(host: str, port: int) -> None:
    """Bind and let go: whether the address is this machine's and the port is free (0: any)."""
    try:
        found = socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:
        raise SettingsError(
            f"the host is {host!r}, which is no address; give an address of this machine, such as {LOCALHOST}."
        ) from error
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trying:
        if os.name == "posix":
            trying.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trying.bind(found[0][4])
        except PermissionError as error:
            raise SettingsError(f"port {port} is for the system; choose one from 1024 on with --port.") from error
        except OSError as error:
            _refuse(host, port, error)


def _refuse(host: str, port: int, error: OSError) -> NoReturn:
    if host != EVERY_ADDRESS and not _is_own(host):
        raise SettingsError(
            f"the host is {host}, which is no address of this machine; leave --host out for all of its addresses."
        ) from error
    raise SettingsError(f"port {port} is in use; choose another with --port, or end what uses it.") from error


def _is_own(host: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trying:
        try:
            trying.bind((host, 0))
        except OSError:
            return False
    return True


def _keep_nothing() -> None:
    """Gradio's files go into a folder that goes at the end, also when the program is told to end."""
    folder = tempfile.mkdtemp(prefix="specdemo-class-")
    os.environ["GRADIO_TEMP_DIR"] = folder
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One sentence instead of the usage text."""
        raise SettingsError(f"{message}; see `python app.py --help`.")


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise SettingsError(f"the port is {text!r}; it must be a whole number from 1 to 65535.")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python app.py", description="The race page.", epilog=_SERVER_HELP, allow_abbrev=False)
    add = parser.add_argument
    add("--target", metavar="NAME", help="a folder or a repository of a language model")
    add("--drafter", action="append", default=[], metavar="NAME", help="a folder or a repository to offer; repeatable")
    add("--classroom", action="store_true", help="for a class on the local network: address, QR code, a longer queue")
    add("--host", metavar="ADDRESS", help="the address to serve at; in class all of this machine's")
    add("--port", type=_port, metavar="N", help=f"the port: {DEFAULT_PORT} in class, else the first free from there")
    return parser
