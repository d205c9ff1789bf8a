"""The named endpoints: a race that streams, and a race that returns its numbers. Usable through `gradio_client`."""

# ruff: noqa: PLR0913 (an endpoint's parameters are its public signature)

from collections.abc import Callable, Iterator
from typing import Any

import gradio as gr

from specdemo.errors import SpecdemoError
from specdemo.race import LANES, EventSource, LaneUpdate, RaceRequest
from specdemo.traces import answer_text, compare
from specdemo.ui.coalesce import batches
from specdemo.ui.form import FIELDS, checked_request
from specdemo.ui.waiting import WaitingLine

SECONDS_BETWEEN_STATES = 0.2


class RaceApi:
    """Both endpoints over one engine. Every parameter but the prompt has a default."""

    def __init__(self, source: EventSource, line: WaitingLine) -> None:
        self._source = source
        self._line = line

    def race(
        self,
        prompt: str,
        drafter: str = "",
        k: int = 4,
        adaptive: bool = False,
        temperature: float = 0.0,
        rule: str = "coupled",
        seed: int = 0,
        max_new_tokens: int = 128,
        top_p: float = 1.0,
        top_k: int = 0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        stop: list[str] | None = None,
        system: str = "",
        raw: bool = False,
        precision: str = "auto",
    ) -> Iterator[dict[str, Any]]:
        """Race plain against speculative decoding of the same target model and stream how it goes.

        Each state is {"plain_text", "speculative_text", "plain", "speculative", "speedup", "identical",
        "first_divergence", "done"}: texts so far and each lane's measured figures; "identical" compares the token
        ids so far. The last state has done = true.

        Args:
            prompt: the question for the target model.
            drafter: who proposes draft tokens; "" is the default drafter.
            k: draft tokens per round, 1 to 16.
            adaptive: let K grow and shrink by what was accepted lately.
            temperature: 0 is greedy, up to 2.
            rule: auto, rejection, coupled, block or typical (lossy).
            seed: seed of the random numbers.
            max_new_tokens: the longest answer, 1 to 4096.
            top_p: nucleus filter, 1 switches it off.
            top_k: keep the k most probable tokens, 0 switches it off.
            min_p: keep tokens at least this probable relative to the best, 0 switches it off.
            repetition_penalty: 1 switches it off.
            stop: strings that end the answer.
            system: the system prompt; "" is the chat template's own.
            raw: feed the prompt as it is, without the chat template.
            precision: of the target: auto (as loaded), float32, bfloat16 or int4.
        """
        yield from self._states(self._checked(locals()))

    def race_summary(
        self,
        prompt: str,
        drafter: str = "",
        k: int = 4,
        adaptive: bool = False,
        temperature: float = 0.0,
        rule: str = "coupled",
        seed: int = 0,
        max_new_tokens: int = 128,
        top_p: float = 1.0,
        top_k: int = 0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        stop: list[str] | None = None,
        system: str = "",
        raw: bool = False,
        precision: str = "auto",
    ) -> dict[str, Any]:
        """Race plain against speculative decoding of the same target model and return the numbers.

        The result is {"plain", "speculative"} (each lane's measured figures, finish reason among them), "speedup",
        "identical", "first_divergence", "plain_text" and "speculative_text".

        Args:
            prompt: the question for the target model.
            drafter: who proposes draft tokens; "" is the default drafter.
            k: draft tokens per round, 1 to 16.
            adaptive: let K grow and shrink by what was accepted lately.
            temperature: 0 is greedy, up to 2.
            rule: auto, rejection, coupled, block or typical (lossy).
            seed: seed of the random numbers.
            max_new_tokens: the longest answer, 1 to 4096.
            top_p: nucleus filter, 1 switches it off.
            top_k: keep the k most probable tokens, 0 switches it off.
            min_p: keep tokens at least this probable relative to the best, 0 switches it off.
            repetition_penalty: 1 switches it off.
            stop: strings that end the answer.
            system: the system prompt; "" is the chat template's own.
            raw: feed the prompt as it is, without the chat template.
            precision: of the target: auto (as loaded), float32, bfloat16 or int4.
        """
        request = self._checked(locals())
        try:
            updates = list(self._source.race(request))
        except SpecdemoError as error:
            raise gr.Error(str(error), print_exception=False) from error
        return race_numbers(updates)

    def validate(self, *values: Any) -> list[dict[str, Any]]:
        """Gradio's check before the queue: one verdict per parameter, the sentence on the first."""
        try:
            self._line.check()
            checked_request(self._source, dict(zip(FIELDS, values, strict=True)))
        except SpecdemoError as error:
            return [gr.validate(False, str(error)), *[gr.validate(True, "")] * (len(values) - 1)]
        return [gr.validate(True, "")] * len(values)

    def _states(self, request: RaceRequest) -> Iterator[dict[str, Any]]:
        updates: list[LaneUpdate] = []
        # At once: where a GPU is borrowed, waiting for it must not look like a connection that is gone.
        yield race_state(updates, done=False)
        try:
            for batch in batches(self._source.race(request), SECONDS_BETWEEN_STATES):
                updates += batch
                yield race_state(updates, done=False)
        except SpecdemoError as error:
            raise gr.Error(str(error), print_exception=False) from error
        yield race_state(updates, done=True)

    def _checked(self, arguments: dict[str, Any]) -> RaceRequest:
        try:
            return checked_request(self._source, {name: arguments[name] for name in FIELDS})
        except SpecdemoError as error:
            raise gr.Error(str(error), print_exception=False) from error


def race_numbers(updates: list[LaneUpdate]) -> dict[str, Any]:
    """`traces.compare` with both texts."""
    texts = {f"{lane}_text": answer_text(u for u in updates if u.lane == lane) for lane in LANES}
    return {**texts, **compare(updates)}


def race_state(updates: list[LaneUpdate], *, done: bool) -> dict[str, Any]:
    """One state of the streaming endpoint."""
    return {**race_numbers(updates), "done": done}


def add_endpoints(page: gr.Blocks, source: EventSource, line: WaitingLine, concurrency_id: str) -> None:
    """Add both endpoints to the page that is being built."""
    api = RaceApi(source, line)
    endpoints: tuple[tuple[str, Callable[..., Any]], ...] = (("race", api.race), ("race_summary", api.race_summary))
    for name, function in endpoints:
        event = gr.api(function, api_name=name, concurrency_id=concurrency_id, concurrency_limit=1)
        # gr.api takes no validator, but its events run one like any other: bad input is refused before the queue.
        page.fns[event["id"]].validator = api.validate
