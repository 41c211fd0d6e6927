"""`lab.storage`: what the store holds and weighs, and moving it: export, import, migration, compaction.

Any store reads and writes an export: JSON lines, rows in order between header and checksum. One record gives one text.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from perpetual.errors import Conflict, CorruptData, PerpetualError, UsageError
from perpetual.lab import lost_store, store_migration
from perpetual.lab.context import Context
from perpetual.lab.evidence_rules import forget
from perpetual.lab.gates import Gates
from perpetual.lab.imports.notes import judged
from perpetual.lab.permissions import person_only, withholds
from perpetual.lab.plugin_kinds import KnownKind, reference_of
from perpetual.slots.kinds import value_problem
from perpetual.slots.store import Row, StoreBase, StoreKind, StoreMeta
from perpetual.toolkit.atomic import fsync_dir
from perpetual.toolkit.confined import is_inside, look
from perpetual.toolkit.filesystems import file_sizes
from perpetual.toolkit.foreign import DEEPEST, parse_json
from perpetual.toolkit.jsoncopy import json_copy
from perpetual.toolkit.named_path import named_path
from perpetual.toolkit.readers import agent_hint

if TYPE_CHECKING:
    from perpetual.documents.store import (
        StoreCompact,
        StoreExport,
        StoreImport,
        StoreMigrate,
        StoreMoved,
        StoreStats,
        StoreWritten,
    )

__all__ = ["EXPORT_SCHEMA", "Storage"]

EXPORT_SCHEMA = "perpetual.export/1"
_BEYOND = 2**63  # what databases count to
_DEEPEST = 2 * DEEPEST  # levels of an exported line: what a specification may hold, and its place in the row
_INITIAL = ("event", "setting", "key", "fold")  # what a new project holds before any deed; an import may replace it


class Storage:
    """The store as a whole: checked, measured, exported, imported, moved into another store."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def verify(self) -> list[str]:
        """Returns what is wrong with the record, each a sentence, [] for a sound one; changes nothing."""
        from perpetual.lab.storage import audit

        with self._ctx.trust.lifted():  # it locks the store, and writes nothing
            problems = audit.examine(self._ctx)
        return [str(agent_hint(problem)) for problem in problems] if withholds(self._ctx) else problems

    def stats(self) -> StoreStats:
        """Returns what the store holds and weighs, in which mode it works and why."""
        store = self._ctx.store
        details: dict[str, Any] = {**store.describe()}
        files = details.pop("files", None) or file_sizes(self._ctx.folder / store_migration.STORE)
        size_bytes = store.size_bytes()
        return {
            "store": self._ctx.config["store"],
            "folder": str(self._ctx.folder / store_migration.STORE),
            "location": store.location(),
            "mode": details.pop("mode", None),
            "why": details.pop("why", None),
            "commit": store.seq(),
            "records": {kind: count for kind in store.kinds if (count := store.count(kind))},
            "bytes": sum(files.values()) if size_bytes is None else size_bytes,
            "files": files,
            "details": details,
        }

    def changes(self, since: int) -> tuple[int, list[tuple[str, str]]]:
        """Returns the number of the last commit, and what was written after the commit `since` as (kind, id)."""
        last = self._ctx.store.seq()
        return last, [(item.kind, item.id) for item in self._ctx.store.changes(since)] if last != since else []

    def compact(self) -> StoreCompact:
        """Gives back the room that older states take; answers the bytes before and after."""
        before = self.stats()["bytes"]
        self._ctx.store.compact()
        return {"bytes_before": before, "bytes_after": self.stats()["bytes"]}

    def export(self, stream: BinaryIO) -> StoreWritten:
        """Writes the whole record as JSON lines; answers `{rows, commit, bytes, sha256}`.

        Raises:
            TransientError: if the store's lock could not be had.
            OSError: of the stream.
        """
        store = self._ctx.store
        with store.exclusive():
            return self._export(store, stream)

    def _export(self, store: StoreBase, stream: BinaryIO) -> StoreWritten:
        store_migration.check_kinds(store)
        digest, size, rows = hashlib.sha256(), 0, 0

        def put(document: dict[str, object]) -> None:
            nonlocal size
            line = json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode() + b"\n"
            stream.write(line)
            digest.update(line)
            size += len(line)

        meta = store.meta()
        inside = {name for name, known in self._ctx.kinds.items() if not known.kind.exported}
        put(
            {
                "schema": EXPORT_SCHEMA,
                "project_id": self._ctx.config.project_id,
                "commit": meta.commit,
                "kinds": {
                    name: _declaration(store.kinds[name], count)
                    for name, count in sorted(meta.counters.items())
                    if count and name not in inside
                },
            }
        )
        for kind, row in store_migration.rows_of(store):
            if kind in inside:
                continue
            body = {key: value for key, value in row.items() if key[:1] != "_"}
            if kind in self._ctx.kinds:
                fields = self._ctx.kinds[kind].kind.fields
                body = {key: None if key in fields and fields[key].private else value for key, value in body.items()}
            put(
                {
                    "kind": kind,
                    "id": row["_id"],
                    "number": row["_no"],
                    "revision": row["_rev"],
                    "seq": row["_seq"],
                    "body": body,
                }
            )
            rows += 1
        put({"rows": rows, "sha256": digest.hexdigest()})
        stream.flush()
        return {"rows": rows, "commit": meta.commit, "bytes": size, "sha256": digest.hexdigest()}

    def export_file(self, path: str | Path) -> StoreExport:
        """Writes the same into a file, which is there whole or not at all; answers its `path` too.

        Raises:
            PerpetualError: if it cannot be written; a UsageError inside a `.perpetual`, whose files are not its own.
        """
        target = named_path(path)
        if is_inside(os.path.realpath(target)):
            raise UsageError(f"{target} is inside a .perpetual", hint="choose another place with -o")
        try:
            look(target)  # a folder, a device or a pipe is not replaced by a file
            beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
            try:
                with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as stream:
                    answer = self.export(stream)
                    os.fsync(stream.fileno())
                os.replace(beside, target)
                fsync_dir(target.parent)
            finally:
                beside.unlink(missing_ok=True)
        except OSError as problem:
            why = f"{target} cannot be written: {problem.strerror or problem}"
            raise PerpetualError(why, hint="choose another place with -o") from problem
        return {"path": str(target), **answer}

    def import_file(self, path: str | Path, *, dry_run: bool = False) -> StoreImport:
        """Takes over an exported record into a project that has done nothing yet.

        Answers `{path, rows, commit, backup}`. The project takes over the id that its seeds derive from too. Notes come
        in as candidates: the gates judge them again, and promotions are a person's to give here.

        Raises:
            Conflict: if the project holds records of its own.
            CorruptData: if the file is not an export, whole and unchanged.
            UsageError: if there is no such file.
            NotPermitted: where an agent asks for it; a dry run is not refused.
        """
        self._ctx.trust.require("importing")
        if not dry_run:
            person_only(self._ctx, "importing a record")
        source = named_path(path)
        export = _Export(source)
        self._check_unused()
        if export.newer():
            raise Conflict(f"{source}: {export.newer()}", hint="upgrade perpetual-lab")
        if dry_run:
            return {"path": str(source), "rows": export.rows, "commit": export.meta.commit, "backup": None}

        def load(target: StoreBase) -> int:
            self._check_unused()  # now that writers are locked out
            for kind in export.kinds:
                if kind.name not in target.kinds:
                    target.declare(kind)
            return store_migration.fill(target, judged(export.read, Gates(self._ctx)), export.meta)

        with self._ctx.trust.replaced(export.project_id):
            made = self._move(self._ctx.config["store"], load, {"project_id": export.project_id})
        forget(self._ctx.folder)  # its folds may follow other rules: they are made anew when it is opened
        return {"path": str(source), **made}

    def _check_unused(self) -> None:
        held = [kind for kind in self._ctx.store.kinds if kind not in _INITIAL and self._ctx.store.count(kind)]
        if held:
            raise Conflict(
                f"this project holds records of its own ({', '.join(held)}); an import would replace them",
                hint="import into a fresh project: perpetual init -t FOLDER",
            )

    def migrate(self, name: str, *, dry_run: bool = False) -> StoreMigrate:
        """Moves the record into another store and chooses that one; answers `{from, to, rows, commit, backup}`.

        Raises:
            UnknownPlugin: if no plugin offers such a store.
            Conflict: if it is the one in force.
            NotPermitted: where an agent asks for it; a dry run is not refused.
        """
        if not dry_run:
            person_only(self._ctx, "moving the record into another store")
        store, present = self._ctx.store, self._ctx.config["store"]
        wanted = self._ctx.registry.choose("store", name)
        if wanted is self._ctx.registry.choose("store", present):
            raise Conflict(f"the store is {present} already", hint="perpetual store stats")
        store_migration.check_kinds(store)
        if dry_run:
            rows = sum(store.count(kind) for kind in store.kinds)
            return {"from": present, "to": name, "rows": rows, "commit": store.seq(), "backup": None}

        def load(target: StoreBase) -> int:
            source = self._ctx.store  # the one that stands still now
            for kind in source.kinds.values():
                target.declare(kind)
            return store_migration.fill(target, store_migration.rows_of(source), source.meta())

        return {"from": present, "to": name, **self._move(name, load, {"store": name})}

    def _move(self, name: str, load: Callable[[StoreBase], int], config: dict[str, object]) -> StoreMoved:
        ctx = self._ctx

        def build(path: Path) -> StoreBase:
            return ctx.build_store(name, path, claim=False)

        with ctx.restoring():
            made = store_migration.move(ctx.folder, ctx.store, build, load, now=ctx.clock(), config=config)
        ctx.forget_store()
        return {**made, "backup": str(ctx.folder / (made["backup"] or ""))}

    def examine(self) -> list[str]:
        """Returns what is wrong with the store: its files, numbers, ids, commits and references; each a sentence."""
        store = self._ctx.store
        problems = list(store.verify())
        left = self._ctx.lost()
        if left is not None and not problems:
            problems.append(lost_store.refusal(self._ctx.folder, left).message)
        if problems:
            return problems  # what cannot be read cannot be compared
        with _standing_still(store):
            present = {kind: {row["_id"]: row for row in store.slice(kind, {})} for kind in store.kinds}
            for kind in store.kinds.values():
                problems += _examine_kind(kind, present[kind.name], store)
        problems += _examine_references(present)
        for known in self._ctx.kinds.values():
            problems += _examine_plugin_kind(known, present)
        return problems


