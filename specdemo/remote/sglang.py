"""SGLang: tokens as they come, and the draft counts of the answer in the last `meta_info`.

Its own /generate takes a finished prompt, so it serves `--raw`; a chat goes through OpenAI's API, where not every
version has `meta_info`. `--speculative-algorithm` holds for all requests, so plain decoding needs a server of its own.
Where drafts were shorter than K, older versions count K of them for every pass; `Reported` has what they report.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from specdemo.events import UNKNOWN_TOKEN, FinishReason, Known, Reported
from specdemo.remote.http import Client
from specdemo.remote.openai import Reader, stream_of
from specdemo.remote.pieces import End, Piece
from specdemo.remote.request import Asked

_DRAFTED = ("spec_num_proposed_drafts", "spec_proposed_drafts", "spec_draft_token_num")
_ACCEPTED = ("spec_num_correct_drafts", "spec_accepted_drafts", "spec_accept_token_num")
"""Newest name first."""

_NOT_REPORTED = "SGLang gave no draft counts for this answer; of a raw prompt (--raw) it reports them."


class SGLang:
    """See servers.Server."""

    kind = "SGLang"
    known: Known = "tokens"
    can_switch_off = False

    def __init__(self, client: Client, model: str) -> None:
        self._client = client
        self.label, self.model = client.label, model
        info = client.find("/server_info") or client.find("/get_server_info") or {}
        self.version = str(info.get("version", ""))

    def prompt_ids(self, asked: Asked) -> tuple[int, ...]:
        """It names none."""
        return ()

    def answer(self, asked: Asked, prompt_ids: tuple[int, ...]) -> Iterator[Piece | End]:
        """One generation as it arrives."""
        return self._generate(asked) if asked.request.raw else self._chat(asked)

    def _chat(self, asked: Asked) -> Iterator[Piece | End]:
        reader, meta = Reader(), {}
        for chunk in stream_of(self._client, self.model, asked, {"return_meta_info": True}):
            choice = (chunk.get("choices") or [{}])[0]
            meta = choice.get("meta_info") or chunk.get("meta_info") or meta
            piece = reader.read(chunk)
            if piece is not None:
                yield piece
        yield _end(reader.reason, meta, is_plain=asked.is_plain)

    def _generate(self, asked: Asked) -> Iterator[Piece | End]:
        chosen = asked.settings
        sampling = {
            "max_new_tokens": chosen.max_new_tokens,
            **asked.sampling(all_of_them=-1),
            "repetition_penalty": chosen.repetition_penalty,
            "stop": list(chosen.stop),
        }
        body = {"text": asked.request.prompt, "sampling_params": sampling, "stream": True}
        shown, num_seen, meta = "", 0, {}
        for chunk in self._client.stream("/generate", body):
            meta = chunk.get("meta_info") or {}
            text, ids = str(chunk.get("text", "")), tuple(chunk.get("output_ids") or ())
            num_new = int(meta.get("completion_tokens", num_seen)) - num_seen
            # Whole answers so far, or what is new: that depends on how the server was started.
            new_text = text.removeprefix(shown) if text.startswith(shown) else text
            shown = text if text.startswith(shown) else shown + text
            num_seen += max(0, num_new)
            if num_new > 0:
                known = ids[-num_new:]
                yield Piece((*[UNKNOWN_TOKEN] * (num_new - len(known)), *known), new_text)
        yield _end(_reason(meta.get("finish_reason")), meta, is_plain=asked.is_plain)


def _end(reason: FinishReason, meta: Mapping[str, Any], *, is_plain: bool) -> End:
    drafted, accepted = _first(meta, _DRAFTED), _first(meta, _ACCEPTED)
    if drafted is None or accepted is None:
        return End(reason, note="" if is_plain else _NOT_REPORTED)
    return End(reason, Reported("meta_info", drafted, accepted, _first(meta, ("spec_verify_ct",))))


def _first(meta: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    return next((int(meta[name]) for name in names if meta.get(name) is not None), None)


def _reason(finish: Any) -> FinishReason:
    kind = finish.get("type") if isinstance(finish, Mapping) else finish
    if kind != "stop":
        return "length"
    return "stop" if isinstance(finish, Mapping) and isinstance(finish.get("matched"), str) else "eos"
