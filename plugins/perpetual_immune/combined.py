"""Notes that are harmless alone and an attack together: what a block of retrieved notes says when read as one.

`scan_together` reads the block as an agent would: one note after the other, by part numbers, pieces in other orders,
and with names replaced by what another note put in them. Only what no note shows alone counts, so a block is never
worse than its notes unless a sentence runs across them.
"""

# ruff: noqa: E501 - a pattern is only readable whole

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, permutations

from perpetual_immune.scanner import Category, Finding, Outcome, scan

MAX_NOTES = 16
"""Notes of one block that are read together; further ones are read with the last of these."""
EDGE_CHARS = 300
"""Of a longer note only so much of its start and of its end can belong to a sentence of another."""
MAX_ORDERS = 24
"""Orders of the pieces that are tried besides that of the block."""
MAX_PIECE_CHARS = 240
_APART = "\n~ ~ ~\n~ ~ ~\n~ ~ ~\n"  # more sentences than any rule reads at once
_PART = re.compile(
    r"^\W{0,4}(?:(?:part|piece|fragment|step|chunk|segment|line|word)\s{0,2}#?\s?(\d{1,2})(?:\s?(?:/|of)\s?\d{1,2})?|\(?(\d{1,2})\s?(?:/|of)\s?\d{1,2}\)?)\s{0,2}[:.)\]-]{0,2}\s{0,3}",
    re.IGNORECASE,
)
_QUOTED = r"[\"'`“‘«]([^\"'`”’»\n]{1,300})[\"'`”’»]"
_DEFINED = re.compile(
    rf"(?:\b(?:let|set|define|var|const|store|remember|where|with)\s{{1,3}})?[$%{{<\[]{{0,2}}\b([A-Za-z_]\w{{0,20}})[}}>\]%]{{0,2}}\s{{0,3}}(?::=|=|:|\bbe\b|\bto\b|\bas\b|\bmeans\b|\bstands for\b|\bis\b)\s{{0,3}}{_QUOTED}"
)
_REFERRED = re.compile(r"[$%{<\[]{0,2}\b([A-Za-z_]\w{0,20})\b[}>\]%]{0,2}")
_JOINT = re.compile(
    r"\s{0,3}(?:\+|\.\.|&|,|\bthen\b|\band then\b|\band\b|\bplus\b|\bfollowed by\b|\s)\s{0,3}", re.IGNORECASE
)
_SENTENCE_END = re.compile(r"[.!?:;…)\]>`\"'”’*|-]\s*\Z")
_CONTINUED = re.compile(r"(?:\.\.\.|…|,|-)\s*\Z")


@dataclass(frozen=True)
class Together:
    """The verdict on a block. `findings` lie in the joined reading and hold no offsets of a single note.

    `leave_out` holds the positions of the notes that the attack is made of. Without all of them the block is what its
    notes are alone; leaving out only one may leave the rest of a sentence, so leave out all.
    """

    outcome: Outcome
    category: Category | None
    findings: tuple[Finding, ...]
    leave_out: tuple[int, ...]


@dataclass(frozen=True)
class _Reading:
    text: str
    spans: tuple[tuple[int, int, int], ...]
    """Start, end and the note's position, for every piece."""
    linked: bool = False
    """True when the notes themselves say that they belong together, by numbers or by names."""


def scan_together(texts: Sequence[str], provenances: Sequence[str] = ()) -> Together:
    """Returns what the notes say together that none says alone.

    Args:
        texts: The notes in the order of the block.
        provenances: The writer of each, such as `agent:a1`; where all of an attack's notes come from persons (`user:`) the
            outcome is a quarantine at most.

    Raises:
        ValueError: There are provenances and not one for each note.
    """
    if provenances and len(provenances) != len(texts):
        raise ValueError(f"{len(texts)} notes have {len(provenances)} provenances")
    if len(texts) < 2:
        return Together("pass", None, (), ())
    alone = {" ".join(text.split()) for text in texts}
    worst = Together("pass", None, (), ())
    for reading in _readings(list(texts)):
        found = scan(reading.text)
        new = tuple(finding for finding in found.findings if _is_new(finding, reading, alone))
        if not new or found.outcome == "pass":
            continue
        involved = _involved(new, reading)
        severity: Outcome = "reject" if any(finding.severity == "reject" for finding in new) else "quarantine"
        if provenances and all(provenances[at].startswith("user:") for at in involved):
            severity = "quarantine"
        if worst.outcome == "pass" or (worst.outcome, severity) == ("quarantine", "reject"):
            worst = Together(severity, new[0].category, new, involved)
        if worst.outcome == "reject":
            break
    return worst


