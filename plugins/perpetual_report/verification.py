"""Holding a report to the record: every number derived again, every cited log read again. For the command `verify`.

The record is folded as it stood after the event that the file names. What is looked at: each number by its key, value,
words and source; the words around the numbers, line by line; each picture, drawn again by the same version of what drew
it; and each log that a number was read from.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

from perpetual.api import UsageError
from perpetual.toolkit.foreign import parse_json
from perpetual.toolkit.units import whole_number
from perpetual_report.content import facts_of
from perpetual_report.document import UNVERIFIED, form, html_of, markdown_of, pictures_of
from perpetual_report.findings import Problem, answer, cited, debits_of, logs_of
from perpetual_report.numbers import Book, exact
from perpetual_report.pictures import drawn_by
from perpetual_report.sections import Section
from perpetual_report.snapshot import Snapshot, take

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_report.documents import Verification

__all__ = ["claims_of", "derive", "derived_of", "differences", "read", "verify"]

_STATE = re.compile(
    r"<!-- perpetual report: version (\S+), seq (\d+), debits (\d+)(?:, form (\w+))?(?:, published (yes))? -->"
)
_QUANTITY = re.compile(r"([-+]?\d+(?:\.(\d+))?)(?:e([-+]?\d+))?(?: (s|min|h))?")
_HOURS = {"s": 1 / 3600, "min": 1 / 60}
_PICTURE = re.compile(r'<svg [^>]*?data-picture="([^"]*)".*?</svg>', re.S)
_TO_SECTIONS = '<li><a href="#sections">'
_STYLE = re.compile(r"<style>.*?</style>", re.S)
_TAG = re.compile(r"<[^<>\n]*>")
_DATA = re.compile(r"<data\b[^>]*>[^<]*</data>")


@dataclass
class Claims:
    """What a file claims: its state, its numbers, and its words and pictures."""

    format: str
    text: str
    marks: dict[str, str]
    numbers: list[tuple[int, dict[str, str], str]] = field(default_factory=list)  # line, attributes, words
    pictures: dict[str, tuple[int, str]] = field(default_factory=dict)  # line, SVG

    def mark(self, name: str) -> int:
        """Returns a whole number that the file says of itself."""
        value = whole_number(self.marks.get(name, ""))
        if value is None:
            raise UsageError(f"the report does not say its {name}", hint="write it again: perpetual report -o FILE")
        return value


def verify(lab: Lab, path: Path, *, at: str | None = None, fix: bool = False) -> Verification:
    """Returns the answer of `perpetual verify`, of a report or of Markdown whose numbers carry references.

    Args:
        lab: whose record decides.
        path: the file.
        at: the moment at which the record is looked at, of references that name none; by default now.
        fix: whether numbers that do not hold are written anew; of references only.

    Raises:
        UsageError: for a file that is neither, and a report with `at` or `fix`.
        Conflict: with `fix`, for a file that is changed meanwhile.
    """
    text = _markdown(path)
    if text is not None:
        from perpetual_report import cited as markdown

        return (markdown.fix if fix else markdown.hold)(lab, path, text, at=at)
    if at is not None or fix:
        raise UsageError(f"{path} is a report, which says of what state it is, and is not edited",
                         hint="--at and --fix are for Markdown with references; write a report again")  # fmt: skip
    claims = read(path)
    reached = lab.feed.last()
    if claims.mark("seq") > reached:
        ahead = Problem("record.seq", "the file's head", claims.marks["seq"], str(reached), f"record@{reached}")
        return answer(
            claims.format, claims.mark("seq"), [ahead], ["the record has not reached the state of this report"]
        )
    derived = derive(lab, claims)
    problems = [
        *differences(claims, derived),
        *debits_of(derived.snapshot, lab.budget.rows()),
        *logs_of(lab, derived.snapshot, derived.book),
    ]
    # Markdown says no keys: its numbers are looked at as its words are, where those can be written again.
    counted = len(claims.numbers) if claims.format == "html" else len(derived.book.numbers) * _is_ours(claims)
    logs = sum(1 for _ in cited(derived.snapshot, derived.book))
    found = claims.format, claims.mark("seq"), problems, derived.notes
    return answer(*found, checked=counted, pictures=len(derived.pictures), logs=logs)


@dataclass(frozen=True)
class Derived:
    """The same report derived from the record again: its numbers as `shown`, its `lines` of words, its pictures.

    `pictures` are those that could be drawn; `notes` say why others could not.
    """

    snapshot: Snapshot
    book: Book
    shown: dict[str, tuple[str, str]]  # words and source by key
    lines: list[tuple[int, str]]
    pictures: dict[str, str]
    notes: list[str]


def derive(lab: Lab, claims: Claims) -> Derived:
    """Returns what the file should say, from the record as it stood when it was written."""
    snapshot = take(lab, seq=claims.mark("seq"), debits=claims.mark("debits"))
    if claims.marks.get("published"):
        from perpetual_report.publishing import publisher_of

        actors = (event.actor for event in lab.events(limit=snapshot.seq))
        snapshot = publisher_of(lab, actors, snapshot.runs).snapshot(snapshot)
    book = Book()
    facts = facts_of(snapshot, book)
    pictures, notes = _redrawn(claims, snapshot, facts)
    if claims.format == "html":
        # What cannot be drawn is taken as it stands: the words around a picture are there only with the picture.
        standing = pictures or {name: svg for name, (_, svg) in claims.pictures.items()}
        sections = [Section("", "", "")] if _TO_SECTIONS in claims.text else []  # of which the contents say that
        fresh = html_of(snapshot, facts, standing, sections, by=claims.marks.get("pictures", ""))
    else:
        fresh = markdown_of(snapshot, facts)
    if not _is_ours(claims):
        what = "only the values of its numbers" if claims.format == "html" else "only the logs, and no number of it,"
        notes.append(
            f"written by another perpetual ({claims.marks.get('version')}) in another form: {what} are looked at"
        )
    return derived_of(snapshot, book, fresh, pictures, notes)


def derived_of(
    snapshot: Snapshot, book: Book, fresh: str, pictures: dict[str, str], notes: Sequence[str] = ()
) -> Derived:
    """Returns what a file should say, from its text as it was written again."""
    parser = _Parser()
    parser.feed(fresh)
    shown = {values["data-key"]: (words, values["data-source"]) for _, values, words in parser.numbers}
    return Derived(snapshot, book, shown, _lines(fresh), pictures, [*notes])


def differences(claims: Claims, derived: Derived, *, is_ours: bool | None = None) -> list[Problem]:
    """Returns where the file and what was derived do not match; logs are looked at elsewhere.

    `is_ours` is whether the file has the form that is written here; by default as its marks say.
    """
    if not (_is_ours(claims) if is_ours is None else is_ours):
        return [*_values(claims, derived.book)]
    problems = [*_numbers(claims, derived.book), *_missing(claims, derived.shown)]
    problems += _words(_lines(claims.text), derived.lines)
    if derived.pictures:
        problems += _pictures(claims, derived.pictures)
    return problems


def _is_ours(claims: Claims) -> bool:
    """Returns whether the file has the form that is written here: then all of it can be derived again."""
    from perpetual import __version__

    return (claims.marks.get("version"), claims.marks.get("form")) == (__version__, form())


# --- the file -------------------------------------------------------------------------------------------------------


def _markdown(path: Path) -> str | None:
    """Returns the text of a file that is no report; None of one that is, or that is JSON or a page."""
    from perpetual_report.cited import text_of

    try:
        with path.open("rb") as file:
            head = file.read(200)
            if head[:1] == b"{" or b"<!doctype html>" in head:
                return None
    except OSError as problem:
        raise UsageError(f"{path} cannot be read: {problem}") from problem
    text = text_of(path)
    return None if _STATE.search(text) else text


def read(path: Path) -> Claims:
    """Returns the report in a file: HTML, Markdown, or the JSON that `perpetual report --json` answered.

    Raises:
        UsageError: if it cannot be read, or is no report.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise UsageError(f"{path} cannot be read: {problem}") from problem
    return claims_of(_text_of(text, path) if text[:1] == "{" else text, str(path))