@contextmanager
def _standing_still(store: StoreBase) -> Iterator[None]:
    """Keeps writers out, so that what is compared is of one moment; but for a folder that may only be read."""
    with ExitStack() as held:
        try:
            held.enter_context(store.exclusive())
        except PerpetualError as problem:
            if problem.code != "not_written":
                raise
        yield


def _declaration(kind: StoreKind, count: int) -> dict[str, object]:
    return {
        "count": count,
        "version": kind.version,
        "ledger": kind.ledger,
        "prefix": kind.prefix,
        "indexes": list(kind.indexes),
    }


def _examine_kind(kind: StoreKind, rows: dict[str, Row], store: StoreBase) -> Iterator[str]:
    """Numbers dense from 1, ids that belong to them, commits and revisions that can be."""
    last, count = store.seq(), store.count(kind.name)
    numbers = sorted(row["_no"] for row in rows.values())
    if numbers != [*range(1, count + 1)]:
        missing = sorted(set(range(1, count + 1)) - set(numbers))
        yield f"{kind.name}: {len(rows)} of {count} rows are there; missing {_few(missing)}"
    for id, row in rows.items():
        if not 1 <= row["_seq"] <= last:
            yield f"{kind.name} {id}: written by commit {row['_seq']} of {last}"
        if row["_rev"] < 1 or (kind.ledger and row["_rev"] != 1):
            yield f"{kind.name} {id}: revision {row['_rev']}"
        if kind.ledger and id != str(row["_no"]):
            yield f"{kind.name} {id}: a row of a ledger is named by its number, {row['_no']}"
        if kind.prefix and id != f"{kind.prefix}{row['_no']}":
            yield f"{kind.name} {id}: its number is {row['_no']}"
    if kind.ledger:
        order = [row["_seq"] for row in sorted(rows.values(), key=lambda row: row["_no"])]
        if order != sorted(order):
            yield f"{kind.name}: its rows are not in the order of their commits"


