"""A frame: the lines of the view for a screen of any size. Pure; what others wrote is made harmless and cut here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from perpetual.toolkit.claims import short_effect
from perpetual.toolkit.fence import neutralise
from perpetual.toolkit.screen import broken, cut
from perpetual.toolkit.units import shown_bytes, shown_hours, shown_number
from perpetual_cli.words import sparkline

if TYPE_CHECKING:
    from perpetual.documents.status import HypothesisLine, Totals
    from perpetual_watch.documents import Watch, WatchEvent, WatchGpu, WatchRun

__all__ = ["HELP", "LEAST_COLUMNS", "LEAST_LINES", "Line", "Question", "frame", "question"]

LEAST_LINES, LEAST_COLUMNS = 6, 20  # a smaller screen shows the first lines of such a one
_SPARK, _BAR = 16, 10  # columns
_WIDE = 110  # columns from which on a claim shows its effect
_TEXT = 400  # characters of a foreign text
_NOTE = 3  # lines
KEYS = "a approve  k kill  p pause or resume  ? help  q quit"
HELP = (
    "a      approve what waits: shows it whole, and asks",
    "k      end a live run: shows it, and asks",
    "p      pause the queue, or let it go on",
    "arrows the next or the previous one; up and down in a long text",
    "y      yes, where it asks; every other key is no",
    "r      draw anew",
    "q      quit; runs go on",
)


class Line(NamedTuple):
    """A line of a frame; `style` is plain, head, title, or note."""

    text: str
    style: str = "plain"


@dataclass
class Question:
    """A deed that a person is asked about: what it is about in full, and the words of the question."""

    title: str
    lines: Sequence[str]
    asks: str
    offset: int = 0  # lines above the first that is shown
    is_read: bool = False  # its last line was shown


class _Panel(NamedTuple):
    title: str
    rows: Sequence[str]
    total: int


def frame(document: Watch, columns: int, lines: int, *, note: str | None = None, keys: str | None = KEYS) -> list[Line]:
    """Returns a frame of at most so many lines and columns.

    Args:
        document: what is shown.
        columns: of the screen.
        lines: of the screen.
        note: what the last lines say instead of the keys.
        keys: the last line; None leaves it out.
    """
    head = [Line(_head(document), "head"), Line(_budget(document["budget"]))]
    said = [] if note is None else [Line(text, "note") for text in broken(note, columns)[:_NOTE]]
    foot = said or ([] if keys is None else [Line(keys, "head")])
    panels = _panels(document, columns)
    shown = _shared([len(panel.rows) for panel in panels], lines - len(head) - len(foot) - len(panels))
    body: list[Line] = []
    for panel, count in zip(panels, shown, strict=True):
        some = f" ({count} of {panel.total})" if count < panel.total else ""
        body.append(Line(f"{panel.title}{some}", "title"))
        body += [Line(f" {row}") for row in panel.rows[:count]]
    room = max(0, lines - len(head) - len(foot))
    if foot:  # it stands at the bottom
        body += [Line("")] * (room - len(body))
    return [Line(cut(line.text, columns), line.style) for line in [*head, *body[:room], *foot][:lines]]


def question(asked: Question, columns: int, lines: int) -> list[Line]:
    """Returns a question's frame: its text, scrolled, and what may be answered. Notes whether all was shown."""
    wrapped = [part for text in asked.lines for part in broken(_plain(text, None), max(1, columns - 1))]
    room = max(1, lines - 2)
    asked.offset = max(0, min(asked.offset, len(wrapped) - room))
    asked.is_read |= asked.offset + room >= len(wrapped)
    below = len(wrapped) - room - asked.offset
    foot = asked.asks if asked.is_read else f"{below} more lines below: read on with the arrow down"
    body = [Line(f" {text}") for text in wrapped[asked.offset : asked.offset + room]]
    made = [Line(_plain(asked.title), "title"), *body, Line(foot, "head")]
    return [Line(cut(line.text, columns), line.style) for line in made]


def _plain(text: object, limit: int | None = _TEXT) -> str:
    return neutralise(text, limit)


def _shared(wanted: Sequence[int], room: int) -> list[int]:
    """Returns how many rows each panel gets: one after the other gets a row while there is room."""
    given = [0] * len(wanted)
    while room > 0 and any(have < want for have, want in zip(given, wanted, strict=True)):
        for place, want in enumerate(wanted):
            if room > 0 and given[place] < want:
                given[place] += 1
                room -= 1
    return given


