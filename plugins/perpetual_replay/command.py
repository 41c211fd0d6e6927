"""The command `memory replay`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, UsageError, json_option, pass_cli, printable

if TYPE_CHECKING:
    from perpetual_replay.documents import Replays

__all__ = ["replay"]


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
