"""Advice, sweeps and their points as the components of the tab "Tune" receive them."""

import secrets
from collections.abc import Iterable, Sequence
from typing import Any

from specdemo.advice import Advice, AdviceRequest, AdviceStep, AdviceUpdate, Estimate
from specdemo.memory_use import MemoryUse
from specdemo.points import CategoryPoint, Point, points
from specdemo.sweeps import HeatResult, SweepProgress, SweepRequest, SweepUpdate
from specdemo.ui.short import short

IDLE_ADVICE: dict[str, Any] = {"run": "", "state": "idle", "advice": None}
IDLE_SWEEP: dict[str, Any] = {"run": "", "state": "idle", "points": [], "memory": []}
IDLE_BATCH: dict[str, Any] = {"run": "", "state": "idle", "points": [], "crossing": None}
NO_GRID: dict[str, Any] = {"origin": "none", "cells": []}
Group = tuple[float, str, str]


class AdviceWire:
    """The value of one advice."""

    def __init__(self, request: AdviceRequest) -> None:
        self._request = request
        self._run_id = secrets.token_hex(6)
        self._step = AdviceStep("", 0.0)
        self.advice: Advice | None = None

    def add(self, updates: Iterable[AdviceUpdate]) -> None:
        """Take in what came."""
        for update in updates:
            if isinstance(update, AdviceStep):
                self._step = update
            else:
                self.advice = update

    def value(self, state: str, message: str = "", settings: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
        """`state` is waiting, running, done or failed; `settings` are those of other engines."""
        return {
            "run": self._run_id,
            "state": state,
            "temperature": self._request.temperature,
            "prompts": len(self._request.prompts),
            "step": [self._step.drafter, round(self._step.share, 4)],
            "advice": None if self.advice is None else _advice(self.advice),
            "settings": list(settings),
            "message": message,
        }


class SweepWire:
    """The value of one sweep; a point is folded again only when a heat of it has come."""

    def __init__(
        self, request: SweepRequest, results: Sequence[HeatResult] = (), memory: Iterable[MemoryUse] = ()
    ) -> None:
        self._request = request
        self._run_id = secrets.token_hex(6)
        self._heats: dict[Group, list[HeatResult]] = {}
        self._rows: dict[Group, list[dict[str, Any]]] = {}
        self._stale: set[Group] = set()
        self._progress = SweepProgress(len(results), len(request.heats()))
        self._memory: dict[str, dict[str, Any]] = {}
        self.add([*memory, *results])

    def add(self, updates: Iterable[SweepUpdate]) -> None:
        """Take in what came."""
        for update in updates:
            if isinstance(update, SweepProgress):
                self._progress = update
            elif isinstance(update, MemoryUse):
                self._memory[update.drafter] = update.to_dict()
            else:
                heat = update.heat
                group = (heat.temperature, heat.rule, heat.drafter)
                self._heats.setdefault(group, []).append(update)
                self._stale.add(group)

    def value(self, state: str, message: str = "") -> dict[str, Any]:
        """`state` is waiting, running, done, part, stopped, opened or failed."""
        for group in self._stale:
            self._rows[group] = [point_row(point) for point in points(self._request, self._heats[group])]
        self._stale.clear()
        progress = self._progress
        return {
            "run": self._run_id,
            "state": state,
            "done": progress.num_done,
            "all": progress.num_all,
            "left": None if progress.seconds_left is None else round(progress.seconds_left),
            "points": [row for group in self._groups() for row in self._rows.get(group, [])],
            "memory": list(self._memory.values()),
            "message": message,
        }

    def _groups(self) -> list[Group]:
        request = self._request
        return [
            (temperature, rule, drafter)
            for drafter in request.drafters
            for temperature in request.temperatures
            for rule in request.rules
        ]


def point_row(point: Point) -> dict[str, Any]:
    """A point with its figures as short as they are shown."""
    return {key: short(value) for key, value in point.to_dict().items()}


def machine_points(measured: Iterable[Point]) -> list[dict[str, Any]]:
    """What the calculator marks: the points of which every cost is known."""
    return [
        {
            "drafter": point.drafter,
            "k": point.k,
            "temperature": point.temperature,
            "alpha": short(point.alpha),
            "draft": short(point.draft_cost / point.k),
            "verify": short(point.verify_cost),
            "tokens": short(point.tokens_per_round),
            "speedup": short(point.speedup),
        }
        for point in measured
        if None not in (point.alpha, point.draft_cost, point.verify_cost, point.speedup)
        if point.draft_cost is not None
    ]


def grid_value(origin: str, machine: str, cells: Sequence[CategoryPoint]) -> dict[str, Any]:
    """`origin` is own, recorded or none."""
    return {"origin": origin, "machine": machine, "cells": [_cell(cell) for cell in cells]}


def _cell(cell: CategoryPoint) -> dict[str, Any]:
    point = cell.point
    return {
        "category": cell.category,
        "language": cell.language,
        "drafter": point.drafter,
        "k": point.k,
        "temperature": point.temperature,
        "prompts": point.num_prompts,
        "acceptance": short(point.acceptance_rate),
        "tokens": short(point.tokens_per_round),
        "speedup": short(point.speedup),
        "interval": short(point.interval),
    }


def _advice(advice: Advice) -> dict[str, Any]:
    return {
        "drafter": advice.drafter,
        "k": advice.k,
        "speedup": short(advice.speedup),
        "interval": short(advice.interval),
        "reason": advice.reason,
        "estimates": [_estimate(one) for one in advice.estimates],
        "measured": [point_row(point) for point in advice.measured],
        "tokens": advice.num_tokens,
        "seconds": round(advice.seconds, 1),
        "failures": [list(failure) for failure in advice.failures],
    }


def _estimate(one: Estimate) -> dict[str, Any]:
    return {
        "drafter": one.drafter,
        "k": one.k,
        "tokens": short(one.tokens_per_round),
        "draft": short(one.draft_cost),
        "verify": short(one.verify_cost),
        "speedup": short(one.speedup),
    }
