"""The memory department: one way in for every note, through the gates; git is a projection of its intents."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from perpetual.errors import NotFound, PluginError, Refused, UsageError, nearest, unknown
from perpetual.lab.context import Context
from perpetual.lab.rights import is_agent
from perpetual.records import Listing, Note, Verdict, from_json
from perpetual.slots.gate import OUTCOMES, Gate, GateVerdict, Provenance
from perpetual.slots.memory import Memory, NoteCommit, PathRefused
from perpetual.slots.store import Document, Transaction
from perpetual.toolkit.steps import step

__all__ = ["BEHAVIOUR_TYPES", "STATUSES", "TYPES", "Hit", "Notes"]

STATUSES = ("candidate", "quarantined", "promoted", "rejected", "expired")
# These change how an agent behaves, so they are shown only once promoted.
BEHAVIOUR_TYPES = ("skill_card", "tool_policy", "critic_calibration", "user_preference", "purpose_contract")
TYPES = ("note", "episodic_case", "failure_pattern", *BEHAVIOUR_TYPES)
_LIMIT_BYTES = 256 * 1024
_FLUSH_AT_ONCE = 50  # fewer than the commits among which a memory knows its intents again
_MESSAGE_LIMIT_BYTES = 4 * 1024
_MOST_WORDS = 32  # of a query
_EXCERPT = 160  # characters
_STATUS_OF = {"pass": "candidate", "quarantine": "quarantined", "reject": "rejected"}
_WITHHELD = "(withheld: a gate failed, so nobody knows whether this text holds a secret)"


class Hit(NamedTuple):
    """A note that a search has found, and the line that says why."""

    note: Note
    excerpt: str


class Notes:
    """Writing, reading and listing notes."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    @property
    def _memory(self) -> Memory:
        memory: Memory = self._ctx.part("memory", path=self._ctx.folder / "memory.git")
        return memory

    def _gates(self) -> list[tuple[str, Gate]]:
        """The gates that serve; refuses to go on without the required ones."""
        gates: list[tuple[str, Gate]] = self._ctx.parts("gate")
        names = {name for name, _ in gates} | {name.rpartition("/")[2] for name, _ in gates}
        for required in self._ctx.config.methodology["required_gates"]:
            if required not in names:
                raise PluginError(
                    f"the gate {required!r} is required and is not active; no note is written without it",
                    hint="perpetual plugins list says why; required_gates in methodology.yaml names the gates",
                    code="gate_missing",
                )
        return gates

    def judge(self, text: str, provenance: Provenance) -> tuple[Verdict, str]:
        """What the gates say, the most severe one first; and the text with its secrets taken out.

        A gate that raises counts as `reject`, with its error as the finding; the text is then withheld, since what
        that gate would have taken out is not known.
        """
        worst, clean, failed = GateVerdict("pass"), text, False
        findings: list[dict[str, Any]] = []
        for name, gate in self._gates():
            try:
                verdict = gate.scan(text, provenance)
                redacted = gate.redact(clean, verdict)
            except Exception as problem:  # noqa: BLE001 - fail closed: whatever a gate raises is a refusal, and is shown
                verdict = GateVerdict("reject", "gate_failed")
                redacted, failed = clean, True
                # Only the error's type: its words may quote the text.
                finding = {"rule": name, "span": [0, 0], "excerpt": f"the gate failed: {type(problem).__name__}"}
                findings.append(finding)
            clean = redacted
            findings += [
                {"rule": item.rule, "span": [item.start, item.end], "excerpt": item.excerpt}
                for item in verdict.findings
            ]
            if OUTCOMES.index(verdict.outcome) > OUTCOMES.index(worst.outcome):
                worst = verdict
        verdict_of_all = Verdict(worst.outcome, worst.outcome == "reject", worst.category, tuple(findings))
        return verdict_of_all, _WITHHELD if failed else clean

    def _judge_all(self, path: str, type: str, content: str, message: str) -> tuple[Verdict, str, str]:
        """The graver verdict of content and commit message, and both without secrets. The path must be clean."""
        provenance = Provenance(path, type, self._ctx.actor)
        of_path, _ = self.judge(path, provenance)
        if of_path.outcome != "pass":
            raise PathRefused(f"the note's path is refused: {of_path.category}", hint="a path is shown to everybody")
        verdict, clean = self.judge(content, provenance)
        of_message, clean_message = self.judge(message, provenance)
        graver = max(verdict, of_message, key=lambda one: OUTCOMES.index(one.outcome))
        findings = [{"part": "content", **one} for one in verdict.findings]
        findings += [{"part": "message", **one} for one in of_message.findings]
        return Verdict(graver.outcome, graver.blocked, graver.category, tuple(findings)), clean, clean_message

    def write(
        self,
        path: str,
        content: str,
        *,
        type: str = "note",
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Writes a note: judged, kept in the store, then committed to git.

        Returns:
            `{path, status, verdict, commit}`; `commit` is None if the note was not accepted.

        Raises:
            PathRefused: for a path that may not be.
            UsageError: for an unknown type, an empty or an oversized text, or one that UTF-8 cannot carry.
            Refused: if a gate rejects it; the note is stored with status `rejected` for audit, and `data` of the
                error is the answer that a pass would have had.
        """
        if type not in TYPES:
            raise UsageError(unknown("type of note", type, TYPES))
        if not content.strip():
            raise UsageError("a note needs a text")
        _check_size("the note", content, _LIMIT_BYTES)
        _check_size("the message", message or "", _MESSAGE_LIMIT_BYTES)
        name = self._memory.normalise(path)
        verdict, clean, clean_message = self._judge_all(name, type, content, message or "")
        blob = self._memory.blob_id(clean)
        with self._ctx.store.transaction() as tx:
            made = self._ctx.recall(tx, idempotency_key, "note")
            if made is None:
                made = str(self._record(tx, name, type, verdict, clean, blob, clean_message))
                self._ctx.remember(tx, idempotency_key, "note", made)
        step("note:intent")
        self.flush()
        return self._answer(made)

    def _answer(self, number: str) -> dict[str, Any]:
        """What a write answers, from its row in the ledger of verdicts; raises Refused for a rejected one."""
        row = self._ctx.store.get("verdict", number)
        assert row is not None, number
        verdict = row.body
        status, blocked = _STATUS_OF[verdict["outcome"]], verdict["outcome"] == "reject"
        note = self._ctx.store.get("note", verdict["path"])
        ours = note is not None and note.body["blob"] == verdict["blob"] and not blocked
        answer = {
            "path": verdict["path"],
            "status": status,
            "verdict": {
                "outcome": verdict["outcome"],
                "blocked": blocked,
                "category": verdict["category"],
                "findings": verdict["findings"],
            },
            "commit": note.body["commit"] if note is not None and ours else None,
        }
        if blocked:
            raise Refused(
                f"the note {verdict['path']} was rejected: {verdict['category']}",
                hint="the findings say which words; it is kept with status rejected and shown to no agent",
                code="note_rejected",
                data=answer,
            )
        return answer

    def _record(
        self,
        tx: Transaction,
        path: str,
        type: str,
        verdict: Verdict,
        content: str,
        blob: str,
        message: str,
    ) -> int:
        """Writes verdict, note and intent; answers the verdict's number."""
        earlier = tx.get("note", path)
        status, now = _STATUS_OF[verdict.outcome], self._ctx.now()
        row = {
            "path": path,
            "outcome": verdict.outcome,
            "category": verdict.category,
            "findings": [dict(item) for item in verdict.findings],
            "blob": blob,
            "actor": self._ctx.actor,
            "time": now,
            # A rejected text lives here alone, for audit; an accepted one in its intent.
            "content": content if status == "rejected" else None,
        }
        number = tx.append("verdict", row)
        body = {
            "path": path,
            "type": type,
            "status": status,
            # Titles are listed for agents, so a text that did not pass gives none.
            "title": _title(content, path) if status == "candidate" else earlier.body["title"] if earlier else path,
            "actor": self._ctx.actor,
            "commit": earlier.body["commit"] if earlier else None,
            "blob": blob,
            "updated_at": now,
            # The text that agents are shown: a bad new version leaves the good old one exposed.
            "exposed": earlier.body["exposed"] if earlier else None,
        }
        if status != "rejected":
            intent = {
                "path": path,
                "content": content,
                "blob": blob,
                "message": message or f"{'change' if earlier else 'add'} {path}",
                "author": self._ctx.actor,
                "when": now,
            }
            body["intent"] = tx.append("intent", intent)
        if status == "candidate" and type not in BEHAVIOUR_TYPES:
            body["exposed"] = body["intent"]
        tx.put("note", path, body)
        self._ctx.emit(tx, "note_written", path, {"status": status, "type": type, "blob": blob})
        return number

    def flush(self) -> int:
        """Commits the intents that git does not hold yet, in order, and answers how many.

        A crash between the commit and its note in the store is harmless: git's trailer says that it is done. A
        memory that was lost is written anew from its first intent.
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
    def _flushed(tx: Transaction) -> int:
        """The number of the last intent that git is known to hold."""
        cursor = tx.get("setting", "memory_cursor")
        return int(cursor.body["intent"]) if cursor else 0

    def _flush_some(self) -> int:
        """Commits the next few intents in one transaction of the store, and answers how many."""
        with self._ctx.store.transaction() as tx:
            rows = tx.rows("intent", since=self._flushed(tx))[:_FLUSH_AT_ONCE]
            if rows:
                self._ctx.store.settle()  # another process's intent must not be in git before it is on the disk
            for row in rows:
                body = row.body
                commit = self._memory.commit(
                    intent=row.number,
                    path=body["path"],
                    content=body["content"],
                    message=body["message"],
                    author=body["author"],
                    when=body["when"],
                )
                step("note:committed")
                note = tx.get("note", body["path"])
                if note is not None and note.body.get("intent") == row.number:
                    tx.put("note", body["path"], {**note.body, "commit": commit})
                tx.put("setting", "memory_cursor", {"intent": row.number})
                self._ctx.emit(tx, "note_committed", body["path"], {"commit": commit, "intent": row.number})
        return len(rows)

    def get(self, path: str) -> Note:
        """The note's record.

        Raises:
            NotFound: naming the nearest paths.
        """
        return from_json(Note, self._need(path).body)

    def _need(self, path: str) -> Document:
        name = self._memory.normalise(path)
        found = self._ctx.store.get("note", name)
        if found is None:
            near = nearest(name, [document.id for document in self._ctx.store.find("note")])
            raise NotFound(
                f"no note {name}", hint=f"the nearest: {', '.join(near)}" if near else "perpetual memory list"
            )
        return found

    def read(self, path: str, *, exposed_only: bool | None = None) -> str:
        """The note's text: the newest accepted version, or (for agents) the one that may be shown.

        Args:
            exposed_only: whether the reader is an agent; by default as the lab's actor is one.

        Raises:
            NotFound: if there is no such note, or none that may be shown.
        """
        document = self._need(path)
        if exposed_only is None:
            exposed_only = is_agent(self._ctx.actor)
        intent = document.body["exposed"] if exposed_only else document.body.get("intent")
        if exposed_only and not self.is_exposed(document):
            intent = None
        if intent is None and not exposed_only:
            rows = [row for row in self._ctx.store.find("verdict", path=document.id) if row.body["content"]]
            if rows:
                return str(rows[-1].body["content"])
        row = self._ctx.store.get("intent", str(intent)) if intent is not None else None
        if row is None:
            raise NotFound(f"{document.id} is {document.body['status']} and is not shown", hint="perpetual memory list")
        return str(row.body["content"])

    def is_exposed(self, document: Document) -> bool:
        """Whether agents may be shown (a version of) the note, as `memory_exposure` says."""
        if self._ctx.config.methodology["memory_exposure"] == "promoted":
            return bool(document.body["status"] == "promoted")
        return document.body["exposed"] is not None

    def list(
        self, *, folder: str = "", status: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Listing[Note]:
        """A page of notes below `folder`, oldest first."""
        equals: dict[str, Any] = {}
        if status is not None:
            if status not in STATUSES:
                raise UsageError(unknown("status", status, STATUSES))
            equals["status"] = status
        prefix = folder.strip("/")
        if prefix:
            prefix = self._memory.normalise(f"{prefix}/note.md").removesuffix("/note.md")
        else:
            page = self._ctx.store.page("note", limit=limit, cursor=cursor, **equals)
            return Listing(tuple(from_json(Note, item.body) for item in page.items), page.next_cursor)
        found = [item for item in self._ctx.store.find("note", **equals) if item.id.startswith(prefix + "/")]
        if cursor is not None and not cursor.isdecimal():
            raise UsageError(f"{cursor!r} is no cursor", hint="use the next_cursor of the page before")
        start = int(cursor) if cursor is not None else 0
        rest = [item for item in found if item.number > start]
        items = tuple(from_json(Note, item.body) for item in rest[:limit])
        return Listing(items, str(rest[limit - 1].number) if len(rest) > limit else None)

    def search(self, query: str, *, limit: int = 20, cursor: str | None = None) -> Listing[Hit]:
        """Notes that hold words of the query, in their path, title or text: most words first, then the newest.

        A reader that is an agent finds what it may be shown, and nothing else.

        Raises:
            UsageError: for a query without a word, or a cursor that is none.
        """
        words = [*dict.fromkeys(re.findall(r"\w+", query.casefold()))][:_MOST_WORDS]
        if not words:
            raise UsageError("a search needs a word", hint='for example "warm-up"')
        if cursor is not None and not cursor.isdecimal():
            raise UsageError(f"{cursor!r} is no cursor", hint="use the next_cursor of the page before")
        for_agent = is_agent(self._ctx.actor)
        found: list[tuple[int, int, Hit]] = []
        for document in self._ctx.store.find("note"):
            if for_agent and not self.is_exposed(document):
                continue
            intent = document.body["exposed"] if for_agent else document.body.get("intent")
            row = self._ctx.store.get("intent", str(intent)) if intent is not None else None
            if row is None:
                continue
            text: str = row.body["content"]
            place = f"{document.id}\n{document.body['title']}\n{text}".casefold()
            hits = sum(word in place for word in words)
            if hits:
                hit = Hit(from_json(Note, document.body), _excerpt(text, words))
                found.append((-hits, -row.number, hit))
        found.sort(key=lambda item: item[:2])
        start = int(cursor or 0)
        page = tuple(hit for _, _, hit in found[start : start + limit])
        return Listing(page, str(start + limit) if len(found) > start + limit else None)

    def history(self, path: str, *, limit: int = 50) -> Sequence[NoteCommit]:
        """The note's versions in git, newest first."""
        return [*self._memory.history(self._need(path).id, limit)]

    def counts(self) -> dict[str, int]:
        """How many notes there are of each status."""
        counts: dict[str, int] = {}
        for document in self._ctx.store.find("note"):
            counts[document.body["status"]] = counts.get(document.body["status"], 0) + 1
        return counts


def _excerpt(text: str, words: Sequence[str]) -> str:
    """The first line that holds one of the words, or the first line of all, cut to a length that can be listed."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = next((line for line in lines if any(word in line.casefold() for word in words)), lines[0] if lines else "")
    return line if len(line) <= _EXCERPT else line[: _EXCERPT - 3] + "..."


def _check_size(what: str, text: str, most_bytes: int) -> None:
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as problem:
        raise UsageError(f"{what} is not UTF-8", hint="write it as UTF-8 text") from problem
    if size > most_bytes:
        raise UsageError(f"{what} is larger than {most_bytes // 1024} KiB", hint="split it, or link to a file")


def _title(content: str, path: str) -> str:
    for line in content.splitlines():
        text = line.strip().lstrip("#").strip()
        if text:
            return text[:120]
    return path
