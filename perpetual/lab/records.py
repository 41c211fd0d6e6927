"""`lab.records`: rows of the kinds that plugins bring, written in the lab's transactions. Floor 2.

with lab.transaction():
    claim = lab.hypotheses.add("a louder alarm is heard sooner")
    lab.records("alarm").add(run="r1", loudness=80.0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perpetual.errors import NotFound, PluginError, UsageError, nearest, unknown
from perpetual.lab.context import Context
from perpetual.lab.kinds import LabTransaction
from perpetual.lab.plugin_kinds import KnownKind, note, reference_of
from perpetual.records import Listing
from perpetual.slots.kinds import value_problem
from perpetual.slots.store import Document
from perpetual.toolkit.units import identifier

if TYPE_CHECKING:
    from perpetual.documents.kinds import KindOfRecord

__all__ = ["KindRecords", "Record", "Records"]


@dataclass(frozen=True, slots=True)
class Record:
    """One row of a plugin's kind, with the plugin that wrote it last. `record["field"]` is a field's value."""

    kind: str
    id: str
    revision: int
    number: int
    plugin: str
    plugin_version: str
    created_at: str
    created_by: str
    fields: dict[str, object]

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]


class Records:
    """The kinds of plugins; called with the name of one, `KindRecords` of it."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def __call__(self, kind: str) -> KindRecords:
        """Returns the records of a kind, named in full (`PLUGIN.NAME`) or by its bare name where one plugin has it.

        Raises:
            NotFound: for an unknown name.
            UsageError: for a bare one that two plugins have.
        """
        _ = self._ctx.store  # which knows the kinds that are left of plugins
        known = self._ctx.kinds
        hits = [kind] if kind in known else [name for name in known if name.rpartition(".")[2] == kind]
        if len(hits) > 1:
            raise UsageError(f"{kind!r} is {' and '.join(hits)}", hint="write the full name", code="kind_ambiguous")
        if not hits:
            raise NotFound(
                unknown("kind of record", kind, known), hint="perpetual records lists the kinds that plugins bring"
            )
        return KindRecords(self._ctx, known[hits[0]])

    def kinds(self) -> list[KindOfRecord]:
        """Returns `{name, plugin, version, ledger, count, active, reason, fields}` of each kind, by name.

        `active` is whether rows can be written; `reason` says why not; `fields` are `{name, type, required, meaning}`.
        """
        store = self._ctx.store
        return [
            {
                "name": name,
                "plugin": known.plugin,
                "version": known.version,
                "ledger": known.kind.ledger,
                "count": store.count(name),
                "active": known.refused is None,
                "reason": known.refused,
                "fields": [
                    {"name": field, "type": one.type, "required": one.required, "meaning": one.meaning}
                    for field, one in known.kind.fields.items()
                ],
            }
            for name, known in sorted(self._ctx.kinds.items())
        ]


