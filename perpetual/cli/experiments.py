"""Commands on experiments: propose, approve, reject, experiments. Loaded by the command table alone."""

from __future__ import annotations

from typing import Any

import click

from perpetual.cli.base import Face, json_object, json_option, key_option, page_options, pass_face, printable
from perpetual.errors import UsageError
from perpetual.toolkit.units import bytes_of, counted, hours_of, seconds_of, shown_hours, shown_number, shown_time

__all__ = ["approve", "experiments", "propose", "reject"]

Json = dict[str, Any]


@click.command()
@click.option("-h", "--hypothesis", "hypothesis_id", metavar="ID", help="The hypothesis that it tests.")
@click.option(
    "--auto", type=click.IntRange(1, 1000), metavar="N", help="Instead: the N that teach most for their cost."
)
@click.option("--command", metavar="CMD", help="What to run, without a shell; quote it.")
@click.option("-c", "--config", metavar="JSON", help="Given to the run as the JSON file that PERPETUAL_CONFIG names.")
@click.option("-n", "--notes", metavar="T", help="Why, and what to look at.")
@click.option("--title", help="A line to know it by; by default the command.")
@click.option("--metric", help="What its runs measure, as they print it; by default the hypothesis's.")
@click.option("--direction", metavar="max|min", help="Whether more or less of it is better.")
@click.option("--mde", type=float, help="The smallest effect worth having, in the metric's units.")
@click.option("--noise", type=float, help="Spread (sd) between seeds, as far as it is known.")
@click.option("--tau", type=float, help="Spread (sd) between implementations of the idea.  [default: a quarter of mde]")
@click.option("--baseline", metavar="B", help="What it is compared with: a number or an experiment's id.")
@click.option("--paired", is_flag=True, default=None, help="Share the seeds of the baseline experiment.")
@click.option("--kind", metavar="gaussian|binary", help="binary: 1 is success, 0 failure; the baseline is a rate.")
@click.option("--claim", metavar="C", help="at_least (the mde, by default), value, any or none.")
@click.option("--on-crash", metavar="supports|refutes", help="Where the claim is that it runs at all.")
@click.option("--confirmation", is_flag=True, default=None, help="It is measured on data that was kept back for this.")
@click.option("--proxy", metavar="JSON", help='A cheap stand-in: {"args": "--steps 500", "cost_run_hours": 0.1}.')
@click.option("--proxy-of", metavar="ID", help="The experiment that this one stands in for.")
@click.option("--extends", metavar="ID", help="More --replicates of this experiment, whose own are used up.")
@click.option("--replicates", type=int, help="How many runs, each with a seed of its own.  [default: 1]")
@click.option("--cost", metavar="TIME", help="Expected run-hours of one run, or with a unit: 90s, 30m, 2h.")
@click.option("--gpus", type=int, help="How many GPUs a run needs.  [default: 0]")
@click.option("--gpu-memory", metavar="SIZE", help="Memory that it needs on each, as in 24GiB.")
@click.option("--wall", metavar="TIME", help="Seconds after which a run is ended, or with a unit: 90s, 30m, 2h.")
@click.option("--no-output", metavar="TIME", help="A run that writes nothing for so long is ended.")
@click.option("--cpus", type=int, help="How many CPUs a run keeps busy; runs wait until there are so many.")
@click.option("--priority", type=int, help="Waiting runs of a higher one start first.  [default: 0]")
@click.option("--tag", "tags", multiple=True, help="A word to find it by; may be repeated.")
@click.option("--cwd", metavar="DIR", help="Where to run, below the project's folder.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="A variable for the run; may be repeated.")
@click.option("--dry-run", is_flag=True, help="Show what would be proposed, and write nothing.")
@key_option
@json_option
@pass_face
def propose(face: Face, /, auto: int | None, dry_run: bool, idempotency_key: str | None, **options: Any) -> None:
    """Propose an experiment for a person to approve; -h is the hypothesis, --help is help.

    What is left out of the design comes from the hypothesis. Without a claim (a metric, a direction, an mde and a
    baseline) it is a baseline, or an exploration.
    """
    given = {name: value for name, value in options.items() if value not in (None, ())}
    if auto is not None:
        if given:
            flags = ", ".join("--" + name.removesuffix("_id").replace("_", "-") for name in given)
            raise UsageError(f"--auto picks by itself and takes no {flags.replace('--tags', '--tag')}")
        _propose_auto(face, auto, dry_run, idempotency_key)
        return
    from perpetual.records import to_json

    made = face.lab.experiments.propose(**_specification(given), dry_run=dry_run, idempotency_key=idempotency_key)
    document = {**to_json(made), **({"id": None} if dry_run else {})}
    _warn_of_secrets(face, made.env)
    face.answer("experiment", document, lambda: _proposed_text(document))


def _warn_of_secrets(face: Face, env: Json) -> None:
    from perpetual.toolkit.redact import redact_value

    names = [name for name, value in env.items() if redact_value(name, str(value)) != str(value)]
    if names:
        face.progress(
            f"warning: {printable(', '.join(names))} looks like a secret, and what is approved stays readable in the "
            "record; runs inherit the environment of whoever starts them, so set it there instead"
        )


def _specification(given: Json) -> Json:
    """The lab's arguments in what a person typed: numbers with their units, JSON, pairs."""
    said = dict(given)
    if "config" in said:
        said["config"] = json_object(said["config"], "--config")
    if "proxy" in said:
        said["proxy"] = json_object(said["proxy"], "--proxy")
    if "cost" in said:
        said["cost_run_hours"] = hours_of(said.pop("cost"), "--cost")
    if "gpu_memory" in said:
        said["gpu_memory_bytes"] = bytes_of(said.pop("gpu_memory"), "--gpu-memory")
    if "wall" in said:
        said["wall_s"] = seconds_of(said.pop("wall"), "--wall")
    if "no_output" in said:
        said["no_output_s"] = seconds_of(said.pop("no_output"), "--no-output")
    if "env" in said:
        pairs = [text.partition("=") for text in said["env"]]
        for name, sign, _ in pairs:
            if not name or not sign:
                raise UsageError(f"--env takes NAME=VALUE, not {name!r}", hint="as in --env LR=0.1")
        said["env"] = {name: value for name, _, value in pairs}
    return said


def _proposed_text(item: Json) -> str:
    if item["id"] is None:
        return f"would propose: {printable(item['title'])}\n{_design(item)}\n{_score(item)}\nnothing was written"
    whom = f" for {item['hypothesis_id']}" if item["hypothesis_id"] else ""
    first = f"{item['id']}  {item['status']}{whom}: {printable(item['title'])}"
    return "\n".join([first, _design(item), _score(item), *_next(item)])


def _propose_auto(face: Face, count: int, dry_run: bool, key: str | None) -> None:
    from perpetual.records import to_json

    picks = face.lab.experiments.propose_auto(count, dry_run=dry_run, idempotency_key=key)
    new = {index for index, pick in enumerate(picks) if pick.new}
    items = [to_json(pick.experiment) for pick in picks]
    if dry_run:
        items = [{**item, "id": None} if index in new else item for index, item in enumerate(items)]
    rows = {id(item): index in new for index, item in enumerate(items)}
    face.items(
        "experiments",
        items,
        None,
        ("id", "", "hypothesis", "score", "why", "title"),
        lambda item: (
            item["id"] or "-",
            "new" if rows[id(item)] else item["status"],
            item["hypothesis_id"] or "",
            _number(item["score"]["score"]),
            item["score"]["reason"],
            item["title"],
        ),
        empty="nothing is worth proposing: no open hypothesis has a missing replicate or an untried point of its grid",
    )
    steps = [step for item in items if item["id"] for step in _next(item)]
    if steps and not face.as_json:
        click.echo("\n".join(steps))


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@json_option
@pass_face
def approve(face: Face, ids: tuple[str, ...]) -> None:
    """Approve proposed experiments, all of them or none: each may run exactly as it is specified now."""
    _answer(face, face.lab.experiments.approve_all(ids))


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@click.option("--why", required=True, metavar="T", help="The reason, kept in the feed.")
@json_option
@pass_face
def reject(face: Face, ids: tuple[str, ...], why: str) -> None:
    """Turn down experiments that have not run, all of them or none."""
    _answer(face, face.lab.experiments.reject_all(ids, why))


def _answer(face: Face, changed: list[Any]) -> None:
    """One record as itself, several as a list."""
    from perpetual.records import to_json

    documents = [to_json(item) for item in changed]
    if len(documents) == 1:
        face.answer("experiment", documents[0], lambda: _changed_text(documents[0]))
    elif face.as_json:
        face.items("experiments", documents, None, (), lambda _: (), empty="")
    else:
        click.echo("\n".join(_changed_text(item) for item in documents))


def _changed_text(item: Json) -> str:
    return "\n".join([f"{item['id']}  {item['status']}: {printable(item['title'])}", *_next(item)])


@click.command()
@click.argument("id", required=False)
@click.option("--status", metavar="S", help="Only these: proposed, approved, rejected, expired, active, ...")
@click.option("--hypothesis", "hypothesis_id", metavar="ID", help="Only those that test it.")
@page_options
@json_option
@pass_face
def experiments(
    face: Face, id: str | None, status: str | None, hypothesis_id: str | None, limit: int, cursor: str | None
) -> None:
    """Show the experiment ID; without ID, list experiments, oldest first."""
    from perpetual.records import to_json

    if id is not None:
        if status or hypothesis_id:
            raise UsageError("an ID names one experiment; --status and --hypothesis are for the list")
        found = to_json(face.lab.experiments.get(id))
        face.answer("experiment", found, lambda: _text(found))
        return
    page = face.lab.experiments.list(status=status, hypothesis_id=hypothesis_id, limit=limit, cursor=cursor)
    face.items(
        "experiments",
        [to_json(item) for item in page.items],
        page.next_cursor,
        ("id", "status", "hypothesis", "runs", "bits/run-hour", "title"),
        lambda item: (
            item["id"],
            item["status"],
            item["hypothesis_id"] or "",
            _runs(item),
            _number(item["score"]["score"]),
            item["title"],
        ),
        empty="no such experiment" if status or hypothesis_id else "no experiment yet: perpetual propose --help",
    )


def _text(item: Json) -> str:
    need = item["resources"]
    whom = f"  of {item['hypothesis_id']}" if item["hypothesis_id"] else ""
    lines = [f"{item['id']}  {item['status']}{whom}", f"  {printable(item['title'])}"]
    lines.append(f"  command: {printable(item['command'] or 'none yet')}")
    lines += [f"  {name}: {printable(item[name])}" for name in ("cwd", "env", "config", "notes") if item[name]]
    wall = "none" if need["wall_s"] is None else shown_hours(need["wall_s"] / 3600)
    memory = f" with {need['gpu_memory_bytes'] / 2**30:g} GiB each" if need["gpu_memory_bytes"] else ""
    cpus = f", {counted(need['cpus'], 'CPU')}" if need["cpus"] else ""
    silent = f", ended after {shown_hours(need['no_output_s'] / 3600)} without output" if need["no_output_s"] else ""
    gpus = counted(need["gpus"], "GPU") if need["gpus"] else "no GPU"
    lines += [f"  needs: {gpus}{memory}{cpus}, wall limit {wall}{silent}", _design(item), _score(item)]
    lines.append(f"  runs: {_runs(item)}")
    approved = f", approved by {printable(item['approved_by'])}" if item["approved_by"] else ""
    lines.append(f"  proposed by {printable(item['proposed_by'])} at {shown_time(item['created_at'])} UTC{approved}")
    return "\n".join([*lines, *_next(item)])


def _design(item: Json) -> str:
    design = item["design"]
    if design["metric"] is None:
        what = "no metric: an exploration"
    elif design["claim"] is None:
        what = f"measures {printable(design['metric'])}, without a claim"
    else:
        what = f"{_claimed(design)} against {design['baseline']}"
        what += " (paired)" if design["paired"] else ""
        what += " (confirmation)" if design["confirmation"] else ""
        what += f", a crash {design['on_crash']} it" if design["on_crash"] else ""
    what += f", stands in for {design['proxy_of']}" if design["proxy_of"] else ""
    noise = "" if design["noise"] is None else f", noise {design['noise']:g}"
    cost = "" if design["cost_run_hours"] is None else f", {shown_hours(design['cost_run_hours'])} each"
    return f"  design: {what}; {counted(design['replicates'], 'replicate')}{cost}{noise}"


def _claimed(design: Json) -> str:
    metric = printable(design["metric"])
    if design["claim"] == "any":
        return f"{metric} differs by some effect"
    by = "by exactly" if design["claim"] == "value" else "by"
    rate = "rate of " if design["kind"] == "binary" else ""
    return f"{rate}{metric} {design['direction']} {by} {design['mde']:g}"


def _score(item: Json) -> str:
    score = item["score"]
    number = "" if score["score"] is None else f"{_number(score['score'])} bits per run-hour: "
    return f"  score: {number}{printable(score['reason'])}"


def _number(value: float | None) -> str:
    return "-" if value is None else shown_number(value)


def _runs(item: Json) -> str:
    told = ", ".join(f"{count} {status}" for status, count in item["runs"].items())
    return f"{told or 'none'} (of {item['design']['replicates']})"


def _next(item: Json) -> list[str]:
    """The next step, if there is one."""
    id, status = item["id"], item["status"]
    if status == "proposed":
        return [
            f"next: perpetual approve {id}" if item["command"] else f"next: perpetual run {id} 'python train.py ...'"
        ]
    if status == "approved":
        return [f"next: perpetual run {id}" + (" --all" if item["design"]["replicates"] > 1 else "")]
    return []
