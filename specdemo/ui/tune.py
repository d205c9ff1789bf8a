"""The tab "Tune": five sections, the advisor first, and which handler each event calls. Knows no engine."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from specdemo.catalog import DRAFTER_LABELS
from specdemo.race import EventSource
from specdemo.ui.downloads import DOWNLOAD
from specdemo.ui.form import FIELDS
from specdemo.ui.handlers import PageHandlers
from specdemo.ui.tune_advice import AdviceHandlers, advice_fields
from specdemo.ui.tune_batch import BatchHandlers, batch_fields
from specdemo.ui.tune_prompts import prompt_fields
from specdemo.ui.tune_record import TuneRecord
from specdemo.ui.tune_sweep import SweepHandlers
from specdemo.ui.tune_views import TuneView
from specdemo.ui.view import ASSETS

_t = gr.I18n()
SWEEP = "sweep"
SHIPPED_SWEEPS = ASSETS / "sweeps"
_KS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
_TEMPERATURES = (0.0, 0.3, 0.5, 0.7, 1.0, 1.3)
_USUAL_DRAFTERS = ["ngram", "quantized", "eagle3"]
_USUAL_KS = [1, 2, 4, 8]
_MOST_MINUTES, _USUAL_MINUTES = 60, 5
_LIGHT: dict[str, Any] = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
_REFUSING: dict[str, Any] = {**_LIGHT, "queue": True, "concurrency_limit": None}
_RUNNING: dict[str, Any] = {
    "concurrency_limit": 1,
    "trigger_mode": "multiple",
    "show_progress": "hidden",
    "api_visibility": "private",
}
_RACE = """() => {
  document.querySelector('#views [role=tab]')?.click();
  document.querySelector('#race-button')?.click();
}"""


@dataclass(frozen=True, slots=True)
class _Sweep:
    """What stands in the section of sweeps; `results` in the order of `SweepHandlers.results`."""

    fields: Mapping[str, Any]
    buttons: Mapping[str, Any]
    view: TuneView
    results: Mapping[str, Any]


def build_tune_tab(
    source: EventSource, pages: PageHandlers, asked: Mapping[str, Any], device: str, *, in_class: bool
) -> None:
    """Build the tab's content inside the Blocks that is open. `asked` are the race's settings, by FIELDS."""
    record = gr.State(TuneRecord())
    advising, sweeping = AdviceHandlers(source, pages), SweepHandlers(source, SHIPPED_SWEEPS)
    with gr.Tabs(elem_id="tune-sections"):
        with gr.Tab(_t("section_advice"), id="advice"):
            advice = advice_fields()
            with gr.Row(elem_classes="tune-buttons"):
                advise = gr.Button(_t("advise"), variant="primary", elem_id="advise-button", min_width=80, scale=0)
                stop = gr.Button(_t("tune_stop"), elem_id="advise-stop", min_width=60, scale=0)
                race = gr.Button(_t("race_it"), visible=False, elem_id="race-it", min_width=60, scale=0)
            view = TuneView("advice")
        with gr.Tab(_t("section_sweep"), id="sweep"):
            if in_class:
                gr.Markdown(_t("no_sweeps_in_class"))
            else:
                sweep = _build_sweep()
        with gr.Tab(_t("section_calculator"), id="calculator"):
            calculator = TuneView("calculator")
        with gr.Tab(_t("section_grid"), id="grid") as grid_tab:
            grid = TuneView("grid")
        with gr.Tab(_t("section_batch"), id="batch"):
            if in_class:
                gr.Markdown(_t("no_sweeps_in_class"))
            else:
                _build_batch(BatchHandlers(source), record)
    prepared = advise.click(advising.prepare, [record, *advice.values()], view, trigger_mode="multiple", **_REFUSING)
    run = prepared.success(advising.run, record, [view, race, calculator], concurrency_id=device, **_RUNNING)
    stop.click(advising.stop, record, None, cancels=[run], **_LIGHT)
    race.click(advising.put_into_race, record, [asked[name] for name in FIELDS], **_REFUSING).success(
        None, None, None, js=_RACE, **_LIGHT
    )
    grid_tab.select(sweeping.grid, record, grid, **_REFUSING)
    if not in_class:
        _connect_sweep(sweeping, sweep, record, calculator)


def _build_batch(handlers: BatchHandlers, record: gr.State) -> None:
    fields = batch_fields()
    with gr.Row(elem_classes="tune-buttons"):
        start = gr.Button(_t("sweep_start"), variant="primary", elem_id="batch-start", min_width=80, scale=0)
        stop = gr.Button(_t("tune_stop"), elem_id="batch-stop", min_width=60, scale=0)
    view = TuneView("batch")
    chart = gr.Plot(label=_t("plot_batch"), visible=False, elem_id="batch-chart")
    prepared = start.click(handlers.prepare, [record, *fields.values()], view, trigger_mode="multiple", **_REFUSING)
    run = prepared.success(handlers.run, record, [view, chart], concurrency_id=SWEEP, **_RUNNING)
    stop.click(handlers.stop, record, None, cancels=[run], **_LIGHT)


def _build_sweep() -> _Sweep:
    fields = _sweep_fields()
    open_label: Any = _t("sweep_open")
    with gr.Row(elem_classes="tune-buttons"):
        buttons = {
            "start": gr.Button(_t("sweep_start"), variant="primary", elem_id="sweep-start", min_width=80, scale=0),
            "stop": gr.Button(_t("tune_stop"), elem_id="sweep-stop", min_width=60, scale=0),
            "go_on": gr.Button(_t("sweep_go_on"), elem_id="sweep-go-on", min_width=60, scale=0),
            "open": gr.UploadButton(open_label, file_types=[".jsonl"], elem_id="sweep-open", min_width=60, scale=0),
            "file": gr.Button(_t("sweep_save"), elem_id="sweep-save", min_width=60, scale=0),
            "csv": gr.Button("CSV", elem_id="sweep-csv", min_width=60, scale=0),
            "json": gr.Button("JSON", elem_id="sweep-json", min_width=60, scale=0),
        }
    view = TuneView("sweep")
    # Charts take a library of their own, which the page fetches when there is something to draw.
    with gr.Column(visible=False, elem_id="sweep-charts") as column:
        with gr.Row():
            drafter = gr.Dropdown([], label=_t("shown_drafter"), elem_id="shown-drafter", min_width=150)
            temperature = gr.Dropdown([], label=_t("shown_temperature"), elem_id="shown-temperature", min_width=150)
        charts: dict[str, Any] = {}
        for group in (("speedup", "tokens"), ("costs", "positions"), ("heat",)):
            with gr.Row():
                charts |= {name: gr.Plot(label=_t(f"plot_{name}"), min_width=300) for name in group}
    results = {"column": column, "drafter": drafter, "temperature": temperature, **charts}
    return _Sweep(fields, buttons, view, results)


def _sweep_fields() -> dict[str, Any]:
    """The settings, in the order that `tune_sweep.sweep_request` takes them in."""
    drafters = [(_t(f"drafter_{name}"), name) for name in DRAFTER_LABELS if name != "none"]
    slider: dict[str, Any] = {"buttons": [], "min_width": 150}
    with gr.Group(elem_id="sweep-form"):
        fields = prompt_fields("sweep")
        fields["drafters"] = gr.CheckboxGroup(
            drafters, value=_USUAL_DRAFTERS, label=_t("swept_drafters"), elem_id="sweep-drafters"
        )
        with gr.Row():
            fields["ks"] = gr.CheckboxGroup(
                [(str(k), k) for k in _KS], value=_USUAL_KS, label=_t("swept_ks"), elem_id="sweep-ks", min_width=260
            )
            fields["temperatures"] = gr.CheckboxGroup(
                [(f"{one:g}", one) for one in _TEMPERATURES],
                value=[0.0],
                label=_t("swept_temperatures"),
                min_width=260,
                elem_id="sweep-temperatures",
            )
        with gr.Row():
            fields["each"] = gr.Slider(1, 8, 1, step=1, label=_t("how_many_each"), elem_id="sweep-each", **slider)
            fields["max_new_tokens"] = gr.Slider(16, 256, 64, step=16, label=_t("swept_tokens"), **slider)
            fields["minutes"] = gr.Slider(
                1, _MOST_MINUTES, _USUAL_MINUTES, step=1, label=_t("minutes"), elem_id="sweep-minutes", **slider
            )
    return fields


def _connect_sweep(handlers: SweepHandlers, sweep: _Sweep, record: gr.State, calculator: TuneView) -> None:
    fields, buttons, view = list(sweep.fields.values()), sweep.buttons, sweep.view
    shown = [sweep.results["drafter"], sweep.results["temperature"]]
    results = [*sweep.results.values(), view, calculator]
    resting: dict[str, Any] = {"fn": handlers.results, "inputs": [record, *shown], "outputs": results, **_REFUSING}
    prepared = (
        buttons["start"].click(handlers.prepare, [record, *fields], view, trigger_mode="multiple", **_REFUSING),
        buttons["go_on"].click(
            handlers.go_on, [record, sweep.fields["minutes"]], view, trigger_mode="multiple", **_REFUSING
        ),
    )
    runs = [one.success(handlers.run, record, view, concurrency_id=SWEEP, **_RUNNING) for one in prepared]
    for run in runs:
        run.then(**resting)
    buttons["stop"].click(handlers.stop, record, view, cancels=runs, **_REFUSING).then(**resting)
    buttons["open"].upload(handlers.open_file, [buttons["open"], record], view, **_REFUSING).success(**resting)
    for one in shown:
        one.input(**resting)
    saved = gr.File(visible="hidden")
    for kind, save in {"file": handlers.save, "csv": handlers.save_csv, "json": handlers.save_json}.items():
        written = buttons[kind].click(save, record, saved, **_REFUSING)
        written.success(None, saved, None, js=DOWNLOAD, **_LIGHT)
