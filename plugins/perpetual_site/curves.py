"""Curves of experiments for their pages, from what was kept of them or from their runs' files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from perpetual.api import PerpetualError
from perpetual_curves.collect import collect, document_of

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_curves.documents import Curves as CurvesDocument
    from perpetual_site.kept import Kept

__all__ = ["CURVE_RUNS", "Curves"]

CURVE_RUNS, _POINTS = 10, 120


class Curves:
    """Curves of the runs of an experiment, as `perpetual curves` answers them.

    Attributes:
        unread: counts runs whose files could not be read, and perhaps can be later.
    """

    def __init__(self, lab: Lab, kept: Kept | None = None, seen: Callable[[str], str | None] | None = None) -> None:
        """Reads nothing yet.

        Args:
            lab: whose runs' files are read.
            kept: what earlier builds have kept; None keeps nothing.
            seen: returns what the folders of an experiment's runs hold.
        """
        self._lab, self._kept, self._seen = lab, kept, seen
        self.unread = 0

    def of(self, id: str) -> CurvesDocument | None:
        """Returns the curves of an experiment's runs; None where there are none."""
        if self._kept is None or self._seen is None:
            return self._read(id)
        seen = self._seen(id)
        known = self._kept.curve(id, seen)
        if known is not None:
            return cast("CurvesDocument | None", known[0])
        before = self.unread
        found = self._read(id)
        if self.unread == before:
            self._kept.keep_curve(id, seen, found)
        return found

    def _read(self, id: str) -> CurvesDocument | None:
        try:
            found = collect(self._lab, [id], as_mean=False)
        except PerpetualError as problem:  # none of its runs has logged it, or nothing can be read
            self.unread += problem.code != "no_metric"
            return None
        self.unread += len(found.unread)
        if all(len(arm.curve.values) < 2 for arm in found.arms):
            return None
        document = document_of(found, points=_POINTS)
        document["series"] = document["series"][:CURVE_RUNS]
        return document
