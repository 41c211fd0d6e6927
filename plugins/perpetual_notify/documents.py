"""The documents of `perpetual notify`, and the body of a webhook."""

from __future__ import annotations

from perpetual.documents import TypedDict

__all__ = ["GivenUp", "NoticeDocument", "NotifyLine", "NotifyList", "NotifySend", "NotifySent", "NotifyTest",
           "NotifyTried"]  # fmt: skip


class NoticeDocument(TypedDict):
    """What a webhook and a command get; `id` is the same each time that the notice is sent."""

    id: str
    kind: str
    project: str
    title: str
    text: str
    time: str


class GivenUp(TypedDict):
    """A notice that a notifier never accepted, and why at last."""

    id: str
    kind: str
    title: str
    time: str
    attempts: int
    error: str


class NotifyLine(TypedDict):
    """A notifier and its outbox.

    `state` is `ready`, `failing`, `unaccepted` (a person has to accept where it sends) or `broken` (its options).
    `due_s` is when the next attempt is, in seconds from now; `failed` are notices that were given up, the newest last.
    """

    notifier: str
    state: str
    where: str
    pending: int
    sent: int
    failed_count: int
    failed: list[GivenUp]
    due_s: float | None
    last_sent: str | None
    error: str | None


class NotifyList(TypedDict):
    """The outbox. `position` is the seq of the last event that was read, `last` that of the newest event."""

    notifiers: list[NotifyLine]
    kinds: list[str]
    position: int
    last: int


class NotifyTried(TypedDict):
    """How a test notice fared with one notifier; `error` is null where it was accepted."""

    notifier: str
    where: str
    ok: bool
    duration_s: float
    error: str | None
    hint: str | None


class NotifyTest(TypedDict):
    """What a test came to."""

    notice: NoticeDocument
    tests: list[NotifyTried]


class NotifySent(TypedDict):
    """What was delivered to one notifier."""

    notifier: str
    sent: list[str]
    pending: int
    failed_count: int
    error: str | None


class NotifySend(TypedDict):
    """What `notify send` delivered; `read` is how many notices the events since the last time came to."""

    notifiers: list[NotifySent]
    read: int
    position: int