# --- the parts ------------------------------------------------------------------------------------------------------


def _head(document: Watch) -> str:
    queue = "" if document["queue"] == "running" else f"   queue {document['queue'].upper()}"
    services = "".join(f"   {_plain(text, 40)}" for text in document["services"])
    return f"{_plain(document['project'], 40)}   {document['live']} live, {document['queued']} queued{queue}{services}"


def _budget(budget: Totals) -> str:
    limit = budget["limit_gpu_hours"]
    most, used = budget["limit_run_hours"], budget["run_hours"]
    none = "" if most is not None else ", no limit"
    of = f" GPU-hours{none}" if limit is None else f" of {limit:g} GPU-hours"
    bar = "" if not limit else f"{_bar((budget['spent_gpu_hours'] + budget['reserved_gpu_hours']) / limit)} "
    held = f", {budget['reserved_gpu_hours']:.3g} reserved" if budget["reserved_gpu_hours"] else ""
    time = f"{shown_hours(used)} of run time" if most is None else f"{used:.3g} of {most:g} run-hours"
    return f"budget {bar}{budget['spent_gpu_hours']:.3g}{of}{held}, {time}"


def _bar(share: float) -> str:
    filled = min(_BAR, max(0, round(share * _BAR)))
    return "█" * filled + "░" * (_BAR - filled)


def _panels(document: Watch, columns: int) -> list[_Panel]:
    hypotheses = [_hypothesis(item, columns) for item in document["hypotheses"]]
    runs = [_run(run) for run in document["runs"]]
    gpus = [_gpu(gpu) for gpu in document["gpus"]]
    if not gpus and document["gpus_reason"]:
        gpus = [_plain(document["gpus_reason"])]
    approvals = [
        f"{item['id']:<5} {_plain(item['title'])}" + (f": {_plain(item['command'])}" if item["command"] else "")
        for item in document["approvals"]
    ]
    changed = document["code_changed"]
    waits = f"Approvals, {changed} more as code was changed" if changed else "Approvals"
    events = [_event(event) for event in document["events"]]
    panels = [
        _Panel("Claims", hypotheses, document["hypotheses_total"]),
        _Panel("Runs", runs, len(runs)),
        _Panel("GPUs", gpus, len(gpus)),
        _Panel(waits, approvals, document["approvals_total"]),
        _Panel("Events", events, len(events)),
    ]
    return [panel for panel in panels if panel.rows or panel.total or (panel.title == waits and changed)]


def _hypothesis(item: HypothesisLine, columns: int) -> str:
    effect = f"{short_effect(item['effect'])}  " if columns >= _WIDE and item["effect"] else ""
    by = " by hand" if item["decided_by"] not in (None, "evidence") else " stale" if item.get("stale") else ""
    sure = f"{item['confidence']:.2f} {_bar(item['confidence'])}"
    return f"{item['id']:<5} {item['status']:<9} {sure}{by}  {effect}{_plain(item['statement'])}"


def _run(run: WatchRun) -> str:
    line = sparkline(run["curve"], _SPARK)
    said = run["progress"]
    if said is None and run["value"] is not None:
        said = f"{run['metric']} {shown_number(run['value'], '.4g')}"
    if said is None or run["status"] in ("failed", "timeout", "lost", "killed"):
        said = run["reason"] or said or run["title"]
    return f"{run['id']:<5} {run['experiment_id']:<5} {run['status']:<9} {line:<{_SPARK}}  {_plain(said)}"


def _gpu(gpu: WatchGpu) -> str:
    busy = "   -" if gpu["utilization"] is None else f"{gpu['utilization']:3.0f}%"
    used, total = gpu["memory_used_bytes"], gpu["memory_total_bytes"]
    memory = "" if used is None or total is None else f"{shown_bytes(used)} of {shown_bytes(total)}"
    runs = ", ".join(gpu["run_ids"])
    return f"{gpu['index']:<3} {busy} {memory:<22} {gpu['state']:<9} {runs:<12} {_plain(gpu['name'] or '')}"


def _event(event: WatchEvent) -> str:
    words: Iterable[str] = (event["time"][11:19], event["kind"], _plain(event["subject"], 60), _plain(event["text"]))
    return " ".join(words)
