"""Branches for review: what a campaign has kept, a branch a candidate, each on the base where it applies there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from perpetual.api import Conflict, UsageError, line
from perpetual.toolkit.units import posix_of
from perpetual_campaign.campaigns import Campaigns
from perpetual_campaign.repository import Commit

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record
    from perpetual_campaign.documents import CampaignBranch, CampaignBranches

__all__ = ["finalize"]

_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(?:/[A-Za-z0-9][A-Za-z0-9_-]*)*\Z")
_LONGEST_PREFIX = 100
_LONGEST_SLUG = 40


def finalize(lab: Lab, name: str, *, into: str | None = None, onto: str | None = None) -> CampaignBranches:
    """Makes a branch of each kept candidate; doing it again finds those that are there.

    Args:
        into: how the branches' names begin, by default `perpetual/review/NAME`.
        onto: the commit below them, by default the one that the campaign began with.

    Raises:
        UsageError: for a prefix that can be none, or a commit that there is not.
        Conflict: where nothing was kept, and where a branch of that name stands elsewhere.
    """
    campaigns = Campaigns(lab)
    campaign = campaigns.named(name)
    prefix = into or f"perpetual/review/{name}"
    if not _PREFIX.match(prefix) or len(prefix) > _LONGEST_PREFIX or prefix.startswith("refs/"):
        raise UsageError(f"--into takes how branches' names begin, not {line(prefix)!r}", hint=f"--into review/{name}")
    base = str(campaign["base"]) if onto is None else campaigns.git.commit_of(onto)
    if base is None:
        raise UsageError(f"{line(onto or '')} names no commit", hint="git log --oneline")
    kept = [one for one in campaigns.of(campaign) if one["state"] == "kept"]
    kept.sort(key=lambda one: (str(one["decided_at"]), one.number))
    if not kept:
        raise Conflict(f"{name} has kept nothing", hint=f"perpetual campaign show {name}")
    made: list[CampaignBranch] = []
    for place, one in enumerate(kept, 1):
        branch = f"{prefix}/{place:02d}-{_slug(str(one['idea'])) or one.id}"
        below, commit = _commit(campaigns, campaign, one, base, made)
        campaigns.git.move(f"refs/heads/{branch}", commit, None)
        made.append({
            "branch": branch, "commit": commit, "candidate": one.id, "idea": one["idea"], "stands_on": below,
            "is_stacked": below != base,
        })  # fmt: skip
    return {"name": name, "onto": base, "items": made}


def _commit(
    campaigns: Campaigns, campaign: Record, one: Record, base: str, made: list[CampaignBranch]
) -> tuple[str, str]:
    """Returns the commit of a candidate's branch and the one below it: the base, else the newest branch that takes it.

    What applies nowhere else stands where it was measured.
    """
    git, message = campaigns.git, str(one["message"] or campaigns.message(campaign, one))
    for below in (base, *(item["commit"] for item in made[::-1])):
        tree = git.applied(one["base"], one["kept"], below)
        if tree is not None and tree != git.tree_of(below):
            where = "" if below == one["base"] else f"Measured on {one['base'][:12]}, not here.\n"
            when = int(posix_of(one["decided_at"]))
            head, _, rest = message.partition("\n\n")
            text = f"{head}\n\n{where}{rest}"
            return below, git.write(Commit(tree, below, text, one.created_by, when))
    return str(one["base"]), str(one["kept"])


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_LONGEST_SLUG].strip("-")