def claims_of(text: str, name: str) -> Claims:
    """Returns what the text of a report claims. Raises UsageError, with the file's name, if it is none."""
    if "<!doctype html>" in text[:200]:
        parser = _Parser()
        parser.feed(text)
        parser.close()
        seen = text.partition(UNVERIFIED)[0]  # the pictures of plugins are behind the mark
        pictures = {found[1]: (seen.count("\n", 0, found.start()) + 1, found[0]) for found in _PICTURE.finditer(seen)}
        return Claims("html", text, parser.marks, parser.numbers, pictures)
    state = _STATE.search(text)
    if state is None:
        raise UsageError(f"{name} is no report", hint="write one: perpetual report -o FILE")
    marks = zip(("version", "seq", "debits", "form", "published"), state.groups(""), strict=True)
    return Claims("md", text, dict(marks))


def _text_of(text: str, path: Path) -> str:
    """Returns the report inside the document that `report --json` answered."""
    try:
        document = parse_json(text)
    except ValueError as problem:
        raise UsageError(f"{path} is no report: {problem}") from problem
    if (
        not isinstance(document, dict)
        or document.get("schema") != "perpetual.report/1"
        or not isinstance(document.get("text"), str)
    ):
        raise UsageError(f"{path} is no report", hint="perpetual report --json > FILE")
    return str(document["text"])


