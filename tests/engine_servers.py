"""Small servers on loopback that answer as llama.cpp, vLLM and SGLang do, over a real socket.

Each is written from the formats that the module of its name in `specdemo.remote` cites; the answers are scripted.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from specdemo.race import LaneUpdate, RaceRequest
from specdemo.remote.engine import RemoteEngine
from specdemo.settings import DecodeSettings

Events = Iterator[dict[str, Any]]
PASS_SECONDS = 0.002
"""What a pass of a scripted server takes: only ratios are looked at."""


@dataclass
class Script:
    """A server's answers: `pages` by path (an object, a text, or a status with an object), `streams` by path.

    `asked` collects (path, body), `running` is the most requests that were open at once.
    """

    pages: dict[str, Any]
    streams: dict[str, Callable[[dict[str, Any]], Events]]
    key: str = ""
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    breaks_after: int | None = None
    refuses: tuple[int, Any] | None = None


class _Handler(BaseHTTPRequestHandler):
    script: Script

    def do_GET(self) -> None:
        if self.script.refuses:
            return self._answer(*self.script.refuses)
        if self.script.key and self.headers.get("Authorization") != f"Bearer {self.script.key}":
            return self._answer(401, {"error": {"message": "Invalid API Key", "code": 401}})
        page = self.script.pages.get(self.path)
        if page is None:
            return self._answer(404, {"error": {"message": "File Not Found", "code": 404}})
        return self._answer(200, page() if callable(page) else page)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.script.asked.append((self.path, body))
        if self.path not in self.script.streams:
            page = self.script.pages.get(self.path)
            return self._answer(404 if page is None else 200, page or {"detail": "Not Found"})
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for number, event in enumerate(self.script.streams[self.path](body)):
            if self.script.breaks_after == number:
                return None
            self._send(json.dumps(event))
        if not self.path.startswith("/completion"):
            self._send("[DONE]")
        return None

    def _send(self, text: str) -> None:
        self.wfile.write(f"data: {text}\n\n".encode())
        self.wfile.flush()

    def _answer(self, status: int, page: Any) -> None:
        content = (page if isinstance(page, str) else json.dumps(page)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@contextmanager
def serving(script: Script) -> Iterator[str]:
    """The script's address while it is served."""
    handler = type("Handler", (_Handler,), {"script": script})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


Pass = tuple[int, tuple[tuple[int, str], ...]]
"""(number of drafts, the tokens it gave with their texts): of d drafts, tokens - 1 were accepted."""


def tokens(*texts: str, start: int = 100) -> tuple[tuple[int, str], ...]:
    return tuple((start + i, text) for i, text in enumerate(texts))


def llama_cpp(passes: list[Pass], *, is_old: bool = True, stop_type: str = "eos", **changes: Any) -> Script:
    """One that counts as it goes; `is_old` reads `speculative.n_max`. A token whose text is None is not sent."""

    def completion(body: dict[str, Any]) -> Events:
        is_off = is_old and body.get("speculative.n_max") == 0
        script: list[Pass] = passes
        if is_off:
            script = [(0, (token,)) for _, made in passes for token in made]
        drafted = accepted = predicted = 0
        limit = body["n_predict"]
        for num_drafts, made in script:
            time.sleep(PASS_SECONDS)
            drafted += num_drafts
            accepted += len(made) - 1 if num_drafts else 0
            for token_id, text in made:
                predicted += 1
                if text is not None:
                    yield {
                        "index": 0, "content": text, "tokens": [token_id], "stop": False, "id_slot": 0,
                        "tokens_predicted": predicted, "tokens_evaluated": 5,
                        "timings": _timings(predicted, drafted, accepted),
                    }  # fmt: skip
                if predicted == limit:
                    yield _final("limit", predicted, drafted, accepted)
                    return
        yield _final(stop_type, predicted, drafted, accepted)

    pages = {
        "/v1/models": {
            "object": "list",
            "data": [{"id": "models/tiny.gguf", "object": "model", "owned_by": "llamacpp"}],
        },
        "/props": {
            "model_alias": "tiny",
            "model_path": "models/tiny.gguf",
            "build_info": "b10434-abc",
            "total_slots": 1,
        },
        "/apply-template": {"prompt": "<|user|>hi<|assistant|>"},
        "/tokenize": {"tokens": [1, 2, 3, 4, 5]},
    }
    return Script(pages, {"/completion": completion}, **changes)


def _timings(predicted: int, drafted: int, accepted: int) -> dict[str, Any]:
    drafts = {"draft_n": drafted, "draft_n_accepted": accepted} if drafted else {}
    return {"cache_n": 0, "prompt_n": 5, "prompt_ms": 3.0, "predicted_n": predicted, "predicted_ms": 9.0, **drafts}


def _final(stop_type: str, predicted: int, drafted: int, accepted: int) -> dict[str, Any]:
    return {
        "index": 0, "content": "", "tokens": [], "stop": True, "model": "tiny", "tokens_predicted": predicted,
        "tokens_evaluated": 5, "truncated": False, "stop_type": stop_type, "stopping_word": "",
        "timings": _timings(predicted, drafted, accepted),
    }  # fmt: skip


