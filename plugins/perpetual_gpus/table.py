"""The table of `perpetual gpu-status`: a line a device, with bars, and below it one for each MIG instance.

Imported by `command.py` when it shows the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from perpetual.api import printable

if TYPE_CHECKING:
    from rich.console import Console, OverflowMethod, RenderableType
    from rich.table import Table

    from perpetual.api import DeviceStatus, GpuProcessStatus, GpuStatus, InstanceStatus

__all__ = ["gpu_facts", "gpu_table"]

_COLOURS = {"free": "green", "leased": "cyan", "used": "yellow", "excluded": "dim", "sick": "bold red", "cut": ""}
_NARROW, _ROOMY = 90, 120  # columns: below the first names and power are left out, from the second on bars are long
_MOST_HOLDERS = 4  # lines of one device
_GIB = 2**30


class _Row(NamedTuple):
    """One line of the table, its cells as text; load and memory also as a value and what is all of it."""

    number: str
    name: str
    load_share: tuple[float | None, float | None]
    load: str
    memory_share: tuple[float | None, float | None]
    memory: str
    temperature: str
    power: str
    holders: list[str]
    style: str


def gpu_table(document: GpuStatus, console: Console) -> Table:
    """Returns the table of a document of devices, for the console's width: long cells end in dots, nothing wraps."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    title = Text(f"driver {printable(document['driver'] or 'unknown')}")
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False, padding=(0, 1, 0, 0))
    rows = [row for gpu in document["gpus"] for row in _rows(gpu)]
    bar = 10 if console.width >= _ROOMY else 6 if console.width >= _NARROW else 4
    # Numbers are shown whole; what gives way is the name and the last column.
    table.add_column("GPU", no_wrap=True, min_width=max(len("GPU"), *(len(row.number) for row in rows)))
    named = console.width >= _NARROW
    overflow: OverflowMethod = "crop" if console.options.ascii_only else "ellipsis"
    if named:
        table.add_column("name", no_wrap=True, overflow=overflow, max_width=24 if console.width >= _ROOMY else 14)
    for head, shown in (("load", [row.load for row in rows]), ("memory", [row.memory for row in rows])):
        table.add_column(head, no_wrap=True, overflow=overflow, width=max(bar, len(head)))
        table.add_column("", justify="right", no_wrap=True, min_width=max(map(len, shown)))
    small = [("temp", [row.temperature for row in rows])]
    small += [("power", [row.power for row in rows])] if named else []
    for head, shown in small:
        table.add_column(head, justify="right", no_wrap=True, min_width=max(map(len, [head, *shown])))
    table.add_column("state", no_wrap=True, overflow=overflow)
    for place, row in enumerate(rows):
        cells: list[RenderableType] = [Text(row.number), *([Text(row.name)] if named else [])]
        cells += [_bar(row.load_share, _busy), Text(row.load), _bar(row.memory_share, _full), Text(row.memory)]
        cells += [Text(shown[place]) for _, shown in small]
        table.add_row(*cells, Text("\n".join(row.holders), style=row.style))
    return table


def gpu_facts(document: GpuStatus) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Returns the columns and the rows of the same table as text alone, for a screen reader."""
    rows = [row for gpu in document["gpus"] for row in _rows(gpu)]
    columns = ("GPU", "name", "load", "memory", "temp", "power", "state")
    return columns, [
        (row.number.strip(), row.name, row.load, row.memory, row.temperature, row.power, "; ".join(row.holders))
        for row in rows
    ]


def _rows(gpu: DeviceStatus) -> list[_Row]:
    """Returns the lines of a device: its own, and one for each instance, which holds less."""
    own = _row(str(gpu["index"]), (gpu["name"] or "-").removeprefix("NVIDIA "), gpu, gpu)
    return [own, *(_row(f"  .{place}", "MIG instance", part) for place, part in enumerate(gpu["mig"]))]


def _row(number: str, name: str, part: DeviceStatus | InstanceStatus, device: DeviceStatus | None = None) -> _Row:
    """Returns the line of a part; only of a whole `device` are load, temperature and power known."""
    load, used, total = device and device["utilization"], part["memory_used_bytes"], part["memory_total_bytes"]
    return _Row(
        number=number,
        name=printable(name),
        load_share=(load, 100.0),
        load=_or_dash(load, " %"),
        memory_share=(used, total),
        memory="-" if used is None and total is None else f"{_gib(used)} / {_gib(total)} GiB",
        temperature=_or_dash(device and device["temperature_celsius"], " C"),
        power=_or_dash(device and device["power_watts"], " W"),
        holders=[*map(printable, _holders(part, 0 if device is None else len(device["mig"])))],
        style=_COLOURS[part["state"]],
    )


def _bar(part: tuple[float | None, float | None], colour_of: Callable[[float], str]) -> RenderableType:
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    value, total = part
    if value is None or not total:
        return Text("-")
    colour = colour_of(value / total)
    return ProgressBar(total=total, completed=value, complete_style=colour, finished_style=colour)


def _busy(share: float) -> str:
    """Returns the colour of a load: green, since a device is there to be used and a high load is no alarm."""
    return "green"


def _full(share: float) -> str:
    return "green" if share < 0.5 else "yellow" if share < 0.9 else "red"


def _holders(part: DeviceStatus | InstanceStatus, instances: int) -> list[str]:
    """Returns the holders, a line each: our runs, then other processes; the device's state where there are none."""
    note = str(part["note"]).removeprefix("is ")
    if part["state"] == "sick":
        return [f"sick: {note.removeprefix('sick: ')}"]
    if part["state"] == "cut":
        return [note if part["note"] else f"cut into {instances}"]
    lines = [f"leased by {', '.join(part['run_ids'])}"] if part["run_ids"] else []
    lines += [f"leased by {_of_project(claim['run_id'], claim['project'])}" for claim in part["claims"]]
    holders = {*part["run_ids"], *(f"{claim['run_id']} of {claim['project']}" for claim in part["claims"])}
    lines += [_stranger(one) for one in part["processes"] if (one["claim"] or one["run_id"]) not in holders]
    if part["state"] == "excluded":
        lines.insert(0, note)
    if len(lines) > _MOST_HOLDERS:
        lines = [*lines[: _MOST_HOLDERS - 1], f"and {len(lines) - _MOST_HOLDERS + 1} more"]
    return lines or [part["state"]]


def _stranger(process: GpuProcessStatus) -> str:
    """Returns the words for a process that does not belong to a run that holds the device."""
    if process["owner"] == "ended":
        return f"held by pid {process['pid']} of {process['run_id']}, ended"
    if process["owner"] == "run":
        return f"{process['run_id']} without a lease ({process['pid']})"
    if process["claim"] is not None:
        run_id, _, project = process["claim"].partition(" of ")
        return f"{_of_project(run_id, project)} without a lease ({process['pid']})"
    if process["user"] is None and process["name"] is None:
        return f"unknown process ({process['pid']})"
    return f"{process['user'] or 'unknown'}: {process['name'] or 'unknown'} ({process['pid']})"


def _of_project(run_id: str, project: str) -> str:
    """Returns the words for another project's run; only that project's last name, since a path is too wide."""
    return f"{run_id} of {project.rstrip('/').rpartition('/')[2] or project}"


def _gib(size_bytes: int | None) -> str:
    return "-" if size_bytes is None else f"{size_bytes / _GIB:.1f}"


def _or_dash(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.0f}{unit}"