# kind -> field -> the kind whose id it holds
_REFERENCES = {
    "experiment": {"hypothesis_id": "hypothesis"},
    "run": {"experiment_id": "experiment"},
    "evidence": {"hypothesis_id": "hypothesis", "experiment_id": "experiment", "run_id": "run"},
    "debit": {"run_id": "run", "experiment_id": "experiment", "hypothesis_id": "hypothesis"},
    "intent": {"path": "note"},
    "verdict": {"path": "note"},
}


def _examine_references(present: dict[str, dict[str, Row]]) -> Iterator[str]:
    for kind, fields in _REFERENCES.items():
        for id, row in present[kind].items():
            for field, other in fields.items():
                wanted = row.get(field)
                if wanted is not None and wanted not in present[other]:
                    yield f"{kind} {id}: its {field} is {wanted}, and there is no such {other}"


def _examine_plugin_kind(known: KnownKind, present: dict[str, dict[str, Row]]) -> Iterator[str]:
    """Fields and references of the rows of a plugin's kind."""
    for id, row in present[known.full_name].items():
        fields = {name: row.get(name) for name in known.kind.fields}
        wrong = value_problem(known.kind, fields)
        if wrong is not None:
            yield f"{known.full_name} {id}: {wrong}"
            continue
        for name, one in known.kind.fields.items():
            if one.references is not None and fields[name] is not None:
                kind, wanted = reference_of(known, one.references, fields[name])
                if wanted not in present.get(kind, {}):
                    yield f"{known.full_name} {id}: its {name} is {fields[name]}, and there is no such {one.references}"


