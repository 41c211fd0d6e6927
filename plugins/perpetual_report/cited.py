"""Markdown held to the record: each number with a reference is derived again, or written anew. For `verify`.

A number with k decimals holds if the record's value rounds to it; of a value halfway between, both neighbours hold.
"""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from perpetual.api import Conflict, PerpetualError, UsageError
from perpetual.toolkit.atomic import write_atomic
from perpetual.toolkit.units import iso
from perpetual_report.moments import Moment, debits_at, moment_of
from perpetual_report.numbers import Number
from perpetual_report.references import Reference, References, Written, references_of
from perpetual_report.snapshot import STEPS, take
from perpetual_report.vocabulary import Vocabulary, heads_of, is_hours, vocabulary_of

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_report.documents import Reference as ReferenceDocument
    from perpetual_report.documents import ReportProblem, Verification

__all__ = ["available", "fix", "hold", "is_held", "rewritten"]

_LARGEST_BYTES = 2 * 2**20
_MOST_MOMENTS = 20  # each may be a fold of the whole record
_TYPED = re.compile(r"[a-z][a-z0-9_]*+\.\S+")  # what can be named in a comment
_INNER = re.compile(r"\.(step\d+\..*|replicate|attempt|seed)\Z")  # known too, and too many to list
_HOURS = {"s": 1 / 3600, "min": 1 / 60, "h": 1.0}
_HOW = "write one behind a number, as 0.912<!-- perpetual: e3.mean -->; all of them: perpetual verify --list"


class _Finding(NamedTuple):
    """A reference that does not hold; `number` is what the record has, where it has one."""

    problem: ReportProblem
    written: Written | None = None
    number: Number | None = None


