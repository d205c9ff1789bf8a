"""The page over the live engine: builds `demo`, serves it under __main__."""

import sys

from specdemo.classroom import Serving, asked
from specdemo.live import LiveSource
from specdemo.ui.layout import build_page, launch_options

serving = asked(sys.argv[1:]) if __name__ == "__main__" else Serving()
source = LiveSource()
demo = build_page(source, room=serving.room)

if __name__ == "__main__":
    source.start()
    demo.launch(**launch_options(), **serving.launch_options())
