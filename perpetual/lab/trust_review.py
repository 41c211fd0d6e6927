"""Showing and accepting what a project would have count: `lab.trust`, and the command `perpetual trust`.

What is held is listed with a digest; a person accepts exactly what was shown under it.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from perpetual.errors import Conflict, NotFound, NotPermitted, UsageError
from perpetual.lab.context import Context
from perpetual.lab.events import Feed
from perpetual.lab.kinds import EXPERIMENT, RUN
from perpetual.lab.runs.environment import keep
from perpetual.lab.trust import VARIABLE, State
from perpetual.lab.trust_questions import HeldItem, approval_of, held_items, references_held
from perpetual.toolkit import trust_record
from perpetual.toolkit.agents import evidence, mark
from perpetual.toolkit.private import make_private
from perpetual.toolkit.readers import FOR_A_PERSON
from perpetual.toolkit.trust_record import Record
from perpetual.toolkit.units import iso

if TYPE_CHECKING:
    from perpetual.documents.trust import Held, Trust, Trusted

__all__ = ["VARIABLE", "HeldItem", "Review", "TrustReview", "revoke", "trusted_projects"]


class Review(NamedTuple):
    """What a person is shown: `digest` names exactly these items."""

    project: str
    path: str
    state: State
    why: str | None
    digest: str
    held: tuple[HeldItem, ...]

    def document(self) -> Trust:
        """Returns the document of `perpetual trust --show`."""
        held: list[Held] = [
            {"kind": item.kind, "subject": item.subject, "why": item.why, "detail": item.detail} for item in self.held
        ]
        return {
            "project": self.project,
            "path": self.path,
            "state": self.state,
            "why": self.why,
            "digest": self.digest,
            "held": held,
        }


class TrustReview:
    """`lab.trust`: what of this project counts here, and how a person accepts the rest."""

    def __init__(self, ctx: Context, feed: Feed) -> None:
        self._ctx, self._feed = ctx, feed

    def state(self) -> State:
        """Returns `own`, `trusted` or `held`."""
        _ = self._ctx.store  # an older store than was seen here holds the project
        return self._ctx.trust.state()

    def require(self, operation: str) -> None:
        """Raises NotPermitted (not_trusted) if the project is held."""
        _ = self._ctx.store
        self._ctx.trust.require(operation)

    def review(self) -> Review:
        """Returns what would count if a person accepted this project as it is now."""
        state = self.state()
        held = tuple(held_items(self._ctx, finished=True))
        config = self._ctx.config
        return Review(config["project"], str(config.root), state, self._ctx.trust.why, self._digest(held), held)

    def held(self) -> list[HeldItem]:
        """Returns what does not count now and could start or weaken something; cheaper than `review`."""
        return [*held_items(self._ctx)]

    def _digest(self, held: tuple[HeldItem, ...]) -> str:
        # Owners differ between machines that hold the same content.
        shown = [[*item] for item in held if item.kind != "owner"]
        text = json.dumps([self._ctx.config.project_id, shown], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    # --- accepting ------------------------------------------------------------------------------------------

    def accept(self, digest: str | None = None) -> Review:
        """Accepts new work in this project and, with the digest of a review, all that it showed.

        Raises:
            NotPermitted: under a coding agent's shell, or in an agent's name.
            Conflict: if the project has changed since that review.
            PerpetualError: (state_not_writable) if the state folder cannot be written.
        """
        self.refuse_agents()
        before = self.review()
        if digest is not None and digest != before.digest:
            raise Conflict(
                f"the project has changed since {digest} was shown",
                hint="look again: perpetual trust --show",
                code="trust_changed",
            )
        if before.state == "held":
            self._admit(before)
        if digest is not None:
            self._take(before)
        self._ctx.config.reload()
        self._feed.begin(self._ctx.config.project_id, self._ctx.config["project"])
        return self.review()

    def refuse_agents(self) -> None:
        """Raises NotPermitted under a coding agent's shell, or in an agent's name, whatever the methodology says."""
        ctx = self._ctx
        if ctx.trust.for_agent:
            found = mark(os.environ, ctx.config["agent_marks"])
            why = evidence(os.environ, *found) if found is not None else f"{ctx.actor} is an agent"
            raise NotPermitted(f"trusting a project is for a person; {why}", hint=FOR_A_PERSON)

    def _admit(self, before: Review) -> None:
        """Writes a record for the project as it stands: new work counts from now on, and its owners' files.

        The files become private, as those of a project that is made here.
        """
        ctx = self._ctx
        ctx.config.reload()
        now = iso(datetime.now(UTC))
        record = trust_record.new(ctx.config.root, ctx.config.project_id, "trusted", ctx.config.protections(), at=now)
        earlier = self._moved_from(record)
        if earlier is not None:
            record = replace(earlier, path=record.path)
        owners = {item.detail for item in before.held if item.kind == "owner"}
        record = replace(record, owners=tuple(sorted({*record.owners, *owners})))
        with ctx.trust.alone():
            ctx.trust.put(replace(record, commit=ctx.store.seq()))
            if earlier is not None:
                trust_record.remove(earlier.path)
        make_private(ctx.folder)
        ctx.trust.see(ctx.store.seq())

    def _moved_from(self, record: Record) -> Record | None:
        """Returns the record of this very folder under the path where it was before its owner moved it."""
        for found in trust_record.stored():
            is_same = (found.identity, found.project_id) == (record.identity, record.project_id)
            if is_same and found.path != record.path and trust_record.identity_of(found.path) != found.identity:
                return found if found.commit <= self._ctx.store.seq() else None
        return None

    def _take(self, shown: Review) -> None:
        """Lets count what was shown, and nothing that came since."""
        ctx = self._ctx
        approvals = {item.subject: item.detail for item in shown.held if item.kind == "approval"}
        values = {item.subject: item.detail for item in shown.held if item.kind == "setting"}
        owners = [item.detail for item in shown.held if item.kind == "owner"]
        scaffold = [tuple(item.detail) for item in shown.held if item.kind == "scaffold"]
        if approvals:
            with ctx.store.transaction() as tx:
                for id, detail in approvals.items():
                    document = ctx.need(EXPERIMENT, id)
                    if approval_of(document) != detail:
                        raise Conflict(f"{id} has changed since it was shown", hint="perpetual trust --show")
                    tx.put(EXPERIMENT, id, {**document.body, **ctx.trust.seal(id, document.body)})
                    ctx.emit(tx, "approval_accepted", id, {"spec_hash": document.body["approved_hash"]})
                kept = keep(ctx)  # they are queued here from now on, in the environment of the accepting person
                for id in [item.subject for item in shown.held if item.kind == "queued_run"]:
                    tx.put(RUN, id, {**ctx.need(RUN, id).body, "environment": kept})
        record = ctx.trust.record
        assert record is not None, "the project was admitted above"
        commit = ctx.store.seq()
        ctx.trust.change(
            lambda found: replace(
                found,
                values={**record.values, **values},
                declined={},
                owners=tuple(sorted({*record.owners, *owners})),
                scaffold=scaffold[0] if scaffold else record.scaffold,
                commit=max(found.commit, commit),
            )
        )

    def decline(self, values: dict[str, object]) -> None:
        """Records that a person was shown these weakening values and did not accept them: they are asked once."""
        record = self._ctx.trust.record
        if record is not None:
            declined = {**record.declined, **values}
            self._ctx.trust.change(lambda found: replace(found, declined=declined))

    def changed_by_hand(self) -> dict[str, object]:
        """Returns the weakening values of the project's files that no person here was shown yet."""
        record = self._ctx.trust.record
        if record is None:
            return {}
        found = {**self._ctx.config.weakening(), **references_held(self._ctx)}
        return {name: value for name, value in found.items() if record.declined.get(name, self) != value}

    def accept_values(self, values: dict[str, object]) -> None:
        """Lets weakening values count that a person was shown."""
        self.refuse_agents()
        self._ctx.trust.accept(values)
        self._ctx.config.reload()

    def from_environment(self) -> None:
        """Does what `PERPETUAL_TRUSTED` asks for: a list of `ID` or `ID:DIGEST`, for containers and CI.

        Raises:
            UsageError: if the variable is malformed.
            Conflict: if the project does not match the digest.
        """
        if self._ctx.trust.for_agent:
            return  # an agent sets variables as it likes
        for entry in filter(None, (part.strip() for part in os.environ.get(VARIABLE, "").split(","))):
            project_id, _, digest = entry.partition(":")
            if not project_id or (":" in entry and not digest):
                raise UsageError(f"{VARIABLE} holds {entry!r}, not ID or ID:DIGEST", hint="perpetual trust --show")
            if project_id != self._ctx.config.project_id:
                continue
            shown = self.review() if digest else None
            if shown is not None and shown.digest == digest and (shown.held or shown.state == "held"):
                self.accept(digest)
            elif self.state() == "held":
                self.accept()  # new work only: what came along is not what the digest names


def trusted_projects() -> list[Trusted]:
    """Returns the projects that this user created or accepted here: `{project_id, path, state, at, is_there}`."""
    return [
        {
            "project_id": record.project_id,
            "path": record.path,
            "state": record.state,
            "at": record.at,
            "is_there": trust_record.identity_of(record.path) == record.identity,
        }
        for record in trust_record.stored()
    ]


def revoke(root: str) -> None:
    """Removes the trust record of the project in `root`: it is held from now on.

    Raises:
        NotFound: if there is none.
    """
    if not trust_record.remove(root):
        raise NotFound(f"no trust record of {root}", hint="perpetual trust list")
