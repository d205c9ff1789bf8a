"""What every server is asked for in the same words."""

from dataclasses import dataclass
from typing import Any

from specdemo.race import RaceRequest
from specdemo.settings import DecodeSettings


@dataclass(frozen=True, slots=True)
class Asked:
    """A prompt and settings for one lane. `is_plain`: without speculation, where a request can say so."""

    request: RaceRequest
    is_plain: bool

    @property
    def settings(self) -> DecodeSettings:
        """Those of the request."""
        return self.request.settings

    def messages(self) -> list[dict[str, str]]:
        """As a chat API takes the prompt."""
        system = [{"role": "system", "content": self.request.system}] if self.request.system else []
        return [*system, {"role": "user", "content": self.request.prompt}]

    def template(self) -> dict[str, Any]:
        """What the chat template is told: to think or not, where a person chose."""
        thinking = self.request.thinking
        return {} if thinking is None else {"chat_template_kwargs": {"enable_thinking": thinking}}

    def sampling(self, *, all_of_them: int) -> dict[str, Any]:
        """Temperature and filters by the names that all four share; `all_of_them` is how `top_k` is switched off.

        Named even where they are off: servers have defaults of their own, some from the model's files.
        """
        chosen = self.settings
        return {
            "temperature": chosen.temperature,
            "top_p": chosen.top_p,
            "top_k": chosen.top_k or all_of_them,
            "min_p": chosen.min_p,
        }
