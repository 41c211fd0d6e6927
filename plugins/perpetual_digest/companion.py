"""The companion `digest`: writes a digest as an event every `report_interval_hours`, while the daemon runs.

Each due time is a row of the ledger `digest.period`, written in one transaction with the event. So kill -9 neither
loses nor doubles a digest, and of several processes one writes it. Due times that passed while no daemon ran are one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from perpetual.api import UsageError
from perpetual.toolkit.units import iso
from perpetual_daemon.companion import Companion
from perpetual_digest.collect import OWN, collected
from perpetual_digest.span import Span

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record
    from perpetual.slots.service import StopSignal

__all__ = ["KEY", "PERIOD", "DigestCompanion", "build", "write_due"]

KEY = "report_interval_hours"
PERIOD = "digest.period"
_LOOK_S = 15.0  # between two looks at the clock and at the methodology
_PAGE = 500


def _now() -> datetime:
    return datetime.now(UTC)


class DigestCompanion(Companion):
    """Writes digests when they are due.

    Args:
        look_s: seconds between two looks.
        clock: returns the present.
    """

    def __init__(self, *, look_s: float = _LOOK_S, clock: Callable[[], datetime] = _now) -> None:
        self._look_s, self._clock = look_s, clock

    def run(self, lab: Lab, stop: StopSignal) -> None:
        """Works until `stop` is set."""
        while not stop.is_set():
            lab.config.refresh()
            hours = interval_hours(lab)
            if hours is not None:
                write_due(lab, hours, self._clock())
            stop.wait(self._look_s)


def build(options: Mapping[str, object]) -> DigestCompanion:
    """Builds the companion; it has no options."""
    return DigestCompanion()


def interval_hours(lab: Lab) -> float | None:
    """Returns the methodology's `report_interval_hours`; None where none is set, or the key is not known."""
    try:
        value = lab.config.methodology[KEY]
    except (KeyError, UsageError):  # a kernel without the key
        return None
    return float(value) if isinstance(value, int | float) and value > 0 else None


def write_due(lab: Lab, hours: float, now: datetime) -> bool:
    """Writes the digest that is due, if one is and anything has happened; returns whether it wrote one.

    The first call only starts the count: a digest is about the time since the one before.
    """
    from perpetual_digest.words import markdown_of

    before = _newest(lab)
    if before is None:
        if _is_held(lab):
            return False
        _append(lab, before, Span(lab.feed.last(), lab.feed.last(), iso(now), iso(now)), text=None)
        return False
    due_at = datetime.fromisoformat(str(before["due_at"]))
    periods = int((now - due_at) / timedelta(hours=hours))
    if periods < 1 or _is_held(lab):
        return False
    due = iso(due_at + periods * timedelta(hours=hours))
    span = Span(int(str(before["last"])), lab.feed.last(), str(before["due_at"]), due)
    text = markdown_of(collected(lab, span)) if _has_news(lab, span) else None
    return _append(lab, before, span, text=text) and text is not None


def _is_held(lab: Lab) -> bool:
    """Returns whether the project is only read here until a person accepts it."""
    return lab.status()["trust"]["state"] == "held"


def _newest(lab: Lab) -> Record | None:
    found = lab.records(PERIOD).list(limit=1, newest_first=True).items
    return found[0] if found else None


def _has_news(lab: Lab, span: Span) -> bool:
    """Returns whether the span has an event besides the digests themselves."""
    since = span.first
    while since < span.last:
        page = lab.events(since=since, limit=min(_PAGE, span.last - since))
        if not page or any(event.kind != OWN for event in page):
            return bool(page)
        since = page[-1].seq
    return False


def _append(lab: Lab, before: Record | None, span: Span, *, text: str | None) -> bool:
    """Writes a period and its event at once, unless another process has written it."""
    with lab.transaction():
        present = _newest(lab)
        if (present and present.number) != (before and before.number):
            return False
        lab.records(PERIOD).append(due_at=span.until, first=span.first, last=span.last, is_written=text is not None)
        if text is not None:
            payload = {"text": text, "since": span.since, "until": span.until, "first": span.first, "last": span.last}
            lab.feed.emit(OWN, span.until, payload)
    return True