class KindRecords:
    """The rows of one kind. Inside a `lab.transaction()` they join it; each call is one of its own otherwise."""

    def __init__(self, ctx: Context, known: KnownKind) -> None:
        self._ctx, self._known = ctx, known

    @property
    def name(self) -> str:
        """Returns the kind's full name."""
        return self._known.full_name

    def add(self, *, idempotency_key: str | None = None, **fields: object) -> Record:
        """Adds a record with the next id.

        Raises:
            UsageError: for a ledger, an unknown or missing field, a value of another type, or one that holds a secret.
            NotFound: for a reference to a record that there is not.
            PluginError: if the plugin of the kind is not active.
            Conflict: if the key was used for something else.
        """
        return self._write(fields, ledger=False, idempotency_key=idempotency_key)

    def append(self, *, idempotency_key: str | None = None, **fields: object) -> Record:
        """Appends a row to a ledger; raises as `add` does, and UsageError for a kind that is no ledger."""
        return self._write(fields, ledger=True, idempotency_key=idempotency_key)

    def _write(self, fields: dict[str, object], *, ledger: bool, idempotency_key: str | None) -> Record:
        self._check_active()
        kind = self._known.kind
        if kind.ledger != ledger:
            raise UsageError(f"{self.name} is {'a' if kind.ledger else 'no'} ledger",
                             hint=f'lab.records("{self.name}").{"append" if kind.ledger else "add"}(...)')  # fmt: skip
        ctx, deed = self._ctx, f"records:{self.name}"
        with ctx.store.transaction() as tx:
            made = ctx.recall(tx, idempotency_key, deed)
            if made is not None:
                return self._need(made)
            body = {**self._checked(tx, fields), "created_at": ctx.now(), "created_by": ctx.actor, **self._origin()}
            note(tx, self._known)
            id = str(tx.append(self.name, body)) if ledger else tx.create(self.name, body).id
            ctx.remember(tx, idempotency_key, deed, id)
            return self._need(id)

    def update(self, id: str, *, expect_revision: int | None = None, **fields: object) -> Record:
        """Changes these fields of a record, and leaves the others.

        Raises:
            RevisionConflict: if `expect_revision` is not its revision any longer.
            NotFound: for an unknown id. As `add` does, for what it cannot hold.
        """
        self._check_active()
        if self._known.kind.ledger:
            raise UsageError(f"{self.name} is a ledger, whose rows are never changed")
        with self._ctx.store.transaction() as tx:
            present = self._document(id)
            own: dict[str, object] = {}
            for name in ("created_at", "created_by", "id"):
                if name in present.body:
                    own[name] = present.body[name]
            kept: dict[str, object] = {
                name: value for name, value in present.body.items() if name in self._known.kind.fields
            }
            body: dict[str, object] = {**self._checked(tx, {**kept, **fields}), **own, **self._origin()}
            note(tx, self._known)
            tx.put(self.name, present.id, body, expect_revision=expect_revision)
            return self._need(present.id)

    def get(self, id: str) -> Record:
        """Returns a record; raises NotFound, naming the nearest ids."""
        return self._need(id)

    def find(self, **equals: object) -> list[Record]:
        """Returns every record whose fields have these values, oldest first; fast for fields that are indexed.

        Raises:
            UsageError: for an unknown field.
        """
        indexed = {name: value for name, value in equals.items() if name in self._known.kind.indexes}
        self._check_names(equals)
        found = map(self._record, self._ctx.store.find(self.name, **indexed))
        return [record for record in found if all(record.fields.get(name) == equals[name] for name in equals)]

    def list(
        self, *, limit: int = 100, cursor: str | None = None, newest_first: bool = False, **equals: object
    ) -> Listing[Record]:
        """Returns a page of records in the order of their creation, of those whose indexed fields have these values.

        The cursor of a page is the number of its last record, as text.
        """
        page = self._ctx.store.page(self.name, limit=limit, cursor=cursor, newest_first=newest_first, **equals)
        return Listing(tuple(map(self._record, page.items)), page.next_cursor)

    def count(self, **equals: object) -> int:
        """Returns how many records there are, or how many have these values in fields that are indexed."""
        return self._ctx.store.count(self.name, **equals)

    def _check_active(self) -> None:
        if self._known.refused is not None:
            raise PluginError(
                f"{self.name} can be read only: {self._known.refused}",
                hint="install or enable the plugin: perpetual plugins list",
                code="kind_read_only",
            )

    def _check_names(self, names: Sequence[str] | Mapping[str, object]) -> None:
        wrong = next((name for name in names if name not in self._known.kind.fields), None)
        if wrong is not None:
            raise UsageError(unknown(f"field of {self.name}", wrong, self._known.kind.fields))

    def _checked(self, tx: LabTransaction, fields: dict[str, object]) -> dict[str, object]:
        """Returns the fields of a row, each there (null where it was left out), their references looked up."""
        self._check_names(fields)
        wrong = value_problem(self._known.kind, fields)
        if wrong is not None:
            raise UsageError(f"{self.name}: {wrong}")
        found = {name: fields.get(name) for name in self._known.kind.fields}
        for name, one in self._known.kind.fields.items():
            if one.references is not None and found[name] is not None:
                other, id = reference_of(self._known, one.references, found[name])
                if other not in self._ctx.store.kinds or tx.get(other, id) is None:
                    raise NotFound(f"{self.name}: {name} is {found[name]!r}, and there is no such {one.references}")
                found[name] = id
        return found

    def _origin(self) -> dict[str, str]:
        return {"plugin": self._known.plugin, "plugin_version": self._known.version}

    def _document(self, id: str) -> Document:
        found = self._ctx.store.get(self.name, id) or self._ctx.store.get(self.name, identifier(id))
        if found is None:
            known = [document.id for document in self._ctx.store.page(self.name, limit=500, newest_first=True).items]
            near = nearest(id, known) or known[:3]
            raise NotFound(
                f"no {self.name} {id}", hint=f"the nearest: {', '.join(near)}" if near else "there is none yet"
            )
        return found

    def _need(self, id: str) -> Record:
        return self._record(self._document(id))

    def _record(self, document: Document) -> Record:
        body = document.body
        return Record(
            kind=self.name,
            id=document.id,
            revision=document.revision,
            number=document.number,
            plugin=str(body.get("plugin", self._known.plugin)),
            plugin_version=str(body.get("plugin_version", "")),
            created_at=str(body.get("created_at", "")),
            created_by=str(body.get("created_by", "")),
            fields={name: body.get(name) for name in self._known.kind.fields},
        )
