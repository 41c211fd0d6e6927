"""A part of the record that is folded by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from perpetual.lab.evidence import confidence
from perpetual.lab.kinds import HYPOTHESIS
from perpetual.lab.ledger.evidence import EvidenceFold

if TYPE_CHECKING:
    from perpetual.lab.context import Context
    from perpetual.slots.store import Document

__all__ = ["PartialRecord"]


class PartialRecord:
    """Part of the record, such as all that there was at an earlier time, and what follows from it alone.

    What is in it may be changed between folds. Each list of the record is read once, so later rows are not seen.

    Attributes:
        ids: of the experiments, the ended runs and the rows of evidence in it.
        methodology: every key's value, as `lab.settings.methodology_at` answers them.
    """

    def __init__(self, ctx: Context, methodology: Mapping[str, object]) -> None:
        self.ids: set[str] = set()
        self.methodology = methodology
        self._all, need = cache(ctx.store.find), cache(ctx.need)
        part = SimpleNamespace(store=SimpleNamespace(find=self._find), config=self, need=need, cached=ctx.cached)
        self._ctx = cast("Context", part)

    def _find(self, kind: str, /, **equals: object) -> list[Document]:
        mark = "v" if kind == "evidence" else ""
        return [item for item in self._all(kind, **equals) if f"{mark}{item.id}" in self.ids]

    def fold(self, hypothesis_id: str, *, prior: float, parked: bool = False, restated: bool = False) -> EvidenceFold:
        """Returns what this part says of a hypothesis; writes nothing.

        Args:
            hypothesis_id: whose evidence is folded.
            prior: how likely it is before any evidence.
            parked: whether it is parked where the evidence decides nothing.
            restated: whether its statement was changed after evidence had come in, of which a flag warns.

        Raises:
            NotFound: if there is no such hypothesis.
        """
        found = self._ctx.need(HYPOTHESIS, hypothesis_id)
        hypothesis = replace(found, body={**found.body, "prior": prior, "parked": parked, "restated": restated})
        rows = confidence.rows_of(self._ctx, hypothesis.id)
        folded = confidence.folded(self._ctx, hypothesis, rows)
        return {**folded, "flags": [*folded["flags"], *confidence.cautioned(self._ctx, hypothesis, rows)]}
