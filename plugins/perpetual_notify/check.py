"""The check `notifications`: whether notices reach a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual.api import Check, Finding
from perpetual.toolkit.units import counted
from perpetual_notify.consent import folder_of
from perpetual_notify.outbox import Outbox
from perpetual_notify.sending import chosen, words

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["Notifications", "build"]


class Notifications(Check):
    """Says which notifier is wrong, not accepted, or fails."""

    def examine(self, lab: Lab) -> Finding:
        """Returns what the configuration and the outbox say; sends nothing."""
        if lab.trust.state() == "held":
            return Finding(None, "nothing is sent in a project that is held")
        found = chosen(lab)
        if not found:
            return Finding(None, "no notifier is configured")
        for item in found:
            if item.problem is not None:
                return Finding(False, f"{item.name}: {words(item.problem)}", item.problem.hint)
            if not item.is_accepted:
                return Finding(False, f"{item.name} was not accepted here, and sends nothing",
                               f"perpetual notify test {item.name}")  # fmt: skip
        if not Outbox.is_there(folder_of(lab)):
            names = ", ".join(item.name for item in found)
            return Finding(True, f"{names}: nothing was sent yet")
        said = []
        with Outbox(folder_of(lab)) as outbox:
            for item in found:
                count = outbox.counts(item.name)
                if count.error is not None:
                    waiting = f"{counted(count.pending, 'notice')} waiting"
                    return Finding(False, f"{item.name} fails, {waiting}: {count.error}",
                                   f"perpetual notify test {item.name}")  # fmt: skip
                lost = f", {count.failed} given up" if count.failed else ""
                said.append(f"{item.name}: {count.sent} sent, {count.pending} waiting{lost}")
        return Finding(True, "; ".join(said))


def build(options: Mapping[str, object]) -> Notifications:
    """Builds the check; it has no options."""
    return Notifications()
