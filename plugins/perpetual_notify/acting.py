"""What `perpetual notify` does, for Python too: list the outbox, send a test, and send what waits."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from perpetual.api import PerpetualError, UsageError, line
from perpetual.toolkit.units import iso
from perpetual_notify.consent import accept, folder_of, require_person
from perpetual_notify.notifier import notice
from perpetual_notify.outbox import LIMITS, Counts, Limits, Outbox
from perpetual_notify.sending import Chosen, chosen, deliver_all, fill, named, send_one, settings, words

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_notify.documents import NotifyLine, NotifyList, NotifySend, NotifySent, NotifyTest, NotifyTried

__all__ = ["NOT_ACCEPTED", "listed", "send", "try_out"]

NOT_ACCEPTED = "it was not accepted here, so nothing is sent there"
_HINT = "perpetual config set plugins.notify.notifiers desktop"


def listed(lab: Lab) -> NotifyList:
    """Returns each notifier of the configuration with its outbox; sends nothing, and reads no event."""
    folder, last, now_s = folder_of(lab), lab.feed.last(), time.time()
    if not Outbox.is_there(folder):
        lines = [_line(lab, item, Counts(), None, now_s) for item in chosen(lab)]
        return {"notifiers": lines, "kinds": settings(lab).kinds, "position": last, "last": last}
    with Outbox(folder) as outbox:
        lines = [_line(lab, item, outbox.counts(item.name), outbox, now_s) for item in chosen(lab)]
        return {"notifiers": lines, "kinds": settings(lab).kinds, "position": outbox.seq, "last": last}


def _line(lab: Lab, item: Chosen, count: Counts, outbox: Outbox | None, now_s: float) -> NotifyLine:
    if item.problem is not None:
        state, error = "broken", words(item.problem)
    elif not item.is_accepted:
        state, error = "unaccepted", NOT_ACCEPTED
    else:
        state, error = ("ready" if count.error is None else "failing"), count.error or ""
    return {
        "notifier": item.name,
        "state": state,
        "where": _where(item),
        "pending": count.pending,
        "sent": count.sent,
        "failed_count": count.failed,
        "failed": [{**found._asdict()} for found in (outbox.dead(item.name) if outbox else [])],  # type: ignore[typeddict-item]
        "due_s": None if count.due_s is None else round(max(0.0, count.due_s - now_s), 1),
        "last_sent": count.last_sent,
        "error": error or None,
    }


def _where(item: Chosen) -> str:
    """Returns where a notifier sends; "" where its options do not say."""
    if item.notifier is None:
        return ""
    try:
        return line(item.notifier.where())[:200]
    except PerpetualError:
        return ""


def _wanted(lab: Lab, names: Sequence[str]) -> list[Chosen]:
    found = [named(lab, name) for name in dict.fromkeys(names)] if names else chosen(lab)
    if not found:
        raise UsageError("no notifier is configured", hint=_HINT, code="no_notifier")
    return found


def try_out(lab: Lab, names: Sequence[str] = (), *, accepts: bool = False) -> tuple[NotifyTest, list[PerpetualError]]:
    """Sends a test notice to notifiers now, by default to those of the configuration; returns how each fared.

    Args:
        accepts: lets notices go where these notifiers send from now on.

    Raises:
        UsageError: without a notifier, and for one that there is not.
        NotPermitted: for an agent, and (not_trusted) in a project that is held.
    """
    lab.trust.require("sending a test notice")
    require_person(lab, "sending a test notice")
    now = iso(datetime.now(UTC))
    found = _wanted(lab, names)
    if accepts:
        for item in found:
            if item.notifier is not None and item.problem is None and not item.is_accepted:
                accept(lab, item.name, item.notifier)
        found = _wanted(lab, names)
        fill(lab, chosen(lab))  # what happens from now on is sent
    sent = notice(
        id=f"{lab.config.project_id}-test-{os.urandom(6).hex()}", kind="test", project=str(lab.config["project"]),
        title="test notice", text="Notices of this project arrive here.", time=now,
    )  # fmt: skip
    tests: list[NotifyTried] = []
    problems: list[PerpetualError] = []
    for item in found:
        began_s = time.monotonic()
        problem = item.problem
        if problem is None and not item.is_accepted:
            problem = PerpetualError(NOT_ACCEPTED, hint=f"perpetual notify test {item.name} --accept",
                                     code="not_accepted")  # fmt: skip
            problem.exit = 4
        if problem is None and item.notifier is not None:
            problem = send_one(item.notifier, sent)
        problems += [problem] if problem is not None else []
        tests.append(
            {
                "notifier": item.name,
                "where": _where(item),
                "ok": problem is None,
                "duration_s": round(time.monotonic() - began_s, 3),
                "error": None if problem is None else words(problem),
                "hint": None if problem is None or problem.hint is None else line(problem.hint),
            }
        )
    return {"notice": sent.document(), "tests": tests}, problems


def send(lab: Lab, limits: Limits = LIMITS) -> tuple[NotifySend, list[PerpetualError]]:
    """Sends what waits, also what failed and is due later, and returns once each notifier was tried.

    Raises:
        UsageError: where no notifier is configured.
        NotPermitted: for an agent, and (not_trusted) in a project that is held.
    """
    lab.trust.require("sending notices")
    require_person(lab, "sending notices")
    found = _wanted(lab, ())
    read = fill(lab, found, limits)
    done = {one.name: one for one in deliver_all(lab, [item for item in found if item.is_ready], limits=limits)}
    folder = folder_of(lab)
    lines: list[NotifySent] = []
    problems: list[PerpetualError] = []
    outbox = Outbox(folder, limits) if Outbox.is_there(folder) else None
    try:
        for item in found:
            one = done.get(item.name)
            problem = item.problem if one is None else one.problem
            if problem is None and not item.is_accepted:
                problem = PerpetualError(NOT_ACCEPTED, hint=f"perpetual notify test {item.name}", code="not_accepted")
                problem.exit = 4
            problems += [problem] if problem is not None else []
            count = Counts() if outbox is None else outbox.counts(item.name)
            lines.append(
                {
                    "notifier": item.name,
                    "sent": one.sent if one is not None else [],
                    "pending": count.pending,
                    "failed_count": count.failed,
                    "error": None if problem is None else words(problem),
                }
            )
        position = lab.feed.last() if outbox is None else outbox.seq
    finally:
        if outbox is not None:
            outbox.close()
    return {"notifiers": lines, "read": read, "position": position}, problems
