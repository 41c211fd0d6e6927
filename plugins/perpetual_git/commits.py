"""The contents of a commit: author, time, message with its trailer, and what is read of them again.

Only the repository and its tests import this. Nothing here reads or writes a file.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from datetime import UTC, datetime

from dulwich.objects import Commit, ObjectID

from perpetual_git.paths import UNPRINTABLE

__all__ = ["Entry", "draft", "entry", "identity", "intent_of", "is_deed", "message_of", "own_intent"]

TRAILER = "Perpetual-Intent"
COMMITTER = b"Perpetual <memory@perpetual>"
LATEST_UNIX_S = 253_402_300_799  # 9999-12-31T23:59:59Z, the last second a datetime can hold


@dataclass(frozen=True)
class Entry:
    """One change of a note: the commit that made it, and what the note was afterwards.

    `blob` is None where the commit deleted the note. `author` is the author's name without the address;
    `when` the author's time in UTC; `message` the whole message, trailer included.
    """

    commit: str
    when: datetime
    author: str
    message: str
    blob: str | None


def intent_of(message: str) -> int | None:
    """Returns the number in the trailer that ends `message`, or None.

    Only the last line counts: a note's own text may quote the trailer further up.
    """
    last = message.rstrip().rpartition("\n")[2]
    found = re.fullmatch(rf"{TRAILER}: ([1-9][0-9]{{0,18}})", last)
    return int(found.group(1)) if found else None


def message_of(text: str, note: str, intent: int) -> bytes:
    """Returns the text without what git cannot hold, or the note's path for an empty one, and the trailer."""
    lines = [line.rstrip() for line in text.replace("\0", "").splitlines()]
    body = "\n".join(lines).strip() or note
    return f"{body}\n\n{TRAILER}: {intent}\n".encode("utf-8", "replace")


def identity(actor: str) -> bytes:
    """Returns `name <actor@perpetual>`, without what git parses an identity by or drops at a name's ends."""
    printable = "".join(" " if unicodedata.category(c) in UNPRINTABLE else c for c in actor)
    name = " ".join(re.sub(r"[<>]", "", printable).split())[:100].strip(" .,:;\"'\\") or "unknown"
    address = re.sub(r"[^\w.+:-]+", "-", name).strip("-.") or "unknown"
    return f"{name} <{address}@perpetual>".encode()


def _author_name(ident: bytes) -> str:
    return ident.partition(b"<")[0].strip().decode("utf-8", "replace")


def own_intent(commit: Commit) -> int | None:
    """Returns the intent of a commit made here. A cherry-pick copies the trailer, but has its own committer."""
    return intent_of(commit.message.decode("utf-8", "replace")) if commit.committer == COMMITTER else None


def is_deed(commit: Commit, made: Commit) -> bool:
    """Returns whether a commit is what was made for an intent: the same words, by the same author, at the same time."""
    keys = ("message", "author", "author_time", "committer")
    return all(getattr(commit, key) == getattr(made, key) for key in keys)


def draft(message: bytes, author: bytes, when_unix_s: int) -> Commit:
    """Makes a commit, still without tree and parents."""
    commit = Commit()
    commit.author = author
    commit.committer = COMMITTER
    commit.author_time = commit.commit_time = when_unix_s
    commit.author_timezone = commit.commit_timezone = 0
    commit.message = message
    return commit


def entry(commit_id: ObjectID, commit: Commit, blob: str | None) -> Entry:
    """Returns what a commit did to a note, as an entry of its history."""
    when_unix_s = min(max(int(commit.author_time), 0), LATEST_UNIX_S)
    return Entry(
        commit=commit_id.decode(),
        when=datetime.fromtimestamp(when_unix_s, UTC),
        author=_author_name(commit.author),
        message=commit.message.decode("utf-8", "replace"),
        blob=blob,
    )
