"""Kinds of records and of events that a plugin brings (`perpetual_kinds`), as plain data. Floor 1.

A kind's full name is `PLUGIN.NAME`, so that no plugin takes another's name or one of Perpetual's. Its rows are written
in the lab's transactions (`lab.records`), and stay readable and exported after the plugin is gone: the declaration is
kept in the record with the first row.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from perpetual.slots.store_rows import KINDS, StoreKind

__all__ = ["RESERVED", "EventKind", "Field", "RecordKind", "frozen_kind", "kind_problem", "thaw_kind", "value_problem"]

FieldType = Literal["str", "int", "float", "bool", "list", "dict", "any"]
_PYTHON: dict[str, type | tuple[type, ...]] = {
    "str": str, "int": int, "float": (int, float), "bool": bool, "list": list, "dict": dict, "any": object,
}  # fmt: skip
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_PREFIX = re.compile(r"[a-z][a-z0-9]*-?\Z")
_HOME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*\Z")
# What a row has beside its fields, and the words that `lab.records` takes for itself.
RESERVED = frozenset({
    "id", "plugin", "plugin_version", "created_at", "created_by", "kind", "revision", "number", "fields",
    "idempotency_key", "expect_revision", "limit", "cursor", "newest_first",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a kind.

    - `type`: `str`, `int`, `float`, `bool`, `list`, `dict` or `any`; every value is JSON.
    - `meaning`: one sentence, with the unit.
    - `required`: whether each row has it; another field may be left out or null.
    - `references`: the kind whose id the field holds: `hypothesis`, `experiment`, `run`, `evidence`, `note`, a kind of
      the same plugin by its bare name, or another plugin's by its full name. `store verify` follows it.
    - `verbatim`: secrets in it are refused, where those of other fields are replaced by a mark.
    - `private`: it stays in this project: null in exports.
    """

    type: FieldType
    meaning: str
    required: bool = False
    references: str | None = None
    verbatim: bool = False
    private: bool = False


@dataclass(frozen=True, slots=True)
class RecordKind:
    """One kind of record.

    - `name`: small letters, digits and underscores; the full name is `PLUGIN.NAME`.
    - `fields`: what a row holds.
    - `ledger`: whether rows are appended and never changed.
    - `indexes`: the fields by which `find` looks without reading every row.
    - `prefix`: of generated ids, by default the name and a dash (`alarm-1`).
    - `version`: of the rows' form; it grows when fields change their meaning.
    - `upgrade`: `module:callable`, called as `(version, fields) -> fields`; brings a row's fields of a version to the
      next one. Needed where `version` is above 1. Its attribute `examples` may name fields of older rows by their
      version, which `plugins check` upgrades.
    - `exported`: whether exports hold the kind; a migration to another store takes it along in any case.
    """

    name: str
    fields: Mapping[str, Field] = field(default_factory=dict)
    ledger: bool = False
    indexes: tuple[str, ...] = ()
    prefix: str = ""
    version: int = 1
    upgrade: str | None = None
    exported: bool = True

    def declaration(self, full_name: str) -> StoreKind:
        """Returns the kind as a store keeps it."""
        prefix = "" if self.ledger else self.prefix or f"{self.name}-"
        return StoreKind(full_name, self.ledger, prefix, self.indexes, self.version)


@dataclass(frozen=True, slots=True)
class EventKind:
    """One kind of event in the feed; its full name is `PLUGIN.NAME`. `meaning` names subject and payload."""

    name: str
    meaning: str


def thaw_kind(data: Mapping[str, Any]) -> RecordKind:
    """Returns the kind that `dataclasses.asdict` made this mapping of; lists stand for tuples, as in JSON.

    Raises:
        KeyError, TypeError: for a mapping that no kind made.
    """
    fields = {name: Field(**one) for name, one in data["fields"].items()}
    return RecordKind(**{**data, "fields": fields, "indexes": tuple(data["indexes"])})


def frozen_kind(kind: RecordKind) -> dict[str, object]:
    """Returns the kind as JSON has it, without tuples; `thaw_kind` makes it anew."""
    return {**asdict(kind), "indexes": [*kind.indexes]}


def kind_problem(kind: object) -> str | None:
    """Returns why what `perpetual_kinds` answered can be no kind, or None."""
    if isinstance(kind, EventKind):
        return None if _NAME.match(kind.name) and kind.meaning.strip() else f"{kind.name!r} is no kind of event"
    if not isinstance(kind, RecordKind):
        return f"a {type(kind).__name__} is neither a RecordKind nor an EventKind"
    if not _NAME.match(kind.name):
        return f"{kind.name!r} is no name of a kind (small letters, digits, underscores)"
    if kind.prefix and (not _PREFIX.match(kind.prefix) or kind.prefix in _taken_prefixes()):
        return f"{kind.name}: the prefix {kind.prefix!r} is taken, or is no prefix"
    for name, one in kind.fields.items():
        wrong = _field_problem(name, one)
        if wrong is not None:
            return f"{kind.name}: {wrong}"
    lacking = [name for name in kind.indexes if name not in kind.fields]
    if lacking:
        return f"{kind.name}: there is no field {lacking[0]!r} to index"
    if type(kind.version) is not int or kind.version < 1:
        return f"{kind.name}: its version is {kind.version!r}, not 1 or more"
    if kind.version > 1 and kind.upgrade is None:
        return f"{kind.name}: version {kind.version} needs an upgrade from the ones before"
    if kind.upgrade is not None and not _HOME.match(kind.upgrade):
        return f"{kind.name}: the upgrade {kind.upgrade!r} is not module:callable"
    return None


def _taken_prefixes() -> set[str]:
    return {kind.prefix for kind in KINDS.values()} | {"v"}


def _field_problem(name: str, one: object) -> str | None:
    if not isinstance(one, Field):
        return f"{name} is a {type(one).__name__}, not a Field"
    if not _NAME.match(name) or name in RESERVED:
        return f"{name!r} is no name of a field"
    if one.type not in _PYTHON:
        return f"{name}: {one.type!r} is no type of a field"
    if not one.meaning.strip():
        return f"{name} says nothing of what it means"
    if one.references is not None and one.type != "str":
        return f"{name} holds an id, so its type is str"
    return None


def value_problem(kind: RecordKind, fields: Mapping[str, object]) -> str | None:
    """Returns why the fields can be no row of the kind, or None."""
    for name in fields:
        if name not in kind.fields:
            return f"there is no field {name!r}; there is {', '.join(kind.fields) or 'none'}"
    for name, one in kind.fields.items():
        value = fields.get(name)
        if value is None:
            if one.required:
                return f"the field {name} is missing"
        elif not isinstance(value, _PYTHON[one.type]) or (type(value) is bool and one.type in ("int", "float")):
            return f"the field {name} must be {one.type}, not {type(value).__name__}"
    return None
