"""Entry point of the bundled store: offers `tinydb`, imports nothing heavy."""

from __future__ import annotations

from perpetual.api import Option, Provider, hookimpl


@hookimpl
def perpetual_stores() -> list[Provider]:
    """Offers the default store: readable JSON lines under TinyDB."""
    return [
        Provider(
            slot="store",
            name="tinydb",
            factory="perpetual_tinydb.store:open_store",
            summary="readable JSON lines queried with TinyDB, appended to a journal",
            options={
                "lock_timeout_s": Option("float", 30.0, "seconds to wait for another process's write"),
            },
            head="perpetual_tinydb.head:head",
        )
    ]
