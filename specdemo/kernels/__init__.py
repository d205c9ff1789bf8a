"""Compiled code for the few rows that decoding feeds at a time; Numba compiles it here, no compiler need be installed.

What it compiled is kept, under a name that says from which source: a newer version must never run older machine code.
"""

import hashlib
import tempfile
from pathlib import Path

import numba

from specdemo.folders import cache_folder


def _code_folder() -> Path:
    source = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    folder = cache_folder() / f"kernels-{hashlib.sha256(source).hexdigest()[:12]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return Path(tempfile.mkdtemp(prefix="specdemo-kernels-"))


numba.config.CACHE_DIR = str(_code_folder())
