"""A sweep's charts at rest, as figures that Gradio's own plotly.js draws: plain JSON, no library. Knows no engine.

Text and grid lines take their colours from tune.css, so that one figure is legible in both themes.
"""

import json
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from gradio.components.plot import PlotData

from specdemo.batches import BatchPoint
from specdemo.points import Point
from specdemo.ui.texts import drafter_names
from specdemo.ui.texts_tune import TUNE

# Okabe and Ito's, which colour-blind people tell apart; every drafter has a symbol of its own besides.
_COLOURS = ("#0f8a80", "#d55e00", "#4a7fd0", "#b4588f", "#c08a00", "#7a6ff0", "#5f7a33", "#8a8f98")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star", "hexagon")
# From worse than plain decoding over equal to better; light throughout, for black figures.
_WORSE_TO_BETTER = [[0.0, "#f4a582"], [0.5, "#f7f7f7"], [1.0, "#80cdc1"]]
_HEIGHT = 330
_LEVEL_COLOUR = "#8a8f98"
Trace = dict[str, Any]


class Charts:
    """The figures of a sweep's points, in one language."""

    def __init__(self, measured: Sequence[Point], language: str) -> None:
        self._points = measured
        self._texts = TUNE[language]
        self._names = drafter_names(language)
        self._drafters = list(dict.fromkeys(point.drafter for point in measured))

    def speedup(self, temperature: float) -> PlotData:
        """Speedup over K with its interval, a line for each drafter; 1 is plain decoding.

        Dotted: what the formula makes of the measured alpha and the measured costs.
        """
        traces = []
        for name, line in self._lines(temperature):
            measured = self._line(name, line, [point.speedup for point in line])
            traces += [measured | {"error_y": _error(line)}]
            traces += [self._dotted(name, line, [point.predicted_speedup for point in line])]
        return _figure(traces, self._ks(), shapes=[_level(1.0)])

    def tokens(self, temperature: float) -> PlotData:
        """Measured tokens per round over K, and what the formula expects of the measured alpha, dashed."""
        traces = []
        for name, line in self._lines(temperature):
            traces += [self._line(name, line, [point.tokens_per_round for point in line])]
            traces += [self._dotted(name, line, [point.expected_tokens_per_round for point in line])]
        return _figure(traces, self._ks())

    def costs(self, temperature: float) -> PlotData:
        """What K drafts cost, a line for each drafter, and the pass that checks them, dashed; in plain rounds."""
        lines = self._lines(temperature)
        traces = [self._line(name, line, [point.draft_cost for point in line]) for name, line in lines]
        checks: dict[int, list[float]] = {}
        for _, line in lines:
            for point in line:
                checks.setdefault(point.k, []).extend([] if point.verify_cost is None else [point.verify_cost])
        known = {k: median(found) for k, found in sorted(checks.items()) if found}
        pass_line = {"color": _LEVEL_COLOUR, "width": 2, "dash": "dash"}
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": self._texts["chart_pass"],
                "x": list(known),
                "y": list(known.values()),
                "line": pass_line,
                "marker": {"color": _LEVEL_COLOUR},
            }
        )
        return _figure(traces, self._ks())

    def heat_map(self, drafter: str) -> PlotData:
        """Speedup of one drafter over K and temperature."""
        mine = [point for point in self._points if point.drafter == drafter]
        ks = sorted({point.k for point in mine})
        temperatures = sorted({point.temperature for point in mine})
        found = {(point.temperature, point.k): point.speedup for point in mine}
        trace: Trace = {
            "type": "heatmap",
            "x": [str(k) for k in ks],
            "y": [f"{temperature:g}" for temperature in temperatures],
            "z": [[found.get((temperature, k)) for k in ks] for temperature in temperatures],
            "colorscale": _WORSE_TO_BETTER,
            "zmid": 1.0,
            "texttemplate": "%{z:.2f}",
            "textfont": {"color": "#101418"},
            "hovertemplate": "K %{x}, T %{y}: %{z:.3f}<extra></extra>",
            "showscale": False,
            "xgap": 2,
            "ygap": 2,
        }
        axes = {"xaxis": {"type": "category"}, "yaxis": {"type": "category", "title": {"text": "T"}}}
        return _figure([trace], (), **axes)

    def positions(self, drafter: str, temperature: float) -> PlotData:
        """Acceptance of one drafter by position of the draft, at the largest K; alpha is what the formula takes."""
        mine = [point for point in self._points if (point.drafter, point.temperature) == (drafter, temperature)]
        if not mine:
            return _figure([], ())
        point = max(mine, key=lambda one: one.k)
        positions = list(range(1, len(point.acceptance_by_position) + 1))
        bars = {
            "type": "bar",
            "x": positions,
            "y": list(point.acceptance_by_position),
            "name": self._texts["position_accepted"],
            "marker": {"color": _COLOURS[0]},
        }
        reached = {
            "type": "scatter",
            "mode": "lines+markers",
            "x": positions,
            "y": list(point.survival_by_position),
            "name": self._texts["position_reached"],
            "line": {"color": _COLOURS[1]},
        }
        shapes = [] if point.alpha is None else [_level(point.alpha)]
        axes = {
            "xaxis": {"title": {"text": self._texts["chart_position"], "standoff": 6}},
            "yaxis": {"range": [0, 1.02]},
        }
        return _figure([bars, reached], positions, shapes=shapes, **axes)

    def _lines(self, temperature: float) -> list[tuple[str, list[Point]]]:
        """The points of each drafter and rule at a temperature, by K, under the line's name."""
        mine = [point for point in self._points if point.temperature == temperature]
        kinds = list(dict.fromkeys((point.drafter, point.rule) for point in mine))
        has_rules = len({rule for _, rule in kinds}) > 1
        return [
            (
                self._names.get(drafter, drafter) + (f", {rule}" if has_rules else ""),
                sorted((one for one in mine if (one.drafter, one.rule) == (drafter, rule)), key=lambda one: one.k),
            )
            for drafter, rule in kinds
        ]

    def _line(self, name: str, line: Sequence[Point], values: list[float | None]) -> Trace:
        place = self._drafters.index(line[0].drafter)
        colour = _COLOURS[place % len(_COLOURS)]
        return {
            "type": "scatter",
            "mode": "lines+markers",
            "name": name,
            "x": [point.k for point in line],
            "y": values,
            "line": {"color": colour, "width": 2},
            "marker": {"color": colour, "symbol": _SYMBOLS[place % len(_SYMBOLS)], "size": 8},
        }

    def _dotted(self, name: str, line: Sequence[Point], values: list[float | None]) -> Trace:
        """What theory says beside a measured line."""
        trace = self._line(f"{name}, {self._texts['formula']}", line, values) | {"mode": "lines", "showlegend": False}
        return trace | {"line": {**trace["line"], "dash": "dot"}}

    def _ks(self) -> list[int]:
        return sorted({point.k for point in self._points})


