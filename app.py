"""The page over the live engine: builds `demo`, serves it under __main__."""

import os
import sys

from specdemo.classroom import Serving, asked
from specdemo.live import LiveSource
from specdemo.space.place import place_asked
from specdemo.ui.layout import build_page, launch_options
from specdemo.zero import ZeroSource, borrow_gpu

borrow = borrow_gpu()
serving = asked(sys.argv[1:]) if __name__ == "__main__" else Serving()
place = place_asked(os.environ, in_class=serving.room is not None)
target = serving.target or place.target
if borrow is None:
    source = LiveSource(target, place.limits, serving.drafters)
else:
    source = ZeroSource(borrow, target, place.limits)
demo = build_page(source, room=serving.room, limits=place.limits)

if __name__ == "__main__":
    source.start()
    demo.launch(**launch_options(), **serving.launch_options())
