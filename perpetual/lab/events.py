"""The feed: events read by anybody, and offered to the plugins that observe them, each by its own durable cursor."""

from __future__ import annotations

from perpetual.lab.context import Context
from perpetual.records import Event, from_json
from perpetual.slots.store import Document

__all__ = ["Feed"]

_BATCH = 200


class Feed:
    """Reads events; delivers them at least once to each observer."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def begin(self, project_id: str, name: str) -> None:
        """The first event of a new project; nothing in one that has events."""
        with self._ctx.store.transaction() as tx:
            if tx.count("event") == 0:
                self._ctx.emit(tx, "project_created", project_id, {"name": name})

    def read(self, *, since: int = 0, limit: int | None = None) -> list[Event]:
        """Events with a seq above `since`, in order."""
        return [_event(row) for row in self._ctx.store.rows("event", since=since, limit=limit)]

    def wait(self, since: int, *, timeout_s: float) -> None:
        """Returns once there is an event after `since`, or after `timeout_s`."""
        store = self._ctx.store
        if store.count("event") <= since:
            store.wait(store.seq(), timeout_s)

    def deliver(self) -> dict[str, str]:
        """Offers new events to every `perpetual_event` observer; answers {plugin: error} for those that failed.

        The cursor moves after the calls, so a crash repeats a batch and never skips one. An observer that fails
        keeps its cursor: the events are offered again at the next delivery.
        """
        if not any("perpetual_event" in info.hooks for info in self._ctx.registry.plugins):
            return {}
        failed: dict[str, str] = {}
        cursor = self._ctx.store.get("setting", "event_cursor")
        positions: dict[str, int] = dict(cursor.body) if cursor else {}
        start = min((positions.get(name, 0) for name in self._observers()), default=0)
        events = self.read(since=start, limit=_BATCH)
        for event in events:
            for called in self._ctx.registry.call("perpetual_event", event=event):
                if called.plugin in failed or positions.get(called.plugin, 0) >= event.seq:
                    continue
                if called.error:
                    failed[called.plugin] = called.error
                else:
                    positions[called.plugin] = event.seq
        if events:
            with self._ctx.store.transaction() as tx:
                tx.put("setting", "event_cursor", positions)
        return failed

    def _observers(self) -> list[str]:
        return [info.qualified_name for info in self._ctx.registry.plugins if "perpetual_event" in info.hooks]


def _event(row: Document) -> Event:
    return from_json(Event, {**row.body, "seq": row.number})
