"""Campaigns as a tool of the MCP server: `perpetual_campaigns`. Built by the server when it starts."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from perpetual import Lab

if TYPE_CHECKING:
    from perpetual_campaign.documents import CampaignLine, Candidate
if sys.version_info >= (3, 12):
    from typing import TypedDict
else:
    from typing_extensions import TypedDict  # pydantic reads the keys of this one only

__all__ = ["build"]

_MOST = 20  # of each in an answer
_IS_ID = re.compile(r"c\d+\Z", re.IGNORECASE)


class CampaignRow(TypedDict):
    """A campaign; `expected_false_keeps` is how many would be kept on average at most if none changed anything."""

    name: str
    state: str
    metric: str
    direction: str
    best: str
    live: int
    kept: int
    tried: int
    expected_false_keeps: float


class CandidateRow(TypedDict):
    """A candidate; `worktree` is where it is edited, `sentence` what its last comparison says."""

    id: str
    campaign: str
    idea: str
    state: str
    outcome: str | None
    reason: str | None
    worktree: str | None
    files: list[str]
    e_value: float | None
    sentence: str | None
    waits_for: str | None


class CampaignsAnswer(TypedDict):
    """The campaigns, or those of the name that was asked for, with its candidates, the newest first."""

    schema: Literal["perpetual.campaigns_tool/1"]
    items: list[CampaignRow]
    candidates: list[CandidateRow]
    next: str | None
    truncated: bool


def build(options: Mapping[str, object]) -> Callable[..., CampaignsAnswer]:
    """Builds the tool."""
    return _campaigns


def _campaigns(
    lab: Lab,
    name: Annotated[str | None, "A campaign's name, or a candidate's id; none lists the campaigns."] = None,
) -> CampaignsAnswer:
    """Campaigns on code; with a name its candidates, what came of them, and where live ones are edited."""
    from perpetual_campaign import show

    found: list[CampaignLine] = show.campaigns(lab)
    candidates: list[Candidate] = []
    if name is not None and _IS_ID.match(name):
        candidates = [show.candidate(lab, name)]
        found = [one for one in found if one["name"] == candidates[0]["campaign"]]
    elif name is not None:
        whole = show.campaign(lab, name)
        found, candidates = [whole], whole["items"]
    steps = [one["next"] for one in candidates if one["next"] is not None]
    return {
        "schema": "perpetual.campaigns_tool/1",
        "items": [_row(one) for one in found[:_MOST]],
        "candidates": [_candidate(one) for one in candidates[:_MOST]],
        "next": steps[0] if steps else None,
        "truncated": max(len(found), len(candidates)) > _MOST,
    }


def _row(one: CampaignLine) -> CampaignRow:
    return {
        "name": one["name"], "state": one["state"], "metric": one["metric"], "direction": one["direction"],
        "best": one["best"], "live": one["live"], "kept": one["kept"], "tried": one["tried"],
        "expected_false_keeps": one["expected_false_keeps"],
    }  # fmt: skip


def _candidate(one: Candidate) -> CandidateRow:
    last = one["comparisons"][-1] if one["comparisons"] else None
    return {
        "id": one["id"], "campaign": one["campaign"], "idea": one["idea"], "state": one["state"],
        "outcome": one["outcome"], "reason": one["reason"], "worktree": one["worktree"], "files": one["files"],
        "e_value": one["e_value"], "sentence": None if last is None else last["sentence"],
        "waits_for": one["waits_for"],
    }  # fmt: skip


_campaigns.reads_only = True  # type: ignore[attr-defined]
_campaigns.destroys = False  # type: ignore[attr-defined]
_campaigns.repeatable = True  # type: ignore[attr-defined]