def text_of(path: Path) -> str:
    """Returns a Markdown file's text.

    Raises:
        UsageError: for what is no text in UTF-8, or too much of it.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST_BYTES + 1)
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise UsageError(f"{path} cannot be read: {problem}", hint="Markdown is text in UTF-8") from problem
    if len(raw) > _LARGEST_BYTES:
        raise UsageError(f"{path} is over 2 MiB", hint="split it")
    if "\0" in text:
        raise UsageError(f"{path} is no text: it holds a NUL character")
    return text


def hold(lab: Lab, path: Path, text: str, *, at: str | None = None) -> Verification:
    """Returns the answer of `perpetual verify` for Markdown with references.

    Args:
        lab: whose record decides.
        path: the file, for its name and its time.
        text: what the file holds.
        at: the moment at which the record is looked at, unless the text names one.

    Raises:
        UsageError: for a text without a reference, or a moment that there was not.
    """
    read = _read(path, text)
    states = _States(lab, at, [item.key for item in read.found])
    findings = [*_findings(read, states)]
    if findings:
        _mark_stale(lab, path, read, states, findings)
    return _answer(read, states, [finding.problem for finding in findings])


def fix(lab: Lab, path: Path, text: str, *, at: str | None = None) -> Verification:
    """Writes the record's numbers into the file, in place of those that do not hold, and holds what it says then.

    Words, unknown references and what cannot be read are left; they are the problems of the answer.

    Raises:
        UsageError: for a file outside the project, or a link.
        Conflict: if the file was changed meanwhile.
        PerpetualError: if it cannot be written.
    """
    before = _own_file(lab, path)
    read = _read(path, text)
    states = _States(lab, at, [item.key for item in read.found])
    changes: dict[int, tuple[int, str]] = {}
    for finding in _findings(read, states):
        if finding.written is not None and finding.number is not None:
            made = rewritten(finding.written, finding.number)
            if made is not None:
                changes[finding.written.start] = (finding.written.end, made)
    parts, place = [], 0
    for start, (end, made) in sorted(changes.items()):
        parts += [text[place:start], made]
        place = end
    fresh = "".join([*parts, text[place:]])
    if fresh != text:
        if path.read_bytes() != text.encode("utf-8") or _own_file(lab, path).st_ino != before.st_ino:
            raise Conflict(f"{path} was changed meanwhile; nothing is written", hint="run it again")
        try:
            write_atomic(path, fresh, mode=stat.S_IMODE(before.st_mode))
            os.chmod(path, stat.S_IMODE(before.st_mode))  # which the umask may have narrowed
        except OSError as problem:
            raise PerpetualError(f"{path} could not be written: {problem.strerror or problem}") from problem
    read = _read(path, fresh)
    problems = [finding.problem for finding in _findings(read, states)]
    return {**_answer(read, states, problems), "fixed": len(changes)}


def available(lab: Lab, *, at: str | None = None, of: str | None = None) -> list[ReferenceDocument]:
    """Returns every reference of the record with its value; with `of` those of one id or beginning."""
    known = _States(lab, at, None if of is None else [f"{of}.hours"]).vocabulary(None)[0]
    found: list[ReferenceDocument] = [
        {"key": key, "value": number.value, "text": number.text, "source": number.source}
        for key, number in known.numbers.items()
        if _TYPED.fullmatch(key) and "-->" not in key and not _INNER.search(key)
    ]
    found += [
        {"key": key, "value": None, "text": text, "source": source} for key, (text, source) in known.words.items()
    ]
    wanted = [item for item in found if of is None or item["key"] == of or item["key"].startswith(of.rstrip(".") + ".")]
    if of is not None and not wanted:
        raise UsageError(f"no reference begins with {of[:60]!r}", hint="all of them: perpetual verify --list")
    return wanted


# --- the record -----------------------------------------------------------------------------------------------------


class _States:
    """The record at each moment that a text names, folded once: as much of it as the keys of the text need.

    None are all keys but those of earlier steps.
    """

    def __init__(self, lab: Lab, at: str | None, keys: Sequence[str] | None) -> None:
        self._lab = lab
        self._heads = None if keys is None else heads_of(keys)
        # None but the last step of each hypothesis, unless one is referred to.
        self._steps = STEPS if any(".step" in key for key in keys or ()) else 1
        self._has_hours = self._heads is None or any("hour" in key for key in keys or ())
        self._default = None if at is None else moment_of(lab, at)
        self._moments: dict[str, Moment] = {}
        self._known: dict[int, Vocabulary] = {}
        self.now = lab.feed.last()
        self.seqs: set[int] = set()

    def vocabulary(self, at: str | None) -> tuple[Vocabulary, int]:
        """Returns what the record says at a moment that the text names, and its seq."""
        moment = self._default
        if at == "now":
            moment = None
        elif at is not None:
            moment = self._moments.get(at) or moment_of(self._lab, at)
            self._moments[at] = moment
        seq = self.now if moment is None else moment.seq
        return self.after(seq), seq

    def after(self, seq: int) -> Vocabulary:
        """Returns what the record says after an event."""
        if seq not in self._known:
            if len(self._known) >= _MOST_MOMENTS:
                raise UsageError(f"the file names more than {_MOST_MOMENTS} moments", hint="split it")
            debits = debits_at(self._lab, seq) if self._has_hours else 0
            snapshot = take(self._lab, seq=seq, debits=debits, steps=self._steps, of=self._heads)
            self._known[seq] = vocabulary_of(snapshot, self._heads)
        self.seqs.add(seq)
        return self._known[seq]


# --- findings -------------------------------------------------------------------------------------------------------


def _read(path: Path, text: str) -> References:
    read = references_of(text)
    if not read.found and not read.mistakes:
        where = ", but for those in code" if read.in_code else ""
        raise UsageError(f"{path} is no report, and its numbers carry no reference{where}", hint=_HOW)
    return read


def _findings(read: References, states: _States) -> Iterator[_Finding]:
    for mistake in read.mistakes:
        yield _Finding(_problem("reference", mistake.line, mistake.text, "", "", f"the comment {mistake.why}"))
    for item in read.found:
        try:
            known, seq = states.vocabulary(item.pin.at if item.pin else None)
        except UsageError as problem:
            line = item.pin.line if item.pin else item.line
            yield _Finding(_problem(item.key, line, "", "", "", f"no such moment: {problem.message}"))
            continue
        found = _finding(item, known, seq)
        if found is not None:
            yield found


def _finding(item: Reference, known: Vocabulary, seq: int) -> _Finding | None:
    claimed = item.number.text if item.number else item.words
    word = known.words.get(item.key)
    if word is not None:
        if item.words == word[0]:
            return None
        return _Finding(_problem(item.key, item.line, item.words, word[0], word[1], "another word"))
    number = known.numbers.get(item.key)
    if number is None:
        like = ", ".join(known.like(item.key))
        why = f"unknown reference{f'; there is {like}' if like else ''}"
        return _Finding(_problem(item.key, item.line, claimed, "", f"record@{seq}", why))
    if item.number is None:
        return _Finding(_problem(item.key, item.line, claimed, number.text, number.source, "no number before it"))
    if is_held(item.number, number):
        return None
    shown = rewritten(item.number, number)
    unit = item.number.unit if shown is not None else ""
    found = number.text if shown is None else f"{shown} {unit}".rstrip()
    why = "outside its rounding" if _is_near(item.number, number) else "another value"
    return _Finding(_problem(item.key, item.line, claimed, found, number.source, why), item.number, number)


def _problem(key: str, line: int, claimed: str, found: str, source: str, why: str) -> ReportProblem:
    return {"number": key, "where": f"line {line}", "claimed": claimed, "found": found, "source": source, "why": why}


def _mark_stale(lab: Lab, path: Path, read: References, states: _States, findings: list[_Finding]) -> None:
    """Says of numbers that held when the file was last written that they are stale."""
    time = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    last = lab.events(since=states.now - 1, limit=1)
    if not last or iso(time) >= last[0].time or all(finding.number is None for finding in findings):
        return
    try:
        seq = moment_of(lab, time.isoformat()).seq
    except UsageError:
        return  # a file older than the record
    then = states.after(seq)
    states.seqs.discard(seq)
    for finding in findings:
        old = then.numbers.get(finding.problem["number"])
        if finding.written is not None and old is not None and is_held(finding.written, old):
            finding.problem["why"] = f"stale: it held at event {seq}, when the file was last written"


def _answer(read: References, states: _States, problems: list[ReportProblem]) -> Verification:
    notes = []
    if read.in_code:
        notes.append(f"{read.in_code} in code or in other comments are examples, and not looked at")
    return {
        "ok": not problems,
        "format": "references",
        "seq": max(states.seqs, default=states.now),
        "checked": len(read.found),
        "pictures": 0,
        "logs": 0,
        "problems": problems,
        "notes": notes,
        "fixed": 0,
    }


# --- numbers --------------------------------------------------------------------------------------------------------


def _scale(written: Written, number: Number) -> float | None:
    """Returns what one unit of the written number is of the record's; None where the unit is not of such a number."""
    if written.unit == "%":
        return None if is_hours(number.key) or isinstance(number.value, int) else 0.01
    return _HOURS[written.unit or "h"] if is_hours(number.key) else 1.0


