"""`AgentMemory(lab)`: what agents keep for long, by scope and key; every write through the lab's gates. Synchronous.

    memory = AgentMemory(lab)
    memory.set("scout", "best lr", "3e-4 at batch 64, see e12")
    memory.get("scout", "best lr")["value"]
    memory.search("learning rate", ["scout", "shared"])

A scope is an agent (its id or name), `shared`, or `shared:NAME`. An entry has versions, and none is ever changed but
for where it stands: a later one takes its place, and a deletion is a version too. Persons see the newest version that
the gates accepted; agents see the newest one that the gates passed or a person released.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, NoReturn, TypeAlias, TypedDict, Unpack

from perpetual.api import (
    Conflict,
    Listing,
    NotFound,
    NotPermitted,
    PerpetualError,
    Refused,
    TextProvenance,
    UsageError,
    unknown,
)
from perpetual.toolkit.agents import mark
from perpetual_agents.agents import Agents
from perpetual_agents.data import check_text
from perpetual_agents.memory_index import index_of, is_person, resembling
from perpetual_agents.memory_text import (
    SHARED,
    are_alike,
    check_key,
    check_shared,
    check_value,
    is_shared,
    likeness,
    shingles,
    text_of,
)
from perpetual_agents.names import MEMORY, REMEMBERED

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record
    from perpetual.documents.memory import VerdictDocument
    from perpetual_agents.memory_documents import (
        MemoryDeleted,
        MemoryDocument,
        MemoryHitDocument,
        MemoryVerdict,
        MemoryWriteDocument,
    )

__all__ = ["STATUSES", "AgentMemory", "Judged", "MemoryStatus", "reads_as_agent", "together"]

MemoryStatus: TypeAlias = Literal["active", "quarantined", "released", "rejected", "deleted", "pruned"]
STATUSES: tuple[MemoryStatus, ...] = ("active", "quarantined", "released", "rejected", "deleted", "pruned")
_OPEN = ("active", "released")  # statuses that agents see
_GONE = ("deleted", "pruned")
_STATUS_OF: dict[str, MemoryStatus] = {"pass": "active", "quarantine": "quarantined", "reject": "rejected"}
_PATH = "agents/memory.md"  # what the gates are given as the text's place
_WITHHELD = "(withheld: it holds a secret)"
_READ_TOGETHER = 15  # of the newest entries that a new one is read with, for attacks in pieces
_RESEMBLING = 20  # entries that a new one is compared with


class Judged(NamedTuple):
    """An entry as the gates let it be written: without secrets, with the status that their verdict gives it."""

    scope: str
    key: str
    value: object
    status: MemoryStatus
    verdict: MemoryVerdict


class _Origin(TypedDict, total=False):
    """Where a version comes from."""

    author: str
    agent: str | None
    message: str | None
    step: str | None
    sources: Sequence[str]
    batch: str | None
    into: str
    why: str | None
    verdict: dict[str, object] | None
    released_by: str | None


def reads_as_agent(lab: Lab) -> bool:
    """Returns whether an agent reads what the lab answers, by its name or by its shell."""
    return not is_person(lab.actor) or mark(os.environ, lab.config["agent_marks"]) is not None


def together(lab: Lab, texts: Sequence[str]) -> set[int]:
    """Returns the positions of texts that are no attack alone and one together, as the gates say."""
    if len(texts) < 2:
        return set()
    return {place for _, gate in lab.parts("gate") for place in gate.leave_out(texts)}


class AgentMemory:
    """The memory of a lab's agents."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self._rows, self._agents = lab.records(MEMORY), Agents(lab)
        self._scopes: dict[str, str] = {}

    def scope(self, scope: str) -> str:
        """Returns a scope as it is recorded: an agent's id, `shared`, or `shared:NAME`. Raises NotFound, UsageError."""
        if is_shared(scope):
            return check_shared(scope)
        if scope not in self._scopes:
            self._scopes[scope] = self._agents.record(scope).id
        return self._scopes[scope]

    # writing

    def set(
        self, scope: str, key: str, value: object, *, agent: str | None = None, message: str | None = None,
        step: str | None = None, sources: Sequence[str] = (), batch: str | None = None,
    ) -> MemoryWriteDocument:  # fmt: skip
        """Writes an entry, judged by the gates; the older versions stay readable.

        A value that the entry has already changes nothing.

        Args:
            scope: an agent's id or name, `shared`, or `shared:NAME`.
            key: one line.
            value: text or other JSON, 64 KiB at most.
            agent: the agent in whose turn it is written, `message` the message that this turn answers.
            step: the key of the step that writes it; a step writes once, also where it is repeated after a crash.
            sources: what it was made of.
            batch: the consolidation that makes it.

        Raises:
            UsageError: for a key or a value that cannot be, and for a key that holds a secret.
            Refused: where a gate rejects it; it is kept with the status rejected, and `data` has the verdict.
            NotPermitted: where an agent would replace what a person wrote.
        """
        judged = self.judge(scope, key, value)
        alike = self._alike(judged)
        answer = self.keep(judged, agent=agent, message=message, step=step, sources=sources, batch=batch)
        answer["alike"] = alike
        if answer["status"] == "rejected":
            self._refuse(answer)
        return answer

    def judge(self, scope: str, key: str, value: object) -> Judged:
        """Returns what the gates say of an entry, for `keep`; slow, so called outside of transactions.

        Raises:
            UsageError: for a key or a value that cannot be, and for a key that holds a secret.
        """
        home, key, value = self.scope(scope), check_key(key), check_value(value)
        if self.lab.part("redactor").text(key) != key:
            raise UsageError("the key holds a secret", hint="another key", code="secret_in_record")
        verdict, value, status = self._judged(home, key, value)
        return Judged(home, key, value, status, verdict)

    def keep(
        self, judged: Judged, *, agent: str | None = None, message: str | None = None, step: str | None = None,
        sources: Sequence[str] = (), batch: str | None = None, author: str | None = None,
    ) -> MemoryWriteDocument:  # fmt: skip
        """Writes an entry that was judged, with the status that follows; see `set`. A rejected one is kept too.

        `author` is the agent whose words they are, where they are not the actor's.

        Raises:
            NotPermitted: where an agent would replace what a person wrote.
        """
        with self.lab.transaction():
            known = self._of_step(step)
            if known is None:
                self._check_may_change(judged.scope, judged.key)
                known = self._same(judged)
            made = known or self._add(
                judged.scope, judged.key, judged.value, judged.status, agent=agent, message=message, step=step,
                sources=[*sources], batch=batch, verdict={**judged.verdict},
                author=self.lab.actor if author is None or is_person(author) else author,
            )  # fmt: skip
        return {**_document(made), "changed": known is None, "alike": None}

    def _refuse(self, answer: MemoryWriteDocument) -> NoReturn:
        category = (answer["verdict"]["category"] if answer["verdict"] else None) or "rejected"
        raise Refused(f"the entry {answer['key']!r} was rejected: {category}", code="memory_rejected",
                      hint="the findings say which words; it is kept with status rejected and shown to no agent",
                      data=answer)  # fmt: skip

    def _judged(self, scope: str, key: str, value: object) -> tuple[MemoryVerdict, object, MemoryStatus]:
        """Returns what the gates say, the value without its secrets, and the status that follows."""
        said = self._scan(key, value)
        status, clean = _STATUS_OF[said["outcome"]], value
        if said["blocked"]:
            clean = _redacted(value, self._without_secrets)
            if status != "rejected" and self._scan(key, clean)["blocked"]:
                clean = _WITHHELD
        verdict: MemoryVerdict = {"outcome": said["outcome"], "category": said["category"],
                                  "findings": [{"rule": it["rule"], "span": it["span"], "excerpt": it["excerpt"]}
                                               for it in said["findings"]]}  # fmt: skip
        if status == "active" and self._completes_an_attack(scope, key, clean):
            verdict, status = {**verdict, "outcome": "quarantine", "category": "spread"}, "quarantined"
        return verdict, clean, status

    def _without_secrets(self, text: str) -> str:
        """Returns a text as each gate and the redactor leave it; nothing of it where a gate fails."""
        for _, gate in self.lab.parts("gate"):
            try:
                found = gate.scan(text, TextProvenance(_PATH, "note", self.lab.actor))
                text = gate.redact(text, found)
            except Exception:  # noqa: BLE001 - what a failed gate would have taken out is not known
                return _WITHHELD
        return str(self.lab.part("redactor").text(text))

    def _scan(self, key: str, value: object) -> VerdictDocument:
        return self.lab.memory.scan(f"{key}\n{text_of(value)}", path=_PATH)

    def _completes_an_attack(self, scope: str, key: str, value: object) -> bool:
        """Returns whether an entry and the newest ones that are read beside it are an attack together."""
        homes = [scope] if is_shared(scope) else [scope, SHARED]
        newest = [row for home in homes for row in self._rows.list(limit=_READ_TOGETHER // len(homes),
                                                                    newest_first=True, exposed=home).items]  # fmt: skip
        texts = [text_of(row["value"]) for row in newest if row["key"] != key or row["scope"] != scope]
        return bool(texts) and len(texts) in together(self.lab, [*texts[::-1], text_of(value)])

    def _alike(self, judged: Judged) -> list[str] | None:
        """Returns the keys of entries of the scope that say the same; None where they could not be compared."""
        if judged.status != "active":
            return []
        text = text_of(judged.value)
        mine = shingles(text)
        try:
            with index_of(self.lab).of(self.lab) as connection:
                found = resembling(connection, judged.scope, text, most=_RESEMBLING)
        except PerpetualError:
            return None  # the entry is written all the same
        others = [(one.key, shingles(one.text)) for one in found if one.key != judged.key]
        ranked = sorted((-likeness(mine, parts), key) for key, parts in others if are_alike(mine, parts))
        return [key for _, key in ranked]

    def _of_step(self, step: str | None) -> Record | None:
        return next(iter(self._rows.find(step=step)), None) if step is not None else None

    def _check_may_change(self, scope: str, key: str) -> None:
        """Raises NotPermitted where an agent would change or take away what a person wrote."""
        if is_person(self.lab.actor):
            return
        place = _place(scope, key)
        if any(not _by_agent(row) for row in (*self._rows.find(current=place), *self._rows.find(shown=place))):
            raise NotPermitted(
                f"a person wrote the entry {key!r}", hint="write under another key", code="persons_entry"
            )

    def _same(self, judged: Judged) -> Record | None:
        """Returns the newest version of an entry where it says the same already."""
        place = _place(judged.scope, judged.key)
        newest = next(iter(self._rows.list(limit=1, newest_first=True, place=place).items), None)
        if newest is None or newest["status"] in _GONE or _exact(newest["value"]) != _exact(judged.value):
            return None
        return newest if newest["status"] in ("released", judged.status) else None

    def _add(self, scope: str, key: str, value: object, status: MemoryStatus, **fields: Unpack[_Origin]) -> Record:
        """Adds a version and moves the marks of what persons and agents see; inside of a transaction."""
        place = _place(scope, key)
        is_open, is_gone, is_seen = status in _OPEN, status in _GONE, status != "rejected"
        if is_seen:
            for row in self._rows.find(current=place):
                self._rows.update(row.id, current=None, listed=None)
        if is_open or is_gone:
            for row in self._rows.find(shown=place):
                self._rows.update(row.id, shown=None, exposed=None)
        is_current = is_seen and not is_gone
        origin: _Origin = {"author": self.lab.actor, "sources": [], **fields}
        made = self._rows.add(
            scope=scope, key=key, place=place, value=value, status=status, version=self._rows.count(place=place) + 1,
            current=place if is_current else None, listed=scope if is_current else None,
            shown=place if is_open else None, exposed=scope if is_open else None,
            **origin,
        )  # fmt: skip
        self.lab.feed.emit(REMEMBERED, scope, {"memory": made.id, "key": key, "status": status})
        return made

    def inherit(self, agent: str, parent: str, until: str) -> None:
        """Gives an agent the entries that its parent had at a time, as the gates judged them then.

        Args:
            agent: the id of the fork, which has no entries yet.
            parent: the id of the agent that it was forked from.
            until: the time, as records hold it.
        """
        newest: dict[str, Record] = {}
        shown: dict[str, Record] = {}
        for row in self._rows.find(scope=parent):
            if row.created_at > until or row["status"] == "rejected":
                continue
            newest[row["key"]] = row
            if row["status"] in _OPEN:
                shown[row["key"]] = row
        with self.lab.transaction():
            for key, row in newest.items():
                if row["status"] in _GONE:
                    continue
                seen = shown.get(key, row)
                for one in (seen,) if seen is row else (seen, row):
                    self._add(agent, key, one["value"], one["status"], author=one["author"], sources=[one.id],
                              verdict=one["verdict"])  # fmt: skip

    def delete(self, scope: str, key: str, *, why: str | None = None, step: str | None = None) -> MemoryDeleted:
        """Takes an entry away; its versions stay readable, and `restore` brings it back.

        Raises:
            NotFound: where there is none.
            NotPermitted: where an agent would take away what a person wrote.
        """
        home = self.scope(scope)
        if why is not None:
            check_text("the reason", why, most=2_000, may_be_empty=False)
        with self.lab.transaction():
            made = self._of_step(step)
            if made is None:
                self._check_may_change(home, key)
                if self._seen(home, key) is None:
                    raise self._missing(home, key)
                made = self._add(home, key, None, "deleted", why=why, step=step)
        return {"id": made.id, "scope": home, "key": made["key"], "version": made["version"]}

    def prune(self, scope: str, key: str, *, into: str, batch: str | None = None) -> MemoryDocument:
        """Takes an entry away for which another one stands, as a consolidation or a compaction does.

        Raises:
            NotFound: where there is none.
            NotPermitted: for what a person wrote.
        """
        home, place = self.scope(scope), _place(self.scope(scope), key)
        with self.lab.transaction():
            rows = [*self._rows.find(current=place), *self._rows.find(shown=place)]
            if not rows:
                raise self._missing(home, key)
            if not all(map(_by_agent, rows)):
                raise NotPermitted(f"a person wrote the entry {key!r}", hint="it is never pruned", code="persons_entry")
            return _document(
                self._add(home, key, None, "pruned", into=into, batch=batch, why=f"merged into {into}"[:300])
            )

    def restore(self, scope: str, key: str) -> MemoryDocument:
        """Brings an entry back that was deleted or pruned, as its newest accepted version was.

        Raises:
            NotFound: where there never was one.
            Conflict: where it is there.
            NotPermitted: where an agent would bring back what a person deleted.
        """
        home = self.scope(scope)
        with self.lab.transaction():
            versions = self._rows.find(place=_place(home, key))
            if not versions:
                raise self._missing(home, key)
            last = [row for row in versions if row["status"] != "rejected"][-1:]
            if not last or last[0]["status"] not in _GONE:
                raise Conflict(f"the entry {key!r} is there", hint="perpetual agent memory ID history KEY",
                               code="memory_there")  # fmt: skip
            if not is_person(self.lab.actor) and not _by_agent(last[0]):
                raise NotPermitted(f"a person deleted the entry {key!r}", hint="write under another key",
                                   code="persons_entry")  # fmt: skip
            return _document(self._brought_back(home, key, versions))

    def _brought_back(self, scope: str, key: str, versions: Sequence[Record]) -> Record:
        """Writes the newest accepted version of an entry again, as its author's."""
        kept = [row for row in versions if row["status"] not in ("rejected", *_GONE)]
        old = kept[-1]
        again: _Origin = {"author": old["author"], "agent": old["agent"], "message": old["message"],
                          "verdict": old["verdict"], "released_by": old["released_by"], "why": old["why"],
                          "sources": [old.id]}  # fmt: skip
        return self._add(scope, key, old["value"], old["status"], **again)

    def undo(self, batch: str) -> list[str]:
        """Takes a consolidation back: brings back what it pruned, and takes away what it made; returns the keys.

        An entry that was written since stays as it is.

        Raises:
            NotFound: for an unknown one.
        """
        changed: list[str] = []
        with self.lab.transaction():
            rows = self._rows.find(batch=batch)
            if not rows:
                raise NotFound(f"no consolidation {batch}", hint="perpetual agent memory ID history KEY names it")
            for row in rows:
                versions = self._rows.find(place=row["place"])
                if versions[-1].id != row.id:
                    continue
                earlier = versions[:-1]
                if any(one["status"] not in ("rejected", *_GONE) for one in earlier):
                    self._brought_back(row["scope"], row["key"], earlier)
                elif row["status"] not in _GONE:
                    self._add(row["scope"], row["key"], None, "deleted", why=f"{batch} was taken back")
                changed.append(row["key"])
        return changed

    def release(self, scope: str, key: str, why: str, *, id: str | None = None) -> MemoryDocument:
        """Lets agents see the newest version of an entry, which the gates quarantined. The gates are asked again.

        Args:
            scope: an agent's id or name, `shared`, or `shared:NAME`.
            key: the entry.
            why: what a person says for it.
            id: release this version and no other.

        Raises:
            NotFound: where there is no entry.
            Conflict: where its newest version is not quarantined, or another one than `id`.
            Refused: where a gate rejects it now.
            NotPermitted: where an agent asks for it.
        """
        self.lab.services.allows("releasing an entry of memory")
        check_text("the reason", why, most=2_000, may_be_empty=False)
        home, place = self.scope(scope), _place(self.scope(scope), key)
        with self.lab.transaction():
            row = next(iter(self._rows.find(current=place)), None)
            if row is None:
                raise self._missing(home, key)
            if row["status"] != "quarantined" or (id is not None and id != row.id):
                raise Conflict(f"the newest version of {key!r} is {row.id}, {row['status']}",
                               hint="perpetual agent memory ID history KEY", code="not_quarantined")  # fmt: skip
            said = self._scan(key, row["value"])
            if said["outcome"] == "reject":
                raise Refused(f"the entry {key!r} is not released: {said['category']}", code="memory_rejected",
                              hint="write a version without these words", data={"verdict": said})  # fmt: skip
            for older in self._rows.find(shown=place):
                self._rows.update(older.id, shown=None, exposed=None)
            made = self._rows.update(row.id, status="released", why=why, released_by=self.lab.actor, shown=place,
                                     exposed=home)  # fmt: skip
            self.lab.feed.emit(REMEMBERED, home, {"memory": made.id, "key": key, "status": "released"})
        return _document(made)

    # reading

    def _seen(self, scope: str, key: str) -> Record | None:
        """Returns the version that the lab's reader sees."""
        place = _place(scope, key)
        found = self._rows.find(shown=place) if reads_as_agent(self.lab) else self._rows.find(current=place)
        return next(iter(found), None)

    def _missing(self, scope: str, key: str) -> NotFound:
        newest = self._page(scope, limit=200).items
        return NotFound(unknown(f"entry of {scope}", key[:200], [row["key"] for row in newest]), code="no_entry",
                        hint=None if newest else "perpetual agent memory ID set KEY VALUE writes one")  # fmt: skip

    def get(self, scope: str, key: str) -> MemoryDocument:
        """Returns an entry, as the lab's reader sees it. Raises NotFound, naming the nearest."""
        home = self.scope(scope)
        found = self._seen(home, key)
        if found is None:
            raise self._missing(home, key)
        return _document(found)

    def _page(self, scope: str, *, limit: int, cursor: str | None = None) -> Listing[Record]:
        by = {"exposed": scope} if reads_as_agent(self.lab) else {"listed": scope}
        return self._rows.list(limit=limit, cursor=cursor, newest_first=True, **by)

    def list(
        self, scope: str, *, status: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Listing[MemoryDocument]:
        """Returns a page of the entries of a scope as the lab's reader sees them, newest first.

        Args:
            scope: an agent's id or name, `shared`, or `shared:NAME`.
            status: every version of this status instead, such as `quarantined` or `rejected`; for persons.
            limit: at most so many.
            cursor: of the page before.
        """
        home = self.scope(scope)
        if status is None:
            page = self._page(home, limit=limit, cursor=cursor)
        elif status not in STATUSES:
            raise UsageError(unknown("status", status, STATUSES))
        elif reads_as_agent(self.lab) and status not in _OPEN:
            raise NotPermitted(f"agents are not shown {status} entries", hint="a person sees them")
        else:
            page = self._rows.list(limit=limit, cursor=cursor, newest_first=True, scope=home, status=status)
        return Listing(tuple(map(_document, page.items)), page.next_cursor)

    def history(self, scope: str, key: str, *, limit: int = 100, cursor: str | None = None) -> Listing[MemoryDocument]:
        """Returns a page of the versions of an entry, newest first; agents see those that they may.

        Raises:
            NotFound: where there never was one.
        """
        home = self.scope(scope)
        page = self._rows.list(limit=limit, cursor=cursor, newest_first=True, place=_place(home, key))
        if not page.items and cursor is None:
            raise self._missing(home, key)
        rows = page.items
        if reads_as_agent(self.lab):
            rows = tuple(row for row in rows if row["status"] in (*_OPEN, *_GONE))
        return Listing(tuple(map(_document, rows)), page.next_cursor)

    def search(
        self, query: str, scopes: Sequence[str], *, k: int = 10, said: bool = True
    ) -> Sequence[MemoryHitDocument]:
        """Returns the entries that fit a query best, and what persons said to the agents among the scopes.

        BM25 ranks them, in the mean with the cosine of an embedder where one is installed. An agent finds what it may
        see: what the gates passed, and no entries that are an attack together.

        Args:
            query: words.
            scopes: agents' ids or names, `shared`, `shared:NAME`.
            k: at most so many.
            said: whether what persons said is looked at too.

        Raises:
            UsageError: for a query without a word, and for no scope.
            TransientError: while another process holds the index, and inside of a transaction that has written.
        """
        from perpetual_agents.memory_search import found

        homes = [*dict.fromkeys(map(self.scope, scopes))]
        if not homes:
            raise UsageError("a search needs a scope", hint="an agent's id or name, shared, or shared:NAME")
        return found(self.lab, query, homes, k=max(1, min(k, 100)), said=said)


def _place(scope: str, key: str) -> str:
    return f"{scope}\n{key}"


def _exact(value: object) -> str:
    """Returns a value as JSON: 1 and true are two values."""
    return json.dumps(value, sort_keys=True)


def _by_agent(row: Record) -> bool:
    return not is_person(row["author"])


def _redacted(value: object, text: Callable[[str], str]) -> object:
    """Returns a value with the secrets in its texts replaced by `text`."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, Mapping):
        return {text(name): _redacted(item, text) for name, item in value.items()}
    if isinstance(value, list):
        return [_redacted(item, text) for item in value]
    return value


def _document(row: Record) -> MemoryDocument:
    verdict: MemoryVerdict | None = row["verdict"]
    return {
        "id": row.id, "scope": row["scope"], "key": row["key"], "value": row["value"], "status": row["status"],
        "version": row["version"], "author": row["author"], "agent": row["agent"], "message": row["message"],
        "step": row["step"], "why": row["why"], "sources": row["sources"], "batch": row["batch"], "into": row["into"],
        "verdict": verdict if verdict and verdict["outcome"] != "pass" else None, "released_by": row["released_by"],
        "created_at": row.created_at,
    }  # fmt: skip
