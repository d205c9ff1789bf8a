"""What the events of the tab "Prove it" do. A proof runs on the device like a race, in the same queue."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gradio as gr

from specdemo.proofs import PROVED_RULES, ProofRequest, default_drafters, default_ks, default_prompts
from specdemo.race import EventSource
from specdemo.ui.edge import sentences
from specdemo.ui.form import check_prompt, check_ready
from specdemo.ui.prove_wire import ProofWire
from specdemo.ui.running import running
from specdemo.ui.texts import language_of
from specdemo.ui.texts_prove import PROVE

SECONDS_BETWEEN_YIELDS = 0.3
EACH = "each"
SEED_TEMPERATURES = (0.4, 0.8, 1.2)
Value = dict[str, Any]


@dataclass(slots=True)
class ProofRecord:
    """What one session holds: the proof that waits to be run."""

    wanted: ProofRequest | None = None


class ProveHandlers:
    """The handlers of the tab of one page. Holds no visitor's data: that is in the record, one per session."""

    def __init__(self, source: EventSource) -> None:
        self._source = source

    def prepare(self, record: ProofRecord, request: gr.Request, *values: Any) -> Value:
        """Check a proof before it queues; a refused one leaves the page as it was."""
        language = language_of(request)
        with sentences(PROVE[language]["failed"]):
            check_prompt(str(values[1] or ""), language)
            check_ready(self._source, language)
            record.wanted = proof_request(*values)
        return ProofWire(record.wanted).value("waiting")

    def run(self, record: ProofRecord, request: gr.Request) -> Iterator[Value]:
        """Run the proof that was prepared, unless it was stopped while it waited."""
        wanted, record.wanted = record.wanted, None
        if wanted is None:
            return
        wire = ProofWire(wanted)
        title = PROVE[language_of(request)]["failed"]
        yield from running(wire, self._source.prove(wanted), SECONDS_BETWEEN_YIELDS, title)
        yield wire.value("done")

    def stop(self, record: ProofRecord) -> None:
        """Forget the proof that waits; Gradio ends the one that runs."""
        record.wanted = None

    def choose(self, proof: str) -> tuple[Value, ...]:
        """Show what belongs to a proof: its explanation, and its settings."""
        is_sampled = proof in ("sampling", "mistakes")
        shown = (is_sampled, proof == "sampling", is_sampled, is_sampled, proof == "mistakes")
        return gr.update(chosen=proof), *(gr.update(visible=is_visible) for is_visible in shown)


def proof_request(proof: str, prompt: str, drafter: str, rule: str, temperature: float, *others: Any) -> ProofRequest:
    """The request behind what was filled in; `others` are the number of draws and the mistake, or EACH of them."""
    num_draws, mistake = others
    if proof == "greedy":
        # The chosen prompt, and one whose answer repeats it.
        prompts: tuple[str, ...] = tuple(dict.fromkeys((prompt, default_prompts(proof)[-1])))
    else:
        prompts = (prompt,)
    is_planted = proof == "mistakes" and mistake != EACH
    kind = "sampling" if is_planted else proof
    return ProofRequest(
        proof=kind,
        prompts=prompts,
        drafters=(drafter,) if kind in ("sampling", "mistakes") else default_drafters(kind),
        ks=default_ks(kind),
        temperatures=SEED_TEMPERATURES if kind == "seeds" else (float(temperature or 0.0),),
        rule=rule if proof == "sampling" else PROVED_RULES[0],
        mistake=mistake if is_planted else "",
        num_draws=int(num_draws or 0),
    )
