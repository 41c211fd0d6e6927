"""The commands `memory replay` and `memory bisect`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, UsageError, json_option, pass_cli, printable

if TYPE_CHECKING:
    from perpetual_replay.documents import Bisection, Replays

__all__ = ["bisect", "replay"]


@click.command()
@click.argument("path", required=False, metavar="[PATH]")
@click.option("--queue", is_flag=True, help="Test every note that waits for a decision.")
@click.option("--wait", is_flag=True, help="Stay until every asked trial is over.")
@click.option("--timeout", type=click.FloatRange(0), metavar="S", help="With --wait: seconds after which to leave.")
@click.option("--example", is_flag=True, help="Write an example of tasks to replay/, and a note that they depend on.")
@json_option
@pass_cli
def replay(cli: CliContext, path: str | None, queue: bool, wait: bool, timeout: float | None, example: bool) -> None:
    """Test the note PATH by paired runs, with it and without it, on the tasks in replay/.

    A person approves the runs by asking; under an agent's shell the trial stays proposed. Runs start here and at each
    scan, under the budget. The note is promoted once the pairs show that it helps, rejected once they show that it
    harms; after the last pair without either it stays as it is. Without PATH the trials are listed.
    """
    from perpetual_replay.actions import ask, listed, write_example

    if sum((path is not None, queue, example)) > 1:
        raise UsageError("PATH, --queue and --example exclude one another")
    if example:
        written = write_example(cli.lab)
        cli.answer("memory_replay", listed(cli.lab), lambda: "\n".join(written))
        return
    if path is None and not queue:
        found = listed(cli.lab)
    else:
        say = None if cli.as_json else cli.progress
        found = ask(cli.lab, path, wait=wait, timeout_s=timeout, say=say)
    cli.answer("memory_replay", found, lambda: printable(_text(found)))


def _text(found: Replays) -> str:
    from perpetual_replay.show import lines

    shown = []
    for item in found["items"]:
        what = "canary" if item["canary"] else item["path"]
        status = "" if item["canary"] else f"  [{found['note_status'].get(item['path'], '-')}]"
        shown.append("\n".join([f"{what}{status}  version {item['blob'][:10]}", *(f"  {one}" for one in lines(item))]))
        if item["state"] == "proposed":
            shown.append(f"  for a person: perpetual memory replay {item['path']} starts it "
                         f"(at most {item['worst_case_run_hours']:.2g} run-hours)")  # fmt: skip
    return "\n\n".join(shown) or f"no trial yet; {found['tasks']} replay tasks"


@click.command()
@click.option("--good", metavar="X", help="When scores were good; by default after the first promotion.")
@click.option("--bad", metavar="X", help="When they are bad; by default now.")
@click.option("--wait", is_flag=True, help="Stay until the search is over.")
@click.option("--timeout", type=click.FloatRange(0), metavar="S", help="With --wait: seconds after which to leave.")
@click.option("--dry-run", is_flag=True, help="Show the states and the worst case; run nothing.")
@click.option("--list", "lists", is_flag=True, help="List the bisections, the newest first; ask for none.")
@json_option
@pass_cli
def bisect(
    cli: CliContext, good: str | None, bad: str | None, wait: bool, timeout: float | None, dry_run: bool, lists: bool
) -> None:
    """Find the change of a note after which replay scores fell.

    X is a time (2026-11-25, 3d), an event (seq:120; 0 is the empty memory) or a commit of the memory. States of the
    memory between the two are compared by paired runs on the tasks in replay/, by halves; the change that is found is
    then tested alone. A person approves the runs by asking; under an agent's shell the search stays proposed. Runs
    start here and at each scan, under the budget. No note is changed.
    """
    from perpetual_replay.actions import bisect as search
    from perpetual_replay.actions import bisections, plan_of_bisection

    if lists:
        if good or bad or wait or dry_run:
            raise UsageError("--list asks for no bisection", hint="perpetual memory bisect --list")
        cli.items("memory_bisections", [*bisections(cli.lab)], None, ("id", "state", "good", "bad", "result"),
                  lambda item: (item["id"] or "", item["state"], f"seq:{item['good']}", f"seq:{item['bad']}",
                                item["sentence"]), empty="no bisection yet")  # fmt: skip
        return
    if dry_run:
        found = plan_of_bisection(cli.lab, good, bad)
    else:
        say = None if cli.as_json else cli.progress
        found = search(cli.lab, good, bad, wait=wait, timeout_s=timeout, say=say)
    cli.answer("memory_bisect", found, lambda: printable(_bisection_text(found, dry_run=dry_run)))


def _bisection_text(found: Bisection, *, dry_run: bool) -> str:
    from perpetual_replay.show_bisection import lines, state_lines

    most, hours = found["comparisons"], found["worst_case_run_hours"]
    worst = f"at most {most} comparisons of {found['max_pairs']} pairs, {hours:.2g}"
    if dry_run:
        return "\n".join([found["sentence"], *state_lines(found), f"worst case: {worst} run-hours"])
    shown = [*lines(found)]
    if found["state"] == "proposed":
        shown.append(f"  for a person: perpetual memory bisect --good seq:{found['good']} --bad seq:{found['bad']} "
                     f"starts it ({worst} run-hours)")  # fmt: skip
    path = None if found["found"] is None else found["found"]["state"]["path"]
    if path is not None:
        shown.append(f"  next: perpetual memory show {path}; perpetual memory history {path}")
    return "\n".join(shown)
