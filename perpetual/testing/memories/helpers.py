"""Helpers of the memories' suite: texts, paths and names to be tried, and what is asked of a memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ParamSpec, TypedDict, TypeVar, cast

from perpetual.errors import PerpetualError
from perpetual.slots.memory import Memory, PathRefused
from perpetual.testing.hostile import TEXTS

__all__ = [
    "Commit",
    "ALIKE",
    "AUTHORS",
    "BAD",
    "CONTENTS",
    "KNOWN_INTENTS",
    "MESSAGES",
    "ODD",
    "PATH",
    "PATIENCE_S",
    "PLAIN",
    "SEED",
    "SPELLINGS",
    "START",
    "Reopen",
    "files_of",
    "given_of",
    "ids_of",
    "answer_or_error",
    "put",
    "taken",
    "when_of",
    "whole",
]

P = ParamSpec("P")
T = TypeVar("T")


class Commit(TypedDict):
    """The arguments of `Memory.commit`."""

    intent: int
    path: str
    content: str
    message: str
    author: str
    when: str


Reopen = Callable[[], Memory]

PATH = "notes/a.md"
START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
PATIENCE_S = 30.0  # what is waited for comes at once; this only bounds a failing test
KNOWN_INTENTS = 60
SEED = 20260301  # of what is chosen at random
_MOST = 3000  # commits of a note: where a disk is quick, four processes make 2,000 before they are killed

CONTENTS: tuple[str, ...] = (
    "", " ", "\n", "no line end", "two\r\nDOS lines\r\n", "old\rMac", "blanks \t \nat the end  \n\n\n", "\ufeffmark",
    "nul \0 and bell \a", "größe 研究 \U0001f52d \u2028 \u202e", "e\u0301 and \u00e9", "---\na: 1\n---\n", "x" * 5000,
)  # fmt: skip
CONTENTS = (*CONTENTS, *(text for text in TEXTS if text not in CONTENTS))
LONG_MESSAGES = ("w" * 400, f"a subject of {'many ' * 40}words", "\n".join(f"line {n}: {'x' * 60}" for n in range(50)))
MESSAGES = ("", " \n", "two\nlines", "dos\r\nlines\r\n", "tab\t and nul \0", "größe 研究", "a\n\nPerpetual-Intent: 12",
            "-m --amend", "w" * 4000)  # fmt: skip
AUTHORS = ("", " ", "agent:codex", "Jörg <j@example.org>", "two\nlines", "研究者", "nul\0", "x" * 300)
PLAIN = ("a.md", "notes/a.md", "2026-11/r17.md", "Notes/With_Capitals-2/C.md", "deep/er/and/deep/er/still.md",
         f"{'f' * 40}/{'n' * 40}.md")  # fmt: skip
BAD = (
    "", ".", "/", "/etc/passwd", "/a.md", "//server/share.md", "C:/x.md", "c:x.md", "..", "../x.md", "../../etc/passwd",
    "a/../b.md", "a/../../x.md", "a/..", "a\\b.md", "..\\x.md", "nul\0.md", "a\nb.md", "tab\t.md", "\x1b[31m.md",
    "del\x7f.md", "rtl\u202e.md", "zero\u200bwidth.md", "line\u2028.md", "lone\udcff.md", ".git", ".git/config",
    ".GIT/x.md", "a/.git/hooks/x.md", ".gitmodules", "x.", "...", "a/.../b.md", "a./b.md", " a.md", "a.md ", "a /b.md",
    "a/ b.md", "x" * 256 + ".md", "語" * 100 + ".md", "a/" * 600 + "b.md",
)  # fmt: skip
# Each in several spellings, of which a memory may refuse all but the first; the last group has no plain one.
SPELLINGS = (
    ("notes/a.md", "./notes/a.md", "notes//a.md", "notes/./a.md", "notes/a.md/", "notes/a.md/."),
    ("caf\u00e9.md", "cafe\u0301.md"),
    ("\u00c5.md", "A\u030a.md", "\u212b.md"),
)
ODD = ("a", "a.b", "notes/", "a b.md", "100% done.md", "%2e%2e/x.md", "~/x.md", "-rf.md", "con.md", "a?.md", "NOTE.MD",
       ".hidden", ".hidden.md", "v1.2/x.md", "a.md/b.md", *(one for group in SPELLINGS for one in group))  # fmt: skip
ALIKE = ("a/b.md", "a_b.md", "a-b.md", "a__b.md", "a b.md", "ab.md", "a.b.md", "A/b.md", "a%2Fb.md", "b.md", "b/a.md",
         "a/b/a.md")  # fmt: skip


def when_of(intent: int) -> str:
    """Returns the time of an intent."""
    return (START + timedelta(minutes=intent)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def given_of(intent: int, content: str | None = None, path: str = PATH, **other: str) -> Commit:
    """Returns the arguments of `commit`, all of which follow from the intent unless they are said."""
    text = f"version {intent}\n" if content is None else content
    rest = {"message": f"message {intent}", "author": "agent:acme", "when": when_of(intent)}
    return cast("Commit", {"intent": intent, "path": path, "content": text, **rest, **other})


def put(memory: Memory, intent: int, content: str | None = None, path: str = PATH, **other: str) -> str:
    """Commits an intent and returns its commit."""
    return memory.commit(**given_of(intent, content, path, **other))


def ids_of(memory: Memory, path: str = PATH, limit: int = _MOST) -> list[str]:
    """Returns the commits of a note, newest first."""
    return [one.commit for one in memory.history(path, limit)]


def taken(memory: Memory, path: str) -> str | None:
    """Returns the path as the memory spells it, or None if it is refused."""
    try:
        return memory.normalise(path)
    except PathRefused:
        return None


def files_of(folder: Path) -> dict[str, bytes]:
    """Returns every file below, by its name; a link is no file and is not followed."""
    found = (Path(above, name) for above, _, names in os.walk(folder) for name in names)
    return {str(file.relative_to(folder)): file.read_bytes() for file in found if not file.is_symlink()}


def answer_or_error(what: str, deed: Callable[P, T], /, *given: P.args, **named: P.kwargs) -> T | PerpetualError:
    """Returns what the call answers; the error where it says that it cannot, in Perpetual's words."""
    try:
        return deed(*given, **named)
    except PerpetualError as problem:
        return problem
    except Exception as problem:
        raise AssertionError(f"{what}: it raised {problem!r}, which is no error of Perpetual") from problem


def whole(intent: int) -> str:
    """Returns a text of which half a write would show."""
    return f"version {intent}\n" * 400 if intent else ""
