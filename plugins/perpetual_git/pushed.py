"""What people have pushed: each changed file becomes a candidate note of `git:<author>`, by the lab's one way in.

Asked at each scan once main has moved. The store is the record: a deletion in a push removes no note, and a file that
can be no note stays in the repository and is named in the event `git.pushed`. Paths and authors are a stranger's words,
shown only where the gates pass them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perpetual import Lab
from perpetual.api import Conflict, Note, PathRefused, Refused, UsageError, printable
from perpetual.toolkit.lock import FileLock
from perpetual_git import heads, paths
from perpetual_git.memory import GitMemory

if TYPE_CHECKING:
    from perpetual_git.repository import PushedFile

__all__ = ["MOST", "actor_of", "take_in", "type_of"]

MOST = 200  # files that a scan takes in; the next one goes on
_NAMED = 50  # of each sort in an event
_LONGEST_NAME = 40  # characters of an author
_LARGEST = 256 * 1024  # bytes, as of any note
_HEAD_LINES = 50
_TYPE = re.compile(r"type:[ \t]*[\"']?([a-z_]{1,40})[\"']?[ \t]*")
_WITHHELD = "(withheld: the gates have not passed its name)"


@dataclass
class _Found:
    """What a scan has met; `notes` are `{path, actor, status}`, `left_out` `{path, why}`."""

    notes: list[dict[str, str]] = field(default_factory=list)
    left_out: list[dict[str, str]] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    def payload(self, more: int) -> dict[str, object]:
        """Returns the event's payload, of bounded length."""
        lists: Mapping[str, Sequence[object]] = {
            "notes": self.notes,
            "left_out": self.left_out,
            "removed": self.removed,
        }
        counts = {name: len(items) for name, items in lists.items()}
        return {**{name: items[:_NAMED] for name, items in lists.items()}, "counts": {**counts, "waiting": more}}


def take_in(lab: Lab) -> None:
    """Writes what was pushed since the last time as candidate notes, at most `MOST` at once; does nothing twice."""
    memory = lab.part("memory")
    if not isinstance(memory, GitMemory) or memory.is_lost():
        return
    lock = FileLock(memory.path / "perpetual-seen.lock")
    if not lock.acquire(blocking=False):
        return  # another scan is at it
    try:
        if _take_in(lab, memory) and heads.is_new(memory.path):
            _take_in(lab, memory)  # what was just written is in main too, and is known
    finally:
        lock.release()


def _take_in(lab: Lab, memory: GitMemory) -> bool:
    """Returns whether the store knows all of main's head now."""
    lab.memory.flush()  # what the store has and git has not is no push
    with memory.repository() as repository:
        push = repository.pushed(heads.seen(memory.path))
    if push is None:
        return True
    found = _Found()
    if push.files is None:
        found.left_out.append({"path": "*", "why": "it changes too many files"})
    files = push.files or []
    notes = {note.path: note for note in _all_notes(lab)} if files else {}
    unknown = [file for file in files if not _is_known(memory, file, notes.get(file.path), found)]
    for file in unknown[:MOST]:
        with memory.repository() as repository:
            whole = repository.pushed_file(push.head, file, largest=_LARGEST)
        _write(lab, whole, notes.get(file.path), found)
    more = max(0, len(unknown) - MOST)
    if found.notes or found.left_out or found.removed:
        lab.feed.emit("git.pushed", push.head, found.payload(more))
    if not more:
        heads.mark(memory.path, push.head)
    return not more


def _all_notes(lab: Lab) -> Iterator[Note]:
    cursor: str | None = None
    while True:
        page = lab.memory.list(limit=1000, cursor=cursor)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return


def _is_known(memory: GitMemory, file: PushedFile, note: Note | None, found: _Found) -> bool:
    """Returns whether the store knows the file's text, as the newest version or as the newest accepted one."""
    if note is None or file.blob in (None, note.blob):
        if note is not None and file.blob is None:
            found.removed.append(note.path)
        return file.blob is None or note is not None
    if note.commit is None:
        return False
    with memory.repository() as repository:
        return repository.blob_at(note.commit, note.path) == file.blob


def _write(lab: Lab, file: PushedFile, note: Note | None, found: _Found) -> None:
    """Writes one file as a note in its author's name; why it cannot be one is noted."""
    why = _unfit(file)
    if why is not None:
        found.left_out.append({"path": _shown(lab, file.path), "why": why})
        return
    actor = actor_of(file.author)
    if not _passes(lab, re.sub("[-_.]+", " ", actor)):
        actor = "git:unknown"
    other = Lab(lab.context.acting_as(actor))
    try:
        status = _written(other, file, type_of(file.text) or (note.type if note is not None else "note"))
    except Refused as problem:
        if problem.code != "note_rejected":
            raise
        status = "rejected"
    except PathRefused:
        found.left_out.append({"path": _WITHHELD, "why": "its path is refused"})
        return
    except (UsageError, Conflict) as problem:
        found.left_out.append({"path": file.path, "why": problem.message})
        return
    found.notes.append({"path": file.path, "actor": actor, "status": status})


def _written(other: Lab, file: PushedFile, type: str) -> str:
    key = f"git.pushed {file.commit} {file.path}"
    message = f"pushed in {file.commit[:10]}"
    try:
        answer = other.memory.write(file.path, file.text, type=type, message=message, idempotency_key=key)
    except UsageError as problem:
        if problem.code != "unknown_note_type":
            raise
        answer = other.memory.write(file.path, file.text, type="note", message=message, idempotency_key=key)
    return answer["status"]


def _unfit(file: PushedFile) -> str | None:
    """Returns why a file can be no note, None if it may be one."""
    try:
        name = paths.check_path(file.path)
    except paths.PathRefused:
        return "its path can be no note's"
    if name != file.path:
        return "its path is another spelling of a note's"
    if file.content is None:
        return f"it is larger than {_LARGEST // 1024} KiB"
    if "\0" in file.text or file.text.encode() != file.content:
        return "it is not text in UTF-8"
    return None if file.text.strip() else "it is empty"


def actor_of(author: str) -> str:
    """Returns the actor of a commit's author: of its letters, digits, dots and dashes, at most 40."""
    plain = unicodedata.normalize("NFKD", author[:1000]).encode("ascii", "ignore").decode()
    return f"git:{re.sub('[^A-Za-z0-9._-]+', '-', plain)[:_LONGEST_NAME].strip('-._') or 'unknown'}"


def type_of(text: str) -> str | None:
    """Returns the `type:` of the front matter that a text begins with, None without one."""
    first, *rest = text[:8192].split("\n", _HEAD_LINES)
    lines = [line.rstrip("\r") for line in rest]
    if first.rstrip("\r") != "---" or "---" not in lines:
        return None
    matches = (_TYPE.fullmatch(line) for line in lines[: lines.index("---")])
    return next((match.group(1) for match in matches if match is not None), None)


def _shown(lab: Lab, path: str) -> str:
    """Returns a path for the event; without its words where a gate does not pass them."""
    return printable(path[:200]) if _passes(lab, re.sub(r"[-_./]+", " ", path)) and _passes(lab, path) else _WITHHELD


def _passes(lab: Lab, text: str) -> bool:
    return lab.memory.scan(text[:4096], path="pushed")["outcome"] == "pass"
