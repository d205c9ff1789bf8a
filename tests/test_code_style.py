"""ruff and mypy pass on what is in the repository, so that one command checks all."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CHECKS = {
    "ruff check": ["ruff", "check", "--config", ".ruff.toml", "."],
    "ruff format": ["ruff", "format", "--config", ".ruff.toml", "--check", "."],
    "mypy": ["mypy", "--config-file", ".mypy.ini"],
}


@pytest.mark.parametrize("command", CHECKS.values(), ids=CHECKS.keys())
def test_the_source_passes(command: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
