"""Entry point of the SQLite store: offers `sqlite`, imports nothing heavy."""

from __future__ import annotations

from perpetual.api import Option, Provider, hookimpl


@hookimpl
def perpetual_stores() -> list[Provider]:
    """Offers the store for long records."""
    return [
        Provider(
            slot="store",
            name="sqlite",
            factory="perpetual_sqlite.store:open_store",
            summary="one SQLite database, as fast with 100,000 records as with a hundred",
            options={
                "lock_timeout_s": Option("float", 30.0, "seconds to wait for another process's write"),
            },
            head="perpetual_sqlite.head:head",
        )
    ]
