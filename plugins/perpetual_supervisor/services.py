"""`lab.services`: the services of plugins, one process each. The kernel asks for it by the slot `service_host`.

A service is started in a process of its own (`start`) or runs in the caller's (`run`). Whether it runs is what its lock
says; to end one, its process is asked by a file, and signalled only if it holds the lock and does not answer.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from perpetual.api import (
    Conflict,
    NotFound,
    Offer,
    PerpetualError,
    Service,
    ServiceHost,
    Services,
    TransientError,
    unknown,
)
from perpetual.toolkit import confined
from perpetual.toolkit.atomic import dump_json, write_atomic
from perpetual.toolkit.contained import contained
from perpetual.toolkit.lock import FileLock
from perpetual.toolkit.service_state import FOLDER, path_of, service_states, state_of
from perpetual_supervisor.service_end import end_service, file_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from perpetual import Lab
    from perpetual.documents.services import ServiceLine

__all__ = ["LabServices", "Processes", "build"]

START_S = 30.0  # until a started service has its lock
GRACE_S = 10.0  # between asking a service to end and killing it
_LOOK_S = 0.05
_DELIVER_S = 3.0  # until the feed is looked at where nothing wakes it
_STOP_LOOK_S = 1.0  # at which a service looks whether it is asked to end
_SETTLE_S = 0.2  # after which a service that has not failed serves
_HEALTH_S = 4.0  # between two questions after a service's health
_LARGEST_LOG_BYTES, _MOST_CHARS = 10 * 1024 * 1024, 1000  # of what a service says: its file is read up to a limit


class Processes(ServiceHost):
    """Hosts each service in a process of this machine."""

    def services(self, lab: Lab, person_only: Callable[[str], None]) -> LabServices:
        """Implements `ServiceHost`."""
        return LabServices(lab, person_only)


def build(options: Mapping[str, object]) -> Processes:
    """Builds the part."""
    return Processes()


class LabServices(Services):
    """Starts, shows and ends the services of a project's plugins."""

    def __init__(self, lab: Lab, person_only: Callable[[str], None]) -> None:
        self._lab, self._person_only, self._folder = lab, person_only, lab.config.folder

    def list(self) -> Sequence[ServiceLine]:
        """Returns every service: `{name, qualified_name, summary, state, pid, started_at, ended_at, health, reason}`.

        `state` is starting, running, stopped or failed. A service whose plugin has gone is listed while it runs.
        """
        offers = {offer.name: offer for offer in self._lab.registry.serving("service")}
        states = {state["name"]: state for state in service_states(str(self._folder))}
        found: list[ServiceLine] = []
        for name in [*offers, *(name for name in states if name not in offers)]:
            state = states.get(file_name(name)) or state_of(str(self._folder), file_name(name))
            offer = offers.get(name)
            if offer is None and state["state"] != "running":
                continue
            found.append(
                {
                    **state,
                    "name": name,
                    "qualified_name": None if offer is None else offer.qualified_name,
                    "summary": "" if offer is None else offer.provider.summary,
                }
            )
        return found

    def status(self, name: str) -> ServiceLine:
        """Returns one item of `list`; raises NotFound, naming the nearest."""
        items = {item["name"]: item for item in self.list()}
        if name not in items:
            hint = (
                f"there is {', '.join(items)}" if items else "no plugin here brings a service: perpetual plugins list"
            )
            raise NotFound(unknown("service", name, items), hint=hint)
        return items[name]

    def start(self, name: str, *, timeout_s: float = START_S) -> ServiceLine:
        """Starts a service in a process of its own and returns its state once it runs.

        Raises:
            NotFound: if no plugin offers it. Conflict: if it runs already.
            NotPermitted: where an agent asks for it, or in a held project.
            PerpetualError: if it ended at once; the message has its reason.
        """
        self.allows(f"starting the service {name}")
        self._offer(name)
        if self.status(name)["state"] in ("starting", "running"):
            raise self._running(name)
        log = self._open_log(name)
        words = [sys.executable, "-P", "-m", "perpetual", "--project", str(self._lab.root), "services", "start",
                 name, "--foreground"]  # fmt: skip
        try:
            process = subprocess.Popen(
                words, cwd=self._lab.root, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        finally:
            os.close(log)
        threading.Thread(target=process.wait, daemon=True).start()  # no zombie where this process lives on
        deadline = time.monotonic() + timeout_s
        while True:
            code = process.poll()
            state = self.status(name)
            if state["state"] == "running" and state["pid"] == process.pid:
                return state
            if code is not None:
                why = state["reason"] or f"it ended with exit status {code}"
                raise PerpetualError(f"the service {name} did not start: {why}", hint=f"its log: {self.log(name)}")
            if time.monotonic() > deadline:
                process.kill()
                raise TransientError(f"the service {name} did not start within {timeout_s:g} s",
                                     hint=f"its log: {self.log(name)}")  # fmt: skip
            time.sleep(_LOOK_S)

    def run(self, name: str, service: Service | None = None) -> None:
        """Runs a service in this process until it is asked to stop (`stop`, Ctrl-C, TERM) or ends.

        Args:
            service: the part itself where the caller has built it; None builds it from the project's options.

        Raises:
            Conflict: if it runs already. What `start` raises; and what the service raises.
        """
        self.allows(f"starting the service {name}")
        offer = self._offer(name)
        folder = self._folder / FOLDER
        confined.make_folder(folder)
        lock = FileLock(path_of(str(self._folder), file_name(name), "lock"))
        if not lock.acquire(blocking=False):
            raise self._running(name)
        try:
            _Host(self._lab, offer, file_name(name)).serve(service)
        finally:
            lock.release()

    def stop(self, name: str, *, grace_s: float = GRACE_S) -> ServiceLine:
        """Asks a service to end, waits, and kills its process after `grace_s`; returns its state.

        Raises:
            NotFound: if there is no such service.
            NotPermitted: where an agent asks for it.
            TransientError: if it goes on and its process cannot be identified, or outlives the kill.
        """
        self._person_only("stopping a service")
        state = self.status(name)
        if state["state"] not in ("starting", "running"):
            return state
        end_service(str(self._folder), name, grace_s=grace_s)
        return self.status(name)

    def log(self, name: str) -> str:
        """Returns the path of what a service writes to its output."""
        return path_of(str(self._folder), file_name(name), "log")

    def allows(self, deed: str) -> None:
        """Raises NotPermitted where an agent asks for what starts a service, or in a held project."""
        self._person_only(deed)
        self._lab.trust.require(deed)

    def _offer(self, name: str) -> Offer:
        self.status(name)  # names the nearest
        return self._lab.registry.choose("service", name)

    def _running(self, name: str) -> Conflict:
        return Conflict(f"the service {name} runs already", hint=f"perpetual services stop {name}")

    def _open_log(self, name: str) -> int:
        confined.make_folder(self._folder / FOLDER)
        path = self.log(name)
        seen = confined.look(path)
        fresh = os.O_TRUNC if seen is not None and seen.st_size > _LARGEST_LOG_BYTES else 0
        return confined.open_file(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | fresh)


class _Host:
    """Runs one service in this process: its signals, its health, its share of the feed, its last words."""

    def __init__(self, lab: Lab, offer: Offer, file_name: str) -> None:
        self._lab, self._offer, folder = lab, offer, str(lab.config.folder)
        self._stop = threading.Event()
        self._state = path_of(folder, file_name, "json")
        self._request = path_of(folder, file_name, "stop")
        self._said: dict[str, object] = {}
        self._lock = threading.Lock()

    def serve(self, service: Service | None) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._request)  # for an earlier one
        self._say(
            pid=os.getpid(), started_at=self._lab.context.now(), ended_at=None, health=None, reason=None, serves=False
        )
        before = self._handle_signals()
        threads: list[threading.Thread] = []
        reason: str | None = None
        try:
            part: Service = service or self._lab.registry.build(self._offer, self._lab.options_of(self._offer))
            for work in (self._watch, self._deliver, lambda: self._ask(part)):
                threads.append(threading.Thread(target=work, daemon=True))
                threads[-1].start()
            with contained():
                part.run(self._lab, self._stop)
        except Exception as problem:
            reason = f"{type(problem).__name__}: {problem}"[:_MOST_CHARS]
            raise
        finally:
            self._stop.set()
            for thread in threads:
                thread.join(GRACE_S)
            for number, handler in before.items():
                signal.signal(number, handler)
            self._say(ended_at=self._lab.context.now(), health=None, reason=reason)

    def _handle_signals(self) -> dict[int, Callable[[int, FrameType | None], object] | int | None]:
        if threading.current_thread() is not threading.main_thread():
            return {}
        return {
            number: signal.signal(number, lambda *_: self._stop.set()) for number in (signal.SIGTERM, signal.SIGINT)
        }

    def _say(self, **words: object) -> None:
        with self._lock:
            if words.items() <= self._said.items():
                return  # the file says so
            self._said |= words
            write_atomic(self._state, dump_json(self._said), durable=False)

    def _watch(self) -> None:
        """Says that the service serves once it has not failed at once, and ends it once its stop file is there."""
        if not self._stop.wait(_SETTLE_S):
            self._say(serves=True)
        while not self._stop.wait(_STOP_LOOK_S):
            if os.path.lexists(self._request):
                self._stop.set()

    def _deliver(self) -> None:
        """Offers events to the observers as they come."""
        since, is_due = 0, True
        while not self._stop.is_set():
            with suppress(PerpetualError):  # a store that is being moved: the next look opens the new one
                present = self._lab.feed.last()
                if is_due or present != since:
                    is_due, since = bool(self._lab.feed.deliver()), present  # one that failed is asked again
                self._lab.feed.wait(since, timeout_s=_DELIVER_S)

    def _ask(self, service: Service) -> None:
        """Keeps what the service says of its health."""
        while True:
            try:
                with contained():
                    found = service.health(self._lab)
                detail, hint = (text and str(text)[:_MOST_CHARS] for text in (found.detail, found.hint))
                health = {"ok": found.ok, "detail": detail, "hint": hint}
            except Exception as problem:  # noqa: BLE001 - a service that cannot say how it fares is not well
                health = {"ok": False, "detail": f"health: {problem!r}"[:_MOST_CHARS], "hint": None}
            self._say(health=health)
            if self._stop.wait(_HEALTH_S):
                return
