"""What a note's front matter says of its sources and of its last day; the text may be anybody's."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from perpetual.api import PathRefused

__all__ = ["MOST_SOURCES", "Derivation", "derivation_of", "today"]

MOST_SOURCES = 50
_LONGEST_HEAD = 16 * 1024  # bytes of front matter that are read
_LONGEST_SHOWN = 60  # characters of a value in a message
_EXPIRES = re.compile(r"^expires[ \t]*:[ \t]*([^\n]{0,200})", re.MULTILINE)
_DERIVED = re.compile(r"^derived_from[ \t]*:", re.MULTILINE)
_KEYS = ("derived_from", "expires")
_AT_LINE = re.compile(r"^(derived_from|expires)[ \t]*:", re.MULTILINE)
_BEFORE = "\ufeff \t\n"  # what may precede a front matter that is not read as one
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}\Z")


@dataclass(frozen=True, slots=True)
class Derivation:
    """The sources of a note, by their paths, its last day, and what is wrong with the lines that say so."""

    sources: tuple[str, ...] = ()
    expires: date | None = None
    problems: tuple[tuple[str, str], ...] = ()  # key and message


_NOTHING = Derivation()


def derivation_of(text: str, normalise: Callable[[str], str], *, path: str | None = None) -> Derivation:
    """Returns what the front matter of a note says; nothing where there is none.

    Args:
        text: the note.
        normalise: makes a path the name of a note, and raises PathRefused for one that can be none.
        path: of the note itself, which is no source of its own.
    """
    plain = text.replace("\r\n", "\n")
    if not plain.startswith("---\n"):
        return _not_read(plain)
    head, end, _ = plain[4:].partition("\n---\n")
    if not end and not plain.endswith("\n---"):
        return _not_read(plain)
    day, wrong_day = _day(head)
    sources, wrong_sources = _sources(head, normalise, path)
    return Derivation(sources, day, (*wrong_day, *wrong_sources, *_disguised(head)))


def _not_read(text: str) -> Derivation:
    """Returns what is wrong with a text that begins as a front matter, has one of the keys, and is not read as one."""
    start = text.lstrip(_BEFORE)
    lines = start[3 : 3 + _LONGEST_HEAD].partition("\n\n")[0] if start.startswith("---\n") else ""
    found = dict.fromkeys(_AT_LINE.findall(lines))
    words = "the front matter is not read: it begins with --- in the first line, and ends with a line ---"
    return Derivation(problems=tuple((key, words) for key in found)) if found else _NOTHING


def _disguised(head: str) -> Sequence[tuple[str, str]]:
    """Returns the keys that a YAML reader finds in the front matter, and that are not written plainly."""
    plain = [*_AT_LINE.findall(head)]
    twice = [key for key in _KEYS if plain.count(key) > 1]
    if twice:
        return tuple((key, "it is there twice") for key in twice)
    low = head.casefold()
    if "\\" not in head and all((key in low) == (key in plain) for key in _KEYS):
        return ()
    from perpetual_recall.front import fields_of

    names = {str(name).strip().casefold() for name in fields_of(f"---\n{head}\n---\n")}
    words = "write the key plainly, in small letters at the beginning of a line"
    return tuple((key, words) for key in _KEYS if key in names and key not in plain)


def _day(head: str) -> tuple[date | None, Sequence[tuple[str, str]]]:
    found = _EXPIRES.search(head)
    if found is None:
        return None, ()
    said = found[1].partition(" #")[0].strip().strip("'\"")
    try:
        if _DATE.match(said) is None:
            raise ValueError(said)
        return date.fromisoformat(said), ()
    except ValueError:
        return None, (("expires", f"{_shown(said) or 'nothing'} is not a date like 2026-11-30"),)


def _sources(
    head: str, normalise: Callable[[str], str], path: str | None
) -> tuple[tuple[str, ...], Sequence[tuple[str, str]]]:
    if _DERIVED.search(head) is None:
        return (), ()
    if len(head.encode("utf-8", "replace")) > _LONGEST_HEAD:
        return (), (("derived_from", f"the front matter is larger than {_LONGEST_HEAD // 1024} KiB"),)
    from perpetual_recall.front import fields_of

    fields = fields_of(f"---\n{head}\n---\n")
    if "derived_from" not in fields:
        return (), (("derived_from", "the front matter cannot be read, so its sources are not known"),)
    value = fields["derived_from"]
    items: list[object] = value if isinstance(value, list) else [] if value is None else [value]
    if len(items) > MOST_SOURCES:
        return (), (("derived_from", f"it names {len(items):,} notes; at most {MOST_SOURCES} are taken"),)
    found: dict[str, None] = {}
    for item in items:
        if not isinstance(item, str) or not item.strip():
            return (), (("derived_from", f"{_shown(item)} is no path of a note"),)
        try:
            source = normalise(item.strip())
        except PathRefused:
            return (), (("derived_from", f"{_shown(item)} is no path of a note"),)
        if source == path:
            return (), (("derived_from", f"{_shown(item)} is the note itself"),)
        found[source] = None
    return tuple(found), ()


def _shown(value: object) -> str:
    text = str(value)[: _LONGEST_SHOWN + 1]
    line = "".join(c if c.isprintable() else " " for c in text)
    return line if len(line) <= _LONGEST_SHOWN else line[: _LONGEST_SHOWN - 3] + "..."


def today() -> date:
    """Returns the day of now, in UTC."""
    return datetime.now(UTC).date()
