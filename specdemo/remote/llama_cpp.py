"""llama.cpp's llama-server, by its own /completion: one event a token, with its counts of drafts so far.

Read in its sources, b10434 and later: tools/server/server-context.cpp, server-task.cpp, server-schema.cpp. A pass
counts its drafts before it sends their tokens, so that the tokens of a round are those that carry the same two counts;
a token that ends inside a character is counted (`tokens_predicted`) and not sent. `speculative.n_max` 0 switched
drafting off for one request until early 2026; later builds read no speculative field of a request.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from specdemo.errors import ModelError
from specdemo.events import UNKNOWN_TOKEN, FinishReason, Known, Reported
from specdemo.remote.http import Client
from specdemo.remote.pieces import End, Piece
from specdemo.remote.request import Asked

_REASONS: dict[str, FinishReason] = {"eos": "eos", "word": "stop", "limit": "length"}


class LlamaCpp:
    """See servers.Server."""

    kind = "llama.cpp"
    known: Known = "rounds"
    can_switch_off = True

    def __init__(self, client: Client, model: str) -> None:
        self._client = client
        properties = client.find("/props") or {}
        self.label = client.label
        self.version = str(properties.get("build_info") or "")
        self.model = str(properties.get("model_alias") or "") or model.rpartition("/")[2]

    def prompt_ids(self, asked: Asked) -> tuple[int, ...]:
        """The chat template and the vocabulary are the server's."""
        prompt = asked.request.prompt
        if not asked.request.raw:
            chat = {"messages": asked.messages(), **asked.template()}
            prompt = str(self._client.post("/apply-template", chat).get("prompt", ""))
        body = {"content": prompt, "add_special": True, "parse_special": True}
        return tuple(self._client.post("/tokenize", body).get("tokens", ()))

    def answer(self, asked: Asked, prompt_ids: tuple[int, ...]) -> Iterator[Piece | End]:
        """One generation as it arrives."""
        num_seen = 0
        for event in self._client.stream("/completion", _body(asked, prompt_ids)):
            timings = event.get("timings") or {}
            drafted, accepted = int(timings.get("draft_n", 0)), int(timings.get("draft_n_accepted", 0))
            if asked.is_plain and drafted:
                raise ModelError(self._still_drafts())
            sent = () if event.get("stop") else tuple(event.get("tokens") or (UNKNOWN_TOKEN,))
            num_unsent = max(0, int(event.get("tokens_predicted", 0)) - num_seen - len(sent))
            tokens = (*[UNKNOWN_TOKEN] * num_unsent, *sent)
            num_seen += len(tokens)
            if tokens:
                text = "" if event.get("stop") else str(event.get("content", ""))
                yield Piece(tokens, text, drafted, accepted)
            if event.get("stop"):
                yield _end(event, drafted, accepted, is_plain=asked.is_plain)

    def _still_drafts(self) -> str:
        return (
            f"{self.label} (llama.cpp {self.version}) drafts for a request that asks it not to, as builds from 2026 on "
            "do; start a second server without --spec-type and --spec-draft-model, and name it with --plain-engine."
        )


def _body(asked: Asked, prompt_ids: tuple[int, ...]) -> dict[str, Any]:
    chosen = asked.settings
    off = {"speculative.n_max": 0} if asked.is_plain else {}
    return {
        "prompt": list(prompt_ids),
        "n_predict": chosen.max_new_tokens,
        "stream": True,
        "return_tokens": True,
        "timings_per_token": True,
        # Else the lane that comes second would find its prompt read.
        "cache_prompt": False,
        "seed": chosen.seed % 2**32,
        **asked.sampling(all_of_them=0),
        "repeat_penalty": chosen.repetition_penalty,
        "repeat_last_n": -1,
        "stop": list(chosen.stop),
        **off,
    }


def _end(event: Mapping[str, Any], drafted: int, accepted: int, *, is_plain: bool) -> End:
    reason = _REASONS.get(str(event.get("stop_type")), "length")
    if reason == "length" and event.get("truncated"):
        reason = "context"
    if drafted:
        return End(reason, Reported("timings of /completion", drafted, accepted), text=str(event.get("content", "")))
    note = (
        "" if is_plain else "The server drafted nothing; start it with a drafter, for example --spec-type ngram-simple."
    )
    return End(reason, note=note, text=str(event.get("content", "")))
