"""`lab.evidence`, with the deeds that cross departments attached."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from perpetual.lab.doors.connected import Connected
from perpetual.lab.evidence import EvidenceLedger
from perpetual.records import Evidence

__all__ = ["EvidenceDoor"]


class EvidenceDoor(Connected, EvidenceLedger):
    """`lab.evidence`."""

    def add(
        self,
        hypothesis_id: str,
        *,
        verdict: str,
        why: str,
        strength: float = 1.0,
        run_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Evidence:
        """An opinion, bounded: see `perpetual.lab.flows.judge.judge`."""
        from perpetual.lab.flows import judge as _judge

        return _judge.judge(self._desks, hypothesis_id, verdict=verdict, strength=strength, why=why, run_id=run_id,
                            idempotency_key=idempotency_key)  # fmt: skip

    def retract(self, evidence_id: str, *, why: str) -> Evidence:
        """Takes a row back by a new row."""
        from perpetual.lab.flows import judge as _judge

        return _judge.retract(self._desks, evidence_id, why=why)

    def refold(self, *, check: bool = False) -> list[dict[str, Any]]:
        """Folds every hypothesis anew; answers those whose stored fold differed."""
        from perpetual.lab.flows import judge as _judge

        trust = self._desks.ctx.trust
        with trust.lifted() if check else nullcontext():  # a check locks the store, and writes nothing
            return _judge.refold_all(self._desks, check=check)

    def effects(self, hypothesis_id: str) -> dict[str, dict[str, Any]]:
        """What each design of a hypothesis measured, with its interval, by the experiment whose prediction holds."""
        from perpetual.lab.flows import fold as _fold

        return _fold.effects_of(self._desks, self._desks.ctx.need("hypothesis", hypothesis_id).id)

    def history(self, *, until: int | None = None, last: int = 100) -> dict[str, list[dict[str, Any]]]:
        """What the ledger said of each hypothesis, step by step; see `perpetual.lab.flows.history.history`."""
        from perpetual.lab.flows import history as _history

        return _history.history(self._desks, until=until, last=last)
