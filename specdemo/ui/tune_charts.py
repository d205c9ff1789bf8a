"""A sweep's charts at rest, as figures that Gradio's own plotly.js draws: plain JSON, no library. Knows no engine.

Text and grid lines take their colours from tune.css, so that one figure is legible in both themes.
"""

import json
from collections.abc import Sequence
from typing import Any

from gradio.components.plot import PlotData

from specdemo.points import Point
from specdemo.ui.texts import drafter_names
from specdemo.ui.texts_tune import TUNE

# Okabe and Ito's, which colour-blind people tell apart; every drafter has a symbol of its own besides.
_COLOURS = ("#0f8a80", "#d55e00", "#4a7fd0", "#b4588f", "#c08a00", "#7a6ff0", "#5f7a33", "#8a8f98")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star", "hexagon")
# From worse than plain decoding over equal to better; light throughout, for black figures.
_WORSE_TO_BETTER = [[0.0, "#f4a582"], [0.5, "#f7f7f7"], [1.0, "#80cdc1"]]
_HEIGHT = 330
Trace = dict[str, Any]


class Charts:
    """The figures of a sweep's points, in one language."""

    def __init__(self, measured: Sequence[Point], language: str) -> None:
        self._points = measured
        self._texts = TUNE[language]
        self._names = drafter_names(language)
        self._drafters = list(dict.fromkeys(point.drafter for point in measured))

    def speedup(self, temperature: float) -> PlotData:
        """Speedup over K with its interval, a line for each drafter; 1 is plain decoding."""
        traces = [
            {
                **self._line(name, line, [point.speedup for point in line]),
                "error_y": _error(line),
            }
            for name, line in self._lines(temperature)
        ]
        return self._figure(traces, self._ks(), shapes=[_level(1.0)])

    def tokens(self, temperature: float) -> PlotData:
        """Measured tokens per round over K, and what the formula expects of the measured alpha, dashed."""
        traces = []
        for name, line in self._lines(temperature):
            measured = self._line(name, line, [point.tokens_per_round for point in line])
            expected = self._line(
                f"{name}, {self._texts['formula']}", line, [p.expected_tokens_per_round for p in line]
            )
            expected |= {"mode": "lines", "showlegend": False}
            expected["line"] = {**expected["line"], "dash": "dot"}
            traces += [measured, expected]
        return self._figure(traces, self._ks())

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
        return self._figure([trace], (), **axes)

    def positions(self, drafter: str, temperature: float) -> PlotData:
        """Acceptance of one drafter by position of the draft, at the largest K; alpha is what the formula takes."""
        mine = [point for point in self._points if (point.drafter, point.temperature) == (drafter, temperature)]
        if not mine:
            return self._figure([], ())
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
        return self._figure([bars, reached], positions, shapes=shapes, **axes)

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

    def _ks(self) -> list[int]:
        return sorted({point.k for point in self._points})

    def _figure(self, traces: Sequence[Trace], ticks: Sequence[int], **layout: Any) -> PlotData:
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
                "showlegend": len(traces) > 0 and traces[0]["type"] != "heatmap",
                "hovermode": "closest",
                **layout,
                "xaxis": {"title": {"text": "K", "standoff": 6}, "fixedrange": True, **x_axis}
                | layout.get("xaxis", {}),
                "yaxis": {"fixedrange": True, "rangemode": "tozero"} | layout.get("yaxis", {}),
            },
            "config": {"displayModeBar": False},
        }
        return PlotData(type="plotly", plot=json.dumps(figure))


def _error(line: Sequence[Point]) -> dict[str, Any]:
    """Bars from the lower to the upper end of the interval, none where there is none."""
    reach = [
        (0.0, 0.0)
        if point.interval is None or point.speedup is None
        else (point.interval[1] - point.speedup, point.speedup - point.interval[0])
        for point in line
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
    line = {"color": "#8a8f98", "width": 1, "dash": "dash"}
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": value, "y1": value, "line": line}
