"""The page over the live engine: builds `demo`, serves it under __main__."""

from specdemo.live import LiveSource
from specdemo.ui.layout import build_page, launch_options

source = LiveSource()
demo = build_page(source)

if __name__ == "__main__":
    source.start()
    demo.launch(**launch_options())
