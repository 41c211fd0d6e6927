"""The block of notes for an agent's context: fenced, labelled, within a number of tokens.

Each note stands below a line `[proven TYPE] PATH` or `[unproven TYPE] PATH`, its text indented, so that no text can
pass for such a line. Notes that say the same are one; notes that contradict each other are shown as a pair.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from perpetual.toolkit.fence import FENCE_BYTES, fence, neutralise
from perpetual.toolkit.fence import block as visible
from perpetual_recall.duplicates import are_alike, are_opposite, shingles
from perpetual_recall.front import split
from perpetual_recall.holdout import Holdout, drawn
from perpetual_recall.shown import is_for_agent

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_recall.front import Scope
    from perpetual_recall.index import Connection, Version
    from perpetual_recall.recall import Recall

__all__ = ["DEFAULT_TOKENS", "Block", "BlockNote", "Made", "given", "memory_block", "past_block"]

DEFAULT_TOKENS = 600
_HEAD = "Notes of this project. Proven: it helped in paired trials. Unproven: no trial has shown it."
_SOURCE = "the memory"
_LEAST_BYTES = 40  # of a note's text; with less room it is left out
_WHOLE = 2**62  # bytes: room for any note
_SENTENCE = re.compile(r"[.!?:](?=\s)|\n")
_LONGEST_PATH = 200  # characters


@dataclass(frozen=True, slots=True)
class BlockNote:
    """A note of a block: the version that is shown, the paths that say the same, and those that say the opposite.

    `tokens` are those of its line and its text, counted as the block's.
    """

    path: str
    blob: str
    type: str
    proven: bool
    same: tuple[str, ...] = ()
    opposite: tuple[str, ...] = ()
    trimmed: bool = False
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """A text for an agent, empty where no note fits; `tokens` are counted as ceil(UTF-8 bytes / 4).

    `holdout` is what was drawn on the promoted notes among them; None where nothing was drawn.
    """

    text: str
    tokens: int
    notes: tuple[BlockNote, ...]
    holdout: Holdout | None = None


Made: TypeAlias = "dict[tuple[int, tuple[tuple[str, ...], ...]], Block]"  # by tokens and notes


@dataclass(slots=True)
class _Entry:
    version: Version
    same: list[str] = field(default_factory=list)
    opposite: list[str] = field(default_factory=list)


def memory_block(
    lab: Lab,
    query: str | None = None,
    *,
    tokens: int = DEFAULT_TOKENS,
    limit: int = 5,
    extra: tuple[str, str, str] | None = None,
    without: Sequence[str] = (),
    holdout: float = 0.0,
) -> Block:
    """Returns the notes that help with a query, as an agent may be shown them; the same record gives the same block.

    Args:
        lab: the lab to read; nothing is written, see `perpetual_recall.exposure`.
        query: words of the task; None is what the research is at now.
        tokens: the block's size at most, markup included.
        limit: notes at most, without those that a contradiction brings in.
        extra: path, type and text of a note that is put in beside, or in place of, the one of that path.
        without: paths of notes that are left out.
        holdout: the chance with which each promoted note is withheld from an agent; nothing is from a person.
    """
    from perpetual_recall.present import present_of
    from perpetual_recall.recall import recall_of

    own, scope = present_of(lab, for_reader=is_for_agent(lab))
    more = [] if extra is None else [_anywhere(given(lab, *extra))]
    if not more and not lab.memory.list(limit=1).items:
        return Block("", 0, ())
    left_out = [*without, *(it.note.path for it in more)]
    recall = recall_of(lab)
    with recall.index.of(lab) as connection:
        entries = _chosen(lab, recall, connection, own if query is None else query, scope, limit, more, left_out)
        entries = _harmless(lab, entries)
        made = _rendered(lab, entries, tokens, [it.note.path for it in more])
        if not holdout or not is_for_agent(lab):
            return made
        shown = {note.path for note in made.notes}
        left = [entry for entry in entries if entry.version.note.path in shown]
        draws = drawn(lab, connection, [entry.version for entry in left], holdout)
    return replace(_without_held_out(lab, left, draws, tokens) or made, holdout=draws)


def past_block(lab: Lab, connection: Connection, query: str, *, tokens: int, limit: int, made: Made) -> Block:
    """Returns the block of the notes of an index of another time, whatever withholds them now.

    Args:
        lab: whose gates are asked which notes may not stand together.
        connection: the index.
        query: words of the task.
        tokens: the block's size at most.
        limit: notes at most, without those that a contradiction brings in.
        made: blocks of earlier calls, by their notes; the gates are not asked again about the same ones.
    """
    from perpetual_recall.recall import recall_of

    entries = _chosen(lab, recall_of(lab), connection, query, {}, limit, (), (), is_past=True)
    notes = tuple((it.version.note.path, it.version.note.type, it.version.blob, *it.same, "", *it.opposite)
                  for it in entries)  # fmt: skip
    if (tokens, notes) not in made:
        made[tokens, notes] = _rendered(lab, _harmless(lab, entries), tokens)
    return made[tokens, notes]


def _without_held_out(lab: Lab, entries: Sequence[_Entry], draws: Holdout | None, tokens: int) -> Block | None:
    """Returns the block of these notes without those that were drawn to be withheld; None where none was."""
    out = {note.path for note in draws.notes if not note.shown} if draws is not None else {}
    left = [entry for entry in entries if entry.version.note.path not in out]
    if len(left) == len(entries):
        return None
    for entry in left:
        entry.opposite = [path for path in entry.opposite if path not in out]
    return _rendered(lab, left, tokens)


def _harmless(lab: Lab, entries: list[_Entry]) -> list[_Entry]:
    """Returns the notes without those that a gate does not let stand together: an attack may be spread over several."""
    for _, gate in lab.parts("gate"):
        out = {*gate.leave_out([entry.version.text for entry in entries])} if len(entries) > 1 else set()
        entries = [entry for place, entry in enumerate(entries) if place not in out]
    return entries


def _anywhere(version: Version) -> Version:
    """Returns a note that was asked for by name: it counts wherever it holds."""
    return version._replace(front=replace(version.front, scope={}))


def given(lab: Lab, path: str, type: str, text: str) -> Version:
    """Returns a text as a version of a note that the memory need not hold; it is unproven."""
    from perpetual_recall.index import unwritten

    version = unwritten(path, type, text, lab.actor)
    blob = lab.part("memory").blob_id(text)
    return version._replace(blob=blob)


def _chosen(
    lab: Lab, recall: Recall, connection: Connection, query: str, scope: Scope, limit: int, extra: Sequence[Version],
    without: Sequence[str], *, is_past: bool = False,
) -> list[_Entry]:  # fmt: skip
    """Returns the notes of the block: of several that say the same the best, each with what contradicts it."""
    from perpetual_recall.index import version_of
    from perpetual_recall.recall import offered

    best = recall.best(lab, connection, query, scope, None, extra=extra, without=without, is_past=is_past)
    found = [item.version for item in best]
    entries: list[_Entry] = []
    asked = {version.note.path for version in extra}
    for version in found:
        twin = next((it for it in entries if _is_same(it.version, version)), None)
        if twin is not None:
            twin.same.append(version.note.path)
        elif len(entries) < limit or version.note.path in asked:
            if len(entries) == limit:
                entries.pop()
            entries.append(_Entry(version))
    for entry in [*entries]:
        named = (version_of(connection, path) for path in entry.version.front.contradicts if path not in without)
        others = [it for it in named if it is not None]
        for other in [*found, *(others if is_past else offered(lab, others))]:
            if other.note.path != entry.version.note.path and are_opposite(entry.version, other):
                _pair(entries, entry, other)
    return entries


def _is_same(one: Version, other: Version) -> bool:
    return not are_opposite(one, other) and are_alike(shingles(one.text), shingles(other.text))


def _pair(entries: list[_Entry], entry: _Entry, other: Version) -> None:
    """Puts what contradicts a note beside it, and names each at the other."""
    present = next((it for it in entries if it.version.note.path == other.note.path), None)
    if present is None:
        present = _Entry(other)
        entries.insert(entries.index(entry) + 1, present)
    for one, two in ((entry, present), (present, entry)):
        if two.version.note.path not in one.opposite:
            one.opposite.append(two.version.note.path)


def _rendered(lab: Lab, entries: Sequence[_Entry], tokens: int, first: Sequence[str] = ()) -> Block:
    """Returns the text of the notes, in their order; where it is too long the lowest earners leave.

    Args:
        lab: what prices are looked up in.
        entries: the notes, the highest score first.
        tokens: the size at most.
        first: paths of what leaves last, whatever it earns.
    """
    room = 4 * tokens - len(_HEAD) - FENCE_BYTES - len(f" from {_SOURCE}") - 2
    shown = _Shown(room)
    if not shown.take_whole(entries):
        _fit(shown, entries, _places(lab, entries, first))
    found = [shown.notes[id(entry)] for entry in entries if id(entry) in shown.notes]
    if not found:
        return Block("", 0, ())
    text = f"{_HEAD}\n{fence(chr(10).join(text for text, _ in found), _SOURCE)}"
    return Block(text, _tokens(text), tuple(note for _, note in found))


class _Shown:
    """The notes that are shown, and the bytes that are left."""

    def __init__(self, room: int) -> None:
        self.room, self.notes = room, dict[int, tuple[str, BlockNote]]()

    def take(self, entry: _Entry, *, share: int | None = None) -> bool:
        """Shows a note in its share of the room, or in all of it; answers whether the whole of it is shown."""
        found = None if share is None else _note(entry, share)
        found = found or _note(entry, self.room)
        if found is None:
            return False
        self.room -= _bytes(found[0]) + 1
        self.notes[id(entry)] = found
        return not found[1].trimmed

    def take_whole(self, entries: Sequence[_Entry]) -> bool:
        """Shows all the notes if there is room for the whole of each, else none; answers which."""
        found = {id(entry): note for entry in entries if (note := _note(entry, _WHOLE)) is not None}
        size = sum(_bytes(text) + 1 for text, _ in found.values())
        if size > self.room:
            return False
        self.room -= size
        self.notes |= found
        return True


def _places(lab: Lab, entries: Sequence[_Entry], first: Sequence[str]) -> list[tuple[int, float]]:
    """Returns each note's place in the order of worth, the smallest for what leaves last."""
    from perpetual_recall.price import order, prices_of

    prices = prices_of(lab, [entry.version.note.path for entry in entries])
    return [
        (-1, 0.0)
        if entry.version.note.path in first
        else order(prices.get((entry.version.note.path, entry.version.blob)))
        for entry in entries
    ]


