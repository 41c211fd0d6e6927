"""The question `edit`: what a thinker is asked for a candidate of a campaign, and what becomes of its answer.

A candidate is opened first and has one question, so that kill -9 asks nothing twice and loses none. An edit that is
refused twice ends its candidate with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING

from perpetual.api import NotFound, Refused
from perpetual_campaign.asking import asked_of, shown_in
from perpetual_campaign.campaigns import Campaigns
from perpetual_campaign.edits import SCHEMA, tree_of
from perpetual_campaign.records import EDIT
from perpetual_thinkers.base import Request
from perpetual_thinkers.question import Question
from perpetual_thinkers.records import Thought, thoughts
from perpetual_thinkers.replies import BadReply
from perpetual_thinkers.requests import request_id_of

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record

__all__ = ["EditQuestion", "build"]


class EditQuestion(Question):
    """Asks for an edit where a campaign with a thinker has room for a candidate.

    Args:
        name: the campaign alone that is asked about; None asks about every open one.
    """

    kind = EDIT

    def __init__(self, name: str | None = None) -> None:
        self._name = name

    def schema(self) -> Mapping[str, object]:
        """Returns the JSON schema of an edit; a copy, since a thinker gets it."""
        return deepcopy(SCHEMA)

    def new(self, lab: Lab, *, thinker: str) -> tuple[Request, str] | None:
        """Returns the question for a candidate that has none yet, else for one that is opened for it."""
        campaigns = Campaigns(lab)
        for campaign in campaigns.all():
            if self._name not in (None, campaign["name"]) or not campaigns.is_thinker_let(campaign):
                continue
            found = self._waiting(lab, campaigns, campaign) or campaigns.opened(campaign, thinker)
            if found is not None:
                return _request(lab, campaigns, campaign, found), found.id
        return None

    def _waiting(self, lab: Lab, campaigns: Campaigns, campaign: Record) -> Record | None:
        """Returns a candidate that was opened and not asked about; ends those whose question has ended without use."""
        for one in campaigns.of(campaign):
            if one["thinker"] is None or one["state"] not in ("new", "editing") or one["edited_at"] is not None:
                continue
            if not thoughts(lab, kind_of_question=EDIT, subject=one.id):
                return one
            if (why := campaigns.given_up(one)) is not None:
                campaigns.refuse(one, why)
        return None

    def may_come(self, lab: Lab) -> bool:
        """Returns whether a campaign that a thinker edits for has room for another candidate."""
        campaigns = Campaigns(lab)
        let = (one for one in campaigns.all() if self._name in (None, one["name"]) and campaigns.is_thinker_let(one))
        return any(campaigns.why_full(one) is None for one in let)

    def closed(self, lab: Lab, thought: Thought) -> str | None:
        """Returns why its candidate needs no edit any longer."""
        campaigns = Campaigns(lab)
        try:
            candidate = campaigns.get(thought.subject)
        except NotFound:
            return f"there is no candidate {thought.subject}"
        if candidate["state"] not in ("new", "editing"):
            return f"{candidate.id} is {candidate['outcome'] or candidate['state']}"
        if not campaigns.is_thinker_let(campaigns.campaign_of(candidate)):
            return "no thinker edits for its campaign any longer"
        return None

    def check(self, lab: Lab, thought: Thought, answer: Mapping[str, object]) -> None:
        """Raises BadReply for an edit that the campaign refuses."""
        _tree(Campaigns(lab), thought, answer)

    def use(self, lab: Lab, thought: Thought, answer: Mapping[str, object]) -> Mapping[str, object] | None:
        """Commits the edit on its candidate's branch; the next scan submits it."""
        campaigns = Campaigns(lab)
        candidate = campaigns.get(thought.subject)
        if candidate["state"] in ("new", "editing") and candidate["edited_at"] is None:
            tree = _tree(campaigns, thought, answer)
            base, at = str(candidate["base"]), thought.created_at
            candidate = campaigns.filled(candidate, base, tree, str(answer["claim"]), at)
        return None if candidate["edited_at"] is None else {"candidate": candidate.id}


def _tree(campaigns: Campaigns, thought: Thought, answer: Mapping[str, object]) -> str:
    candidate = campaigns.get(thought.subject)
    campaign, base = campaigns.campaign_of(candidate), str(candidate["base"])
    try:
        tree, _ = tree_of(campaigns, campaign, base, answer, shown_in(thought.asked))
        campaigns.check_new(campaign, candidate, campaigns.git.patch_id(base, tree))
    except Refused as problem:
        hint = f" ({problem.hint})" if problem.hint else ""
        raise BadReply(f"{problem.code}: {problem.message}{hint}") from None
    return tree


def _request(lab: Lab, campaigns: Campaigns, campaign: Record, candidate: Record) -> Request:
    options = lab.options("campaign")
    state = asked_of(lab, campaigns, campaign, candidate, tokens=int(str(options["thinker_tokens"])))
    id = request_id_of(EDIT, candidate.id, f"{lab.config.project_id}:{candidate['base']}")
    return Request(id, EDIT, json.dumps(state, ensure_ascii=False), deepcopy(SCHEMA), int(str(options["edit_tokens"])))


def build(options: Mapping[str, object]) -> EditQuestion:
    """Builds the provider `edit`."""
    return EditQuestion()
