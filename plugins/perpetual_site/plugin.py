"""Entry point of the site: offers what `perpetual report --site` writes with; imports nothing heavy."""

from __future__ import annotations

from perpetual.api import Provider, hookimpl


@hookimpl
def perpetual_sites() -> list[Provider]:
    """Offers the static logbook."""
    return [
        Provider("site", "logbook", "perpetual_site.build:build", "A static logbook of the campaign, to publish.",
                 requires=("report", "curves"))
    ]  # fmt: skip
