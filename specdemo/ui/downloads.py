"""Files that a page hands out: written where Gradio serves from, and fetched by a script. Knows nothing of a race."""

import tempfile
from pathlib import Path

from gradio.processing_utils import save_file_to_cache
from gradio.utils import get_upload_folder

DOWNLOAD = (
    "(file) => { if (!file) return; const link = document.createElement('a'); link.href = file.url;"
    " link.download = file.orig_name || 'specdemo.json'; document.body.append(link); link.click(); link.remove(); }"
)
"""For an event whose input is the hidden file that a handler has just written."""


def write_download(name: str, text: str) -> str:
    """A text as a file of that name, where Gradio serves files from and clears them away."""
    with tempfile.TemporaryDirectory(prefix="specdemo-") as folder:
        path = Path(folder) / name
        path.write_text(text, encoding="utf-8")
        return save_file_to_cache(path, get_upload_folder())