def batch_chart(measured: Sequence[BatchPoint], texts: Mapping[str, str]) -> PlotData:
    """Speedup over the batch size, with the worst and the best turn."""
    sizes = [point.batch_size for point in measured]
    trace = {
        "type": "scatter",
        "mode": "lines+markers",
        "x": sizes,
        "y": [point.speedup for point in measured],
        "line": {"color": _COLOURS[0], "width": 2},
        "marker": {"color": _COLOURS[0], "size": 8},
        "error_y": _reach([(point.speedup, (point.low, point.high)) for point in measured]),
    }
    axis = {"type": "log", "title": {"text": texts["chart_batch"], "standoff": 6}, "ticktext": [str(n) for n in sizes]}
    return _figure([trace], sizes, shapes=[_level(1.0)], xaxis=axis)


def _figure(traces: Sequence[Trace], ticks: Sequence[int], **layout: Any) -> PlotData:
    """The chart of some traces, over K unless `layout` says otherwise, with ticks where something was measured."""
    x_axis = {"tickvals": list(ticks)} if ticks else {}
    figure = {
        "data": list(traces),
        "layout": {
            "height": _HEIGHT,
            "margin": {"l": 46, "r": 12, "t": 44, "b": 40},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": "system-ui, sans-serif", "size": 12},
            "legend": {"orientation": "h", "y": -0.24, "yanchor": "top"},
            # A chart must not catch the finger that scrolls the page.
            "dragmode": False,
            # A line alone has a name too.
            "showlegend": any("name" in trace for trace in traces),
            "hovermode": "closest",
            **layout,
            "xaxis": {"title": {"text": "K", "standoff": 6}, "fixedrange": True, **x_axis} | layout.get("xaxis", {}),
            "yaxis": {"fixedrange": True, "rangemode": "tozero"} | layout.get("yaxis", {}),
        },
        "config": {"displayModeBar": False},
    }
    return PlotData(type="plotly", plot=json.dumps(figure))


def _error(line: Sequence[Point]) -> dict[str, Any]:
    """Bars from the lower to the upper end of the interval, none where there is none."""
    return _reach([(point.speedup, point.interval) for point in line])


def _reach(values: Sequence[tuple[float | None, tuple[float, float] | None]]) -> dict[str, Any]:
    """Error bars of (value, (lower, upper))."""
    reach = [
        (0.0, 0.0) if ends is None or value is None else (ends[1] - value, value - ends[0]) for value, ends in values
    ]
    return {
        "type": "data",
        "symmetric": False,
        "array": [up for up, _ in reach],
        "arrayminus": [down for _, down in reach],
        "thickness": 1,
        "width": 3,
    }


def _level(value: float) -> dict[str, Any]:
    """A dashed line across the chart."""
    line = {"color": _LEVEL_COLOUR, "width": 1, "dash": "dash"}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": value, "y1": value, "line": line}