def vllm(passes: list[Pass], *, reports: str = "request", others: int = 0, **changes: Any) -> Script:
    """One that speculates where a pass has drafts. `reports`: request, metrics or nothing; `others` use it too."""
    totals = {"generated": 7, "rounds": 3, "drafted": 9, "accepted": 4}
    is_speculative = any(num_drafts for num_drafts, _ in passes)

    def chat(body: dict[str, Any]) -> Events:
        assert body["stream_options"]["include_usage"]
        assert body["return_token_ids"]
        yield _chunk({"role": "assistant", "content": ""}, 0, prompt_token_ids=[1, 2, 3])
        count = 0
        for num_drafts, made in passes:
            time.sleep(PASS_SECONDS)
            count += len(made)
            totals["generated"] += len(made) + others
            if num_drafts:
                totals["rounds"] += 1
                totals["drafted"] += num_drafts
                totals["accepted"] += len(made) - 1
            text = "".join(text for _, text in made)
            is_last = made is passes[-1][1]
            yield _chunk({"content": text}, count, [i for i, _ in made], "stop" if is_last else None)
        last: dict[str, Any] = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": count}}
        if reports == "request" and is_speculative:
            last["metrics"] = {"speculative_decoding": _vllm_request(passes)}
        yield last

    def metrics() -> str:
        label = '{engine="0",model_name="tiny"}'
        lines = [f"# TYPE vllm:generation_tokens counter\nvllm:generation_tokens_total{label} {totals['generated']}.0"]
        for name, key in (
            ("num_drafts", "rounds"),
            ("num_draft_tokens", "drafted"),
            ("num_accepted_tokens", "accepted"),
        ):
            lines.append(f"vllm:spec_decode_{name}_total{label} {totals[key]}.0")
        lines.append('vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 3.0')
        return "\n".join(lines if is_speculative else lines[:1]) + "\n"

    pages: dict[str, Any] = {
        "/v1/models": {"object": "list", "data": [{"id": "org/tiny", "object": "model", "owned_by": "vllm"}]},
        "/version": {"version": "0.33.0"},
    }
    if reports != "nothing":
        pages["/metrics"] = metrics
    return Script(pages, {"/v1/chat/completions": chat}, **changes)


def _vllm_request(passes: list[Pass]) -> dict[str, Any]:
    drafted = [(num_drafts, len(made) - 1) for num_drafts, made in passes if num_drafts]
    return {
        "num_spec_steps": len(drafted),
        "num_draft_tokens": sum(number for number, _ in drafted),
        "num_accepted_draft_tokens": sum(number for _, number in drafted),
    }


def _chunk(
    delta: dict[str, Any], count: int, ids: list[int] | None = None, finish: str | None = None, **more: Any
) -> dict[str, Any]:
    choice = {
        "index": 0,
        "delta": delta,
        "logprobs": None,
        "finish_reason": finish,
        "stop_reason": None,
        "token_ids": ids,
    }
    usage = {"prompt_tokens": 3, "completion_tokens": count, "total_tokens": 3 + count}
    return {"object": "chat.completion.chunk", "model": "org/tiny", "choices": [choice], "usage": usage, **more}


def sglang(passes: list[Pass], *, is_cumulative: bool = True, is_old: bool = False, **changes: Any) -> Script:
    """One whose /generate sends whole answers so far, or what is new; `is_old` by the names of 2025, without ids."""

    def generate(body: dict[str, Any]) -> Events:
        text, ids, drafted, accepted, verified = "", [], 0, 0, 0
        for index, (num_drafts, made) in enumerate(passes):
            time.sleep(PASS_SECONDS)
            new_text, new_ids = "".join(text for _, text in made), [i for i, _ in made]
            text, ids = text + new_text, ids + new_ids
            drafted, accepted = drafted + num_drafts, accepted + (len(made) - 1 if num_drafts else 0)
            verified += bool(num_drafts)
            is_last = index == len(passes) - 1
            meta: dict[str, Any] = {"id": "x", "prompt_tokens": 3, "completion_tokens": len(ids), "finish_reason": None}
            if is_last:
                meta["finish_reason"] = {"type": "stop", "matched": 2}
                if drafted:
                    meta |= _sglang_counts(drafted, accepted, verified, is_old=is_old)
            event: dict[str, Any] = {"text": text if is_cumulative else new_text, "meta_info": meta}
            if not is_old:
                event["output_ids"] = ids if is_cumulative else new_ids
            yield event

    pages = {
        "/v1/models": {"object": "list", "data": [{"id": "org/tiny", "object": "model", "owned_by": "sglang"}]},
        "/get_server_info": {"version": "0.5.23", "model_path": "org/tiny", "speculative_algorithm": "EAGLE3"},
    }
    return Script(pages, {"/generate": generate}, **changes)


def _sglang_counts(drafted: int, accepted: int, verified: int, *, is_old: bool) -> dict[str, int]:
    names = ("spec_draft_token_num", "spec_accept_token_num") if is_old else (
        "spec_num_proposed_drafts",
        "spec_num_correct_drafts",
    )  # fmt: skip
    return {**dict(zip(names, (drafted, accepted), strict=True)), "spec_verify_ct": verified}


PASSES: list[Pass] = [
    (0, tokens("The")),
    (4, tokens(" sky", " is", " blue", start=200)),
    (3, tokens(" and", " so", " is", " the", start=300)),
    (0, tokens(" sea", start=400)),
    (2, tokens(".", "", start=500)),
]
"""Two drafts of four pass, then all of three, none in a pass without, one of two before the end of text."""
ONE_BY_ONE: list[Pass] = [(0, (token,)) for _, made in PASSES for token in made]
TEXT = "The sky is blue and so is the sea."


def asked(**changes: Any) -> RaceRequest:
    return RaceRequest(prompt="hi", drafter="server", settings=DecodeSettings(max_new_tokens=64), **changes)


def raced(engine: RemoteEngine, **changes: Any) -> list[LaneUpdate]:
    return list(engine.race(asked(**changes)))


def of(lane: str, updates: Sequence[LaneUpdate]) -> list[Any]:
    return [update.event for update in updates if update.lane == lane]
