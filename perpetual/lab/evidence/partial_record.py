"""A part of the record that is folded by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from perpetual.lab.evidence import confidence, effects
from perpetual.lab.kinds import HYPOTHESIS
from perpetual.lab.ledger.evidence import EvidenceFold

if TYPE_CHECKING:
    from perpetual.documents.ledger import Effect
    from perpetual.lab.bodies import HypothesisBody
    from perpetual.lab.context import Context
    from perpetual.slots.store import Document

__all__ = ["PartialRecord"]


class PartialRecord:
    """Part of the record, such as all that there was at an earlier time, and what follows from it alone.

    What is in it may be changed between folds. Each list of the record is read once, so later rows are not seen.

    Attributes:
        ids: of the experiments, the ended runs and the rows of evidence in it.
        left_out: of those that are not in it, where that is shorter to say; None where `ids` counts.
        methodology: every key's value, as `lab.settings.methodology_at` answers them.
    """

    def __init__(self, ctx: Context, methodology: Mapping[str, object]) -> None:
        self.ids: set[str] = set()
        self.left_out: set[str] | None = None
        self.methodology = methodology
        self._all, need = cache(ctx.store.find), cache(ctx.need)
        part = SimpleNamespace(store=SimpleNamespace(find=self._find), config=self, need=need, cached=ctx.cached)
        self._ctx = cast("Context", part)

    def _find(self, kind: str, /, **equals: object) -> list[Document]:
        mark, ids, left_out = "v" if kind == "evidence" else "", self.ids, self.left_out
        return [
            item
            for item in self._all(kind, **equals)
            if (f"{mark}{item.id}" in ids if left_out is None else f"{mark}{item.id}" not in left_out)
        ]

    def fold(self, hypothesis_id: str, **own: object) -> EvidenceFold:
        """Returns what this part says of a hypothesis; writes nothing.

        Args:
            hypothesis_id: whose evidence is folded.
            own: of then, where it was another: `prior`, `parked`, `prediction`, and `restated` (whether the statement
                was changed after evidence had come in, of which a flag warns).

        Raises:
            NotFound: if there is no such hypothesis.
        """
        found = self._ctx.need(HYPOTHESIS, hypothesis_id)
        hypothesis = replace(found, body=cast("HypothesisBody", {**found.body, **own}))
        rows = confidence.rows_of(self._ctx, hypothesis.id)
        folded = confidence.folded(self._ctx, hypothesis, rows)
        return {**folded, "flags": [*folded["flags"], *confidence.cautioned(self._ctx, hypothesis, rows)]}

    def effect(self, hypothesis_id: str, fold: EvidenceFold) -> Effect | None:
        """Returns the effect that a hypothesis with that fold shows."""
        return effects.headline(confidence.effects_of(self._ctx, hypothesis_id), fold["together"])
