"""Sends what waits in the outbox: one round, for the companion of the daemon, `perpetual notify send` and tests.

Each notifier is sent to in a thread of its own, under a lock of its own: one that hangs or fails delays no other, and
two processes do not send the same notice at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from perpetual.api import PerpetualError, TransientError, UsageError, line, unknown
from perpetual.toolkit.confined import make_folder
from perpetual.toolkit.deadline import OutOfTime, call_bounded
from perpetual.toolkit.lock import FileLock
from perpetual.toolkit.reserved import known_name
from perpetual.toolkit.units import iso
from perpetual_notify.consent import folder_of, is_accepted
from perpetual_notify.notifier import Notice, Notifier
from perpetual_notify.outbox import LIMITS, Limits, Outbox

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Offer

__all__ = ["Chosen", "Delivered", "Settings", "chosen", "deliver", "deliver_all", "fill", "named", "send_one",
           "settings", "words"]  # fmt: skip

_LOCK_WAIT_S = 60.0
_SLACK_S = 5.0  # beyond a notifier's own limit
_LONGEST_ERROR = 240
_RETRY_AFTER = "retry_after_s"  # in the data of an error


class Settings(NamedTuple):
    """What the plugin's options say."""

    notifiers: list[str]
    kinds: list[str]
    per_hour: int


class Chosen(NamedTuple):
    """A notifier of the configuration; `notifier` is None where it cannot be built, and `problem` says why."""

    name: str
    notifier: Notifier | None
    problem: PerpetualError | None
    is_accepted: bool

    @property
    def is_ready(self) -> bool:
        """Returns whether notices may be sent to it."""
        return self.notifier is not None and self.problem is None and self.is_accepted


class Delivered(NamedTuple):
    """What was delivered to a notifier in one go; `problem` is why the last notice was not accepted."""

    name: str
    sent: list[str]
    problem: PerpetualError | None


def settings(lab: Lab) -> Settings:
    """Returns the plugin's options in force; raises ConfigError as `lab.options` does."""
    found = lab.options("notify")
    notifiers, kinds, per_hour = found["notifiers"], found["kinds"], found["per_hour"]
    assert isinstance(notifiers, list)
    assert isinstance(kinds, list)
    return Settings([*dict.fromkeys(map(str, notifiers))], [*map(str, kinds)], int(str(per_hour)))


def chosen(lab: Lab) -> list[Chosen]:
    """Returns the notifiers of the configuration, built with the options of now; one that is wrong says why."""
    return [_looked_at(lab, name) for name in settings(lab).notifiers]


def named(lab: Lab, name: str) -> Chosen:
    """Returns a notifier, configured or not.

    Raises:
        UsageError: if there is none of that name.
    """
    found = _looked_at(lab, name)
    if isinstance(found.problem, UsageError) and found.problem.code == "no_notifier":
        raise found.problem
    return found


def _offer(lab: Lab, name: str) -> Offer:
    offers = lab.registry.serving("notifier")
    for offer in offers:
        if name in (offer.qualified_name, known_name("notifier", offer.qualified_name)):
            return offer
    names = [known_name("notifier", offer.qualified_name) for offer in offers]
    raise UsageError(unknown("notifier", name, names), hint="perpetual plugins list", code="no_notifier")


def _looked_at(lab: Lab, name: str) -> Chosen:
    notifier: Notifier | None = None
    try:
        lab.trust.require("looking where notices go")  # what the file refers to is not read in a held project
        offer = _offer(lab, name)
        name = known_name("notifier", offer.qualified_name)
        notifier = lab.registry.build(offer, lab.options_of(offer))
        return Chosen(name, notifier, None, is_accepted(lab, name, notifier))
    except PerpetualError as problem:
        return Chosen(name, notifier, problem, is_accepted=False)
    except Exception as problem:  # noqa: BLE001 - a plugin raises anything; the other notifiers go on
        return Chosen(name, None, PerpetualError(f"{type(problem).__name__}: {problem}"), is_accepted=False)


