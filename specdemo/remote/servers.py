"""Which server stands at an address: it is asked, never guessed from the port."""

from collections.abc import Callable, Iterator
from typing import Protocol

from specdemo.errors import ModelError
from specdemo.events import Known
from specdemo.remote.http import Client
from specdemo.remote.llama_cpp import LlamaCpp
from specdemo.remote.pieces import End, Piece
from specdemo.remote.request import Asked
from specdemo.remote.sglang import SGLang
from specdemo.remote.vllm import VLLM


class Server(Protocol):
    """`known` is how much it tells of an answer, `can_switch_off` whether a request can ask it not to draft."""

    kind: str
    known: Known
    can_switch_off: bool
    label: str
    version: str
    model: str

    def prompt_ids(self, asked: Asked) -> tuple[int, ...]:
        """The prompt as the server reads it, empty where it does not say; outside every clock."""

    def answer(self, asked: Asked, prompt_ids: tuple[int, ...]) -> Iterator[Piece | End]:
        """Pieces as they arrive, and the End; closing it ends the request on the server."""


_BY_OWNER: dict[str, Callable[[Client, str], Server]] = {"llamacpp": LlamaCpp, "vllm": VLLM, "sglang": SGLang}
"""By what /v1/models says of who owns a model."""

_BY_PATH: dict[str, Callable[[Client, str], Server]] = {
    "/props": LlamaCpp,
    "/get_server_info": SGLang,
    "/version": VLLM,
}
"""What one of them answers and the others do not, for those that name another owner."""


def find_server(url: str, key: str = "") -> Server:
    """The server at an address; raises SettingsError or ModelError in one sentence."""
    client = Client(url, key)
    models = client.get("/v1/models").get("data")
    first = models[0] if isinstance(models, list) and models and isinstance(models[0], dict) else None
    if first is None:
        raise ModelError(f"{client.label} serves no model; start it with one.")
    owner, model = str(first.get("owned_by", "")).lower(), str(first.get("id", ""))
    if owner in _BY_OWNER:
        return _BY_OWNER[owner](client, model)
    for path, make in _BY_PATH.items():
        if client.find(path) is not None:
            return make(client, model)
    raise ModelError(
        f"{client.label} speaks OpenAI's API and is no vLLM, SGLang or llama.cpp server; others do not say how many "
        "tokens a message holds, so nothing could be measured."
    )
