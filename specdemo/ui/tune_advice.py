"""The advisor of the tab "Tune": its settings and its events. It runs on the device like a race, in the same queue."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, replace
from typing import Any

import gradio as gr

from specdemo.advice import NONE, AdviceRequest
from specdemo.engine_settings import engine_settings
from specdemo.prompt_set import CATEGORIES
from specdemo.race import EventSource
from specdemo.settings import RULES
from specdemo.ui.edge import sentences
from specdemo.ui.form import FIELDS, check_ready
from specdemo.ui.handlers import PageHandlers
from specdemo.ui.running import running
from specdemo.ui.texts import language_of
from specdemo.ui.texts_tune import TUNE
from specdemo.ui.tune_prompts import chosen_prompts, own_prompts, prompt_fields
from specdemo.ui.tune_record import TuneRecord
from specdemo.ui.tune_wire import AdviceWire, machine_points

_t = gr.I18n()
SECONDS_BETWEEN_YIELDS = 0.3
FROM_THE_SET = len(CATEGORIES)
"""Prompts that are taken of the set where a person gives none: as many as there are categories."""
_SECONDS, _USUAL_SECONDS = (5, 300), 30
Value = dict[str, Any]


def advice_fields() -> dict[str, Any]:
    """The settings, in the order that `advice_request` takes them in."""
    slider: dict[str, Any] = {"buttons": [], "min_width": 150}
    rules = [(_t(f"rule_{rule}"), rule) for rule in RULES]
    with gr.Group(elem_id="advice-form"):
        fields = prompt_fields("advice")
        with gr.Row():
            fields["temperature"] = gr.Slider(
                0, 2, 0, step=0.05, label=_t("advice_temperature"), elem_id="advice-temperature", **slider
            )
            fields["rule"] = gr.Dropdown(rules, value="coupled", label=_t("advice_rule"), min_width=240)
            fields["seconds"] = gr.Slider(
                *_SECONDS, _USUAL_SECONDS, step=5, label=_t("advice_seconds"), elem_id="advice-seconds", **slider
            )
    return fields


class AdviceHandlers:
    """The handlers of the advisor of one page. Holds no visitor's data: that is in the record, one per session."""

    def __init__(self, source: EventSource, pages: PageHandlers) -> None:
        self._source = source
        self._pages = pages

    def prepare(self, record: TuneRecord, request: gr.Request, *values: Any) -> Value:
        """Check what is asked before it queues; a refused one leaves the page as it was."""
        language = language_of(request)
        with sentences(TUNE[language]["no_advice"]):
            wanted = replace(advice_request(language, *values), target=self._source.target)
            check_ready(self._source, language)
        record.wanted_advice = wanted
        return AdviceWire(wanted).value("waiting")

    def run(self, record: TuneRecord, request: gr.Request) -> Iterator[tuple[Any, ...]]:
        """Find out what was asked, unless it was stopped while it waited: the view, "Race it", the calculator."""
        wanted, record.wanted_advice = record.wanted_advice, None
        if wanted is None:
            return
        wire = AdviceWire(wanted)
        title = TUNE[language_of(request)]["no_advice"]
        values = running(wire, self._source.advise(wanted), SECONDS_BETWEEN_YIELDS, title)
        with closing(values):  # type: ignore[type-var]
            # A new advice hides what the last one offered.
            yield next(values), gr.update(visible=False), gr.skip()
            for value in values:
                yield value, gr.skip(), gr.skip()
        yield self._over(record, wanted, wire)

    def stop(self, record: TuneRecord) -> None:
        """Forget the advice that waits; Gradio ends the one that runs."""
        record.wanted_advice = None

    def put_into_race(self, record: TuneRecord, request: gr.Request) -> list[Any]:
        """Put what is advised into the race's settings, in the order of FIELDS."""
        advice, asked = record.advice, record.advised
        if advice is None or asked is None or advice.drafter == NONE:
            return [gr.skip()] * len(FIELDS)
        chosen: Mapping[str, Any] = {
            "prompt": asked.prompts[0],
            "k": advice.k,
            "adaptive": False,
            "temperature": asked.temperature,
            "rule": asked.rule,
        }
        fields: dict[str, Any] = {name: gr.update(value=value) for name, value in chosen.items()}
        fields["drafter"] = self._pages.drafters(language_of(request), advice.drafter)
        return [fields.get(name, gr.skip()) for name in FIELDS]

    def _over(self, record: TuneRecord, wanted: AdviceRequest, wire: AdviceWire) -> tuple[Any, ...]:
        advice = record.advice = wire.advice
        record.advised = wanted
        if advice is None:
            return wire.value("done"), gr.update(visible=False), gr.skip()
        settings = [] if advice.drafter == NONE else _settings(advice.drafter, advice.k, wanted.temperature)
        marked = gr.update(points=machine_points(advice.measured))
        return wire.value("done", settings=settings), gr.update(visible=advice.drafter != NONE), marked


def _settings(drafter: str, k: int, temperature: float) -> list[dict[str, Any]]:
    return [asdict(one) for one in engine_settings(drafter, k, temperature)]


def advice_request(language: str, own: str, *others: Any) -> AdviceRequest:
    """The request behind what was filled in; `others` are categories, languages, temperature, rule and seconds."""
    categories, languages, temperature, rule, seconds = others
    prompts = own_prompts(own, language) or chosen_prompts(language, categories, languages)[:FROM_THE_SET]
    return AdviceRequest(
        prompts=tuple(one.prompt for one in prompts),
        temperature=float(temperature or 0.0),
        rule=rule,
        seconds=float(seconds or _USUAL_SECONDS),
    )
