"""A digest in words: on a screen of 24 lines, and as Markdown. What others wrote is cut and made harmless in both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from perpetual.toolkit.fence import neutralise
from perpetual.toolkit.screen import broken, cut
from perpetual.toolkit.units import counted, shown_bound, shown_hours, shown_number, shown_time
from perpetual_report.words import code

if TYPE_CHECKING:
    from perpetual.documents.ledger import Effect
    from perpetual_digest.documents import Cost, Decided, Digest, Moved, Now, Waits, Wrong

__all__ = ["COLUMNS", "LINES", "is_quiet", "markdown_of", "screen"]

LINES, COLUMNS = 24, 80
_MARGIN = 9  # columns of the names of the parts
_INDENT = 3  # columns, of a line that goes on
_LONGEST = 120  # characters of words of others in a line of a screen
_STATEMENT = 200  # characters of a statement in Markdown
_LISTED = 8  # items of a part in Markdown
_NAMED = 5  # ids in a line

Said = Callable[[object], str]  # makes words of others fit to be shown


@dataclass
class _Part:
    """One part of a digest: blocks of lines, of which only whole ones are left out; `rest` names the command for them.

    `total` is how many blocks there would be if the document had all of them. `last` is a line about all of them, which
    is none of them.
    """

    title: str
    blocks: list[list[str]] = field(default_factory=list)
    rest: str = ""
    total: int = 0
    last: str = ""

    def left(self, shown: int) -> int:
        """Returns how many blocks are left out where so many are shown."""
        return max(self.total, len(self.blocks)) - shown


# --- on a screen ----------------------------------------------------------------------------------------------------


def screen(digest: Digest, *, lines: int = LINES, columns: int = COLUMNS) -> str:
    """Returns the digest in so many lines at most, each of so many columns at most."""
    head = cut(_headline(digest, _plain), columns)
    steps = [f"next: {step}" for step in _steps(digest["next"])]
    parts, room = _parts(digest, _plain), lines - 1 - len(steps)
    without = [replace(part, last="") for part in parts]  # where there is no room for what is about all
    text = (
        _fitted(parts, room, columns, wraps=True)
        or _fitted(parts, room, columns, wraps=False)
        or _fitted(without, room, columns, wraps=False)
        or []
    )
    return "\n".join([head, *text, *steps])


def _fitted(parts: Sequence[_Part], room: int, columns: int, *, wraps: bool) -> list[str] | None:
    """Returns the parts in so many lines; the longest part gives blocks up, and each keeps one. None: it cannot be."""
    shown = [len(part.blocks) for part in parts]
    while len(text := _laid_out(parts, shown, columns, wraps=wraps)) > room:
        sizes = [_size(part, count, columns) if count > 1 else 0 for part, count in zip(parts, shown, strict=True)]
        if not max(sizes):
            return None
        shown[sizes.index(max(sizes))] -= 1
    return text


def _size(part: _Part, shown: int, columns: int) -> int:
    return sum(len(_wrapped(block, columns)) for block in part.blocks[:shown])


def _laid_out(parts: Sequence[_Part], shown: Sequence[int], columns: int, *, wraps: bool) -> list[str]:
    lines = []
    for part, count in zip(parts, shown, strict=True):
        own = [line for block in part.blocks[:count] for line in _wrapped(block, columns - _MARGIN, wraps=wraps)]
        if left := part.left(count):
            own.append(cut(f"and {left} more" + (f": {part.rest}" if part.rest else ""), columns - _MARGIN))
        if part.last:
            own += _wrapped([part.last], columns - _MARGIN, wraps=wraps)
        margins = [part.title.ljust(_MARGIN), *[" " * _MARGIN] * (len(own) - 1)]
        lines += [margin + line for margin, line in zip(margins, own, strict=True)]
    return lines


def _wrapped(block: Sequence[str], columns: int, *, wraps: bool = True) -> list[str]:
    """Returns the lines of a block, each broken at most once, or cut; what follows its first line stands further in."""
    if not wraps:
        return [cut(" " * _INDENT * (place > 0) + line, columns) for place, line in enumerate(block)]
    lines = []
    for place, line in enumerate(block):
        margin = " " * _INDENT * (place > 0)
        first, *more = broken(line, columns - _INDENT)
        lines.append(margin + first)
        if more:
            lines.append(" " * _INDENT + cut(" ".join(more), columns - _INDENT))
    return lines


def _plain(text: object) -> str:
    return neutralise(text, _LONGEST)


# --- as Markdown ----------------------------------------------------------------------------------------------------


def markdown_of(digest: Digest) -> str:
    """Returns the digest as Markdown, for a notifier or a file."""
    lines = [f"## {_headline(digest, _code)}", ""]
    for part in _parts(digest, _code):
        lines += [f"**{part.title}**", ""]
        shown = part.blocks[:_LISTED]
        for block in shown:
            first, *more = [line.strip() for line in block]
            lines += [f"- {first}", *(f"  {line}" for line in more)]
        if left := part.left(len(shown)):
            lines.append(f"- and {left} more" + (f": `{part.rest}`" if part.rest else ""))
        if part.last:
            lines.append(f"- {part.last}")
        lines.append("")
    lines += [f"Next: `{step}`" for step in _steps(digest["next"])]
    return "\n".join(lines).rstrip() + "\n"


def _code(text: object) -> str:
    return code(neutralise(text, _STATEMENT))


def _steps(steps: Sequence[str]) -> list[str]:
    """Returns the first step; one that only a person can take comes before the others."""
    first = sorted(steps, key=lambda step: not step.startswith(("perpetual approve", "perpetual trust")))
    return [*first[:1]]


# --- the parts ------------------------------------------------------------------------------------------------------


def is_quiet(digest: Digest) -> bool:
    """Returns whether the record has nothing of the time."""
    return digest["from_seq"] == digest["to_seq"]


def _headline(digest: Digest, said: Said) -> str:
    first, last = digest["from_seq"], digest["to_seq"]
    events = "no events" if first == last else f"events {first + 1} to {last}"
    since, until = shown_time(digest["since"])[:16], shown_time(digest["until"])[:16]
    return f"{said(digest['project'])}: {since} to {until} UTC, {events}"


def _parts(digest: Digest, said: Said) -> list[_Part]:
    quiet = [_Part("Nothing", [["happened in this time"]])]
    past = [
        _decided_part(digest, said),
        *_moved_part(digest, said),
        *_rules_part(digest, said),
        _Part("Cost", _cost(digest["cost"], said)),
        *_wrong_part(digest["wrong"], said),
        *_loop_part(digest["wrong"], said),
    ]
    return [*(quiet if is_quiet(digest) else past), _waits_part(digest["waits"]), _now_part(digest["now"], said)]


def _decided_part(digest: Digest, said: Said) -> _Part:
    blocks = [_decided(item, said) for item in digest["decided"]]
    last = f"together: {digest['together']}" if blocks and digest["together"] else ""
    return _Part("Decided", blocks or [["nothing"]], "perpetual hypotheses list", digest["decided_total"], last)


def _decided(item: Decided, said: Said) -> list[str]:
    status = {"open": "open again", "parked": "parked"}.get(item["status"], item["status"])
    declared = "" if item["declared"] is None else f" (declared: {_threshold(item)})"
    before = f", {item['confidence_before']:.2f} before"
    now = "" if abs(item["confidence_now"] - item["confidence"]) < 0.005 else f", {item['confidence_now']:.2f} now"
    head = f"{item['id']} {status} at {item['confidence']:.2f}{declared}{before}{now}"
    if item["status"] == "open":
        head += f"; it was {item['was']}"
    return [f"{head}: {said(item['statement'])}", _why(item, said)]


def _threshold(item: Decided) -> str:
    least = "at least" if item["status"] == "supported" else "at most"
    return f"{least} {item['declared']:g}"


def _why(item: Decided, said: Said) -> str:
    """Returns the evidence for a change of status in a line."""
    if item["decided_by"] not in (None, "evidence"):
        return f"decided by hand ({item['decided_by']}); no evidence bounds it"
    words = [_effect(item["effect"], said)]
    if item["e_value"] is not None:
        words.append(f"e-value {shown_number(item['e_value'])}")
    if item["status"] in ("supported", "refuted"):
        words.append(f"false-alarm bound {shown_bound(item['false_alarm_bound'])}")
    if item["leans"]:
        words.append("it leans: more runs make it sure")
    if item["flags"]:
        words.append(counted(len(item["flags"]), "warning"))
    return "; ".join(words)


def _effect(effect: Effect | None, said: Said) -> str:
    """Returns an effect with its interval and the runs of both arms."""
    if effect is None:
        return "no effect measured"
    low, high = effect["low"], effect["high"]
    interval = "no interval yet" if low is None or high is None else (
        f"{shown_number(low, '+.3g')} to {shown_number(high, '+.3g')}"
    )  # fmt: skip
    baseline = effect["baseline"]
    number = f"the number {shown_number(float(baseline), 'g')}" if not effect["n_baseline"] else ""
    against = number or f"{effect['n_baseline']} of {baseline}"
    runs = counted(effect["n"], "run")
    return f"{shown_number(effect['value'], '+.3g')} {said(effect['metric'])} ({interval}), {runs} against {against}"


def _moved_part(digest: Digest, said: Said) -> list[_Part]:
    blocks = [[_moved(item, said)] for item in digest["moved"]]
    return [_Part("Moved", blocks, "perpetual hypotheses list", digest["moved_total"])] if blocks else []


def _moved(item: Moved, said: Said) -> str:
    rows = counted(item["rows"], "row") + " of evidence"
    change = f"{item['confidence_before']:.2f} -> {item['confidence']:.2f}"
    return f"{item['id']} {item['status']}, {change}, {rows}: {said(item['statement'])}"


def _rules_part(digest: Digest, said: Said) -> list[_Part]:
    found = [
        [f"{said(item['key'])} {said(_value(item['was']))} -> {said(_value(item['value']))}"]
        for item in digest["methodology"]
    ]
    return [_Part("Rules", found, "perpetual events")] if found else []


def _value(value: object) -> str:
    return "null" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _cost(cost: Cost, said: Said) -> list[list[str]]:
    ended = sum(cost["runs"].values())
    how = ", ".join(f"{count} {name}" for name, count in cost["runs"].items())
    spent = f"{shown_hours(cost['run_hours'])} of run time, {cost['gpu_hours']:.3g} GPU-hours"
    blocks = [[f"{counted(ended, 'run')} ended ({how}): {spent}" if ended else "no run ended"]]
    for each in cost["ledgers"]:
        used = {"calls": each["calls"], "tokens": each["tokens"], "USD": each["usd"]}
        parts = [f"{value:,.10g} {unit}" for unit, value in used.items() if value is not None]
        blocks.append([f"{said(each['ledger'])}: {', '.join(parts)}"])
    if cost["today"]:
        booked = ", ".join(f"{value:,.10g} {name}" for name, value in cost["today"].items())
        blocks.append([f"booked today for models: {booked}"])
    budget = cost["budget"]
    limit = budget["limit_gpu_hours"]
    most = budget["limit_run_hours"]
    of = f" of {limit:g}" if limit is not None else " without a limit" if most is None else ""
    held = f", {budget['reserved_gpu_hours']:.3g} reserved" if budget["reserved_gpu_hours"] else ""
    hours = "" if most is None else f", {budget['run_hours']:.3g} of {most:g} run-hours"
    blocks.append([f"in all {budget['spent_gpu_hours']:.3g} GPU-hours{of}{held}{hours}"])
    return blocks


def _wrong_part(wrong: Wrong, said: Said) -> list[_Part]:
    blocks = [
        [f"{item['count']} {item['status']} ({_ids(item['runs'], item['count'])}): {said(item['reason'])}"]
        for item in wrong["failures"]
    ]
    unlisted = wrong["failures_total"] - len(blocks)
    blocks += [[f"service {said(text)}"] for text in wrong["services"]]
    blocks += [[said(text)] for text in wrong["failing"]]
    if wrong["tainted_total"]:
        blocks.append([f"{wrong['tainted_total']} tainted, so they weigh nothing: "
                       f"{_ids(wrong['tainted'][:_NAMED], wrong['tainted_total'])}"])  # fmt: skip
    if wrong["overruns"] or wrong["retries"]:
        blocks.append([f"{counted(wrong['overruns'], 'run')} past the wall limit, {wrong['retries']} tried again"])
    if wrong["notes_total"]:
        notes = ", ".join(f"{said(item['path'])} {item['status']}" for item in wrong["notes"][:_NAMED])
        more = wrong["notes_total"] - min(len(wrong["notes"]), _NAMED)
        blocks.append([f"{counted(wrong['notes_total'], 'note')}: {notes}" + (f" and {more} more" if more else "")])
    if wrong["proposers"]:
        blocks.append([f"proposers failed: {', '.join(map(said, wrong['proposers'][:_NAMED]))}"])
    return [_Part("Wrong", blocks, "perpetual events", len(blocks) + unlisted)] if blocks else []


def _loop_part(wrong: Wrong, said: Said) -> list[_Part]:
    """Returns why the loop stopped or waited; that is no trouble by itself."""
    blocks = []
    for deed, found in (("the loop stopped", wrong["stops"]), ("the daemon waited", wrong["waited"])):
        if found:
            blocks.append([f"{deed}: {', '.join(said(item['reason']) + _times(item['count']) for item in found)}"])
    return [_Part("Loop", blocks, "perpetual events")] if blocks else []


def _times(count: int) -> str:
    return f" ({count} times)" if count > 1 else ""


def _ids(ids: Sequence[str], total: int) -> str:
    return ", ".join(ids) + (f" and {total - len(ids)} more" if total > len(ids) else "")


def _waits_part(waits: Waits) -> _Part:
    blocks = []
    if total := waits["approvals_total"]:
        blocks.append([f"{counted(total, 'approval')}: {_ids(waits['approvals'][:_NAMED], total)}"])
    if waits["code_changed"]:
        blocks.append([f"{counted(waits['code_changed'], 'experiment')} whose code changed since its approval"])
    if waits["notes"]:
        blocks.append([f"{counted(waits['notes'], 'note')} in quarantine: perpetual memory queue"])
    if waits["trust"]:
        blocks.append([f"{counted(waits['trust'], 'thing')} of this project that does not count here yet"])
    return _Part("Waits", blocks or [["nothing waits for a person"]])


def _now_part(now: Now, said: Said) -> _Part:
    queue = "" if now["queue"] == "running" else f", the queue is {now['queue']}"
    blocks = [[f"{now['live']} live, {now['queued']} queued, {counted(now['open'], 'open claim')}{queue}"]]
    blocks += [
        [
            f"{run['id']} of {run['experiment_id']} {run['status']}"
            + (f": {said(run['progress'])}" if run["progress"] else "")
        ]
        for run in now["runs"]
    ]
    return _Part("Now", blocks, "perpetual runs", len(blocks))
