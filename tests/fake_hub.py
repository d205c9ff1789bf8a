"""A Hub on loopback that speaks what huggingface_hub asks for a Space, and nothing else. Keeps it all in memory."""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlparse

TOKEN = "hf_" + "x" * 34
PATH = re.compile(r"/api/spaces/(?P<repo>[^/]+/[^/]+)(?P<rest>/.*)?$")


@dataclass
class FakeSpace:
    """A Space as the Hub has it."""

    hardware: str = "cpu-basic"
    private: bool = False
    sleep_time: int | None = 172_800
    variables: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=lambda: {".gitattributes": b"* text\n"})
    sha: str = "0" * 40
    stages: list[str] = field(default_factory=lambda: ["RUNNING"])  # the last one stays


@dataclass
class FakeHub:
    """What it holds and was asked; `failing` answers a request whose "METHOD /path" contains the key with a status."""

    host: str | None = None  # where its Spaces are said to be served
    spaces: dict[str, FakeSpace] = field(default_factory=dict)
    after_push: list[str] = field(default_factory=lambda: ["BUILDING", "APP_STARTING", "RUNNING"])
    failing: dict[str, int] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    asked: list[tuple[str, str, Any]] = field(default_factory=list)
    url: str = ""

    def writes(self) -> list[str]:
        """What was written, in order, by the last part of the address."""
        quiet = ("preupload", "validate-yaml")
        return [
            path.split("?")[0].removeprefix("/api/")
            for method, path, _ in self.asked
            if method in ("POST", "DELETE", "PUT") and not any(word in path for word in quiet)
        ]

    def answer(self, method: str, path: str, body: bytes, token: str) -> tuple[int, Any]:
        """Status and JSON of one request."""
        lines = [json.loads(line) for line in body.splitlines() if line.strip()] if body else []
        self.asked.append((method, path, lines[0] if len(lines) == 1 else lines))
        for part, status in self.failing.items():
            if part in f"{method} {path}":
                return status, {"error": f"refused, said with {TOKEN}"}
        if token != f"Bearer {TOKEN}":
            return 401, {"error": "Invalid user token."}
        path = urlparse(path).path
        match (method, path):
            case ("GET", "/api/whoami-v2"):
                return 200, {"name": "ada", "type": "user", "orgs": []}
            case ("POST", "/api/validate-yaml"):
                return 200, {"errors": [], "warnings": []}
            case ("POST", "/api/repos/create"):
                return self._create(lines[0])
        found = PATH.match(path)
        if found is None or found["repo"] not in self.spaces:
            return 404, {"error": "Repository not found"}
        return self._of_space(method, self.spaces[found["repo"]], found["repo"], found["rest"] or "", lines)

    def _create(self, asked: dict[str, Any]) -> tuple[int, Any]:
        repo = f"{asked.get('organization') or 'ada'}/{asked['name']}"
        if repo in self.spaces:
            return 409, {"error": "You already created this space repo"}
        self.spaces[repo] = FakeSpace(
            asked["hardware"],
            asked.get("visibility") == "private",
            asked.get("sleepTimeSeconds"),
            {item["key"]: item["value"] for item in asked.get("variables", [])},
            {item["key"]: item["value"] for item in asked.get("secrets", [])},
            stages=["NO_APP_FILE"],
        )
        return 200, {"url": f"{self.url}/spaces/{repo}", "name": repo}

    def _of_space(self, method: str, space: FakeSpace, repo: str, rest: str, lines: list[Any]) -> tuple[int, Any]:
        if method == "GET":
            return self._question(space, repo, rest.split("/")[1:])
        match rest.split("/")[1:]:
            case ["variables"]:
                space.variables[lines[0]["key"]] = lines[0]["value"]
                return 200, {}
            case ["secrets"]:
                space.secrets[lines[0]["key"]] = lines[0]["value"]
                return 200, {}
            case ["hardware"]:
                space.hardware = lines[0]["flavor"]
                space.sleep_time = lines[0].get("sleepTimeSeconds", space.sleep_time)
                return self._question(space, repo, ["runtime"])
            case ["sleeptime"]:
                space.sleep_time = lines[0]["seconds"]
                return self._question(space, repo, ["runtime"])
            case ["preupload", _]:
                modes = [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in lines[0]["files"]]
                return 200, {"files": modes}
            case ["commit", _]:
                return self._commit(space, repo, lines)
        return 404, {"error": f"no such thing: {method} {rest}"}

    def _question(self, space: FakeSpace, repo: str, rest: list[str]) -> tuple[int, Any]:
        match rest:
            case []:
                info = {"id": repo, "sha": space.sha, "private": space.private, "host": self.host, "sdk": "gradio"}
                return 200, {**info, "tags": [], "likes": 0, "siblings": []}
            case ["runtime"]:
                stage = space.stages.pop(0) if len(space.stages) > 1 else space.stages[0]
                hardware = {"current": space.hardware, "requested": space.hardware}
                return 200, {"stage": stage, "hardware": hardware, "gcTimeout": space.sleep_time, "sha": space.sha}
            case ["tree", _]:
                return 200, [_tree_entry(name, data) for name, data in space.files.items()]
            case ["variables"]:
                return 200, {key: {"value": value} for key, value in space.variables.items()}
            case ["secrets"]:
                return 200, {key: {} for key in space.secrets}
        return 404, {"error": f"no such thing: {rest}"}

    def _commit(self, space: FakeSpace, repo: str, lines: list[Any]) -> tuple[int, Any]:
        is_request = "create_pr=1" in self.asked[-1][1]
        files = dict(space.files)
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        sha = hashlib.sha1(repr(sorted(files.items())).encode(), usedforsecurity=False).hexdigest()
        if not is_request:
            space.files, space.sha, space.stages = files, sha, list(self.after_push)
        answer = {"commitUrl": f"{self.url}/spaces/{repo}/commit/{sha}", "commitOid": sha, "hookOutput": ""}
        return 200, {**answer, **({"pullRequestUrl": f"{self.url}/spaces/{repo}/discussions/1"} if is_request else {})}


def _tree_entry(name: str, data: bytes) -> dict[str, Any]:
    oid = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    return {"type": "file", "path": name, "size": len(data), "oid": oid}


@contextmanager
def serve(hub: FakeHub) -> Iterator[str]:
    """The hub's address while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Says nothing."""

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if "/logs/" in self.path:
                hub.asked.append((self.command, self.path, None))
                data = "".join(f"data: {json.dumps({'data': line})}\n\n" for line in hub.log).encode()
                self._send(200, "text/event-stream", data)
                return
            status, answer = hub.answer(self.command, self.path, body, self.headers.get("Authorization", ""))
            self._send(status, "application/json", json.dumps(answer).encode())

        def _send(self, status: int, kind: str, data: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = do_PUT = _answer  # noqa: N815 - the names that http.server calls

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub.url
    finally:
        server.shutdown()
        server.server_close()
