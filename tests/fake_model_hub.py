"""A Hub on loopback: folders as repositories, some gated, private or missing, as huggingface.co answers."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class FakeHub:
    """`repositories` are served; `gated` ones show what they are and none of their files; all others are not found."""

    repositories: dict[str, Path] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    url: str = ""
    bytes_sent: dict[str, int] = field(default_factory=dict)
    """Of each file, all requests together."""


@contextmanager
def serve(hub: FakeHub) -> Iterator[FakeHub]:
    """Answer on a free port until the block ends."""

    class Handler(_Handler):
        served = hub

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    served: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Silence."""

    def do_HEAD(self) -> None:  # noqa: N802
        self._answer(with_body=False)

    def do_GET(self) -> None:  # noqa: N802
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        parts = unquote(urlsplit(self.path).path).strip("/").split("/")
        is_api = parts[:2] == ["api", "models"]
        parts = parts[2:] if is_api else parts
        name, rest = "/".join(parts[:2]), parts[2:]
        folder = self.served.repositories.get(name)
        if folder is None:
            # As huggingface.co does for a private repository and for none, lest one could be told from the other.
            self._send(401, b"{}", {"X-Error-Code": "RepoNotFound"}, with_body=with_body)
        elif is_api:
            answer = self._tree(folder) if rest[:1] == ["tree"] else self._info(name, folder)
            self._send(200, json.dumps(answer).encode(), {}, with_body=with_body)
        elif name in self.served.gated:
            self._send(403, b"", {"X-Error-Code": "GatedRepo"}, with_body=with_body)
        elif not (path := folder / "/".join(rest[2:])).is_file():
            self._send(404, b"", {"X-Error-Code": "EntryNotFound"}, with_body=with_body)
        else:
            self._send_file(path, with_body=with_body)

    def _info(self, name: str, folder: Path) -> dict[str, Any]:
        files = [{"rfilename": path.name, "size": path.stat().st_size} for path in sorted(folder.iterdir())]
        gate = "manual" if name in self.served.gated else False
        card = {"license": "apache-2.0"}
        return {"id": name, "sha": COMMIT, "siblings": files, "gated": gate, "private": False, "cardData": card}

    def _tree(self, folder: Path) -> list[dict[str, Any]]:
        return [
            {"type": "file", "path": path.name, "size": path.stat().st_size, "oid": path.name}
            for path in sorted(folder.iterdir())
        ]

    def _send_file(self, path: Path, *, with_body: bool) -> None:
        content, status, extra = path.read_bytes(), 200, {"ETag": f'"{path.parent.name}-{path.name}"'}
        asked = self.headers.get("Range", "").removeprefix("bytes=")
        if asked:
            first, _, last = asked.partition("-")
            end = min(int(last or len(content)), len(content) - 1)
            extra["Content-Range"] = f"bytes {first}-{end}/{len(content)}"
            content, status = content[int(first) : end + 1], 206
        if with_body:
            key = f"{path.parent.name}/{path.name}"
            self.served.bytes_sent[key] = self.served.bytes_sent.get(key, 0) + len(content)
        self._send(status, content, extra, with_body=with_body)

    def _send(self, status: int, body: bytes, headers: dict[str, str], *, with_body: bool) -> None:
        self.send_response(status)
        for name, value in {"X-Repo-Commit": COMMIT, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(body)
