"""The contract of `spaces.GPU` for generators, over a real process border: forked, arguments and yields pickled.

As in spaces 0.51: an error comes back as the name of its class, closing sets a flag that is read after the next step,
and a process that dies is "GPU task aborted".
"""

import inspect
import multiprocessing
from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr

_FORK = multiprocessing.get_context("fork")


class FakeSpaces:
    """Stands for the module; `refusal` is what asking for a GPU raises, `loans` the seconds that were asked for."""

    def __init__(self) -> None:
        self.loans: list[int] = []
        self.refusal: Exception | None = None
        self.processes: list[Any] = []

    def GPU(self, *, duration: Callable[..., int]) -> Callable[..., Any]:  # noqa: N802 - its name there
        """The decorator."""

        def decorate(task: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
            assert inspect.isgeneratorfunction(task), "anything else would come back only when it is over"

            def borrowed(*arguments: Any) -> Iterator[Any]:
                self.loans.append(duration(*arguments))
                if self.refusal is not None:
                    raise self.refusal
                yield from self._run(task, arguments)

            return borrowed

        return decorate

    def _run(self, task: Callable[..., Iterator[Any]], arguments: tuple[Any, ...]) -> Iterator[Any]:
        asking, asked = _FORK.Pipe()
        stop = _FORK.Event()
        process = _FORK.Process(target=_work, args=(task, asked, stop), daemon=True)
        process.start()
        self.processes.append(process)
        asked.close()
        asking.send(arguments)
        try:
            while True:
                try:
                    kind, value = asking.recv()
                except EOFError:
                    raise gr.Error("GPU task aborted", title="ZeroGPU worker error", print_exception=False) from None
                if kind == "end":
                    return
                if kind == "error":
                    raise gr.Error(value, title="ZeroGPU worker error", print_exception=False)
                try:
                    yield value
                except GeneratorExit:
                    stop.set()
                    raise
        finally:
            asking.close()
            process.join(20)


def _work(task: Callable[..., Iterator[Any]], pipe: Any, stop: Any) -> None:
    steps = task(*pipe.recv())
    try:
        for value in steps:
            if stop.is_set():
                break
            pipe.send(("value", value))
        steps.close()  # type: ignore[attr-defined]
        pipe.send(("end", None))
    except BrokenPipeError:
        steps.close()  # type: ignore[attr-defined]
    except Exception as error:  # noqa: BLE001 - as there
        pipe.send(("error", type(error).__name__))