def fill(lab: Lab, found: Sequence[Chosen], limits: Limits = LIMITS) -> int:
    """Puts what has happened into the outbox of the notifiers; returns how many notices came of it.

    A notifier is known from the first time that it is ready. What waits for it is kept while it is not.

    Raises:
        NotPermitted: (not_trusted) in a project that is held.
        CorruptData: if the outbox is damaged.
    """
    lab.trust.require("sending notices")
    folder = folder_of(lab)
    if not any(item.is_ready for item in found) and not Outbox.is_there(folder):
        return 0
    make_folder(folder)
    with Outbox(folder, limits) as outbox:
        known = outbox.names()
        names = [item.name for item in found if item.is_ready or item.name in known]
        outbox.keep(names, lab.feed.last())
        return outbox.read(lab, settings(lab).kinds) if names else 0


def deliver(
    folder: Path, item: Chosen, project: str, per_hour: int, *, limits: Limits = LIMITS, at_once: bool = False,
    clock: Callable[[], float] = time.time, stop: threading.Event | None = None,
) -> Delivered | None:  # fmt: skip
    """Sends what waits for a notifier, in order, until one is not accepted; None where another process is at it.

    Args:
        at_once: also what failed and is due later, and waits for another process.
        stop: ends it before the next notice.

    Raises:
        TransientError: with `at_once`, if another process sends for long.
    """
    assert item.notifier is not None
    lock = FileLock(folder / f"{item.name.replace('/', '+')}.lock")
    if not (lock.acquire(timeout_s=_LOCK_WAIT_S) if at_once else lock.acquire(blocking=False)):
        if at_once:
            raise TransientError(f"another process is sending to {item.name}", hint="try again")
        return None
    sent: list[str] = []
    try:
        with Outbox(folder, limits) as outbox:
            while stop is None or not stop.is_set():
                found = outbox.next(item.name, clock(), per_hour, at_once=at_once)
                if found is None:
                    break
                outbox.begin(item.name, found, clock())
                problem = send_one(item.notifier, found.notice(project))
                if problem is not None:
                    wait_s = (problem.data or {}).get(_RETRY_AFTER, 0.0)
                    outbox.failed(item.name, found, words(problem), clock(),
                                  wait_s=wait_s if isinstance(wait_s, float) else 0.0)  # fmt: skip
                    return Delivered(item.name, sent, problem)
                outbox.done(item.name, found, clock(), iso(datetime.now(UTC)))
                sent.append(found.id)
    finally:
        lock.release()
    return Delivered(item.name, sent, None)


def send_one(notifier: Notifier, notice: Notice) -> PerpetualError | None:
    """Sends a notice; returns why it was not accepted, None if it was. Returns in time, whatever the notifier does."""
    try:
        call_bounded(notifier.limit_s + _SLACK_S, lambda: notifier.send(notice))
    except PerpetualError as problem:
        return problem
    except OutOfTime as problem:
        return TransientError(f"no answer: {problem}")
    except (Exception, SystemExit) as problem:  # noqa: BLE001 - a plugin raises anything, or ends the process
        return PerpetualError(f"{type(problem).__name__}: {problem}")
    return None


def deliver_all(lab: Lab, ready: Sequence[Chosen], *, limits: Limits = LIMITS, at_once: bool = True) -> list[Delivered]:
    """Sends what waits for each notifier, all at the same time, and returns once each is done."""
    folder, project, per_hour = folder_of(lab), str(lab.config["project"]), settings(lab).per_hour
    make_folder(folder)
    found: dict[str, Delivered] = {}

    def work(item: Chosen) -> None:
        try:
            done = deliver(folder, item, line(project), per_hour, limits=limits, at_once=at_once)
        except (PerpetualError, OSError) as problem:
            failed = problem if isinstance(problem, PerpetualError) else PerpetualError(str(problem))
            done = Delivered(item.name, [], failed)
        if done is not None:
            found[item.name] = done

    threads = [threading.Thread(target=work, args=(item,), daemon=True) for item in ready]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[item.name] for item in ready if item.name in found]


def words(problem: PerpetualError) -> str:
    """Returns an error on one line, without the secrets that were revealed."""
    text = line(str(problem.document()["message"]))
    return text if len(text) <= _LONGEST_ERROR else f"{text[:_LONGEST_ERROR]}..."
