"""Commands that correct what was written: edit, undo, archive."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

import click

from perpetual.api import CliContext, UsageError, json_object, json_option, line, pass_cli, printable
from perpetual.toolkit.units import bytes_of, hours_of, identifier, seconds_of, shown_time

if TYPE_CHECKING:
    from perpetual.api import Experiment, Hypothesis
    from perpetual.documents.changes import ExperimentChanges

__all__ = ["archive", "edit", "undo"]

Json = dict[str, object]

_OF_HYPOTHESES = ("statement", "metric", "direction", "mde", "baseline", "tags")
_OTHERS = {
    "r": ("a run; what was measured stays", "perpetual retry ID tries it again"),
    "v": ("evidence; what was measured stays", "perpetual evidence retract ID --why TEXT"),
}


@click.command()
@click.argument("id", metavar="ID")
@click.option("--title", help="A line to know it by.")
@click.option("-n", "--notes", metavar="T", help="Why, and what to look at.")
@click.option("--tag", "tags", multiple=True, help="Replaces the tags; may be repeated; '' takes them away.")
@click.option("--priority", type=int, help="Waiting runs of a higher one start first.")
@click.option("--statement", help="Of a hypothesis: say it in other words.")
@click.option("--command", metavar="CMD", help="What to run, without a shell; quote it.")
@click.option("-c", "--config", metavar="JSON", help="Given to the run as a JSON file.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="Replaces the variables; may be repeated.")
@click.option("--cwd", metavar="DIR", help="Where to run, below the project's folder.")
@click.option("--metric", help="What its runs measure, as they print it.")
@click.option("--direction", metavar="max|min", help="Whether more or less of it is better.")
@click.option("--mde", type=float, help="The smallest effect worth having, in the metric's units.")
@click.option("--baseline", metavar="B", help="What it is compared with: a number or an experiment's id.")
@click.option("--claim", metavar="C", help="improves, at_least, value, any or none.")
@click.option("--noise", type=float, help="Spread (sd) between seeds.")
@click.option("--tau", type=float, help="Spread (sd) between implementations of the idea.")
@click.option("--replicates", type=int, help="How many runs, each with a seed of its own.")
@click.option("--cost", metavar="TIME", help="Expected run-hours of one run, or with a unit: 90s, 30m, 2h.")
@click.option("--wall", metavar="TIME", help="Seconds after which a run is ended, or with a unit.")
@click.option("--no-output", metavar="TIME", help="A run that writes nothing for so long is ended.")
@click.option("--gpus", type=int, help="How many GPUs a run needs.")
@click.option("--gpu-memory", metavar="SIZE", help="Memory that it needs on each, as in 24GiB.")
@click.option("--cpus", type=int, help="How many CPUs a run keeps busy.")
@click.option("--memory", metavar="SIZE", help="Main memory of a run, as in 64GiB.")
@json_option
@pass_cli
def edit(
    cli: CliContext,
    id: str,
    title: str | None,
    notes: str | None,
    tags: tuple[str, ...],
    priority: int | None,
    statement: str | None,
    command: str | None,
    config: str | None,
    env: tuple[str, ...],
    cwd: str | None,
    metric: str | None,
    direction: str | None,
    mde: float | None,
    baseline: str | None,
    claim: str | None,
    noise: float | None,
    tau: float | None,
    replicates: int | None,
    cost: str | None,
    wall: str | None,
    no_output: str | None,
    gpus: int | None,
    gpu_memory: str | None,
    cpus: int | None,
    memory: str | None,
) -> None:
    """Edit the hypothesis or experiment ID: by options, or as a form in your editor.

    An experiment can be edited until it runs, and is approved anew after that; a hypothesis until it has evidence.
    Title, notes, tags and priority can be edited at any time.
    """
    given: Json = {
        "title": title, "notes": notes, "tags": tags, "priority": priority, "statement": statement,
        "command": command, "config": config, "env": env, "cwd": cwd, "metric": metric,
        "direction": direction, "mde": mde, "baseline": baseline, "claim": claim, "noise": noise,
        "tau": tau, "replicates": replicates, "cost": cost, "wall": wall, "no_output": no_output,
        "gpus": gpus, "gpu_memory": gpu_memory, "cpus": cpus, "memory": memory,
    }  # fmt: skip
    changes = {name: value for name, value in given.items() if value not in (None, ())}
    kind = _kind_of(id)
    if kind == "h" and (others := sorted(changes.keys() - {*_OF_HYPOTHESES})):
        raise UsageError(
            f"{id} is a hypothesis, and has no {', '.join(others)}", hint="perpetual edit ID --statement T"
        )
    if kind == "e" and "statement" in changes:
        raise UsageError(f"{id} is an experiment, and has no statement", hint="--title or --notes")
    if not changes and not cli.as_json and sys.stdin.isatty() and sys.stdout.isatty():
        from perpetual_cli.form import edited

        changed = edited(cli.lab, id, lambda form: _applied(cli, kind, id, form))
        if changed is None:
            click.echo("nothing was changed")
        return
    _applied(cli, kind, id, _converted(changes))


def _kind_of(id: str) -> str:
    """Returns `h` or `e`; raises UsageError for what cannot be edited."""
    kind = identifier(id)[:1]
    if kind not in ("h", "e"):
        what, way = _OTHERS.get(kind, ("no hypothesis or experiment", "perpetual memory write PATH changes a note"))
        raise UsageError(f"{id} is {what}", hint=way.replace("ID", id))
    return kind


def _converted(changes: Mapping[str, object]) -> Json:
    """Returns the fields of `Lab.experiments.edit` that options stand for."""
    found: Json = {**changes}
    measures: dict[str, tuple[str, Callable[[str, str], float]]] = {
        "cost": ("cost_run_hours", hours_of), "wall": ("wall_s", seconds_of), "no_output": ("no_output_s", seconds_of),
        "gpu_memory": ("gpu_memory_bytes", bytes_of), "memory": ("memory_bytes", bytes_of),
    }  # fmt: skip
    for option, (name, read) in measures.items():
        if option in found:
            found[name] = read(str(found.pop(option)), "--" + option.replace("_", "-"))
    if "config" in found:
        found["config"] = json_object(str(found["config"]), "--config")
    if "env" in found:
        from perpetual_cli.experiments import environment

        pairs = found["env"]
        found["env"] = environment(pairs) if isinstance(pairs, tuple) else pairs
    return found


def _applied(cli: CliContext, kind: str, id: str, changes: Mapping[str, object]) -> None:
    """Applies the changes, and shows what they were."""
    from perpetual.api import to_json

    lab = cli.lab
    last = lab.feed.last()
    before: Hypothesis | Experiment
    after: Hypothesis | Experiment
    if kind == "h":
        before, after = lab.hypotheses.get(id), lab.hypotheses.edit(id, **changes)  # type: ignore[arg-type]
    else:
        before, after = lab.experiments.get(id), lab.experiments.edit(id, **cast("ExperimentChanges", changes))
    was, now = to_json(before), to_json(after)
    voided = [
        name
        for event in lab.events(since=last)
        if event.kind == "experiment_edited" and event.subject == after.id
        for name in event.payload["voided"]
    ]
    schema = "hypothesis" if kind == "h" else "experiment"
    cli.answer(schema, now, lambda: "\n".join(_edited(cli, was, now, voided)))


def _edited(cli: CliContext, was: Json, now: Json, voided: Sequence[str]) -> list[str]:
    id = str(now["id"])
    lines = [f"{id}  {now['status']}: {line(now.get('title') or now.get('statement'))}"]
    before, after = _flat(was), _flat(now)
    lines += [
        f"  {name}: {line(_shown(before.get(name)))} -> {line(_shown(value))}"
        for name, value in after.items()
        if before.get(name) != value and name not in ("spec_hash", "status", "approved_by") and "score" not in name
    ]
    lines += [f"  the approval of {name} has ended: it waits for approval again" for name in voided]
    if voided or (id[:1] == "e" and now["status"] == "proposed"):
        lines.append(f"next: perpetual approve {' '.join(voided or [id])}")
    if id[:1] == "h":
        pending = [
            item
            for item in cli.lab.experiments.list(hypothesis_id=id).items
            if item.status in ("proposed", "approved") and item.design.claim is not None
        ]
        prediction = cli.lab.hypotheses.get(id).prediction
        lines += [
            f"  {item.id} keeps its own design on {printable(item.design.metric)}: perpetual edit {item.id} --metric M"
            for item in pending
            if item.design.metric != prediction.metric
        ]
    return lines


def _flat(document: Mapping[str, object], within: str = "") -> Json:
    """Returns the values of a document by dotted names."""
    found: Json = {}
    for name, value in document.items():
        if isinstance(value, dict) and name in ("design", "resources", "prediction"):
            found |= _flat(value)
        else:
            found[within + name] = value
    return found


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value in (None, "") else str(value)


@click.command()
@click.option("--dry-run", is_flag=True, help="Show what would be taken back, and change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask at a terminal.")
@json_option
@pass_cli
def undo(cli: CliContext, dry_run: bool, yes: bool) -> None:
    """Take back your own last deed, as what you added, proposed, approved, edited, set or archived.

    Evidence, runs and what they cost stay, and so does what others have built on. Nothing is deleted: what was added
    is archived, what was proposed is rejected. Once more takes back the deed before; to take back an undo, do the deed
    again.
    """
    if not dry_run and not yes and not cli.as_json and sys.stdin.isatty() and sys.stdout.isatty():
        found = cli.lab.undo(dry_run=True)
        question = f"take back {line(found['what'])} ({shown_time(found['time'])} UTC)?"
        if not click.confirm(question, default=True):
            click.echo("nothing was changed")
            return
    done = cli.lab.undo(dry_run=dry_run)
    word = "would take back" if dry_run else "took back"
    cli.answer("undone", done, f"{word} {line(done['what'])} of {shown_time(done['time'])} UTC")


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--restore", is_flag=True, help="Show them in lists again.")
@json_option
@pass_cli
def archive(cli: CliContext, ids: tuple[str, ...], restore: bool) -> None:
    """Hide hypotheses and experiments from lists, status and brief; `rm` is the same.

    Nothing is deleted: the record keeps them, `--archived` lists them, and every figure over all claims counts them.
    """
    lab = cli.lab
    with lab.transaction():
        for id in ids:
            part = lab.hypotheses if _kind_of(id) == "h" else lab.experiments
            part.archive(id, restore=restore)
    names = [*dict.fromkeys(map(identifier, ids))]
    said = [f"{', '.join(names)}: {'in lists again' if restore else 'hidden from lists; the record stays'}"]
    if restore:
        parked = [id for id in names if id[:1] == "h" and lab.hypotheses.get(id).status == "parked"]
        said += [f"next: perpetual hypotheses update {id} --status open" for id in parked]
    else:
        said.append(f"to show them again: perpetual archive --restore {' '.join(names)}")
    cli.answer("archived", {"ids": names, "archived": not restore}, "\n".join(said))