class _Parser(HTMLParser):
    """Numbers and marks of an HTML report."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.marks: dict[str, str] = {}
        self.numbers: list[tuple[int, dict[str, str], str]] = []
        self._open: tuple[int, dict[str, str]] | None = None
        self._words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Opens a number, or notes a mark."""
        values = {name: value or "" for name, value in attrs}
        if tag == "meta" and values.get("name", "").startswith("perpetual-"):
            self.marks.setdefault(values["name"].removeprefix("perpetual-"), values.get("content", ""))
        elif tag == "data":
            self._close()
            self._open = (self.getpos()[0], values)

    def handle_endtag(self, tag: str) -> None:
        """Closes a number."""
        if tag == "data":
            self._close()

    def handle_data(self, data: str) -> None:
        """Collects the words of an open number."""
        if self._open is not None:
            self._words.append(data)

    def _close(self) -> None:
        if self._open is not None:
            self.numbers.append((*self._open, "".join(self._words)))
        self._open, self._words = None, []


# --- numbers --------------------------------------------------------------------------------------------------------


def _numbers(claims: Claims, book: Book) -> Iterator[Problem]:
    """Compares each claimed number with the one derived again; yields the problems."""
    for line, values, words in claims.numbers:
        key, where = values.get("data-key", ""), f"line {line}"
        known = book.numbers.get(key)
        if known is None:
            yield Problem(key or "without a key", where, words or values.get("value", ""), "",
                          values.get("data-source", "") or "no source")  # fmt: skip
            continue
        for claimed, found in (
            (values.get("value", ""), exact(known.value)),
            (words, known.text),
            (values.get("data-source", ""), known.source),
            (values.get("data-metric", ""), known.metric or ""),
        ):
            if claimed != found:
                yield Problem(key, where, claimed, found, known.source)


def _values(claims: Claims, book: Book) -> Iterator[Problem]:
    """Compares the values of a file in another form: each that is derived here too, its words as a rounding of it."""
    for line, values, words in claims.numbers:
        key, claimed = values.get("data-key", ""), values.get("value", "")
        known = book.numbers.get(key)
        if known is not None and claimed != exact(known.value):
            yield Problem(key, f"line {line}", claimed, exact(known.value), known.source)
        elif not rounds(words, claimed):
            yield Problem(key, f"line {line}", words, claimed, values.get("data-source", "") or "no source")


def rounds(words: str, value: str) -> bool:
    """Returns whether the words are the value, to the digits that they have; hours may be in a smaller unit."""
    found = _QUANTITY.fullmatch(words)
    try:
        meant = float(value)
        power = 1.0 if found is None else float(f"1e{found[3] or 0}")
    except ValueError:
        return False
    if found is None or not math.isfinite(power):
        return False
    unit = _HOURS.get(found[4], 1.0)
    step = power * 10.0 ** -len(found[2] or "")
    return abs(float(found[1]) * power - meant / unit) <= 0.5 * step * (1 + 1e-6) + 1e-12 * abs(meant / unit)


