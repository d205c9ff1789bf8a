"""The page over the live engine: builds `demo`, serves it under __main__."""

import os
import sys

from specdemo.classroom import Serving, asked
from specdemo.cli_engine import asked_server
from specdemo.live import LiveSource
from specdemo.race import EventSource
from specdemo.space.place import place_asked
from specdemo.ui.layout import build_page, launch_options
from specdemo.zero import ZeroSource, borrow_gpu

borrow = borrow_gpu()
server, arguments = asked_server(sys.argv[1:]) if __name__ == "__main__" else (None, [])
serving = asked(arguments) if __name__ == "__main__" else Serving()
place = place_asked(os.environ, in_class=serving.room is not None)
target = serving.target or place.target
source: EventSource
if server is not None:
    source = server
elif borrow is not None:
    source = ZeroSource(borrow, target, place.limits)
else:
    source = LiveSource(target, place.limits, serving.drafters)
demo = build_page(source, room=serving.room, limits=place.limits)

if __name__ == "__main__":
    source.start()
    demo.launch(**launch_options(), **serving.launch_options())
