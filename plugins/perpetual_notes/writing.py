"""Catching up: the events since the last call, and the notes that follow from them.

The place in the feed is kept once notes are written, so that a call that was cut off does the same again, and each deed
can be done twice. Its cost grows with what has happened since.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from perpetual.api import Event, PerpetualError, Refused, TransientError
from perpetual_notes import cases, failures, skills

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["catch_up"]

_PAGE_EVENTS = 1_000
_UNKEPT_EVENTS = 500  # without a note, after which the place is kept all the same
_ENDED = ("done", "failed", "timeout", "killed", "lost")
_read: WeakKeyDictionary[Lab, int] = WeakKeyDictionary()  # how far this process has come


def catch_up(lab: Lab) -> None:
    """Writes the notes of what has happened since the last call.

    Raises:
        TransientError: if the record is out of reach; the next call goes on from there.
    """
    kept = _place(lab)
    place = max(kept, _read.get(lab, 0))
    while events := lab.events(since=place, limit=_PAGE_EVENTS):
        has_written = _write_of(lab, events)
        place = events[-1].seq
        if has_written or place - kept >= _UNKEPT_EVENTS:
            _keep(lab, place)
            kept = place
        _read[lab] = place


def _place(lab: Lab) -> int:
    found = lab.records("notes.place").list(limit=1).items
    return int(found[0]["event"]) if found else 0


def _keep(lab: Lab, seq: int) -> None:
    rows = lab.records("notes.place")
    with lab.transaction():
        found = rows.list(limit=1).items
        if not found:
            rows.add(event=seq)
        elif found[0]["event"] < seq:  # another process may have come further meanwhile
            rows.update(found[0].id, event=seq)


def _write_of(lab: Lab, events: Sequence[Event]) -> bool:
    """Writes the notes of these events, each once however often they name it; returns whether there were any."""
    verdicts: dict[str, Event] = {}
    ended: dict[str, str] = {}
    texts: list[Event] = []
    for event in events:
        if event.kind == "hypothesis_status":
            verdicts[event.subject] = event
        elif event.kind == "run_status" and event.payload.get("to") in _ENDED:
            ended[event.subject] = event.payload["to"]
        elif event.kind == "run_analysed":
            texts.append(event)
    signatures = _signatures(lab, ended)
    for signature in signatures:
        _guarded(lab, failures.path_of(lab, signature), partial(failures.write, lab, signature))
    for event in texts:
        _write_texts(lab, event)
    for id, event in verdicts.items():
        _guarded(lab, f"cases/{event.time[:7]}/{id}.md", partial(_conclude, lab, event))
        _guarded(lab, skills.path_of(id), partial(skills.write, lab, id, seq=event.seq))
    return bool(signatures or texts or verdicts)


def _signatures(lab: Lab, ended: Mapping[str, str]) -> list[str]:
    """Returns the crashes whose notes change: of runs that crashed, or that tried again what had crashed."""
    found: dict[str, None] = {}
    for id, status in ended.items():
        signature = failures.count(lab, id) if status != "done" else None
        tried = failures.retried(lab, id)
        found |= dict.fromkeys(one for one in (signature, tried) if one is not None)
    return [*found]


def _write_texts(lab: Lab, event: Event) -> None:
    """Writes what analysers have written of a run."""
    path = f"cases/{event.time[:7]}/{event.subject}.md"
    text = "\n\n".join(event.payload["texts"].values())
    key = f"analysis:{event.subject}"
    _guarded(lab, path, partial(lab.memory.write, path, text, type="failure_pattern", idempotency_key=key))


def _conclude(lab: Lab, event: Event) -> None:
    path, failed = cases.write(lab, event.subject, seq=event.seq, month=event.time[:7])
    if failed is not None:
        _tell_failed(lab, path, failed)


def _guarded(lab: Lab, path: str, write: Callable[[], object]) -> None:
    """Writes a note; one that cannot be written stops nothing, and the feed names it."""
    try:
        write()
    except Refused:
        return  # the verdict is on record: a rejected note is kept for audit and never shown
    except TransientError:
        raise
    except PerpetualError as problem:
        _tell_failed(lab, path, problem.message)


def _tell_failed(lab: Lab, path: str, error: str) -> None:
    lab.feed.emit("note_failed", path, {"error": error.encode("utf-8", "backslashreplace").decode("utf-8")})
