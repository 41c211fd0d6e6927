"""A hypothesis or an experiment as a form in the person's editor. Imported by `edit` at a terminal."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perpetual.api import PerpetualError, UsageError, printable
from perpetual.toolkit.units import bytes_of, hours_of, identifier, seconds_of
from perpetual.toolkit.yamlfile import write_document

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["edited", "entries", "read"]

Json = dict[str, object]
Entry = tuple[str, object, str]

_EMPTY: Json = {"notes": "", "tags": [], "priority": 0, "replicates": 1, "gpus": 0}
_MEASURES: dict[str, tuple[str, Callable[[str, str], float], str]] = {
    "cost": ("cost_run_hours", hours_of, "h"), "wall": ("wall_s", seconds_of, "s"),
    "no_output": ("no_output_s", seconds_of, "s"), "gpu_memory": ("gpu_memory_bytes", bytes_of, "B"),
    "memory": ("memory_bytes", bytes_of, "B"),
}  # fmt: skip
_NUMBERS: dict[str, type[int] | type[float]] = {
    "priority": int, "replicates": int, "gpus": int, "cpus": int, "mde": float, "noise": float, "tau": float,
}  # fmt: skip


def edited(lab: Lab, id: str, apply: Callable[[Json], None]) -> Json | None:
    """Opens the form until its changes are taken or given up; returns them, None for none.

    Raises:
        UsageError: where the editor cannot be started.
    """
    form = entries(lab, id)
    with tempfile.TemporaryDirectory(prefix="perpetual-edit-") as folder:  # for its owner alone
        path = Path(folder, f"{identifier(id)}.yaml")
        write_document(path, form, title=f"{identifier(id)}: save and close to apply; close unchanged to leave it")
        while True:
            _open(path)
            try:
                changes = read(form, _parsed(path))
                if changes:
                    apply(changes)
                return changes or None
            except PerpetualError as problem:
                click.echo(f"error: {printable(problem.message)}", err=True)
                if not click.confirm("edit the form again?", default=True):
                    return None


def _open(path: Path) -> None:
    try:
        click.edit(filename=str(path))
    except click.ClickException as problem:
        hint = "EDITOR=nano perpetual edit ID, or give options: perpetual edit --help"
        raise UsageError(problem.format_message(), hint=hint) from problem


def _parsed(path: Path) -> dict[str, object]:
    """Returns the lines that were typed; raises UsageError for what is no YAML."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        found = YAML(typ="safe").load(path.read_text("utf-8"))
    except (YAMLError, UnicodeDecodeError, ValueError, RecursionError) as problem:
        raise UsageError(f"the form is no YAML: {' '.join(str(problem).split())}") from problem
    if not isinstance(found or {}, dict):
        raise UsageError("the form has no `name: value` lines")
    return {str(name): value for name, value in (found or {}).items()}


def entries(lab: Lab, id: str) -> list[Entry]:
    """Returns the lines of the form: name, value and meaning."""
    if identifier(id)[:1] == "h":
        item = lab.hypotheses.get(id)
        said = item.prediction
        return [
            ("statement", item.statement, "the claim, in words"),
            ("metric", said.metric, "what its experiments measure"),
            ("direction", said.direction, "max or min"),
            ("mde", said.mde, "the smallest effect worth having, in the metric's units"),
            ("baseline", said.baseline, "a number or an experiment's id"),
            ("tags", [*item.tags], "words to find it by"),
        ]
    found = lab.experiments.get(id)
    design, need = found.design, found.resources
    return [
        ("title", found.title, "a line to know it by"),
        ("notes", found.notes, "why, and what to look at"),
        ("tags", [*found.tags], "words to find it by"),
        ("priority", found.priority, "waiting runs of a higher one start first"),
        ("command", found.command, "what to run, without a shell"),
        ("cwd", found.cwd, "where to run, below the project's folder"),
        ("env", {**found.env}, "variables for the run"),
        ("config", {**found.config}, "given to the run as a JSON file"),
        ("metric", design.metric, "what its runs measure, as they print it"),
        ("direction", design.direction, "max or min"),
        ("baseline", design.baseline, "a number or an experiment's id"),
        ("claim", design.claim, "improves, at_least, value, any; null for none"),
        ("mde", design.mde, "the smallest effect worth having"),
        ("noise", design.noise, "spread (sd) between seeds"),
        ("replicates", design.replicates, "how many runs"),
        ("cost", _measure(design.cost_run_hours, "h"), "expected run-hours of one run: 90s, 30m, 2h"),
        ("wall", _measure(need.wall_s, "s"), "a run is ended after that"),
        ("no_output", _measure(need.no_output_s, "s"), "a run that writes nothing for so long is ended"),
        ("gpus", need.gpus, "how many GPUs a run needs"),
        ("gpu_memory", _measure(need.gpu_memory_bytes, "B"), "on each of them, as in 24GiB"),
        ("cpus", need.cpus, "how many CPUs a run keeps busy"),
        ("memory", _measure(need.memory_bytes, "B"), "main memory of a run, as in 64GiB"),
    ]


def _measure(value: float | None, unit: str) -> str | None:
    return None if value is None else f"{value!r}{unit}"


def read(form: list[Entry], typed: Mapping[str, object]) -> Json:
    """Returns what differs from the form, as `edit` takes it.

    Raises:
        UsageError: for a line that the form does not have, or a value of another type.
    """
    known = {name: value for name, value, _ in form}
    for name in typed:
        if name not in known:
            raise UsageError(f"the form has no line {name}", hint="leave the names as they are")
    found: Json = {}
    for name, before in known.items():
        value = typed.get(name, before)
        if value != before:
            target, new = _value(name, value)
            found[target] = new
    return found


def _value(name: str, value: object) -> tuple[str, object]:
    if name in _MEASURES:
        target, convert, unit = _MEASURES[name]
        text = f"{value}{unit}" if isinstance(value, int | float) else str(value)
        return target, None if value is None else convert(text, name)
    if value is None:
        return name, "none" if name == "claim" else _EMPTY.get(name)
    if name in _NUMBERS:
        number = _NUMBERS[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or (number is int and value != int(value)):
            raise UsageError(f"{name} must be a {'whole ' * (number is int)}number, not {value!r}")
        return name, number(value)
    if name == "tags":
        if not isinstance(value, list):
            raise UsageError(f"tags must be a list, not {value!r}", hint="tags: [one, two]")
        return name, [str(item) for item in value]
    if name in ("env", "config"):
        if not isinstance(value, dict):
            raise UsageError(f"{name} must hold `name: value` lines, not {value!r}")
        return name, {str(key): str(item) if name == "env" else item for key, item in value.items()}
    if name == "baseline" and isinstance(value, int | float) and not isinstance(value, bool):
        return name, float(value)
    if isinstance(value, str):
        return name, value
    raise UsageError(f"{name} must be text, not {value!r}", hint="put it in quotes")
