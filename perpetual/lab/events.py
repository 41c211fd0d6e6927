"""The feed: events read by anybody, and offered to the plugins that observe them, each by its own durable cursor."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual.errors import PerpetualError, UsageError, unknown
from perpetual.lab.context import Context
from perpetual.lab.isolated_parts import observe
from perpetual.lab.kinds import EVENT, EventRow
from perpetual.lab.schema_upgrades import VERSIONS, versions_of
from perpetual.lab.state_token import Present
from perpetual.records import Event, from_json
from perpetual.toolkit.hook_calls import Called
from perpetual.toolkit.reserved import is_bundled

if TYPE_CHECKING:
    from perpetual.lab import Lab

__all__ = ["Feed"]

_BATCH = 200
_OBSERVER = "observer"  # among the failures of its plugin


class Feed:
    """Reads events; delivers them at least once to each observer."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self.lab: Lab | None = None  # for observers that ask for it
        self._present = Present(ctx)

    def begin(self, project_id: str, name: str) -> None:
        """Writes the first event of a new project; does nothing in one that has events, or that is held."""
        if self._ctx.trust.is_held:
            return
        with self._ctx.store.transaction() as tx:
            if tx.count("event") == 0:
                tx.put(*VERSIONS, versions_of(self._ctx.store.kinds))
                self._ctx.emit(tx, "project_created", project_id, {"name": name})

    def emit(self, kind: str, subject: str, payload: Mapping[str, object] | None = None) -> Event:
        """Appends a `note_failed`, or an event of a plugin (`PLUGIN.NAME`); inside a `lab.transaction()` it joins it.

        Raises:
            UsageError: for a kind that no active plugin brings, or a payload that is no JSON.
        """
        if kind != "note_failed" and kind not in self._ctx.registry.events:
            raise UsageError(unknown("kind of event of a plugin", kind, self._ctx.registry.events))
        with self._ctx.store.transaction() as tx:
            number = self._ctx.emit(tx, kind, subject, payload or {})
            row = tx.get(EVENT, str(number))
            assert row is not None  # it was appended just now
            return self._event(row)

    def read(self, *, since: int = 0, limit: int | None = None) -> list[Event]:
        """Returns the events with a seq above `since`, in order, at most `limit` (None: all)."""
        return [self._event(row) for row in self._ctx.store.rows(EVENT, since=since, limit=limit)]

    def last(self) -> int:
        """Returns the seq of the newest event; 0 before the first."""
        return self._ctx.store.count("event")

    def state(self) -> str | None:
        """Returns what tells the present state of the record and of the configuration from every other one; cheap.

        What follows from them alone is still true while this is the same. None if the chosen store cannot tell.
        """
        return self._present.token()

    def wait(self, since: int, *, timeout_s: float) -> None:
        """Returns once there is an event after `since`, or after `timeout_s`."""
        store = self._ctx.store
        seen = store.seq()  # before the count: an event that comes in between has moved it
        if store.count("event") <= since:
            store.wait(seen, timeout_s)

    def deliver(self) -> dict[str, str]:
        """Offers new events to every `perpetual_event` observer; answers {plugin: error} for those that failed.

        Each observer has a cursor of its own, which moves after its calls: a crash repeats a batch and never skips
        one, and an observer that fails is offered the same event again at the next delivery and holds up no other.
        Which ones fail is kept, for `failing`.
        """
        observers = self._ctx.registry.implementers("perpetual_event")
        if not observers or self._ctx.trust.is_held:
            return {}
        positions = self._positions()
        failed: dict[str, str] = {}
        moved: dict[str, int] = {}
        for name in observers:
            reason = self._offer(name, positions.get(name, 0), moved)
            if reason is not None:
                failed[name] = reason
        # The names alone: an error that reads otherwise each time must not make a commit, which would wake its waiters.
        is_news = failed.keys() != self._noted().keys()
        if moved or is_news:
            with self._ctx.store.transaction() as tx:
                if moved:
                    present = self._positions()  # another process may have delivered further meanwhile
                    further = {name: max(number, present.get(name, 0)) for name, number in moved.items()}
                    tx.put("setting", "event_cursor", {**present, **further})
                if is_news:
                    tx.put("setting", "event_failures", failed)
        return failed

    def _offer(self, name: str, since: int, moved: dict[str, int]) -> str | None:
        """Offers an observer the events after `since`, notes in `moved` how far it came; returns why it failed.

        One of another distribution has its limit for each event, and about as much for all that are offered at once.
        """
        is_ours, limit_s = is_bundled(name), self._ctx.config["plugin_observer_s"]
        rows = self._ctx.store.rows(EVENT, since=since, limit=_BATCH)
        if is_ours:
            out = None
        elif not rows:
            return None
        else:
            out = self._ctx.failures.left_out().get((name, _OBSERVER))
        if out is not None:
            return out.words
        began = time.monotonic()
        for row in rows:
            called = self._call(name, self._event(row), None if is_ours else limit_s)
            if called.error:
                if not is_ours:
                    self._ctx.failures.add(name, _OBSERVER, called.error)
                return called.error
            moved[name] = row.number
            if not is_ours and time.monotonic() - began > limit_s:
                break  # the rest at the next delivery
        if not is_ours:
            self._ctx.failures.clear(name, _OBSERVER)
        return None

    def _call(self, name: str, event: Event, limit_s: float | None) -> Called:
        """Calls an observer, of another distribution in the helper process."""
        registry = self._ctx.registry
        try:
            options = self._ctx.options.of_plugin(name)
            if limit_s is not None and registry.is_apart(name):
                lab = {"project": str(self._ctx.config.root), "actor": self._ctx.actor}
                return observe(self._ctx.helper, name, event, options, limit_s, lab=lab)
        except PerpetualError as problem:
            return Called(name, error=str(problem))
        return registry.ask(name, "perpetual_event", event=event, lab=self.lab, options=options)

    def failing(self) -> dict[str, str]:
        """Returns the observers that failed at the last delivery, each with its error."""
        present = self._ctx.registry.implementers("perpetual_event")
        return {name: error for name, error in self._noted().items() if name in present}

    def _noted(self) -> dict[str, str]:
        noted = self._ctx.store.get("setting", "event_failures")
        return dict(noted.body) if noted else {}

    def _positions(self) -> dict[str, int]:
        """Returns how far each observer has heard."""
        cursor = self._ctx.store.get("setting", "event_cursor")
        return dict(cursor.body) if cursor else {}

    def _event(self, row: EventRow) -> Event:
        return from_json(Event, {**self._ctx.redaction.shown_event(row.body["kind"], row.body), "seq": row.number})
