"""Where files that can be made again are kept on this machine."""

import os
from pathlib import Path

from platformdirs import user_cache_path


def cache_folder() -> Path:
    """`SPECDEMO_CACHE`, or this user's cache directory."""
    chosen = os.environ.get("SPECDEMO_CACHE")
    return Path(chosen) if chosen else user_cache_path("specdemo")
