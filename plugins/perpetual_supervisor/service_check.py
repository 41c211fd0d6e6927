"""The doctor's check of services: those that failed, and those that say that they are not well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual.api import Check, Finding
from perpetual.toolkit.service_state import FOLDER

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["Services", "build"]


class Services(Check):
    """Reports how the services of a project fare."""

    def examine(self, lab: Lab) -> Finding:
        """Returns the finding."""
        states = lab.services.list()
        bad = [f"{item['name']}: {item['reason']}" for item in states if item["state"] == "failed"]
        bad += [
            f"{item['name']}: {item['health']['detail']}"
            for item in states
            if isinstance(item["health"], dict) and item["health"].get("ok") is False
        ]
        if bad:
            hint = f"perpetual services start NAME; what each wrote is in .perpetual/{FOLDER}"
            return Finding(False, "; ".join(bad), hint)
        running = [item["name"] for item in states if item["state"] == "running"]
        return Finding(True, f"running: {', '.join(running)}" if running else "no service is running (optional)")


def build(options: Mapping[str, object]) -> Check:
    """Builds the check."""
    return Services()
