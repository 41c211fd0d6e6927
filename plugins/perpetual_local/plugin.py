"""Entry point of the local scheduler: offers `local`, imports nothing heavy."""

from __future__ import annotations

from perpetual.api import Option, Provider, hookimpl


@hookimpl
def perpetual_schedulers() -> list[Provider]:
    """Runs on this machine, one supervisor process each."""
    return [
        Provider(
            slot="scheduler",
            name="local",
            factory="perpetual_local.scheduler:build",
            summary="detached processes on this machine, each under its own supervisor",
            requires=("supervisor",),
            options={"max_log_bytes": Option("int", 100_000_000, "cap of each log file; its middle is cut out")},
        )
    ]
