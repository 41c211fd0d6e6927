"""Kinds of records that plugins bring, as a project knows them: declared at every open, kept with the record. Floor 2.

The declaration of a kind is written with its first row into the setting `plugin_kinds`. So its rows are read, verified,
migrated and exported after the plugin is gone; nothing is written into them then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module

from perpetual.errors import CorruptData, PluginError
from perpetual.lab.kinds import LabTransaction
from perpetual.registry import Registry
from perpetual.slots.kinds import RESERVED, RecordKind, frozen_kind, thaw_kind, value_problem
from perpetual.slots.store import KINDS, Row, StoreBase
from perpetual.toolkit.contained import contained
from perpetual.toolkit.units import identifier

__all__ = ["DECLARED", "KnownKind", "declare", "note", "outdated", "reference_of", "upgraded"]

DECLARED = ("setting", "plugin_kinds")  # kind and id of the document that holds the declarations


@dataclass(frozen=True)
class KnownKind:
    """A plugin's kind in this project: `refused` says why nothing is written into it, None where it may be."""

    full_name: str
    kind: RecordKind
    plugin: str  # its qualified name
    version: str  # of the plugin
    refused: str | None = None

    @cached_property
    def stored(self) -> dict[str, object]:
        """Returns the declaration as the record keeps it."""
        return {"plugin": self.plugin, "version": self.version, "kind": frozen_kind(self.kind)}


def declare(store: StoreBase, registry: Registry) -> dict[str, KnownKind]:
    """Makes the kinds of plugins known to a store: those of installed plugins, and those that the record declares.

    Raises:
        CorruptData: for a declaration in the record that cannot be read.
    """
    known = {
        full_name: KnownKind(full_name, kind, info.qualified_name, info.version)
        for full_name, (info, kind) in registry.kinds.items()
    }
    for full_name, kept in _kept(store).items():
        installed = known.get(full_name)
        if installed is None:
            reason = f"the plugin {kept.plugin} {kept.version}, which brings {full_name}, is not active"
        elif kept.kind.version > installed.kind.version:
            reason = (
                f"a newer version of {kept.plugin} ({kept.version}) wrote {full_name}; {installed.version} is installed"
            )
        else:
            continue
        known[full_name] = KnownKind(full_name, kept.kind, kept.plugin, kept.version, reason)
    for full_name, found in known.items():
        store.declare(found.kind.declaration(full_name))
    return known


def _kept(store: StoreBase) -> dict[str, KnownKind]:
    """Returns the declarations in the record; none is looked for where no plugin has written."""
    if all(name in KINDS for name in store.meta().counters):
        return {}
    document = store.get(*DECLARED)
    found = {}
    for full_name, described in (document.body if document else {}).items():
        try:
            kind = thaw_kind(described["kind"])
            found[full_name] = KnownKind(full_name, kind, str(described["plugin"]), str(described["version"]))
        except (KeyError, TypeError, AttributeError) as problem:
            raise CorruptData(f"the declaration of the kind {full_name} cannot be read: {problem}") from problem
    return found


def note(tx: LabTransaction, known: KnownKind) -> None:
    """Writes the declaration of a kind into the record, unless it is there already."""
    present = tx.get(*DECLARED)
    body = present.body if present else {}
    if body.get(known.full_name) != known.stored:
        tx.put(*DECLARED, {**body, known.full_name: known.stored})


def outdated(store: StoreBase, known: Mapping[str, KnownKind]) -> dict[str, int]:
    """Returns the kinds whose rows an older version of their plugin wrote, with that version of the kind."""
    return {
        full_name: kept.kind.version
        for full_name, kept in _kept(store).items()
        if known[full_name].refused is None and kept.kind.version < known[full_name].kind.version
    }


def upgraded(known: KnownKind, have: int) -> Callable[[Row], Row]:
    """Returns what brings a row of a version of a kind to the present one.

    Raises:
        PluginError: (then or from what it returns) if the plugin's step is not there, fails or answers no fields.
    """
    home = known.kind.upgrade or ":"
    module, _, name = home.partition(":")
    try:
        with contained():
            step = getattr(import_module(module), name)
    except Exception as problem:
        raise _failed(known, have, problem) from problem

    def change(row: Row) -> Row:
        fields = {key: value for key, value in row.items() if key in known.kind.fields or _is_field(key)}
        own = {key: value for key, value in row.items() if key not in fields}
        for version in range(have, known.kind.version):
            try:
                with contained():
                    fields = dict(step(version, fields))
            except Exception as problem:
                raise _failed(known, version, problem) from problem
        wrong = value_problem(known.kind, fields)
        if wrong is not None:
            raise _failed(known, have, wrong)
        return {**own, **fields}

    return change


def _is_field(key: str) -> bool:
    return key not in RESERVED and key[:1] != "_"


def _failed(known: KnownKind, version: int, problem: object) -> PluginError:
    words = f"{type(problem).__name__}: {problem}" if isinstance(problem, BaseException) else problem
    return PluginError(
        f"{known.plugin} {known.version} cannot bring {known.full_name} from version {version} to the next: {words}",
        hint=f"disable the plugin, and the project opens: perpetual config set plugins.disabled {known.plugin}",
        code="plugin_broken",
    )


def reference_of(known: KnownKind, references: str, id: object) -> tuple[str, str]:
    """Returns the kind and the id, as a store has them, that a field of a plugin's kind names."""
    is_full = references in KINDS or "." in references
    other = references if is_full else f"{known.full_name.rpartition('.')[0]}.{references}"
    if other == "note":
        return other, str(id)
    return other, identifier(str(id)).removeprefix("v" if other == "evidence" else "")
