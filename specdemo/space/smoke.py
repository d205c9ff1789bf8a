"""One real race on a Space, through the page's own endpoint."""

import time
from typing import Any

from gradio_client import Client
from gradio_client.exceptions import AppError, ValidationError
from huggingface_hub import HfApi, SpaceRuntime

from specdemo.space.hub import HubError, hidden, sentences

PROMPT = "Name three fruits."
NUM_TOKENS = 16
_SECONDS_BETWEEN_TRIES = 5.0


def address_of(api: HfApi, space: str, runtime: SpaceRuntime) -> str:
    """Where its page is served."""
    with sentences(f"ask where {space} is served"):
        info = api.space_info(space)
    if info.host:
        return info.host
    domains = runtime.raw.get("domains") or []
    named = domains[0]["domain"] if domains else f"{info.subdomain or space.replace('/', '-').lower()}.hf.space"
    return f"https://{named}"


def smoke_race(address: str, token: str | None, seconds: float = 600.0) -> str:
    """Race a few tokens there and say what came of it; raises HubError where there is no race.

    The page is there before its model: until then it refuses a race, and is asked again. The token is for private ones.
    """
    deadline = time.monotonic() + seconds
    try:
        client = Client(address, token=token, verbose=False, analytics_enabled=False)
    except Exception as error:  # noqa: BLE001 - whatever a server answers that is no page of ours
        raise HubError(f"{address} runs, but its page does not answer: {_first_line(error)}.") from None
    try:
        result = _race(client, deadline)
    except (AppError, ValidationError) as error:
        raise HubError(f"{address} runs, but does not race: {_first_line(error)}") from None
    except Exception as error:  # noqa: BLE001 - whatever a connection or a server can do
        raise HubError(f"{address} runs, but its race broke off: {_first_line(error)}.") from None
    finally:
        client.close()
    return _said(address, result)


def _race(client: Client, deadline: float) -> dict[str, Any]:
    while True:
        try:
            return client.predict(PROMPT, max_new_tokens=NUM_TOKENS, api_name="/race_summary")
        except ValidationError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_SECONDS_BETWEEN_TRIES)


def _said(address: str, result: dict[str, Any]) -> str:
    lanes = [result["plain"], result["speculative"]]
    if any(lane["finish_reason"] == "failed" for lane in lanes) or not result["speculative_text"]:
        raise HubError(f"{address} raced, but a lane failed; try the page itself.")
    same = "the same answer" if result["identical"] else "different answers"
    plain, speculative = (f"{lane['tokens_per_second']:.1f}" for lane in lanes)
    return f"{address} raced: {plain} tokens/s plain, {speculative} speculative, {same}"


def _first_line(error: Exception) -> str:
    return hidden((str(error).strip() or type(error).__name__).splitlines()[0])
