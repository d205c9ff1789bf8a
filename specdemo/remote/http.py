"""Requests to one server, with every failure as one sentence that says what to do."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn
from urllib.parse import urlsplit

import httpx

from specdemo.errors import ModelError, SettingsError

_CONNECT_SECONDS = 5.0
_SILENT_SECONDS = 300.0
"""A long prompt is read in silence, and so is the wait for another client's request."""

_MOST_DETAIL = 200
_SSE = "data:"
_SSE_END = "[DONE]"


class Client:
    """One server by its address; `label` is what a person reads for it, without a password."""

    def __init__(self, url: str, key: str = "") -> None:
        self.label, base = _checked(url)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        timeout = httpx.Timeout(_SILENT_SECONDS, connect=_CONNECT_SECONDS)
        # Not through a proxy of the environment: the address is the server's own, often on this machine.
        self._http = httpx.Client(base_url=base, headers=headers, timeout=timeout, trust_env=False)

    def get(self, path: str) -> dict[str, Any]:
        """The JSON object at `path`."""
        return self._object(self._send("GET", path))

    def find(self, path: str) -> dict[str, Any] | None:
        """The JSON object at `path`, None where the server has no such thing."""
        response = self._request("GET", path)
        if response.status_code != httpx.codes.OK:
            return None
        try:
            found = response.json()
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    def find_text(self, path: str) -> str | None:
        """The text at `path`, None where the server has no such thing."""
        response = self._request("GET", path)
        return response.text if response.status_code == httpx.codes.OK else None

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON object that `path` answers."""
        return self._object(self._send("POST", path, body))

    def stream(self, path: str, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The JSON objects of a stream of server-sent events, as they arrive; closing it ends the request."""
        try:
            with self._http.stream("POST", path, json=dict(body)) as response:
                if response.status_code != httpx.codes.OK:
                    response.read()
                    self._refuse(response)
                yield from self._events(response)
        except httpx.TimeoutException as error:
            raise ModelError(f"{self.label} was silent for {_SILENT_SECONDS:.0f} s; see its log.") from error
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    def _events(self, response: httpx.Response) -> Iterator[dict[str, Any]]:
        for line in response.iter_lines():
            if not line.startswith(_SSE):
                continue
            text = line.removeprefix(_SSE).strip()
            if text == _SSE_END:
                return
            try:
                event = json.loads(text)
            except ValueError as error:
                raise ModelError(f"{self.label} sent {text[:60]!r}, which is not JSON; is it an engine?") from error
            if not isinstance(event, dict):
                raise ModelError(f"{self.label} sent {text[:60]!r}, which is no JSON object; is it an engine?")
            if event.get("error"):
                raise ModelError(f"{self.label} broke off: {_detail(event)}")
            yield event

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> httpx.Response:
        response = self._request(method, path, body)
        if response.status_code != httpx.codes.OK:
            self._refuse(response)
        return response

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> httpx.Response:
        try:
            return self._http.request(method, path, json=None if body is None else dict(body))
        except httpx.TimeoutException as error:
            raise ModelError(f"{self.label} does not answer; check the address, or wait until it is up.") from error
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: httpx.TransportError) -> ModelError:
        if isinstance(error, httpx.ConnectError):
            return ModelError(f"nothing answers at {self.label}; start the server, or name its address with --engine.")
        return ModelError(f"the connection to {self.label} broke ({type(error).__name__}); see the server's log.")

    def _object(self, response: httpx.Response) -> dict[str, Any]:
        try:
            found = response.json()
        except ValueError:
            found = None
        if not isinstance(found, dict):
            path = response.request.url.path
            raise ModelError(f"{self.label}{path} is no JSON object; is it an engine's address?")
        return found

    def _refuse(self, response: httpx.Response) -> NoReturn:
        status = response.status_code
        try:
            detail = _detail(response.json())
        except ValueError:
            detail = response.text.strip()[:_MOST_DETAIL]
        if status in (401, 403):
            raise ModelError(
                f"{self.label} wants a key ({status}); put it into an environment variable and name that with "
                "--engine-key."
            )
        if status == 503:
            raise ModelError(f"{self.label} is not ready ({detail or 'loading'}); wait until its model is loaded.")
        if status == 404:
            raise ModelError(f"{self.label} has no {response.request.url.path} ({detail}); check address and model.")
        raise ModelError(f"{self.label} refused with {status}: {detail or 'no reason given'}")


def _checked(url: str) -> tuple[str, str]:
    """The address in words and the base of all paths; `/v1` behind it belongs to the paths."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
        raise SettingsError(f"the engine is {url!r}; it must be an address such as http://127.0.0.1:8080.")
    if parts.username or parts.password:
        raise SettingsError("the engine's address holds a password; put a key into an environment variable instead.")
    base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/v1')}"
    return base, base


def _detail(answer: Any) -> str:
    """What an error says: OpenAI's form, that of older servers, or FastAPI's."""
    error = answer.get("error", answer.get("detail", answer.get("message", ""))) if isinstance(answer, dict) else answer
    said = error.get("message", error) if isinstance(error, dict) else error
    return " ".join(str(said).split())[:_MOST_DETAIL]
