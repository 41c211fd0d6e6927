"""`lab.storage`, with the deeds that cross departments attached."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from perpetual.lab.doors.connected import Connected
from perpetual.lab.rights import withholds
from perpetual.lab.rules import forget
from perpetual.lab.storage import Storage
from perpetual.toolkit.readers import agent_hint

__all__ = ["StorageDoor"]


class StorageDoor(Connected, Storage):
    """`lab.storage`."""

    def verify(self) -> list[str]:
        """See `perpetual.lab.flows.audit.examine`: what is wrong with the record, each a sentence."""
        from perpetual.lab.flows import audit as _audit

        with self._desks.ctx.trust.lifted():  # it locks the store, and writes nothing
            problems = _audit.examine(self._desks)
        return [str(agent_hint(problem)) for problem in problems] if withholds(self._desks.ctx) else problems

    def import_file(self, path: str | Path, *, dry_run: bool = False) -> dict[str, Any]:
        """See `perpetual.lab.storage.Storage.import_file`; older folds are made anew when opened."""
        answer = super().import_file(path, dry_run=dry_run)
        if not dry_run:
            forget(self._desks.ctx.folder)
        return answer
