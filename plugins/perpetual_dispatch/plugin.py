"""Entry point of the dispatcher: its check of `perpetual doctor`; the process itself is started by supervisors."""

from __future__ import annotations

from perpetual.api import Option, Provider, hookimpl


@hookimpl
def perpetual_options() -> dict[str, Option]:
    """Names the option of the notices on the desktop."""
    return {"notices": Option("bool", True, "whether the desktop says that an experiment's runs have ended")}


@hookimpl
def perpetual_checks() -> list[Provider]:
    """Offers the check that says whether the queue moves by itself."""
    return [
        Provider(
            slot="check",
            name="queue-moves",
            factory="perpetual_dispatch.check:build",
            requires=("supervisor",),
            summary="whether ends of runs are recorded and waiting runs started, with no terminal open",
        )
    ]


@hookimpl
def perpetual_status_sections() -> list[Provider]:
    """Offers the section of the status that says that the queue has stopped moving."""
    return [
        Provider(
            slot="status_section",
            name="queue-moves",
            factory="perpetual_dispatch.check:build_section",
            requires=("supervisor",),
            summary="that what moves the queue has failed, or that runs wait for a secret",
        )
    ]