def _is_new(finding: Finding, reading: _Reading, alone: set[str]) -> bool:
    """Returns whether the words found run across notes and stand in none of them."""
    touched = {at for start, end, at in reading.spans if start < finding.end and end > finding.start}
    if not reading.linked and finding.category in ("tool_misuse", "secret_leak"):
        return False  # lists of commands end where the next begins, and any two make a third
    words = " ".join(reading.text[finding.start : finding.end].split())
    return len(touched) >= 2 and not any(words in text for text in alone)


def _involved(findings: Sequence[Finding], reading: _Reading) -> tuple[int, ...]:
    return tuple(
        sorted(
            {
                at
                for start, end, at in reading.spans
                if any(start < finding.end and end > finding.start for finding in findings)
            }
        )
    )


def _readings(texts: list[str]) -> Iterator[_Reading]:
    """Yields the ways in which the block can be read, that of the block first."""
    pieces = list(enumerate(texts))
    if len(pieces) > MAX_NOTES:
        pieces = [*pieces[: MAX_NOTES - 1], (MAX_NOTES - 1, " ".join(texts[MAX_NOTES - 1 :]))]
    yield _joined(pieces, " ")
    numbered = _numbered(pieces)
    if numbered:
        yield _joined(numbered, " ", whole=True, linked=True)
        yield _joined(numbered, "", whole=True, linked=True)
    yield from _substituted(pieces)
    fragments = [(at, text) for at, text in pieces if _is_fragment(text)]
    if len(fragments) >= 2:
        yield _joined(fragments, "", whole=True)
        for order in islice(permutations(fragments[:4]), MAX_ORDERS):
            yield _joined(list(order), " ", whole=True)
        if len(fragments) > 4:
            yield _joined(fragments[::-1], " ", whole=True)


def _joined(pieces: Sequence[tuple[int, str]], between: str, *, whole: bool = False, linked: bool = False) -> _Reading:
    """Returns the pieces one after the other; whole sentences are kept apart unless the pieces are parts of one."""
    text = ""
    spans: list[tuple[int, int, int]] = []
    for number, (at, piece) in enumerate(pieces):
        said = piece.strip()
        if number:
            open_ended = whole or not _SENTENCE_END.search(text) or _CONTINUED.search(text) is not None
            continues = whole or not said[:1].isupper()
            text = _CONTINUED.sub("", text) if open_ended and continues else text
            text += between if open_ended and continues else _APART
        if len(said) > 2 * EDGE_CHARS and not whole:
            for edge in (said[:EDGE_CHARS] + _APART, said[-EDGE_CHARS:]):
                spans.append((len(text), len(text) + len(edge), at))
                text += edge
        else:
            spans.append((len(text), len(text) + len(said), at))
            text += said
    return _Reading(text, tuple(spans), linked)


def _numbered(pieces: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Returns the notes that carry a part's number, by it and without it; none where fewer than two do."""
    found = []
    for at, text in pieces:
        match = _PART.match(text)
        if match is not None and len(text) <= 4 * MAX_PIECE_CHARS:
            found.append((int(match.group(1) or match.group(2)), at, text[match.end() :].strip("\"'` ")))
    if len(found) < 2 or len({number for number, _, _ in found}) < len(found):
        return []
    return [(at, text) for _, at, text in sorted(found)]


def _is_fragment(text: str) -> bool:
    """Returns whether a note is a piece of a sentence: short, and its start or its end is missing."""
    said = text.strip()
    if not said or len(said) > MAX_PIECE_CHARS or "\n\n" in said:
        return False
    return (
        _CONTINUED.search(said) is not None
        or said.startswith(("...", "…"))
        or (said[:1].islower() and not _SENTENCE_END.search(said))
    )


def _substituted(pieces: Sequence[tuple[int, str]]) -> Iterator[_Reading]:
    """Yields each row of names that notes refer to, replaced by what other notes put in them."""
    values: dict[str, tuple[int, str]] = {}
    for at, text in pieces:
        for name, value in _DEFINED.findall(text):
            values.setdefault(name, (at, value))
    if len(values) < 2:
        return
    for at, text in pieces:
        run: list[tuple[int, str]] = []
        end = 0
        for match in _REFERRED.finditer(text):
            known = values.get(match.group(1))
            between = text[end : match.start()]
            if known is None or known[0] == at:
                continue
            if run and not (_JOINT.fullmatch(between) or not between):
                if len(run) >= 2:
                    yield _joined([*run], " ", whole=True, linked=True)
                run = []
            run.append(known)
            end = match.end()
        if len(run) >= 2:
            yield _joined(run, " ", whole=True, linked=True)
            yield _joined(run, "", whole=True, linked=True)
