"""A proof as its component receives it: results as they came, and how far the work is."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from specdemo.metrics import ratio
from specdemo.proofs import ALPHA, AnswerRow, Comparison, ProofRequest, ProofUpdate, SampleState, Step, is_alarm
from specdemo.ui.short import short

IDLE_PROOF: dict[str, Any] = {"run": "", "state": "idle", "proof": ""}
_MOST_TEXT = 400


class ProofWire:
    """The value of one proof. `verdict` is "" until it is over, then green or red."""

    def __init__(self, request: ProofRequest) -> None:
        self._request = request
        self._run_id = secrets.token_hex(6)
        self._step = Step(0, 0)
        self._answers: list[dict[str, Any]] = []
        self._samples: dict[str, dict[str, Any]] = {}
        self._comparisons: dict[str, Any] | None = None
        self._is_alarmed = False

    def add(self, updates: Sequence[ProofUpdate]) -> None:
        """Take in what came."""
        for update in updates:
            self._is_alarmed |= is_alarm(self._request, update)
            if isinstance(update, Step):
                self._step = update
            elif isinstance(update, AnswerRow):
                self._answers.append(_answer(update))
            else:
                self._samples[update.mistake] = _sample(update)
                self._comparisons = {"token": _comparison(update.next_token), "pair": _comparison(update.pair)}

    def value(self, state: str, message: str = "") -> dict[str, Any]:
        """`state` is waiting, running, done or failed."""
        verdict = ("red" if self._is_alarmed else "green") if state == "done" else ""
        return {
            "run": self._run_id,
            "state": state,
            "proof": self._request.proof,
            "rule": self._request.rule,
            "mistake": self._request.mistake,
            "alpha": ALPHA,
            "verdict": verdict,
            "step": [self._step.num_done, self._step.num_all],
            "answers": list(self._answers),
            "samples": list(self._samples.values()),
            "comparisons": self._comparisons,
            "message": message,
        }


def _answer(row: AnswerRow) -> dict[str, Any]:
    found = row.difference
    return {
        "prompt": row.prompt,
        "drafter": row.drafter,
        "k": row.k,
        "temperature": row.temperature,
        "dtype": row.dtype,
        "n": row.num_tokens,
        "verdict": row.verdict,
        "difference": None if found is None else [found.index, *found.texts, short(found.gap), short(found.top_gap)],
        "text": row.text[:_MOST_TEXT],
    }


def _sample(state: SampleState) -> dict[str, Any]:
    worse = min(state.next_token, state.pair, key=lambda one: one.p_value)
    return {
        "mistake": state.mistake,
        "n": state.num_draws,
        "all": state.num_all,
        "verdict": state.verdict,
        "done": ratio(state.num_draws, state.num_all),
        **_figures(worse),
    }


def _comparison(one: Comparison) -> dict[str, Any]:
    return {
        "labels": list(one.labels),
        "expected": [short(share) for share in one.expected],
        "observed": [short(share) for share in one.observed],
        **_figures(one),
    }


def _figures(one: Comparison) -> Mapping[str, float]:
    keys = ("distance", "expected_distance", "spread", "p_value")
    return dict(zip(("tv", "mean", "spread", "p"), (short(getattr(one, key)) for key in keys), strict=True))