def _missing(claims: Claims, shown: Mapping[str, tuple[str, str]]) -> Iterator[Problem]:
    """Numbers that this state has and the file has lost."""
    present = {values.get("data-key") for _, values, _ in claims.numbers}
    for key, (words, source) in shown.items():
        if key not in present:
            yield Problem(key, "left out of the file", "", words, source)


# --- words ----------------------------------------------------------------------------------------------------------


def _words(mine: Sequence[tuple[int, str]], theirs: Sequence[tuple[int, str]]) -> Iterator[Problem]:
    """Yields the words that differ from those of the same report written again: a verdict is a word."""
    ours, others = [words for _, words in mine], [words for _, words in theirs]
    start = next((n for n, (x, y) in enumerate(zip(ours, others, strict=False)) if x != y), min(len(ours), len(others)))
    most = min(len(ours), len(others)) - start
    end = next((n for n in range(most) if ours[-1 - n] != others[-1 - n]), most)
    ours, others = ours[start : len(ours) - end], others[start : len(others) - end]
    for tag, a, b, c, d in SequenceMatcher(None, ours, others, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        for offset in range(max(b - a, d - c)):
            claimed = ours[a + offset] if a + offset < b else ""
            found = others[c + offset] if c + offset < d else ""
            where = f"line {mine[start + a + offset][0]}" if claimed else "left out of the file"
            for said, true in _pairs(claimed.split(), found.split()):
                yield Problem(true or said, where, said, true, found[:80] or "no source")


def _pairs(claimed: list[str], found: list[str]) -> Iterator[tuple[str, str]]:
    """Yields the words that differ, side by side."""
    for tag, a, b, c, d in SequenceMatcher(None, claimed, found, autojunk=False).get_opcodes():
        if tag != "equal":
            for offset in range(max(b - a, d - c)):
                yield (claimed[a + offset] if a + offset < b else ""), (found[c + offset] if c + offset < d else "")


def _lines(text: str) -> list[tuple[int, str]]:
    """Returns the lines that are compared as words, numbered: up to the mark, without pictures and numbers."""
    head = text.partition(UNVERIFIED)[0]
    if "<!doctype html>" in text[:200]:
        for part in (_STYLE, _PICTURE):  # what is cut out leaves its line ends behind, so that a line keeps its number
            head = part.sub(lambda found: "\n" * found[0].count("\n"), head)
        head = unescape(_TAG.sub(" ", _DATA.sub(" ", head)))
    lines = ((number, " ".join(line.split())) for number, line in enumerate(head.split("\n"), 1))
    return [(number, line) for number, line in lines if line]


# --- pictures -------------------------------------------------------------------------------------------------------


def _redrawn(claims: Claims, snapshot: Snapshot, facts: Mapping[str, object]) -> tuple[dict[str, str], list[str]]:
    """Returns the pictures drawn again, if the renderer of the file's is at hand; else what to say."""
    if claims.format != "html" or not _is_ours(claims):
        return {}, []
    by, here = claims.marks.get("pictures", ""), drawn_by()
    if here is None:
        return {}, ["the pictures are not checked: matplotlib is not installed (pip install 'perpetual-lab[report]')"]
    if by != here:
        return {}, [f"the pictures are not checked: {by or 'something unknown'} drew them, and {here} is installed"]
    return pictures_of(snapshot, facts), []


def _pictures(claims: Claims, drawn: Mapping[str, str]) -> Iterator[Problem]:
    for name in [*drawn, *(name for name in claims.pictures if name not in drawn)]:
        line, svg = claims.pictures.get(name, (0, ""))
        if svg != drawn.get(name, ""):
            said, true = _apart(svg, drawn.get(name, ""))
            yield Problem(f"picture {name}", f"line {line}" if line else "left out of the file", said, true, name)


def _apart(claimed: str, found: str) -> tuple[str, str]:
    """Returns where two texts differ, a few characters of each."""
    place = next((n for n, (a, b) in enumerate(zip(claimed, found, strict=False)) if a != b), 0)
    start = max(0, place - 12)
    return claimed[start : place + 24], found[start : place + 24]
