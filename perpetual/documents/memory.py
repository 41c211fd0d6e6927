"""Notes, and what the gates say of them."""

from __future__ import annotations

from typing import NotRequired

from perpetual.documents import TypedDict


class TextFinding(TypedDict):
    """What a gate saw: characters `span[0]` to `span[1]` of a text."""

    rule: str
    span: list[int]
    excerpt: str


class Finding(TextFinding):
    """What a gate saw of a note's `part`, a content or a message."""

    part: str


class VerdictDocument(TypedDict):
    """What the gates say: `pass`, `quarantine` or `reject`; `blocked` of a text that does not enter as it was given."""

    outcome: str
    blocked: bool
    category: str | None
    findings: list[Finding]


class MemoryWrite(TypedDict):
    """What became of a note; `commit` is null if it was not accepted."""

    path: str
    status: str
    verdict: VerdictDocument
    commit: str | None


class StageSaid(TypedDict):
    """What a promotion stage decided, and on what."""

    decision: str
    reason: str
    evidence: dict[str, object]


class MemoryDecision(TypedDict):
    """What was decided about the version `blob` of a note; `was` is its status before, `verdict` what the gates say.

    `evidence` is what promotion stages decided on, by their names; null for a decision of a person.
    """

    path: str
    type: str
    was: str
    status: str
    blob: str
    why: str
    dry_run: bool
    verdict: VerdictDocument
    evidence: dict[str, StageSaid] | None


class MemoryClone(TypedDict):
    """A clone of the memory: its folder, and how changes made there come back."""

    folder: str
    next: str


class NoteKeys(TypedDict):
    """What a list says of each note: the keys of the record `note`."""

    path: str
    type: str
    status: str
    title: str
    actor: str
    commit: str | None
    blob: str
    updated_at: str
    proven: bool


class NoteWaiting(NoteKeys):
    """An undecided note; `category` is the gates' word for it, null where they let it pass."""

    category: str | None
    is_shown: bool


class NoteVersion(TypedDict):
    """One commit of a note; `blob` is null where it removed the note."""

    commit: str
    when: str
    author: str
    message: str
    blob: str | None


class NoteHit(NoteKeys):
    """A note that a search found; `excerpt` is where its words stand."""

    excerpt: str


class NoteHistory(TypedDict):
    """A note's versions, newest first; `truncated` tells that there are older ones."""

    items: list[NoteVersion]
    next_cursor: str | None
    truncated: bool


class NoteText(TypedDict):
    """A note, with its text where it was asked for, and what promotion stages say of its newest version."""

    content: NotRequired[str]
    evidence: NotRequired[dict[str, StageSaid]]
