"""The records that Python answers: frozen, typed, with units in the names. Floor 0.

Their JSON is the promise of the machine interface: `to_json(record)` gives exactly these keys, and the schemas in
`perpetual_cli/schemas/` are derived from these classes. A store keeps the same keys (and may keep more).

Each module is imported when one of its names is asked for: making a class takes as long as reading a small file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, cast

from perpetual.records.lines import one_line
from perpetual.records.listing import Listing, Paged, every

if TYPE_CHECKING:
    from perpetual.records.experiment import Design, Experiment, Resources, Score
    from perpetual.records.hypothesis import Hypothesis, Prediction
    from perpetual.records.ledgers import Debit, Event, Evidence
    from perpetual.records.note import Note, Verdict
    from perpetual.records.run import GitState, Run

__all__ = [
    "ENDED", "LIVE", "Debit", "Design", "Event", "Evidence", "Experiment", "GitState", "Hypothesis", "Json",
    "Listing", "Note", "Paged", "Prediction", "Resources", "Run", "Score", "Verdict", "every", "from_json",
    "one_line", "to_json",
]  # fmt: skip

Json = dict[str, Any]

# The statuses of a run.
LIVE = ("queued", "launching", "running")
ENDED = ("done", "failed", "killed", "timeout", "lost")

_HOMES = {
    "Debit": "ledgers",
    "Design": "experiment",
    "Event": "ledgers",
    "Evidence": "ledgers",
    "Experiment": "experiment",
    "GitState": "run",
    "Hypothesis": "hypothesis",
    "Note": "note",
    "Prediction": "hypothesis",
    "Resources": "experiment",
    "Run": "run",
    "Score": "experiment",
    "Verdict": "note",
}
_NESTED = {
    ("Hypothesis", "prediction"): "Prediction",
    ("Experiment", "resources"): "Resources",
    ("Experiment", "design"): "Design",
    ("Experiment", "score"): "Score",
    ("Run", "git"): "GitState",
}

R = TypeVar("R")


def __getattr__(name: str) -> type[Any]:
    """Imports the module of a record's class."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _class(name)


def _class(name: str) -> type[Any]:
    found: type[Any] = getattr(import_module(f"perpetual.records.{_HOMES[name]}"), name)
    globals()[name] = found  # from now on it is found without asking
    return found


def from_json(cls: type[R], data: Mapping[str, object]) -> R:
    """Returns the record of class `cls` in a stored body; keys that the class does not have are left aside.

    Raises:
        KeyError: naming a key that must be there.
    """
    values: dict[str, Any] = {}
    for spec in fields(cast(Any, cls)):
        if spec.name not in data:
            continue  # the class has a default, or its constructor names what is missing
        value: Any = data[spec.name]
        if spec.name == "seed" and data.get("is_seed_known") is False:
            value = None  # older records hold 0 there
        nested = _NESTED.get((cls.__name__, spec.name))
        if nested is not None and value is not None:
            value = from_json(_class(nested), value)
        elif isinstance(value, list):
            value = tuple(value)
        values[spec.name] = value
    try:
        return cls(**values)
    except TypeError as problem:
        raise KeyError(f"{cls.__name__}: {problem}") from problem


def to_json(record: object) -> Any:
    """Returns the JSON of a record: its fields as they are, tuples as lists."""
    if is_dataclass(record) and not isinstance(record, type):
        return {spec.name: to_json(getattr(record, spec.name)) for spec in fields(record)}
    if isinstance(record, (list, tuple)):
        return [to_json(item) for item in record]
    if isinstance(record, dict):
        return {key: to_json(item) for key, item in record.items()}
    return record
