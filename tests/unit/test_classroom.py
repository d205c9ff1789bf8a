"""What `python app.py` is asked for, and the code that a class scans."""

import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specdemo.classroom import (
    DEFAULT_PORT,
    EVERY_ADDRESS,
    LOCALHOST,
    Serving,
    announce,
    local_address,
    parse,
    room_at,
    terminal_code,
)
from specdemo.errors import SettingsError
from specdemo.ui.layout import build_page
from specdemo.ui.room import QUIET_MODULES, Room
from tests.fakes_ui import ScriptedSource

ROOT = Path(__file__).resolve().parents[2]
MASKS = (
    lambda r, c: (r + c) % 2,
    lambda r, c: r % 2,
    lambda r, c: c % 3,
    lambda r, c: (r + c) % 3,
    lambda r, c: (r // 2 + c // 3) % 2,
    lambda r, c: r * c % 2 + r * c % 3,
    lambda r, c: (r * c % 2 + r * c % 3) % 2,
    lambda r, c: ((r + c) % 2 + r * c % 3) % 2,
)


@pytest.fixture
def free_port() -> int:
    with socket.socket() as trying:
        trying.bind((LOCALHOST, 0))
        return int(trying.getsockname()[1])


@pytest.fixture
def used_port() -> Iterator[int]:
    with socket.socket() as using:
        using.bind((EVERY_ADDRESS, 0))
        using.listen()
        yield int(using.getsockname()[1])


def read_code(modules: Sequence[Sequence[int]]) -> str:
    """The text of a QR code of version 1 or 2 in bytes, as ISO/IEC 18004 says; its correction is not needed."""
    size = len(modules)
    format_bits = [modules[8][c] for c in (0, 1, 2, 3, 4, 5, 7, 8)]
    mask = MASKS[int("".join(map(str, format_bits[2:5])), 2) ^ 0b101]

    def is_data(r: int, c: int) -> bool:
        is_corner = (r < 9 and (c < 9 or c >= size - 8)) or (r >= size - 8 and c < 9)
        is_alignment = size > 21 and abs(r - size + 7) <= 2 and abs(c - size + 7) <= 2
        return not (is_corner or is_alignment or 6 in (r, c))

    bits, upward = "", True
    for right in [c for c in range(size - 1, 0, -2) if c > 6] + [5, 3, 1]:
        for r in range(size - 1, -1, -1) if upward else range(size):
            for c in (right, right - 1):
                if is_data(r, c):
                    bits += str(modules[r][c] ^ (mask(r, c) == 0))
        upward = not upward
    assert bits[:4] == "0100", "bytes"
    length = int(bits[4:12], 2)
    return bytes(int(bits[12 + 8 * i : 20 + 8 * i], 2) for i in range(length)).decode()


def modules_of(shown: dict) -> list[list[int]]:
    """The dark and light modules that the page's SVG path paints, without the quiet edge."""
    grid = [[0] * shown["size"] for _ in range(shown["size"])]
    pieces = re.findall(r"M(\d+) (\d+)h(\d+)v1h-\3z", shown["path"])
    assert "".join(f"M{x} {y}h{w}v1h-{w}z" for x, y, w in pieces) == shown["path"]
    for x, y, width in (map(int, piece) for piece in pieces):
        grid[y][x : x + width] = [1] * width
    edge = QUIET_MODULES
    assert not any(map(any, [*grid[:edge], *grid[-edge:]]))
    assert not any(any(row[:edge] + row[-edge:]) for row in grid)
    return [row[edge:-edge] for row in grid[edge:-edge]]


@given(st.ip_addresses(v=4), st.integers(1024, 65535))
def test_the_code_reads_as_the_address(address: object, port: int) -> None:
    room = room_at(str(address), port)
    shown = room.shown()
    if shown is None:
        assert str(address) == LOCALHOST
        return
    assert read_code(modules_of(shown)) == room.address == f"http://{address}:{port}"


def test_the_terminal_shows_the_same_code() -> None:
    lines = [re.sub("\x1b[^m]*m", "", line) for line in terminal_code("http://10.0.0.2:7860").splitlines()]
    light = {"█": (0, 0), "▀": (0, 1), "▄": (1, 0), " ": (1, 1)}
    grid = [[light[mark][half] for mark in line] for line in lines for half in (0, 1)]
    size = len(lines[0])
    modules = [row[QUIET_MODULES:-QUIET_MODULES] for row in grid[QUIET_MODULES : size - QUIET_MODULES]]
    assert read_code(modules) == "http://10.0.0.2:7860"


def test_without_arguments_all_is_as_gradio_chooses() -> None:
    assert parse([]) == Serving()
    chosen = parse(["--target", "owner/model", "--drafter", "./one", "--drafter", "eagle3:two"])
    assert (chosen.target, chosen.drafters) == ("owner/model", ("./one", "eagle3:two"))
    assert parse([]).launch_options() == {"server_name": None, "server_port": None}


def test_a_class_gets_every_address_and_sees_the_local_one(free_port: int) -> None:
    serving = parse(["--classroom", "--port", str(free_port)], lambda: "192.168.1.20")
    assert serving.launch_options() == {"server_name": EVERY_ADDRESS, "server_port": free_port}
    assert serving.room is not None
    assert serving.room.address == f"http://192.168.1.20:{free_port}"


def test_without_a_network_the_class_is_told_and_only_this_machine_is_served(
    free_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    serving = parse(["--classroom", "--port", str(free_port)], lambda: None)
    assert serving.host == LOCALHOST
    assert serving.room is not None
    assert serving.room.shown() is None
    announce(serving)
    assert f"No network was found: only this machine can open the page, at http://localhost:{free_port}" in (
        capsys.readouterr().out
    )


def test_the_local_address_is_one_of_this_machine() -> None:
    address = local_address()
    if address is not None:
        assert parse(["--classroom", "--host", address, "--port", str(unused())]).host == address


def unused() -> int:
    """A port that is free at every address."""
    with socket.socket() as trying:
        trying.bind((EVERY_ADDRESS, 0))
        return int(trying.getsockname()[1])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--port", "0"], "the port is '0'; it must be a whole number from 1 to 65535"),
        (["--port", "65536"], "from 1 to 65535"),
        (["--port", "http"], "the port is 'http'"),
        (["--classroom", "--host", "not a host"], "which is no address"),
        (["--classroom", "--host", "203.0.113.9"], "no address of this machine"),
        (["--host", "203.0.113.9"], "no address of this machine"),
        (["--class"], "--class; see `python app.py --help`"),
        (["--port"], "expected one argument"),
    ],
)
def test_what_cannot_be_served_is_a_sentence(arguments: list[str], sentence: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(sentence)) as error:
        parse(arguments, lambda: "192.168.1.20")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("arguments", [[], ["--classroom"], ["--host", LOCALHOST]])
def test_a_port_in_use_is_a_sentence(arguments: list[str], used_port: int) -> None:
    with pytest.raises(SettingsError, match=f"port {used_port} is in use; choose another with --port"):
        parse([*arguments, "--port", str(used_port)], lambda: "192.168.1.20")


def test_the_app_ends_with_one_line_and_code_2() -> None:
    command = [sys.executable, "app.py", "--classroom", "--port", "0"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("specdemo: the port is '0'")


def test_the_room_reaches_the_queue_and_the_page(tmp_path: Path) -> None:
    room = Room("http://10.0.0.2:7860", ((1, 0), (0, 1)), max_waiting=60)
    page = build_page(ScriptedSource(), tmp_path, room)
    plain = build_page(ScriptedSource(), tmp_path)
    assert page._queue.max_size == 240, "events, of which a person may have some"
    assert plain._queue.max_size == 160
    views = [block for block in page.blocks.values() if block.elem_id == "race-view"]
    assert views[0].props["room"]["address"] == "http://10.0.0.2:7860"
    assert page.delete_cache == (60, 60)
    assert Room().max_waiting == 60
    assert DEFAULT_PORT == 7860