def _few(numbers: list[int]) -> str:
    shown = ", ".join(str(number) for number in numbers[:5])
    return f"{shown} and {len(numbers) - 5} more" if len(numbers) > 5 else shown or "none"


class _Export:
    """An exported file: read once to be checked, then once more to be taken over.

    Raises:
        UsageError: if there is no such file. CorruptData: if it is not an export, whole and unchanged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            header = self._check()
            self.project_id = str(header["project_id"])
            counters = {name: int(kind["count"]) for name, kind in header["kinds"].items()}
            self.meta = StoreMeta(int(header["commit"]), counters)
            self.kinds = [
                StoreKind(name, kind["ledger"], kind["prefix"], tuple(kind["indexes"]), kind["version"])
                for name, kind in header["kinds"].items()
            ]
        except FileNotFoundError as problem:
            raise UsageError(f"no file {path}") from problem
        except OSError as problem:
            raise PerpetualError(f"{path} cannot be read: {problem.strerror or problem}") from problem
        except (AttributeError, KeyError, TypeError, ValueError, ArithmeticError) as problem:
            raise self._corrupt(1, f"it does not begin as an export does ({problem})") from problem

    def _corrupt(self, line: int, what: str) -> CorruptData:
        return CorruptData(f"{self.path}:{line}: {what}", hint="export it again: perpetual store export -o FILE")

    def _check(self) -> dict[str, Any]:
        """Returns the header, once the checksum over all lines is right."""
        digest = hashlib.sha256()
        first = last = b""
        count = 0
        with open(self.path, "rb") as file:
            for line in file:
                if count:
                    digest.update(last)
                else:
                    first = line
                last, count = line, count + 1
        header = self._document(1, first)
        if header.get("schema") != EXPORT_SCHEMA:
            raise self._corrupt(1, f"it is no {EXPORT_SCHEMA}")
        end = self._document(count, last)
        self.rows: int = end.get("rows", -1)
        if count < 2 or end.get("sha256") != digest.hexdigest() or self.rows != count - 2:
            raise self._corrupt(count, "it is cut off or was changed: its checksum is not that of its lines")
        return header

    def _document(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            found = parse_json(line, deepest=_DEEPEST)
        except ValueError as problem:
            raise self._corrupt(number, f"it is no JSON: {problem}") from problem
        if not isinstance(found, dict):
            raise self._corrupt(number, "it is no JSON object")
        try:
            plain: dict[str, object] = json_copy(
                found
            )  # infinity and half characters are read, and could not be written
        except UsageError as problem:
            raise self._corrupt(number, problem.message) from problem
        return plain

    def newer(self) -> str | None:
        """Returns why this program cannot take it over, if it is of a newer one."""
        from perpetual.slots.store import KINDS

        for kind in self.kinds:
            own = KINDS.get(kind.name)
            if own is not None and kind.version != own.version:
                return f"its records {kind.name!r} have version {kind.version}; this Perpetual writes {own.version}"
        return None

    def read(self) -> Iterator[tuple[str, Row]]:
        """Yields every (kind, row) as a store keeps them."""
        with open(self.path, "rb") as file:
            for number, line in enumerate(file, 1):
                if 1 < number < self.rows + 2:
                    found = self._document(number, line)
                    yield self._row(number, found)

    def _row(self, number: int, found: dict[str, object]) -> tuple[str, Row]:
        """Returns the kind and the row of a line, once it is certain that a store can keep it."""
        try:
            kind, body = found["kind"], found["body"]
            row: Row = {"_id": found["id"], "_rev": found["revision"], "_no": found["number"], "_seq": found["seq"]}
            if kind not in {known.name for known in self.kinds} or not isinstance(row["_id"], str):
                raise TypeError("its kind or its id is none")
            for key in ("_rev", "_no", "_seq"):
                if type(row[key]) is not int or not 0 <= row[key] < _BEYOND:
                    raise TypeError(f"{row[key]!r} is no count")
            if not isinstance(body, dict) or any(key[:1] == "_" for key in body):
                raise TypeError("its body is none")
        except (KeyError, TypeError) as problem:
            raise self._corrupt(number, f"it holds no row ({problem})") from problem
        return kind, {**row, **body}
