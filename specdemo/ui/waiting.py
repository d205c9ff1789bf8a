"""A visitor's place in the queue for the device. Gradio knows it, and tells its own spinner alone."""

import gradio as gr


def races_ahead(page: gr.Blocks, concurrency_id: str, session: object) -> int | None:
    """How many races run or wait before the first one that waits for this session; None where none waits."""
    queue = page._queue.event_queue_per_concurrency_id.get(concurrency_id)
    if queue is None:
        return None
    for place, event in enumerate(list(queue.queue)):
        if event.session_hash == session:
            return queue.current_concurrency + place
    return None
