"""The slot `notifier`: a way to reach a person who is away.

The contract
------------
*Light.* A factory, `where` and `target` import nothing heavy, contact nothing and start nothing.

*Accepted.* `send` returns once the other side has accepted the notice, and raises if it has not, or may not have. It
is called again with the same notice then, also after a crash that hid that it was accepted: what leaves this machine
carries the notice's `id`, by which the other side knows a repetition.

*Bounded.* `send` gives up after about `limit_s`. It is called in a thread that nothing else waits for.

*Whole.* The texts of a notice are words of people and programs, on short lines without control characters. A notifier
sends them as text: markup, quotes and angle brackets in them mean nothing to the other side.

*Where.* `where` names the place on one line, without secrets. `target` is all that decides where notices go and what
is started, secrets included: while it differs from what a person has accepted here, nothing is sent. Only its digest
is kept. An empty one needs no acceptance: the notice stays on this machine, and no option chooses what is started.

*Secrets.* A password or a key is an option with `secret=True`, revealed when it is used; no error shows it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perpetual.api import line, printable

if TYPE_CHECKING:
    from perpetual_notify.documents import NoticeDocument

__all__ = ["Notice", "Notifier", "notice"]

_LONGEST_TITLE, _LONGEST_LINE = 120, 400
_MOST_LINES = 40
_LONGEST_TEXT = 3000  # characters in all: Slack's longest block, and within what ntfy takes


@dataclass(frozen=True, slots=True)
class Notice:
    """What a person is sent; made by `notice`, which cleans its texts.

    `id` is the same each time that this notice is sent, and no other notice of any project has it.
    """

    id: str
    kind: str  # stops, decisions, waits, failures, budget, digest, several or test
    project: str
    title: str
    text: str
    time: str  # of what happened, UTC

    def document(self) -> NoticeDocument:
        """Returns the notice as JSON, the body of a webhook."""
        return {
            "id": self.id,
            "kind": self.kind,
            "project": self.project,
            "title": self.title,
            "text": self.text,
            "time": self.time,
        }


def notice(*, id: str, kind: str, project: str, title: str, text: str, time: str) -> Notice:
    """Returns a notice whose texts are short and without control characters."""
    lines = [_cut(line(each), _LONGEST_LINE) for each in printable(text.replace("\r", "")).split("\n")]
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f"... and {len(lines) - _MOST_LINES} lines more"]
    body = _cut("\n".join(lines).strip(), _LONGEST_TEXT)
    return Notice(id, kind, _cut(line(project), 60), _cut(line(title), _LONGEST_TITLE), body, time)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


class Notifier(ABC):
    """A way to reach a person; see the contract at the top of this module."""

    limit_s: float = 30.0  # after which `send` has given up

    @abstractmethod
    def where(self) -> str:
        """Returns where notices go, on one line and without secrets.

        Raises:
            ConfigError: if an option is missing or wrong.
        """

    @abstractmethod
    def target(self) -> str:
        """Returns all that decides where notices go and what is started; "" for what needs no acceptance.

        Raises:
            ConfigError: if an option is missing or wrong, or a secret cannot be had.
        """

    @abstractmethod
    def send(self, notice: Notice) -> None:
        """Sends a notice, and returns once it was accepted.

        Raises:
            TransientError: if trying again may help.
            PerpetualError: if it was refused.
        """
