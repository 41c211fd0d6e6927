"""`lab.memory`: one way in for every note, through the gates; git is a projection of its intents."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from perpetual.errors import Conflict, NotFound, PluginError, Refused, UsageError, nearest, unknown
from perpetual.lab.context import Context
from perpetual.lab.gates import Gates
from perpetual.lab.kinds import INTENT, NOTE, VERDICT, LabTransaction, NoteRow
from perpetual.lab.memory import promotion
from perpetual.lab.permissions import BEHAVIOUR_TYPES, PLAIN_TYPES, for_agent, person_only, shown_version
from perpetual.records import Listing, Note, Verdict, from_json, one_line
from perpetual.records.states import NOTE_STATES
from perpetual.slots.gate import DECISIONS, PromotionStage, StageVerdict, TextProvenance
from perpetual.slots.memory import Memory, NoteCommit
from perpetual.toolkit.contained import limited
from perpetual.toolkit.crashpoints import step
from perpetual.toolkit.jsoncopy import json_copy
from perpetual.toolkit.named_path import named_path
from perpetual.toolkit.reserved import known_name
from perpetual.toolkit.units import start_of

if TYPE_CHECKING:
    from perpetual.documents.memory import MemoryDecision, MemoryWrite, VerdictDocument
    from perpetual.lab import Lab

__all__ = ["STATUSES", "TYPES", "NoteHit", "Notes", "Waiting"]

STATUSES = NOTE_STATES
TYPES = (*PLAIN_TYPES, *BEHAVIOUR_TYPES)
_LIMIT_BYTES = 256 * 1024
_FLUSH_AT_ONCE = 50  # fewer than the commits among which a memory knows its intents again
_MESSAGE_LIMIT_BYTES = 4 * 1024
_LONGEST_AUTHOR = 160  # characters
_TYPE = re.compile(r"---\r?\n(?:(?!---)[^\n]*\n){0,99}?type:[ \t]*['\"]?([\w-]{1,80})")
_NEWEST = 100  # notes among which the nearest path is looked for
_MOST_GATED = 100  # versions whose words the gates are asked about at once
_WITHHELD = "(withheld: the gates have not passed it)"
_STATUS_OF = {"pass": "candidate", "quarantine": "quarantined", "reject": "rejected"}


class NoteHit(NamedTuple):
    """A note that a search has found, and the line that says why."""

    note: Note
    excerpt: str


class Waiting(NamedTuple):
    """An undecided note: the verdict of the gates on its newest version, and whether agents see one."""

    note: Note
    category: str | None
    is_shown: bool


class Notes:
    """Writing, reading, listing and promoting notes."""

    lab: Lab  # for the retriever; set by the lab

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._gates = Gates(ctx)

    @property
    def _memory(self) -> Memory:
        memory: Memory = self._ctx.part("memory")
        return memory

    def write(
        self, path: str, content: str, *, type: str | None = None, message: str | None = None,
        idempotency_key: str | None = None,
    ) -> MemoryWrite:  # fmt: skip
        """Writes a note: judged, kept in the store, then committed to git.

        Returns:
            `{path, status, verdict, commit}`; `commit` is None if the note was not accepted.

        Raises:
            PathRefused: for a path that may not be.
            UsageError: for an unknown type, an empty or an oversized text, or one that UTF-8 cannot carry, and for
                front matter that is of another type than `type` or that the type's form finds a problem in.
            Refused: if a gate rejects it; the note is stored with status `rejected` for audit, and `data` of the
                error is the answer that a pass would have had.
        """
        if not content.strip():
            raise UsageError("a note needs a text")
        _check_size("the note", content, _LIMIT_BYTES)
        type = self._typed(type, content)
        _check_size("the message", message or "", _MESSAGE_LIMIT_BYTES)
        name = self._memory.normalise(path)
        verdict, clean, clean_message = self._gates.judge_note(name, type, content, message or "")
        verdict = self._gates.in_record(self.lab, verdict, clean, TextProvenance(name, type, self._ctx.actor))
        blob = self._memory.blob_id(clean)
        with self._ctx.store.transaction() as tx:
            made = self._ctx.recall(tx, idempotency_key, "note")
            if made is None:
                made = str(self._record(tx, name, type, verdict, clean, blob, clean_message))
                self._ctx.remember(tx, idempotency_key, "note", made)
        step("note:intent")
        self.flush()
        return self._answer(made)

    def scan(self, text: str, *, path: str = "notes/scanned.md", type: str = "note") -> VerdictDocument:
        """Returns what the gates say of a text as if it were written as a note; nothing is recorded."""
        return promotion.verdict_on(self._ctx, self._gates, path, type, text)

    def _typed(self, type: str | None, content: str) -> str:
        """Returns the type of a note: as named, else by its front matter, else `note`; checks it by the type's form."""
        parts = self._ctx.parts("note_form") if "note_form" in self._ctx.registry.slots else []
        forms: dict[str, tuple[str, Any]] = {known_name("note_form", name): (name, form) for name, form in parts}
        found = _TYPE.match(content)
        said = found[1] if found else None
        if type is not None and said != type and said in (*TYPES, *forms):
            raise UsageError(f"the note's front matter has `type: {said}`, not {type}", hint=f"write it as {said}")
        if (type := type or said or "note") not in (*TYPES, *forms):
            raise UsageError(unknown("type of note", type, dict.fromkeys((*TYPES, *forms))), code="unknown_note_type")
        if said and type in forms:
            name, form = forms[type]
            try:
                wrong = limited(name, partial(form.problems, content))
            except Exception as problem:  # a form is a foreign part: without its word the note is not written
                raise PluginError(f"the form {name} failed: {problem.__class__.__name__}: {problem}") from problem
            if wrong:
                raise UsageError(f"{type}: {'; '.join(wrong)}"[:2_000], hint="its form: perpetual memory new --json")
        return type

    def _answer(self, number: str) -> MemoryWrite:
        """Returns what a write answers, from its row in the ledger of verdicts; raises Refused for a rejected one."""
        row = self._ctx.store.get(VERDICT, number)
        assert row is not None, number
        verdict = row.body
        status, is_rejected = _STATUS_OF[verdict["outcome"]], verdict["outcome"] == "reject"
        note = self._ctx.store.get(NOTE, verdict["path"])
        ours = note is not None and note.body["blob"] == verdict["blob"] and not is_rejected
        blocked = is_rejected or verdict["category"] == "secret_leak"
        answer: MemoryWrite = {
            "path": verdict["path"], "status": status,
            "verdict": {"outcome": verdict["outcome"], "blocked": blocked, "category": verdict["category"],
                        "findings": verdict["findings"]},
            "commit": note.body["commit"] if note is not None and ours else None,
        }  # fmt: skip
        if is_rejected:
            raise Refused(f"the note {verdict['path']} was rejected: {verdict['category']}", code="note_rejected",
                          hint="the findings say which words; it is kept with status rejected and shown to no agent",
                          data=answer)  # fmt: skip
        return answer

    def _record(
        self, tx: LabTransaction, path: str, type: str, verdict: Verdict, content: str, blob: str, message: str
    ) -> int:
        """Writes verdict, note and intent; answers the verdict's number."""
        earlier = tx.get(NOTE, path)
        promoted = earlier.body.get("promoted") if earlier else None
        if earlier and promoted is not None and earlier.body["type"] != type:
            raise Conflict(f"{path} was promoted as {earlier.body['type']}, and cannot become {type}",
                           hint="write it elsewhere, or a person takes it back: perpetual memory reject")  # fmt: skip
        status, now = _STATUS_OF[verdict.outcome], self._ctx.now()
        row = {
            "path": path, "outcome": verdict.outcome, "category": verdict.category, "blob": blob, "time": now,
            "findings": [dict(item) for item in verdict.findings], "actor": self._ctx.actor,
            # A rejected text lives here alone, for audit; an accepted one in its intent.
            "content": content if status == "rejected" else None,
        }  # fmt: skip
        number = tx.append(VERDICT, row)
        title = earlier.body["title"] if earlier else path
        if status == "candidate" and promoted is None:
            title = promotion.title_of(content, path)
        body = {
            "path": path,
            "type": type,
            "status": status,
            # Titles are listed for agents, so a text that did not pass gives none, nor one beside a promoted one.
            "title": title,
            "actor": self._ctx.actor,
            "commit": earlier.body["commit"] if earlier else None,
            "blob": blob,
            "updated_at": now,
            # The versions that agents may be shown, by their intents: a bad new one leaves the good old one exposed.
            "exposed": earlier.body["exposed"] if earlier else None,
            "promoted": promoted,
            "earlier": earlier.body.get("earlier", []) if earlier else [],
            "proven": bool(earlier and earlier.body.get("proven")),  # of the promoted version
        }
        if status != "rejected":
            message = message or f"{'change' if earlier else 'add'} {path}"
            intent = {"path": path, "content": content, "blob": blob, "message": message, "author": self._ctx.actor,
                      "when": now}  # fmt: skip
            body["intent"] = tx.append(INTENT, intent)
        if status == "candidate" and type in PLAIN_TYPES:
            body["exposed"] = body["intent"]
        tx.put(NOTE, path, body)
        self._ctx.emit(tx, "note_written", path, {"status": status, "type": type, "blob": blob})
        return number

    def flush(self) -> int:
        """Commits the intents that git does not hold yet, in order, and answers how many; all of them if it was lost.

        A crash between the commit and its note in the store is harmless: git's trailer says that it is done.
        """
        store = self._ctx.store
        if store.count("intent") and self._memory.is_lost():
            with store.transaction() as tx:
                # Durable before anything is written: a rebuilding that is cut off goes on from here.
                if self._flushed(tx) and self._memory.is_lost():
                    tx.put("setting", "memory_cursor", {"intent": 0})
        done = 0
        while (cursor := store.get("setting", "memory_cursor")) is None or cursor.body["intent"] < store.count(
            "intent"
        ):
            some = self._flush_some()
            if not some:
                break
            done += some
        return done

    @staticmethod
    def _flushed(tx: LabTransaction) -> int:
        """Returns the number of the last intent that git is known to hold."""
        cursor = tx.get("setting", "memory_cursor")
        return int(cursor.body["intent"]) if cursor else 0

    def _flush_some(self) -> int:
        """Commits the next few intents in one transaction of the store, and answers how many."""
        with self._ctx.store.transaction() as tx:
            rows = tx.rows(INTENT, since=self._flushed(tx), limit=_FLUSH_AT_ONCE)
            if rows:
                self._ctx.store.settle()  # another process's intent must not be in git before it is on the disk
            for row in rows:
                body = row.body
                said = {key: body[key] for key in ("path", "content", "message", "author", "when")}
                commit = self._memory.commit(intent=row.number, **said)
                step("note:committed")
                note = tx.get(NOTE, body["path"])
                if note is not None and note.body.get("intent") == row.number:
                    tx.put(NOTE, body["path"], {**note.body, "commit": commit})
                tx.put("setting", "memory_cursor", {"intent": row.number})
                self._ctx.emit(tx, "note_committed", body["path"], {"commit": commit, "intent": row.number})
        return len(rows)

    def get(self, path: str, *, exposed_only: bool = False) -> Note:
        """Returns the note's record, or with the state of the version that agents are shown. Raises NotFound."""
        return self._told(self._need(path), exposed_only=exposed_only)

    def _told(self, document: NoteRow, *, exposed_only: bool = False) -> Note:
        """Returns the note's record; to an agent that may not see its text, without the text's title."""
        note, shown = from_json(Note, document.body), self._shown(document)
        if shown is None or not exposed_only:
            return replace(note, title=note.path) if shown is None and for_agent(self._ctx) else note
        said = self._ctx.need(INTENT, str(shown)).body
        return replace(note, status="promoted" if shown == document.body.get("promoted") else "candidate",
                       blob=said["blob"], actor=said["author"], updated_at=said["when"])  # fmt: skip

    def _need(self, path: str) -> NoteRow:
        name = self._memory.normalise(path)
        found = self._ctx.store.get(NOTE, name)
        if found is None:
            newest = self._ctx.store.page(NOTE, limit=_NEWEST, newest_first=True).items
            near = ", ".join(nearest(name, [document.id for document in newest]))
            raise NotFound(f"no note {name}", hint=f"the nearest: {near}" if near else "perpetual memory list")
        return found

    def read(self, path: str, *, exposed_only: bool | None = None) -> str:
        """Returns the note's text: the newest accepted version, or (for agents) the one that may be shown.

        Args:
            exposed_only: the version that agents may be shown, or the newest accepted one. By default as the lab's
                actor is an agent, which then reads no note that a withholder names.

        Raises NotFound if there is no such note, or none that may be shown; `withheld` is its code for a withheld one.
        """
        document = self._need(path)
        if exposed_only is None and (exposed_only := for_agent(self._ctx)):
            self._check_offered(document)
        intent = self._shown(document) if exposed_only else document.body.get("intent")
        if intent is None and not exposed_only:
            rows = [row for row in self._ctx.store.find(VERDICT, path=document.id) if row.body["content"]]
            if rows:
                return str(rows[-1].body["content"])
        row = self._ctx.store.get(INTENT, str(intent)) if intent is not None else None
        if row is None:
            raise NotFound(f"{document.id} is {document.body['status']} and is not shown", hint="perpetual memory list")
        return str(row.body["content"])

    def _check_offered(self, document: NoteRow) -> None:
        """Raises NotFound where a part of the slot `withholder` names the note; its reason goes through the gates."""
        path = document.id
        for name, part in self._ctx.parts("withholder") if "withholder" in self._ctx.registry.slots else ():
            found: object = limited(name, partial(part.withheld, self.lab, [path]))
            if not isinstance(found, Mapping):
                raise PluginError(f"the withholder {name} answered no reasons", hint="perpetual plugins check")
            if path in found:
                # A line for each part: a gate lets words pass that another's words introduce.
                of = TextProvenance(path, document.body["type"], self._ctx.actor)
                verdict, why = self._gates.judge(one_line(str(found[path])).replace(": ", ":\n"), of)
                because = f": {one_line(why)}" if verdict.outcome == "pass" else ""
                raise NotFound(f"{path} is not shown to agents now{because}", code="withheld",
                               hint="a person may read it, and decide on it")  # fmt: skip

    def _shown(self, document: NoteRow) -> int | None:
        return shown_version(document.body, self._ctx.config.methodology)

    def promote(self, path: str, why: str, *, blob: str | None = None, dry_run: bool = False) -> MemoryDecision:
        """Shows agents the newest accepted version from now on. The gates are asked again, and can only reject it.

        Args:
            blob: promote this version and no other, as `memory list --json` names it; a part of its beginning will do.

        Raises:
            UsageError: without a reason.
            Conflict: for a note that has no version to vouch for, or another one than `blob`.
            Refused: if a gate now rejects the text.
            NotPermitted: under an agent's shell, whether or not there is such a note.
        """
        person_only(self._ctx, "promoting a note")
        return promotion.promote(self._ctx, self._gates, self._need(path), why, blob=blob, dry_run=dry_run)

    def reject(self, path: str, why: str, *, blob: str | None = None) -> MemoryDecision:
        """Hides the newest version from agents; one that was promoted before it is shown (again).

        Args:
            blob: reject this version and no other; where the newest is rejected already, the one that agents are shown.

        Raises:
            NotPermitted: for a promoted version under an agent's shell: what a person vouched for, a person takes back.
            UsageError: without a reason.
            Conflict: if it is rejected already, or another one than `blob`.
        """
        return promotion.reject(self._ctx, self._gates, self._need(path), why, blob=blob)

    def decide(self, path: str, *, dry_run: bool = False) -> MemoryDecision:
        """Does with the newest version of the note as the promotion stages say; without evidence it stays as it is.

        `evidence` of the answer is what each stage said. A note that a stage promotes is proven.

        Raises:
            Conflict: for a note without an accepted text.
        """
        row = self._need(path)
        stages = [(name, partial(self._asked, name, stage, row)) for name, stage in self._ctx.parts("promotion_stage")]
        return promotion.decide(self._ctx, self._gates, row, stages, dry_run=dry_run)

    def _asked(self, name: str, stage: PromotionStage, row: NoteRow, text: str) -> StageVerdict:
        try:
            said: object = limited(name, partial(stage.judge, self.lab, from_json(Note, row.body), text))
            if not isinstance(said, StageVerdict) or said.decision not in DECISIONS:
                raise TypeError("it answered no decision")
            return replace(said, evidence=json_copy(dict(said.evidence), "the evidence of a stage"))
        except Exception as problem:  # noqa: BLE001 - a stage may raise anything: the note stays as it is
            return StageVerdict("wait", f"the stage failed: {type(problem).__name__}: {one_line(str(problem))}")

    def queue(self, *, limit: int = 100, cursor: str | None = None) -> Listing[Waiting]:
        """Returns a page of the undecided notes, oldest first. Raises UsageError for a cursor that is none."""
        store = self._ctx.store
        start = start_of(cursor)
        found = [note for status in ("candidate", "quarantined") for note in store.find(NOTE, status=status)]
        rest = sorted((note for note in found if note.number > start), key=lambda note: note.number)
        page = []
        for note in rest[:limit]:
            said = store.find(VERDICT, path=note.id)[-1].body
            page.append(Waiting(self._told(note), said["category"], self._shown(note) is not None))
        return Listing(tuple(page), str(rest[limit - 1].number) if len(rest) > limit else None)

    def list(
        self, *, folder: str = "", status: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Listing[Note]:
        """Returns a page of notes below `folder`, oldest first; of every status where `status` is None."""
        if status is not None and status not in STATUSES:
            raise UsageError(unknown("status", status, STATUSES))
        equals: dict[str, Any] = {} if status is None else {"status": status}
        prefix = folder.strip("/")
        if prefix:
            prefix = self._memory.normalise(f"{prefix}/note.md").removesuffix("/note.md")
        else:
            page = self._ctx.store.page(NOTE, limit=limit, cursor=cursor, **equals)
            return Listing(tuple(map(self._told, page.items)), page.next_cursor)
        found = [item for item in self._ctx.store.find(NOTE, **equals) if item.id.startswith(prefix + "/")]
        start = start_of(cursor)
        rest = [item for item in found if item.number > start]
        items = tuple(map(self._told, rest[:limit]))
        return Listing(items, str(rest[limit - 1].number) if len(rest) > limit else None)

    def search(self, query: str, *, limit: int = 20, cursor: str | None = None) -> Listing[NoteHit]:
        """Returns the notes that hold words of the query, as the slot `retriever` ranks them.

        A reader that is an agent finds what it may be shown, and nothing else.

        Raises:
            UsageError: for a query without a word, or a cursor that is none.
            PluginError: where no retriever is in force.
        """
        if "retriever" not in self._ctx.registry.slots:
            raise PluginError("notes cannot be searched: no retriever is in force", hint="perpetual plugins list")
        found: Listing[NoteHit] = self._ctx.part("retriever").search(self.lab, query, limit=limit, cursor=cursor)
        return found

    def history(self, path: str, *, limit: int = 50) -> Sequence[NoteCommit]:
        """Returns the note's versions, newest first; to agents with the authors and messages that the gates pass."""
        document = self._need(path)
        found = self._memory.history(document.id, limit)
        if not for_agent(self._ctx):
            return [*found]
        provenance = TextProvenance(document.id, document.body["type"], self._ctx.actor)
        return [self._gated(version, provenance) if place < _MOST_GATED else _withheld(version)
                for place, version in enumerate(found)]  # fmt: skip

    def clone(self, folder: str | Path) -> str:
        """Copies the memory into a new folder as a person can edit it, which shows texts that agents are not shown.

        Returns how its changes come back. Raises UsageError where the memory has no such copy, NotPermitted for agents.
        """
        person_only(self._ctx, "cloning the memory")
        self.flush()
        return self._memory.clone(named_path(folder))

    def _gated(self, version: NoteCommit, provenance: TextProvenance) -> NoteCommit:
        """Returns a version with words that the gates pass, or without words."""
        author, message = version.author[:_LONGEST_AUTHOR], version.message[:_MESSAGE_LIMIT_BYTES]
        verdict, clean = self._gates.judge(f"{author}\n{message}", provenance)
        if verdict.outcome != "pass":
            return _withheld(version)
        author, _, message = clean.partition("\n")
        return replace(version, author=author, message=message)


def _withheld(version: NoteCommit) -> NoteCommit:
    return replace(version, author=_WITHHELD, message=_WITHHELD)


def _check_size(what: str, text: str, most_bytes: int) -> None:
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as problem:
        raise UsageError(f"{what} is not UTF-8", hint="write it as UTF-8 text") from problem
    if size > most_bytes:
        raise UsageError(f"{what} is larger than {most_bytes // 1024} KiB", hint="split it, or link to a file")
