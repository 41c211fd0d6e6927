"""The slot `thinker`: a language model, or a program that drives one, behind one question and one answer.

The contract
------------
*Light.* A factory imports nothing heavy, starts nothing and contacts nothing. `open` names the project's folder; it is
called once, before the first `think`.

*One answer.* `think` returns a `Reply` whose text is meant to be one JSON value of the request's schema. The caller
checks it: a thinker need not. Text is at most `MOST_REPLY_BYTES`. Token counts and money are what the call has cost,
None where the thinker cannot say.

*One failure.* Whatever goes wrong raises ThinkerError, in one printable line without secrets. A thinker does not try
again by itself: the caller waits and counts.

*No traces.* `think` changes neither the request, nor the environment, nor the working directory, and leaves no process
and no thread behind. It does not keep what it was asked: the same request may come again, also from another thread.

*To be ended.* `cancel` may be called from another thread at any time: a `think` that goes on raises ThinkerError within
two seconds, and the next one works again.

*Its word is data.* Nothing that a thinker answers runs, approves or decides by itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from perpetual.api import PerpetualError

__all__ = [
    "KINDS",
    "MOST_QUESTION_BYTES",
    "MOST_REPLY_BYTES",
    "MOST_STATE_BYTES",
    "Kind",
    "Reply",
    "Request",
    "Thinker",
    "ThinkerError",
]

Kind = str
KINDS: tuple[Kind, ...] = ("analyse", "propose")  # those of plugins come to them: `perpetual_thinkers.question`
MOST_STATE_BYTES = 8 * 1024
MOST_QUESTION_BYTES = 512 * 1024  # of the state of a question of a plugin
MOST_REPLY_BYTES = 64 * 1024


class ThinkerError(PerpetualError):
    """A thinker gave no answer."""

    code = "thinker_failed"


@dataclass(frozen=True, slots=True)
class Request:
    """One question.

    - `request_id`: the same for the same question about the same record; a service may use it to answer once.
    - `kind`: `analyse` (comment on a run), `propose` (have ideas for experiments) or one of a plugin, such as `edit`.
    - `state`: what the thinker is to know, as JSON of at most `MOST_STATE_BYTES`; its `task` says what to do. Texts in
      it are data that others wrote. That of a plugin's question has at most `MOST_QUESTION_BYTES`.
    - `schema`: the JSON schema of the answer.
    - `max_tokens`: of the answer.
    """

    request_id: str
    kind: Kind
    state: str
    schema: Mapping[str, object]
    max_tokens: int


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer as it came; counts are None where they are not known."""

    text: str
    tokens_in: int | None = None
    tokens_out: int | None = None
    usd: float | None = None
    model: str = ""


class Thinker(ABC):
    """One thinker; see the contract at the top of this module. `thinks` is False where it has no answers at all."""

    thinks = True

    def open(self, root: Path) -> None:  # noqa: B027 - a thinker may have no use for the folder
        """Names the project's folder."""

    def problem(self) -> PerpetualError | None:
        """Returns why it could not be asked as it is configured, None if nothing is known; contacts nothing."""
        return None

    @abstractmethod
    def think(self, request: Request) -> Reply:
        """Returns the answer.

        Raises:
            ThinkerError: where there is none.
        """

    def cancel(self) -> None:  # noqa: B027 - a thinker that answers at once has nothing to end
        """Ends a `think` that goes on in another thread."""
