"""Answers beside plain decoding's: greedy in float32 and in bfloat16, and the coupled rule with one seed."""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from specdemo.divergence import find_difference
from specdemo.engine import Engine
from specdemo.errors import ModelError
from specdemo.events import Finished, Round
from specdemo.proofs import AnswerRow, Difference, ProofRequest, ProofUpdate, Step
from specdemo.race import RaceRequest
from specdemo.settings import DecodeSettings
from specdemo.target import Target

WIDE = 8
"""Tokens in each pass of the plain decoding that is beside the ordinary one in bfloat16."""


def prove_greedy(engine: Engine, request: ProofRequest) -> Iterator[ProofUpdate]:
    """Every prompt, drafter and K in float32; then in bfloat16 one drafter, and no drafter in wider passes."""
    short_combinations = [(request.drafters[0], max(request.ks)), ("", WIDE)]
    all_combinations = [(drafter, k) for drafter in request.drafters for k in request.ks]
    num_all = len(request.prompts) * (len(all_combinations) + len(short_combinations) + 2)
    work = _Work(request, num_all, temperature=0.0)
    for precision, combinations in (("float32", all_combinations), ("bfloat16", short_combinations)):
        at = engine.at(precision)
        for prompt in request.prompts:
            yield from work.rows(at, prompt, combinations)


def prove_seeds(engine: Engine, request: ProofRequest) -> Iterator[ProofUpdate]:
    """Every temperature, prompt and drafter under the coupled rule, all with one seed."""
    combinations = [(drafter, k) for drafter in request.drafters for k in request.ks]
    num_all = len(request.temperatures) * len(request.prompts) * (len(combinations) + 1)
    at, num_done = engine.at("float32"), 0
    for temperature in request.temperatures:
        work = _Work(request, num_all, temperature, num_done)
        for prompt in request.prompts:
            yield from work.rows(at, prompt, combinations)
        num_done = work.num_done


class _Work:
    """Runs generations and counts them."""

    def __init__(self, request: ProofRequest, num_all: int, temperature: float, num_done: int = 0) -> None:
        self._request, self._num_all, self._temperature = request, num_all, temperature
        self.num_done = num_done

    def rows(self, engine: Engine, prompt: str, combinations: Sequence[tuple[str, int]]) -> Iterator[ProofUpdate]:
        """Plain decoding's answer to a prompt, then a row for each (drafter, K)."""
        plain_request = self._race_request(prompt, "none", 1)
        prompt_ids = engine.encode(plain_request)
        plain = yield from self._answer(engine, plain_request)
        for drafter, k in combinations:
            if drafter:
                other = yield from self._answer(engine, self._race_request(prompt, drafter, k))
            else:
                other = yield from self._wide_answer(engine.target, prompt_ids, len(plain), k)
            yield AnswerRow(
                prompt=prompt,
                drafter=drafter,
                k=k,
                temperature=self._temperature,
                dtype=_dtype(engine.target),
                num_tokens=len(other),
                difference=self._difference(engine.target, prompt_ids, plain, other),
                text=engine.target.decode_text(other),
            )

    def _answer(self, engine: Engine, request: RaceRequest) -> Generator[Step, None, list[int]]:
        ids: list[int] = []
        with closing(engine.generate(request)) as updates:  # type: ignore[type-var]
            for update in updates:
                if isinstance(update.event, Round):
                    ids += update.event.emitted_token_ids
                elif isinstance(update.event, Finished) and update.event.reason == "failed":
                    raise ModelError(update.event.message)
                yield self._step()
        self.num_done += 1
        yield self._step()
        return ids

    def _wide_answer(
        self, target: Target, prompt_ids: Sequence[int], num_tokens: int, width: int
    ) -> Generator[Step, None, list[int]]:
        """Plain greedy decoding in which a pass reads the last `width` tokens again, and not the newest alone."""
        ids = list(prompt_ids)
        with closing(target.open()) as session:
            for _ in session.prefill(ids[:-width]):
                yield self._step()
            while len(ids) < len(prompt_ids) + num_tokens:
                logits = session.verify(ids[session.length :])
                ids.append(int(logits[-1].argmax()))
                session.crop(max(0, len(ids) - width))
                yield self._step()
        self.num_done += 1
        yield self._step()
        return ids[len(prompt_ids) :]

    def _difference(
        self, target: Target, prompt_ids: Sequence[int], plain: Sequence[int], other: Sequence[int]
    ) -> Difference | None:
        if list(plain) == list(other):
            return None
        found = find_difference(target, prompt_ids, plain, other)
        if found is None:  # one is the other's beginning
            index = min(len(plain), len(other))
            texts = (target.decode_text(plain[index : index + 1]), target.decode_text(other[index : index + 1]))
            return Difference(index, texts, 0.0, 0.0, is_tie=False, dtype=_dtype(target))
        # Where tokens are drawn, the logits do not say how close the draw was.
        return replace(found, is_tie=found.is_tie and self._temperature == 0.0)

    def _step(self) -> Step:
        return Step(self.num_done, self._num_all)

    def _race_request(self, prompt: str, drafter: str, k: int) -> RaceRequest:
        settings = DecodeSettings(
            num_draft_tokens=k,
            max_new_tokens=self._request.max_new_tokens,
            temperature=self._temperature,
            rule="coupled",
            seed=self._request.seed,
        )
        return RaceRequest(prompt=prompt, drafter=drafter, settings=settings)


def _dtype(target: Target) -> str:
    return str(target.lm.dtype).removeprefix("torch.")
