"""`lab.imports`: takes foreign records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpetual.lab.context import Context
from perpetual.lab.permissions import is_agent

if TYPE_CHECKING:
    from perpetual.lab import Lab
    from perpetual.toolkit.import_records import Batch, Taken

__all__ = ["Imports"]


class Imports:
    """`lab.imports`: takes foreign work that a plugin reads; records are in `perpetual.toolkit.import_records`."""

    def __init__(self, ctx: Context, lab: Lab) -> None:
        self._ctx, self._lab = ctx, lab

    def take(self, batch: Batch) -> Taken:
        """Writes the records that no earlier import took, some hundred in a transaction, and counts all of them.

        The records' actor is `adopt:<kind>`. An agent that imports remains one, as `agent:adopt:<kind>`.

        Raises:
            NotFound: for an unknown plugin or hypothesis, and a record that names one that was not imported before.
            UsageError: (bad_import) for a kind that is not the plugin's, and a record with a wrong field.
            Conflict: for a key that names a record of another class.
            TransientError: while another import into this project goes on.
            NotPermitted: for a held project.
        """
        from perpetual.lab.imports.take import check_batch, take
        from perpetual.lab.memory import Notes

        check_batch(self._ctx, batch)
        name = f"agent:adopt:{batch.kind}" if is_agent(self._ctx.actor) else f"adopt:{batch.kind}"
        ctx = self._ctx.acting_as(name)
        ctx.cached(Notes).lab = self._lab
        return take(ctx, batch, by=self._ctx.actor)

    def id_of(self, kind: str, key: str) -> str | None:
        """Returns the id that a record of that source has here, or None."""
        from perpetual.lab.imports.take import imported_id

        return imported_id(self._ctx, kind, key)
