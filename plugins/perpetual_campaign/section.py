"""The section `campaigns` of the status: what is live, and what waits for a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual.api import Section, StatusSection, line
from perpetual.toolkit.units import counted

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["CampaignsSection", "build"]

_SHOWN = 5


class CampaignsSection(StatusSection):
    """Counts the candidates of open campaigns."""

    def show(self, lab: Lab) -> Section | None:
        """Returns a line for each open campaign; None where none is open."""
        from perpetual_campaign.campaigns import LIVE, Campaigns

        known = Campaigns(lab)
        found = [one for one in known.all() if one["state"] == "open"]
        if not found:
            return None
        lines, data = [], {}
        for campaign in found:
            items = known.of(campaign)
            counts = {
                "live": sum(one["state"] in LIVE for one in items),
                "kept": sum(one["state"] == "kept" for one in items),
                "archived": sum(one["state"] == "archived" for one in items),
            }
            data[str(campaign["name"])] = counts
            lines.append(
                f"campaign {line(campaign['name'])}: {counted(counts['live'], 'live candidate')}, "
                f"{counts['kept']} kept, {counts['archived']} archived"
            )
        more = [f"and {len(lines) - _SHOWN} more: perpetual campaign list"] if len(lines) > _SHOWN else []
        return Section("campaigns", (*lines[:_SHOWN], *more), data)


def build(options: Mapping[str, object]) -> CampaignsSection:
    """Builds the provider `campaigns`."""
    return CampaignsSection()
