"""Trying the kinds that a plugin brings in a scratch lab: rows of each, their export and import, their upgrade, events.

Used by `scratch_program`. An upgrade is tried on the fields of older rows that its attribute `examples` names
(`upgrade.examples = {1: {"volume": 80}}`), else on a present row's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from perpetual import Lab
from perpetual.api import Field, PerpetualError, PluginInfo, RecordKind

__all__ = ["Wrong", "try_kinds"]

_Step = Callable[[int, dict[str, object]], Mapping[str, object]]
_Fields: TypeAlias = dict[str, Any]  # of a row: any value of JSON, as `Record.fields` holds them
_Rows = dict[str, list[tuple[str, _Fields]]]  # ids and fields of what was written, by kind

_RUN_S = 15.0
_PYTHON = {"str": str, "int": int, "float": (int, float), "bool": bool, "list": list, "dict": dict, "any": object}
_SAMPLES: Mapping[str, object] = {
    "str": "gr\u00f6\u00dfe \u7814\u7a76", "int": 2**53 + 1, "float": 0.1, "bool": True, "list": [1, "a", None],
    "dict": {"a": {"b": [2**53 + 1]}}, "any": {"a": 1},
}  # fmt: skip


class Wrong(Exception):
    """What does not hold, in words."""


def try_kinds(lab: Lab, info: PluginInfo) -> tuple[str, list[str]]:
    """Returns what was tried, and what could not be.

    Args:
        lab: a scratch project of this process with a hypothesis h1 and an experiment e1.

    Raises:
        Wrong: for the first thing that does not hold.
    """
    unclear: list[str] = []
    made: _Rows = {}
    waiting = list(info.kinds)
    while waiting:  # a kind may refer to another one of the plugin
        ready = [kind for kind in waiting if not {one.name for one in waiting} & _wants(info, kind)] or waiting
        for kind in ready:
            waiting.remove(kind)
            why = _upgrade_problem(info, kind)
            if why is not None:
                unclear.append(why)
            fields = _row(lab, info, kind, made)
            if fields is None:
                unclear.append(f"{kind.name}: a row needs what a scratch lab lacks")
            else:
                made[kind.name] = _written(lab, info, kind, fields)
    _found(lab, info, made)
    if made:
        _come_back(lab, info, made)
    for event in info.events:
        _heard(lab, f"{info.name}.{event.name}")
    said = [f"{len(made)} kinds written, exported and imported"] if made else []
    said += [f"{len(info.events)} kinds of events appended"] if info.events else []
    return "; ".join(said), unclear


def _wants(info: PluginInfo, kind: RecordKind) -> set[str]:
    """Returns the kinds of the same plugin whose rows a row of this one must name, itself left out."""
    wanted = {str(one.references).removeprefix(f"{info.name}.") for one in kind.fields.values() if one.references}
    return wanted - {kind.name}


def _row(lab: Lab, info: PluginInfo, kind: RecordKind, made: _Rows) -> _Fields | None:
    """Fields for a row; None where a required reference cannot be had."""
    fields: _Fields = {}
    for name, one in kind.fields.items():
        if one.references is None:
            fields[name] = _SAMPLES[one.type]
            continue
        id = _referred(lab, one.references.removeprefix(f"{info.name}."), one, made)
        if id is not None:
            fields[name] = id
        elif one.required:
            return None
    return fields


def _referred(lab: Lab, kind: str, field: Field, made: _Rows) -> str | None:
    if kind in made:
        return made[kind][0][0]
    if kind == "run" and field.required and not lab.runs.list().items:
        lab.experiments.approve("e1")
        lab.runs.launch("e1")
        lab.wait(["e1"], timeout_s=_RUN_S)
    runs = lab.runs.list().items if kind == "run" else ()
    return {"hypothesis": "h1", "experiment": "e1"}.get(kind) or (runs[0].id if runs else None)


def _written(lab: Lab, info: PluginInfo, kind: RecordKind, fields: _Fields) -> list[tuple[str, _Fields]]:
    rows = lab.records(f"{info.name}.{kind.name}")
    write = rows.append if kind.ledger else rows.add
    bare = {name: value for name, value in fields.items() if kind.fields[name].required}
    try:
        written = [write(**fields), write(**bare)]
    except PerpetualError as problem:
        _wrong(kind, f"a row cannot be written: {problem}")
    return [(record.id, record.fields) for record in written]


def _found(lab: Lab, info: PluginInfo, made: _Rows) -> None:
    for kind in info.kinds:
        rows = lab.records(f"{info.name}.{kind.name}")
        for id, fields in made.get(kind.name, []):
            if rows.get(id).fields != fields:
                _wrong(kind, f"{id} is read otherwise than it was written")
            for name in kind.indexes:
                if id not in [one.id for one in rows.find(**{name: fields[name]})]:
                    _wrong(kind, f"{id} is not found by its field {name}")
    faults = lab.storage.verify()
    if faults:
        raise Wrong(f"store verify: {faults[0]}")


def _come_back(lab: Lab, info: PluginInfo, made: _Rows) -> None:
    """Checks that rows survive an export and import into an empty project; private fields are null there."""
    lab.storage.export_file(Path("export.jsonl"))
    with Lab.init(Path("other"), name="other", registry=lab.registry) as other:
        other.storage.import_file(Path("export.jsonl"))
    with Lab.open(Path("other"), registry=lab.registry) as other:
        for kind in info.kinds:
            rows = other.records(f"{info.name}.{kind.name}")
            there = {row.id: row.fields for row in rows.list().items}
            for id, fields in made.get(kind.name, []) if kind.exported else []:
                wanted = {name: None if kind.fields[name].private else value for name, value in fields.items()}
                if there.get(id) != wanted:
                    _wrong(kind, f"an export brings {id} back as {json.dumps(there.get(id))[:200]}")
            if not kind.exported and there:
                _wrong(kind, "it is not exported, and its rows came along")
        faults = other.storage.verify()
    if faults:
        raise Wrong(f"after an import, store verify: {faults[0]}")


def _upgrade_problem(info: PluginInfo, kind: RecordKind) -> str | None:
    """Returns why its upgrade has no verdict, or None where it has a good one."""
    if kind.version == 1:
        return None
    step = _step(kind)
    examples: Mapping[int, Mapping[str, object]] = getattr(step, "examples", {})
    present = {name: _SAMPLES[one.type] for name, one in kind.fields.items()}
    for version, fields in examples.items() or [(1, present)]:
        wrong = _upgrade_fault(step, kind, version, fields)
        if wrong is not None and not examples:
            return f"{kind.name}: no row of version 1 is known: name one in the upgrade's attribute `examples`"
        if wrong is not None:
            _wrong(kind, f"its upgrade of version {version} {wrong}")
    return None


def _upgrade_fault(step: _Step, kind: RecordKind, version: int, fields: Mapping[str, object]) -> str | None:
    try:
        one, other = (_through(step, kind, version, fields) for _ in range(2))
    except Exception as problem:  # noqa: BLE001 - a foreign function may raise anything; it is this kind's finding
        return f"failed: {type(problem).__name__}: {problem}"
    if one != other:
        return "answers otherwise each time"
    wrong = _misfit(kind, one)
    return None if wrong is None else f"is no row: {wrong}"


def _step(kind: RecordKind) -> _Step:
    module, _, name = str(kind.upgrade).partition(":")
    try:
        step = getattr(import_module(module), name)
    except Exception as problem:  # noqa: BLE001 - a foreign module may raise anything; it is this kind's finding
        _wrong(kind, f"its upgrade {kind.upgrade} cannot be imported: {problem}")
    if not callable(step):
        _wrong(kind, f"its upgrade {kind.upgrade} cannot be called")
    found: _Step = step
    return found


def _through(step: _Step, kind: RecordKind, have: int, fields: Mapping[str, object]) -> dict[str, object]:
    """Returns the fields, brought from a version to the present one as at the opening of a project."""
    present: dict[str, object] = json.loads(json.dumps(dict(fields)))
    for version in range(have, kind.version):
        present = dict(step(version, present))
    return present


def _misfit(kind: RecordKind, fields: Mapping[str, object]) -> str | None:
    for name, one in kind.fields.items():
        value = fields.get(name)
        if value is None and one.required:
            return f"the field {name} is missing"
        if value is not None and not isinstance(value, _PYTHON[one.type]):  # type: ignore[arg-type]
            return f"the field {name} is a {type(value).__name__}, not {one.type}"
    return None


def _heard(lab: Lab, name: str) -> None:
    event = lab.feed.emit(name, "h1", {"n": 1})
    if event not in lab.events():
        raise Wrong(f"{name}: it was appended, and is not in the feed")


def _wrong(kind: RecordKind, what: str) -> NoReturn:
    raise Wrong(f"{kind.name}: {what}")
