"""Context of every part of the lab: store, registry, configuration, clock and actor. Floor 2.

It also does what all of them need: it emits events, recognises idempotency keys and names the nearest ids.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from perpetual.catalogue import Offer
from perpetual.errors import (
    ConfigError,
    Conflict,
    NotFound,
    PerpetualError,
    PluginError,
    TransientError,
    UsageError,
    masked,
    nearest,
    unknown,
)
from perpetual.events import KINDS as EVENT_KINDS
from perpetual.lab import lost_store, schema_upgrades, store_migration
from perpetual.lab.broken_part import Unbuilt
from perpetual.lab.config import LabConfig
from perpetual.lab.kinds import EVENT, KEY
from perpetual.lab.options import PluginOptions
from perpetual.lab.redaction import Redaction
from perpetual.lab.trust import Trust
from perpetual.registry import Registry
from perpetual.slots import key_of_option
from perpetual.slots.store import KINDS, Document, Row, StoreBase
from perpetual.slots.table import Slot
from perpetual.toolkit import confined
from perpetual.toolkit.config_keys import Key
from perpetual.toolkit.jsoncopy import json_copy
from perpetual.toolkit.limits import fits_text
from perpetual.toolkit.units import identifier, iso

if TYPE_CHECKING:
    from perpetual.lab import isolated_parts, plugin_kinds
    from perpetual.lab.kinds import KindName, LabStore, LabTransaction
    from perpetual.slots.redactor import Redactor
    from perpetual.slots.store_rows import Body
    from perpetual.toolkit.helper_process import HelperProcess
    from perpetual.toolkit.lock import FileLock

__all__ = ["Clock", "Context"]

_LONGEST_KEY = 1_000  # characters
_PATHS = {"memory": "memory.git"}  # where a provider keeps its files, below the project's folder
# what an id's letter says it is, and the command that shows it
_SHOWN_BY = {
    "h": ("hypothesis", "a hypothesis", "hypotheses show"), "e": ("experiment", "an experiment", "experiments"),
    "r": ("run", "a run", "runs"),
}  # fmt: skip
_NAMED = 8  # records of another that are named
_KNOWN = 500  # of the newest records: among them the nearest ids are looked for
Clock = Callable[[], datetime]
Made = TypeVar("Made")
_FOLDERS = ("store", "store.new", "runs", "memory.git", "backups")  # none of which may be a link


def _part_of(offer: Offer) -> str:
    """Returns what a provider is called among the failures of its plugin."""
    return f"{offer.provider.slot} {offer.provider.name}"


def utc_now() -> datetime:
    """Returns the default clock."""
    return datetime.now(UTC)


class Context:
    """The five of them; the store is opened at first use. Shared by the components of one `Lab`, safe in threads."""

    def __init__(self, config: LabConfig, registry: Registry, *, actor: str, clock: Clock = utc_now) -> None:
        self.config, self.registry, self.actor, self.clock = config, registry, actor, clock
        config.methodology_keys = self._methodology_keys
        self.trust = Trust(config, actor=actor)
        self.options = PluginOptions(config, registry)
        self._store: LabStore | None = None
        self._inode: int | None = None  # of the store's folder when it was opened
        self._is_moved = False
        self._remains: str | None = None  # of a lost record, when an empty store was opened
        self._is_restoring = False
        self._built: dict[str, Any] = {}
        self._cached: dict[object, object] = {}
        self.kinds: dict[str, plugin_kinds.KnownKind] = {}  # that plugins bring, or have left here
        self._lock = threading.RLock()
        self._writer: FileLock | None = None

    def acting_as(self, actor: str) -> Context:
        """Returns the same store and parts, in another name.

        The record tells what a program does on a person's word from what the person does.
        """
        _ = self.store  # opened before it is shared
        other = copy(self)
        other.actor, other._cached = actor, {}
        return other

    def _methodology_keys(self) -> dict[str, Key]:
        return {name: key_of_option(name, option) for name, option in self.registry.methodology.items()}

    @property
    def folder(self) -> Path:
        """Returns the project's `.perpetual/`."""
        return self.config.folder

    @property
    def store(self) -> LabStore:
        """Returns the chosen store.

        Raises:
            PluginError: if it cannot be chosen or built.
            Conflict: if it takes one writer and another process is that one.
        """
        with self._lock:
            if self._store is not None and (self._is_moved or self._is_elsewhere()):
                self.forget_store()
            if self._store is None:
                if store_migration.is_pending(self.folder):
                    store_migration.finish(self.folder)
                    self.config.reload()
                self._check_choice()
                self._check_folders()
                inode = self._present_inode()  # before it is opened: a move meanwhile is noticed
                store = self.build_store(self.config["store"], self.folder / store_migration.STORE)
                self._store, self._inode = cast("LabStore", store), inode  # only once it may be written
                store.fence = self._fence
                self._remains = lost_store.found(self.folder) if not store.seq() else None
                self.kinds = self._declared(store)
                store.clean = self._cleaned
                if self.trust.record is not None and self.trust.record.commit:
                    self.trust.see(store.seq())
                older = {**schema_upgrades.outdated(store), **self._outdated(store)}
                if older:
                    self._upgrade(store, older)
                    return self.store
            return self._store

    def _declared(self, store: StoreBase) -> dict[str, plugin_kinds.KnownKind]:
        """Declares the kinds of plugins; where there is none, nothing is imported for them."""
        if not self.registry.kinds and all(name in KINDS for name in store.meta().counters):
            return {}
        from perpetual.lab import plugin_kinds

        return plugin_kinds.declare(store, self.registry)

    def _outdated(self, store: StoreBase) -> dict[str, int]:
        """Returns the kinds of plugins whose rows an older version wrote."""
        if not self.kinds:
            return {}
        from perpetual.lab import plugin_kinds

        return plugin_kinds.outdated(store, self.kinds)

    def _cleaned(self, kind: str, body: dict[str, object]) -> dict[str, object]:
        """Returns what a row becomes before it is staged: without secrets."""
        known = self.kinds.get(kind)
        if known is None:
            return self.redaction.cleaned(kind, body)
        verbatim = {name for name, field in known.kind.fields.items() if field.verbatim}
        return self.redaction.cleaned_fields(kind, body, verbatim)

    def _check_folders(self) -> None:
        """Raises PerpetualError where a folder of the project is a link: the files below it are not this project's."""
        try:
            for name in _FOLDERS:
                confined.check_folder(self.folder / name)
        except confined.UnsafePath as problem:
            raise confined.explain(problem) or problem from problem

    def _check_choice(self) -> None:
        """Raises Conflict where PERPETUAL_STORE names another store than the one that holds the project's record."""
        chosen, recorded = self.config["store"], str(self.config.recorded("store"))
        if chosen == recorded:
            return
        try:
            is_same = self.registry.choose("store", chosen) is self.registry.choose("store", recorded)
            own = None if is_same else self.build_store(recorded, self.folder / store_migration.STORE, claim=False)
        except PluginError:
            return  # the recorded one is not to be had: naming another is the way out, or the choice fails by name
        if own is None:
            return
        try:
            has_record = bool(own.seq())
        finally:
            own.close()
        if has_record:
            raise Conflict(
                f"PERPETUAL_STORE={chosen} would split the record, which {recorded} holds",
                hint=f"unset PERPETUAL_STORE; or take the record along: perpetual store migrate {chosen}",
            )

    def lost(self) -> str | None:
        """Returns what is left of a record whose store is empty; None where nothing is amiss."""
        return lost_store.found(self.folder) if not self.store.seq() else None

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """Lets an empty store be written beside the remains of a record, which is being put back."""
        self._is_restoring = True
        try:
            yield
        finally:
            self._is_restoring = False

    def build_store(self, name: str, path: Path, *, claim: bool = True) -> StoreBase:
        """Returns the provider of that name at a path.

        Args:
            claim: whether to be its one writer, where it takes only one.
        """
        offer = self.registry.choose("store", name)
        options = self.options.of(offer)
        store: StoreBase = self.registry.build(offer, options, path=path)
        if claim and not store.capabilities.multiprocess:
            try:
                self._claim(offer.qualified_name)
            except BaseException:
                store.close()
                raise
        return store

    def _present_inode(self) -> int | None:
        try:
            return os.lstat(f"{self.folder}/{store_migration.STORE}").st_ino
        except FileNotFoundError:
            return None

    def _is_elsewhere(self) -> bool:
        """Returns whether another folder stands where the store was opened: what is open has been put aside."""
        present = self._present_inode()
        if self._inode is None:
            self._inode = present  # the first write has made the folder
        if present is None:
            # The old store is put aside, and the new one is not in its place yet.
            return self._inode is not None and store_migration.is_pending(self.folder)
        return present != self._inode

    def _fence(self) -> None:
        """Refuses to write to a held project, and to a store that another process has put aside meanwhile.

        Raises:
            NotPermitted: (not_trusted) for a held project.
            TransientError: for a store that was put aside; the next call opens the new one.
        """
        self.trust.fence()
        present = self._present_inode()
        if self._inode is None:
            self._inode = present  # this very write has made the folder
        if present != self._inode or store_migration.is_pending(self.folder):
            raise self._moved()
        if self._store is not None and self._store.retired() is not None:
            self._claim_back(self._store)
        if self._remains is not None and not self._is_restoring and self._store is not None:
            left = lost_store.found(self.folder) if not self._store.seq() else None
            if left is not None:
                raise lost_store.refusal(self.folder, left)
            self._remains = None  # put back meanwhile

    def _moved(self) -> TransientError:
        self._is_moved = True  # it is in use just now, so it is let go of at the next look
        return TransientError(
            "another process has moved this project's store to a new place", hint="try again", code="store_moved"
        )

    def _claim_back(self, store: StoreBase) -> None:
        """Takes the mark of a replaced record off, if its migration ended before the new record was in force.

        Called with the store's lock held, which a migration holds from the mark until the new record is in force.

        Raises:
            TransientError: if the record was replaced.
        """
        if self._is_restoring:  # this process moves the store itself, and holds the lock of migrations
            with store.exclusive():
                store.retire(None)
            return
        lock = store_migration.alone(self.folder)
        if not lock.acquire(blocking=False):
            raise self._moved()
        try:
            if store_migration.is_pending(self.folder) or self._present_inode() != self._inode:
                raise self._moved()
            # A file system of the network may show folders as they were; what is opened anew is of now.
            present = self.build_store(self.config["store"], self.folder / store_migration.STORE, claim=False)
            try:
                is_same = present.location() == store.location()
            finally:
                present.close()
            if not is_same:
                raise self._moved()
            store.retire(None)
        finally:
            lock.release()

    def forget_store(self) -> None:
        """Lets go of the store; the next operation opens the one that the configuration then names."""
        with self._lock:
            self.close()
            self.config.reload()

    def _upgrade(self, store: StoreBase, older: Mapping[str, int]) -> None:
        """Rewrites the bodies of older kinds into a new store, and keeps the old one whole."""
        name = self.config["store"]

        from perpetual.lab import plugin_kinds

        steps = {
            name: plugin_kinds.upgraded(self.kinds[name], have) for name, have in older.items() if name in self.kinds
        }

        def changed(kind: str, row: Row) -> Row:
            if kind in steps:
                return steps[kind](row)
            version = store.kinds[kind].version
            return schema_upgrades.changed(kind, row, older.get(kind, version), version)

        def load(target: StoreBase) -> int:
            for kind in store.kinds.values():
                target.declare(kind)
            rows = [(kind, changed(kind, row)) for kind, row in store_migration.rows_of(store)]
            count = store_migration.fill(target, rows, store.meta())
            with cast("LabStore", target).transaction() as tx:
                is_new = tx.get(*schema_upgrades.VERSIONS) is None
                tx.put(*schema_upgrades.VERSIONS, schema_upgrades.versions_of(target.kinds))
                for name in steps:
                    plugin_kinds.note(tx, self.kinds[name])
            return count + is_new

        def build(path: Path) -> StoreBase:
            return self.build_store(name, path, claim=False)

        try:
            with self.restoring(), self.trust.lifted():  # a held project is read in the present format too
                store_migration.move(self.folder, store, build, load, now=self.clock(), config={})
        except Conflict as problem:
            if problem.code != store_migration.MOVING:
                raise
            store_migration.wait(self.folder)  # another process does the same
        except TransientError as problem:  # or has done it just now
            if problem.code != "store_moved":
                raise
        self.forget_store()

    def _claim(self, name: str) -> None:
        from perpetual.toolkit.lock import FileLock

        writer = FileLock(self.folder / "writer.lock")
        if not writer.acquire(blocking=False):
            raise Conflict(
                f"the store {name} takes one writer, and another process has this project open",
                hint="end that process, or choose a store that several processes may write (store: tinydb)",
            )
        self._writer = writer

    def part(self, slot: str) -> Any:
        """Returns the provider that the configuration chooses for a slot, built once.

        Raises:
            UsageError: for a slot in which several serve, for one that there is not, and for the store.
            PluginError: if the provider cannot be chosen or built.
        """
        row = self.registry.slot(slot)
        if row.is_additive:
            raise UsageError(f"every {row.noun} serves; none is chosen", hint=f'lab.parts("{slot}")')
        if slot == "store":
            raise UsageError("the store belongs to the lab, which alone writes it", hint="lab.storage")
        with self._lock:
            if slot not in self._built:
                offer = self.registry.choose(slot, self.config.chosen(row))
                options = self.options.of(offer)
                self._built[slot] = self.registry.build(offer, options, **self._arguments(row))
            return self._built[slot]

    @property
    def redactor(self) -> Redactor:
        """Returns the redactor in force.

        Raises:
            PluginError: if it cannot be chosen or built: without one, nothing is recorded.
        """
        try:
            found: Redactor = self.part("redactor")
        except PluginError as problem:
            message = f"no redactor is in force, and nothing is recorded without one: {problem.message}"
            raise PluginError(message, hint=problem.hint, code=problem.code) from problem
        return found

    @property
    def redaction(self) -> Redaction:
        """Returns what keeps secrets out of rows and documents.

        Where a text is looked at, it raises as `redactor` does.
        """
        return Redaction(lambda: self.redactor)

    def part_named(self, slot: str, name: str) -> Any:
        """Returns the provider of that name, whichever one the configuration chooses, built once.

        Raises:
            PluginError: if it cannot be chosen or built.
        """
        if name == self.config.chosen(self.registry.slot(slot)):
            return self.part(slot)
        with self._lock:
            key = f"{slot}={name}"
            if key not in self._built:
                offer = self.registry.choose(slot, name)
                options = self.options.of(offer)
                self._built[key] = self.registry.build(offer, options)
            return self._built[key]

    def _arguments(self, slot: Slot) -> dict[str, Path]:
        """Returns what a factory of the slot gets besides its options."""
        if "path" not in slot.arguments:
            return {}
        return {"path": self.folder / _PATHS.get(slot.name, f"parts/{slot.name}")}

    def parts(self, slot: str) -> list[tuple[str, Any]]:
        """Returns every provider that serves in a slot as (qualified name, object), in order, each built once.

        Raises:
            UsageError: for a slot that there is not.
        """
        row = self.registry.slot(slot)
        if not row.is_additive:
            chosen = self.registry.choose(slot, self.config.chosen(row))
            return [(chosen.qualified_name, self.part(slot))]
        with self._lock:
            if slot not in self._built:
                serving = self.registry.serving(slot)
                out = self.failures.left_out() if any(not offer.is_bundled for offer in serving) else {}
                self._built[slot] = [
                    (offer.qualified_name, self._built_or_not(offer))
                    for offer in serving
                    if (offer.plugin, _part_of(offer)) not in out or self._is_required(offer)
                ]
            found: list[tuple[str, object]] = self._built[slot]
            return found

    def _is_required(self, offer: Offer) -> bool:
        """Returns whether no note is written without this gate, which is therefore never left out."""
        if offer.provider.slot != "gate":
            return False
        required = self.config.methodology["required_gates"]
        return offer.qualified_name in required or offer.name in required

    def _built_or_not(self, offer: Offer) -> object:
        """Returns the provider, or a part whose every use says why it could not be built: it alone fails."""
        try:
            row = self.registry.slot(offer.provider.slot)
            options = self.options.of(offer)
            if row.name == "gate" and self.registry.is_apart(offer.plugin):
                part = self._gate_apart(offer, options)
            else:
                part = self.registry.build(offer, options, **self._arguments(row))
        except (PerpetualError, OSError) as problem:
            if not offer.is_bundled and not isinstance(problem, ConfigError):  # a wrong option is the user's
                self.failures.add(offer.plugin, _part_of(offer), masked(str(problem)))
            return Unbuilt(masked(str(problem)))
        if not offer.is_bundled:
            self.failures.clear(offer.plugin, _part_of(offer))
        return part

    @cached_property
    def helper(self) -> HelperProcess:
        """Returns the process in which gates and observers of other distributions are called.

        Started by the first call.
        """
        return self.registry.helper()

    @cached_property
    def failures(self) -> isolated_parts.PartFailures:
        """Returns the failures of plugins' parts in this project."""
        from perpetual.lab.isolated_parts import PartFailures

        return PartFailures(str(self.config.folder), self.registry)

    def _gate_apart(self, offer: Offer, options: Mapping[str, object]) -> isolated_parts.HelperGate:
        from perpetual.lab import isolated_parts
        from perpetual.toolkit.deadline import OutOfTime
        from perpetual.toolkit.helper_process import HelperEnded

        limit_s = self.config["plugin_gate_s"]
        try:
            return isolated_parts.HelperGate(self.helper, offer.provider.factory, options, limit_s)
        except (isolated_parts.PartRaised, HelperEnded, OutOfTime) as problem:
            raise PluginError(f"gate: {offer.qualified_name} cannot be built: {problem}", code="plugin_broken",
                              hint="perpetual plugins list names its plugin; disable it, or mend what it needs",
                              ) from problem  # fmt: skip

    def cached(self, make: Callable[[Context], Made]) -> Made:
        """Returns what `make` makes of this context, made once: for what remembers something between two calls."""
        with self._lock:
            if make not in self._cached:
                self._cached[make] = make(self)
            return cast("Made", self._cached[make])

    def now(self) -> str:
        """Returns the clock's time as the record writes it."""
        return iso(self.clock())

    def emit(self, tx: LabTransaction, kind: str, subject: str, payload: Mapping[str, object]) -> int:
        """Appends an event to the feed, in the transaction of its change, and returns its seq.

        Raises:
            UsageError: for a kind that `perpetual.events` does not name.
        """
        if kind not in EVENT_KINDS and kind not in self.registry.events:
            raise UsageError(unknown("kind of event", kind, [*EVENT_KINDS, *self.registry.events]))
        row = {"time": self.now(), "actor": self.actor, "kind": kind, "subject": subject, "payload": dict(payload)}
        return tx.append(EVENT, row)

    @overload
    def need(self, kind: KindName[Body], id: str) -> Document[Body]: ...
    @overload
    def need(self, kind: str, id: str) -> Document: ...
    def need(self, kind: KindName[Body] | str, id: str) -> object:
        """Returns the document of that id, any case.

        Raises:
            NotFound: naming the nearest ids.
        """
        found = self.store.get(kind, identifier(id))
        if found is not None:
            return found
        known = [document.id for document in self.store.page(kind, limit=_KNOWN, newest_first=True).items][::-1]
        near = nearest(identifier(id), known) or known[-3:]
        hint = f"the nearest: {', '.join(near)}" if near else f"there is no {kind} yet"
        other = _SHOWN_BY.get(identifier(id)[:1])
        item = self.store.get(other[0], identifier(id)) if other is not None and other[0] != kind else None
        if other is None or item is None:
            raise NotFound(f"no {kind} {id}", hint=hint)
        theirs = [str(item.body[f"{kind}_id"] or "")] if f"{kind}_id" in item.body else []
        if f"{other[0]}_id" in self.store.kinds[str(kind)].indexes:
            theirs = [found.id for found in self.store.find(kind, **{f"{other[0]}_id": item.id})]
        shown = ", ".join(filter(None, [*theirs[:_NAMED], *(["..."] if len(theirs) > _NAMED else [])]))
        which = f"; its {kind}{'s' * (len(theirs) > 1)}: {shown}" if shown else ""
        raise NotFound(f"{item.id} is {other[1]}, no {kind}{which}", hint=f"perpetual {other[2]} {item.id}")

    def shown_by(self, id: str) -> str | None:
        """Returns what a record of that id is and the command that shows it; None where there is none."""
        kind, what, command = _SHOWN_BY.get(identifier(id)[:1], ("", "", ""))
        known = bool(kind) and self.store.get(kind, identifier(id)) is not None
        return f"{id} is {what}: perpetual {command} {id}" if known else None

    def recall(self, tx: LabTransaction, key: str | None, deed: str) -> str | None:
        """Returns the id that an idempotency key made earlier, or None.

        Raises:
            Conflict: if the key belongs to another operation.
            UsageError: if it is empty, or no text.
        """
        if key is None:
            return None
        if not key.strip():
            raise UsageError("the idempotency key is empty", hint="any text that names this one request")
        fits_text(key, "the idempotency key", _LONGEST_KEY)
        json_copy(key, "the idempotency key")
        self.redaction.refuse_key(key)
        found = tx.get(KEY, key)
        if found is None:
            return None
        if found.body["deed"] != deed:
            raise Conflict(f"the idempotency key {key!r} was used for {found.body['deed']}", hint="use a fresh key")
        made: str = found.body["made"]
        return made

    def remember(self, tx: LabTransaction, key: str | None, deed: str, made: str) -> None:
        """Binds an idempotency key to what it made."""
        if key is not None:
            tx.put(KEY, key, {"deed": deed, "made": made}, expect_revision=0)

    def close(self) -> None:
        """Lets go of the store."""
        with self._lock:
            if "helper" in self.__dict__:
                self.helper.close()
            store, self._store, self._is_moved = self._store, None, False
            writer, self._writer = self._writer, None
            if store is not None:
                store.close()
            if writer is not None:
                writer.release()
