"""The Gradio page: layout, handlers and view models over an EventSource. Knows no model and never imports torch."""

import os

# Gradio reads this while it is imported, so it is set before any module of this package imports it.
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
