"""The slot `model_backend`: what talks to language models for agents.

The contract
------------
*Light.* A factory imports nothing heavy and contacts nothing. `problem` says without contacting anything why a model
could not be asked: a package that is missing, a key that is not set, a name that no provider has. A backend never
answers in place of a model: without one it raises `ModelUnavailable`, whose hint is the way out.

*One reply.* `request` sends the conversation once and returns one `ModelReply`. It neither calls the tools nor tries
again: handlers do. Token counts and money are what the provider says, None where it says nothing.

*The key.* The request's `key` goes to the provider as an idempotency key where it takes one. The same key comes again
only where it is not known whether the first request was answered.

*One failure.* Whatever goes wrong raises `ModelError`, in printable words without secrets; `is_transient` says whether
trying again may help, `retry_after_s` when.

*To be cancelled.* A cancelled `request` ends within two seconds, and leaves no connection, thread or process.

*Stand-ins say so.* A reply of anything but a real model has `mock` set, and is shown as such wherever it is shown.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from perpetual.api import PerpetualError
from perpetual_agents.messages import Call, Message

__all__ = ["ModelBackend", "ModelError", "ModelReply", "ModelRequest", "ModelUnavailable", "Say", "ToolSpec"]

Say = Callable[[str], None]


class ModelError(PerpetualError):
    """A model gave no answer."""

    code = "model_failed"

    def __init__(
        self, message: str, *, hint: str | None = None, is_transient: bool = False, retry_after_s: float | None = None,
        code: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message, hint=hint, code=code)
        self.is_transient, self.retry_after_s = is_transient, retry_after_s


class ModelUnavailable(ModelError):
    """A model that cannot be asked as things are: no backend, no key, or no such model."""

    code = "no_model"
    exit = 2


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it: `schema` is the JSON schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request.

    - `model`: as `provider:name`.
    - `system`: the system prompt.
    - `messages`: the conversation, oldest first, with the newest one of the user or of a tool last.
    - `tools`: what the model may call.
    - `max_tokens`: of the reply.
    - `output`: a JSON schema that the text of the reply is to have, None for plain text.
    - `key`: the idempotency key.
    - `timeout_s`: seconds after which the request fails.
    """

    model: str
    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec]
    max_tokens: int
    key: str
    timeout_s: float
    output: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class ModelReply:
    """One reply; counts and money are None where the provider says nothing of them.

    - `raw`: the reply in the backend's own form, as JSON; it comes back in the message of the next requests.
    - `mock`: whether it is a stand-in's.
    """

    text: str
    calls: tuple[Call, ...] = ()
    tokens_in: int | None = None
    tokens_out: int | None = None
    usd: float | None = None
    model: str = ""
    raw: object = None
    mock: bool = False


class ModelBackend(ABC):
    """One way to language models; see the contract at the top of this module."""

    @abstractmethod
    def problem(self, model: str) -> ModelUnavailable | None:
        """Returns why a model could not be asked, None if nothing is known; contacts nothing and imports nothing heavy.

        Args:
            model: as `provider:name`, or a bare name.
        """

    def resolved(self, model: str) -> tuple[str, str | None]:
        """Returns the full name of a model, and a note where that was a guess.

        Args:
            model: as a person wrote it.
        """
        return model, None

    @abstractmethod
    async def request(self, request: ModelRequest, say: Say | None = None) -> ModelReply:
        """Sends one request.

        Args:
            request: what is asked.
            say: called with each piece of the reply's text as it comes; None streams nothing.

        Raises:
            ModelError: where there is no reply.
        """

    async def close(self) -> None:  # noqa: B027 - a backend may keep nothing open
        """Closes what it keeps open, such as connections."""
