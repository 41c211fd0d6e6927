"""The record as a table of experiments is folded from it by the part in the slot `board`; see `Runs.table`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import TYPE_CHECKING

from perpetual.lab.context import Context
from perpetual.lab.kinds import EVENT, EVIDENCE, EXPERIMENT, HYPOTHESIS, RUN
from perpetual.lab.state_token import Present

if TYPE_CHECKING:
    from perpetual.documents.ledger import Effect
    from perpetual.lab.bodies import ExperimentBody, RunBody
    from perpetual.lab.kinds import KindName
    from perpetual.slots.store_rows import Body

__all__ = ["TableSource"]

_PAGE = 1000


class TableSource:
    """Reads rows without secrets; no method but `key` and `token` opens the store before it must."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def key(self) -> str:
        """Returns what tells this project, as its redactor shows it, from every other one."""
        config = self._ctx.config
        return f"{config.folder}\n{config.project_id}\n{config['store']}\n{config['redactor']}"

    def token(self) -> str | None:
        """Returns what tells the present state from every other one, by a look at files; None where it cannot."""
        return Present(self._ctx).token()

    def position(self) -> tuple[int, int]:
        """Returns the number of the last commit, then that of the last event."""
        return self._ctx.store.seq(), self._ctx.store.count("event")

    def event(self, number: int) -> tuple[int, str] | None:
        """Returns the commit of an event and a digest of it."""
        found = self._ctx.store.get(EVENT, str(number))
        text = json.dumps(found.body if found is not None else None, sort_keys=True)
        return None if found is None else (found.seq, sha256(text.encode()).hexdigest())

    def changes(self, since: int) -> Iterator[str]:
        """Yields the ids of experiments and hypotheses that later commits wrote, or a run or evidence of theirs."""
        for change in self._ctx.store.changes(since):
            if change.kind in ("experiment", "hypothesis"):
                yield change.id
            elif change.kind == "run" and (run := self._ctx.store.get(RUN, change.id)) is not None:
                yield run.body["experiment_id"]
            elif change.kind == "evidence" and (row := self._ctx.store.get(EVIDENCE, change.id)) is not None:
                yield row.body["hypothesis_id"]

    def experiments(self, ids: Iterable[str] | None = None) -> Iterator[ExperimentBody]:
        """Yields these experiments, or every one, oldest first; raises NotFound for an id that there is not."""
        bodies = self._all(EXPERIMENT) if ids is None else (self._ctx.need(EXPERIMENT, id).body for id in ids)
        return map(self._ctx.redaction.shown_specification, bodies)

    def runs(self, experiment_id: str | None = None) -> Iterator[RunBody]:
        """Yields the runs of an experiment, or every one, oldest first."""
        found = None if experiment_id is None else self._ctx.store.find(RUN, experiment_id=experiment_id)
        bodies = self._all(RUN) if found is None else (run.body for run in found)
        return (self._ctx.redaction.shown_record("run", body) for body in bodies)

    def effects(self, hypothesis_id: str) -> dict[str, Effect]:
        """Returns the effect of each design of a hypothesis, by the experiment whose prediction holds."""
        from perpetual.lab.evidence.confidence import effects_of

        found = self._ctx.store.get(HYPOTHESIS, hypothesis_id)
        return effects_of(self._ctx, hypothesis_id) if found is not None and found.body["evidence_count"] else {}

    def _all(self, kind: KindName[Body]) -> Iterator[Body]:
        cursor, is_over = None, False
        while not is_over:
            page = self._ctx.store.page(kind, limit=_PAGE, cursor=cursor)
            yield from (item.body for item in page.items)
            cursor, is_over = page.next_cursor, page.next_cursor is None
