"""A loaded target with its drafters: prompts in, generations and races out. Knows no page and no command line."""

import os
import platform
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from statistics import median
from typing import Any

import torch
import transformers

from specdemo import __version__
from specdemo.catalog import TARGETS
from specdemo.chat import encode_prompt, thinking_by_default
from specdemo.decoding import decode
from specdemo.divergence import explain_divergence
from specdemo.drafters import make_drafter
from specdemo.drafters.autoregressive import AutoregressiveDrafter
from specdemo.drafters.base import Drafter
from specdemo.errors import PromptError
from specdemo.events import Event, Finished, Round, Started
from specdemo.kernels import llama as kernels
from specdemo.loading import load_named_target
from specdemo.precision import in_precision
from specdemo.race import LaneUpdate, RaceRequest, race
from specdemo.settings import DecodeSettings
from specdemo.spans import CandidateTexts, DecodeText, LaneSpans, Span, prompt_texts
from specdemo.target import Target
from specdemo.weights import Progress

_WARM_UP_TEXT = "Say hello, then say hello again."
_PROBE_PASSES = 7


class Engine:
    """Weights are loaded once and shared; everything that belongs to one generation lives in its iterator."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._drafters: dict[str, Drafter] = {}
        self._others: dict[str, Engine] = {}
        self._lock = threading.Lock()

    @classmethod
    def load(cls, name: str, progress: Progress) -> "Engine":
        """Fetch where needed, then load; raises ModelError in one sentence. What is not compiled yet is, meanwhile."""
        threading.Thread(target=kernels.prepare, daemon=True, name="compile-kernels").start()
        return cls(load_named_target(name, progress))

    def at(self, precision: str) -> "Engine":
        """The engine with its target at another precision, made at its first use; see precision.in_precision."""
        with self._lock:
            if precision not in self._others:
                target = in_precision(self.target, precision)
                self._others[precision] = self if target is self.target else Engine(target)
            return self._others[precision]

    def drafter(self, spec: str) -> Drafter:
        """The drafter `spec` names, made at its first use."""
        with self._lock:
            if spec not in self._drafters:
                self._drafters[spec] = make_drafter(spec, self.target)
            return self._drafters[spec]

    def encode(self, request: RaceRequest) -> list[int]:
        """Prompt ids of a request; raises PromptError."""
        return encode_prompt(
            self.target.tokenizer,
            request.prompt,
            system=request.system,
            raw=request.raw,
            context_length=self.target.context_length,
            thinking=request.thinking,
        )

    def generate(self, request: RaceRequest) -> Iterator[LaneUpdate]:
        """One generation with the request's drafter, as updates of the lane `speculative` (`plain` for no drafter)."""
        lane = "plain" if request.drafter == "none" else "speculative"
        words = _LaneWords(self.target.decode_text)
        for event in self.lane(request, self.encode(request), request.drafter):
            yield words.update(lane, event)

    def race(self, request: RaceRequest) -> Iterator[LaneUpdate]:
        """Both lanes on this device, by turns; closing the iterator stops both and frees their caches."""
        prompt_ids = self.encode(request)
        words = {lane: _LaneWords(self.target.decode_text) for lane in ("plain", "speculative")}
        lanes = {
            "plain": self.lane(request, prompt_ids, "none"),
            "speculative": self.lane(request, prompt_ids, request.drafter),
        }
        answers: dict[str, list[int]] = {lane: [] for lane in lanes}
        open_lanes = set(lanes)
        for lane, event in race(lanes):
            if isinstance(event, Round):
                answers[lane] += event.emitted_token_ids
            if isinstance(event, Finished):
                open_lanes.remove(lane)
                if not open_lanes and request.settings.resolved_rule == "greedy":
                    event = self._explained(event, prompt_ids, answers)
            yield words[lane].update(lane, event)

    def lane(self, request: RaceRequest, prompt_ids: list[int], spec: str) -> Iterator[Event]:
        """The events of one generation with the drafter `spec`, whatever the request names."""
        # Made inside the generator: a drafter that cannot be had ends its own lane and no other.
        drafter = self.drafter(spec)
        yield from decode(self.target, drafter, prompt_ids, request.settings, self.provenance(spec, request))

    def provenance(self, drafter: str, request: RaceRequest | None = None) -> dict[str, Any]:
        """What was run, on what: models and revisions, dtype, device, library versions, time.

        With a request also whether the target was asked to think before it answers, where it can be asked.
        """
        made = self.drafter(drafter)
        return {
            "target": self.target.name,
            "target_title": _title(self.target.name),
            "target_revision": self.target.revision,
            "target_bytes": self.target.lm.weight_bytes,
            "thinking": self._thinking(request),
            "drafter": drafter,
            "drafter_bytes": made.memory_bytes,
            "dtype": self.target.precision,
            "device": device_name(self.target.lm.device),
            "num_threads": torch.get_num_threads(),
            "specdemo": __version__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "python": platform.python_version(),
            "recorded": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }

    def _thinking(self, request: RaceRequest | None) -> str:
        """ "on", "off", or "" where there is no template with a switch for it."""
        default = thinking_by_default(self.target.tokenizer)
        if default is None or (request is not None and request.raw):
            return ""
        chosen = None if request is None else request.thinking
        return "on" if (default if chosen is None else chosen) else "off"

    def warm_up(self, drafter: str) -> None:
        """Run a few tokens through both lanes, so that the first race does not pay for first touches."""
        settings = DecodeSettings(max_new_tokens=8)
        # A target with a very short context has no room for it, and pays at its first race instead.
        with suppress(PromptError):
            for _ in self.race(RaceRequest(prompt=_WARM_UP_TEXT, drafter=drafter, settings=settings)):
                pass

    def relative_draft_cost(self, spec: str) -> float:
        """One-token pass of a model drafter over the target's, each the median of a few, timed by turns."""
        drafter = self.drafter(spec)
        assert isinstance(drafter, AutoregressiveDrafter)
        sessions = self.target.lm.open(), drafter.lm.open()
        seconds: tuple[list[float], list[float]] = ([], [])
        for _ in range(_PROBE_PASSES):
            for session, spent in zip(sessions, seconds, strict=True):
                start = self.target.clock()
                session.forward([0], 1)
                spent.append(self.target.clock() - start)
        return median(seconds[1]) / median(seconds[0])

    def _explained(self, event: Finished, prompt_ids: list[int], answers: dict[str, list[int]]) -> Finished:
        """The last event of a greedy race, with a word on the first token in which the answers differ, if any does."""
        why = explain_divergence(self.target, prompt_ids, answers["plain"], answers["speculative"])
        return replace(event, message=" ".join(filter(None, (event.message, why)))) if why else event


def device_name(device: torch.device) -> str:
    """The device in words a person can compare figures by."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{_cpu_name()}, {os.cpu_count()} cores"


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:  # noqa: PTH123 - not an ordinary path
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _title(name: str) -> str:
    return TARGETS[name].title if name in TARGETS else name


class _LaneWords:
    """The text that goes with a lane's events."""

    def __init__(self, decode_text: DecodeText) -> None:
        self._decode_text = decode_text
        self._spans = LaneSpans(decode_text)
        self._texts = CandidateTexts(decode_text)

    def update(self, lane: str, event: Event) -> LaneUpdate:
        if isinstance(event, Round):
            return LaneUpdate(lane, event, self._spans.add(event), self._texts.add(event))
        if isinstance(event, Finished):
            tail = self._spans.finish()
            return LaneUpdate(lane, event, (Span(-1, tail, "plain"),) if tail else ())
        # Nothing was copied into the plain lane from anywhere.
        if isinstance(event, Started) and event.settings["evidence"] and lane == "speculative":
            return LaneUpdate(lane, event, texts=prompt_texts(self._decode_text, event.prompt_token_ids))
        return LaneUpdate(lane, event)