def _distance(written: Written, number: Number) -> float:
    """Returns how far the written number is from the record's, in units of its last digit."""
    scale = _scale(written, number)
    if scale is None:
        return math.inf
    try:
        said = float(f"{written.sign}{written.digits}")
        step = 10.0 ** (written.power - written.decimals)
        value = number.value / scale
        away = abs(said * 10.0**written.power - value)
        return max(0.0, away - 1e-12 * abs(value)) / step
    except (OverflowError, ZeroDivisionError):
        return math.inf


def is_held(written: Written, number: Number) -> bool:
    """Returns whether the record's value rounds to what is written."""
    return _distance(written, number) <= 0.5 * (1 + 1e-6)


def _is_near(written: Written, number: Number) -> bool:
    return not isinstance(number.value, int) and _distance(written, number) <= 1.5


def rewritten(written: Written, number: Number) -> str | None:
    """Returns the record's value with the decimals, separators and sign that the written number has; None if none fit.

    Hours keep the unit that is written behind them.
    """
    scale = _scale(written, number)
    if scale is None:
        return None
    try:
        value = number.value / scale / 10.0**written.power
    except (OverflowError, ZeroDivisionError):
        return None
    digits = f"{abs(value):{',' if written.has_separators else ''}.{written.decimals}f}"
    is_zero = not any(digit in digits for digit in "123456789")
    sign = "" if is_zero else "-" if value < 0 else "+" if written.sign == "+" else ""
    if sign == "-" and "\u2212" in written.text:
        sign = "\u2212"
    return sign + digits + (f"e{written.power}" if written.power else "")


def _own_file(lab: Lab, path: Path) -> os.stat_result:
    """Returns the state of a file that may be written. Raises UsageError for a link, and what is not the project's."""
    root = lab.root.resolve()
    place = Path(os.path.abspath(path))
    folder = place.parent.resolve()
    if place.is_symlink():
        raise UsageError(f"{path} is a link, and is not written", hint="name the file that it leads to")
    if not folder.is_relative_to(root) or folder.is_relative_to(root / ".perpetual"):
        raise UsageError(f"{path} is not in the project's folder, and is not written", hint="edit it by hand")
    found = place.stat()
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        raise UsageError(f"{path} is no file of its own, and is not written", hint="a file without other names")
    return found