def _fit(shown: _Shown, entries: Sequence[_Entry], places: Sequence[tuple[int, float]]) -> None:
    """Shows the best of the notes: measured ones whole, then others in equal shares, then those shown to harm."""
    from perpetual_recall.price import UNMEASURED

    ranked = sorted(zip(places, entries, strict=True), key=lambda item: item[0])
    for place, entry in ranked:
        if place < UNMEASURED and not shown.take(entry):
            return
    unknown = [entry for place, entry in ranked if place == UNMEASURED]
    if not shown.take_whole(unknown):
        for count, entry in enumerate(unknown):
            shown.take(entry, share=max(0, shown.room) // (len(unknown) - count))
        return
    for place, entry in ranked:
        if place > UNMEASURED and not shown.take_whole([entry]):
            return


def _note(entry: _Entry, room: int) -> tuple[str, BlockNote] | None:
    """Returns a note in at most `room` bytes, None where that shows nothing of it."""
    note = entry.version.note
    label = "proven" if note.proven else "unproven"
    lines = [f"[{label} {neutralise(note.type, 40)}] {neutralise(note.path, _LONGEST_PATH)}"]
    for words, paths in (("says the same", entry.same), ("contradicts", entry.opposite)):
        if paths:
            lines.append(f"({words}: {', '.join(neutralise(path, _LONGEST_PATH) for path in paths)})")
    head = visible("\n".join(lines))
    whole = _indented(split(entry.version.text)[1])
    left = room - _bytes(head) - 2
    body = trimmed(whole, left)
    if not body or (body != whole and left < _LEAST_BYTES):
        return None
    text = f"{head}\n{body}"
    made = BlockNote(
        note.path, entry.version.blob, note.type, note.proven, tuple(entry.same), tuple(entry.opposite), body != whole,
        _tokens(text),
    )  # fmt: skip
    return text, made


def _tokens(text: str) -> int:
    return -(-_bytes(text) // 4)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _indented(text: str) -> str:
    lines = (line.rstrip() for line in visible(text).splitlines())
    return "\n".join(f"  {line}" for line in lines if line)


def trimmed(text: str, room: int) -> str:
    """Returns the text in at most `room` bytes, ended at the end of a sentence where there is one, else of a word."""
    if _bytes(text) <= room:
        return text
    piece = text.encode("utf-8", "replace")[: max(0, room - 4)].decode("utf-8", "ignore")
    ends = [found.end() for found in _SENTENCE.finditer(piece)]
    cut = piece[: ends[-1]] if ends else piece.rpartition(" ")[0]
    return f"{cut.rstrip()} ..." if cut.strip() else ""
