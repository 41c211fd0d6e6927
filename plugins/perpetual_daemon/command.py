"""`perpetual daemon`: turn the loop unattended, and see, stop, or install what does. Loaded when it is called."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, Conflict, OpenGroup, PerpetualError, UsageError, json_option, pass_cli, printable
from perpetual.loop import EXITS, Cycle
from perpetual.toolkit import confined
from perpetual.toolkit.units import counted, iso, seconds_of, shown_hours, shown_time

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Experiment
    from perpetual_daemon.by_files import Services
    from perpetual_daemon.daemon import Settings
    from perpetual_daemon.documents import DaemonCycle, DaemonPlan, DaemonStatus

__all__ = ["daemon"]

_NO_THINKER = "none"
_FOLLOW_S = 0.5
_MOST_SHOWN = 8  # ids in a line
_MOST_BYTES = 16 * 1024 * 1024  # of a log; the daemon begins a new one before
_NEXT = {
    "all_decided": ["perpetual report", "perpetual hypotheses add"],
    "queue_empty": ["perpetual status", "perpetual propose"],
    "budget_exhausted": ["perpetual budget"],
    "waiting_for_approval": ["perpetual experiments --status proposed", "perpetual approve ID"],
    "no_progress": ["perpetual evidence list", "perpetual report"],
    "failure_rate": ["perpetual runs --status failed", "perpetual logs RUN"],
    "harness_down": ["perpetual doctor"],
}


@click.group(cls=OpenGroup, invoke_without_command=True)
@click.option(
    "-i",
    "--interval",
    metavar="S",
    default="60",
    show_default=True,
    help="Seconds between two looks where nothing wakes it.",
)
@click.option("-m", "--max-cycles", type=click.IntRange(min=1), help="End after so many turns.")
@click.option("--once", is_flag=True, help="Make one turn and end.")
@click.option("--wait", is_flag=True, help="Stay while proposals wait for approval.")
@click.option("--stay", is_flag=True, help="Stay too where nothing is to do or no budget is left, until that changes.")
@click.option("--harness", metavar="NAME", help="The thinker beside the loop, or none: the rules alone.")
@click.option("--require-llm", is_flag=True, help="End where the thinker is down, and do not go on by the rules.")
@click.option("--detach", is_flag=True, help="Leave it to a process of its own, which starts it again after a crash.")
@click.option("--dry-run", is_flag=True, help="Show what the first turn would do, and change nothing.")
@json_option
@pass_cli
@click.pass_context
def daemon(
    ctx: click.Context, cli: CliContext, interval: str, max_cycles: int | None, once: bool, wait: bool, stay: bool,
    harness: str | None, require_llm: bool, detach: bool, dry_run: bool,
) -> int:  # fmt: skip
    """Turn the loop unattended: record, analyse, decide, propose, approve, launch; sleep until something happens.

    It approves only what the methodology's auto_approve or an earned right lets it, and starts nothing beyond the
    budget. It ends with a reason: all_decided, queue_empty, max_cycles, stop_requested (exit 0), harness_down (3),
    waiting_for_approval (4), budget_exhausted (7), no_progress (8), failure_rate (9). Runs go on when it ends. A second
    one is refused (6); so is one beside a coding agent that goes on by /auto, whose end --wait and --stay wait for.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    if once and max_cycles is not None:
        raise UsageError("--once is --max-cycles 1", hint="leave one of them out")
    if require_llm and harness == _NO_THINKER:
        raise UsageError("--require-llm needs a thinker, and --harness none has none", hint="leave one of them out")
    if harness is not None:
        os.environ["PERPETUAL_SLOTS_THINKER"] = harness
    words = [*(["--once"] if once else []), *(["--max-cycles", str(max_cycles)] if max_cycles else []),
             *(["--wait"] if wait else []), *(["--stay"] if stay else []), *(["--require-llm"] if require_llm else []),
             *(["--harness", harness] if harness else []), "--interval", interval]  # fmt: skip
    from perpetual_daemon.daemon import Settings

    settings = Settings(
        interval_s=seconds_of(interval, "--interval"),
        max_cycles=1 if once else max_cycles,
        waits=wait,
        stays=stay,
        requires_thinker=require_llm,
        is_safe=cli.safe,
    )
    if harness is not None:
        _check_harness(cli.lab, harness)
    if dry_run:
        _plan(cli)
        return 0
    return _detach(cli, words) if detach else _serve(cli, settings)


def _check_harness(lab: Lab, name: str) -> None:
    """Raises UsageError, naming the nearest, for a thinker that no plugin offers."""
    if "thinker" in lab.registry.slots:
        lab.registry.choose("thinker", name)
    elif name != _NO_THINKER:
        raise UsageError("no plugin here brings thinkers", hint="--harness none")


def _serve(cli: CliContext, settings: Settings) -> int:
    from perpetual_daemon.daemon import Daemon, line_of
    from perpetual_daemon.ownership import refuse_owned

    lab = cli.lab
    lab.services.allows("starting the service daemon")
    _refuse_second(lab)
    if not settings.waits_on:
        refuse_owned(lab)
    lab.part("loop")  # or its first turn would find that it cannot be built
    cli.goes_on()

    before: object = None  # how the turn before stood

    def report(done: Cycle) -> None:
        nonlocal before
        document = line_of(done)
        if cli.as_json:
            cli.answer("daemon_cycle", {**document}, "")
        elif _is_worth_a_line(document, before):
            cli.progress(_words(document))
        before = _standing(document)

    service = Daemon(settings, report)
    if not cli.as_json:
        cli.progress("the daemon turns the loop; Ctrl-C or perpetual daemon stop ends it, and runs go on")
    lab.services.run("daemon", service)
    end = service.end
    if end is None:
        raise Conflict("the daemon ended without a reason", hint="perpetual daemon logs")
    totals = lab.budget.totals()
    is_held = lab.trust.state() == "held"
    following = cli.steps(["perpetual trust"] if is_held else _NEXT.get(end.reason, []))
    cli.answer(
        "daemon_exit",
        {
            "reason": end.reason,
            "explanation": end.explanation,
            "cycles": end.cycles,
            "spent_gpu_hours": totals["spent_gpu_hours"],
            "run_hours": totals["run_hours"],
            "next": following,
        },
        f"stopped: {end.reason} ({printable(end.explanation)}) after {counted(end.cycles, 'cycle')}; "
        f"{shown_hours(totals['run_hours'])} of run time in all" + "".join(f"\nnext: {step}" for step in following),
    )
    return EXITS[end.reason]


def _refuse_second(lab: Lab) -> None:
    """Raises Conflict where a daemon of the project runs already."""
    state = lab.services.status("daemon")
    if state["state"] in ("starting", "running"):
        message = f"a daemon of this project runs already (process {state['pid']})"
        raise Conflict(message, hint="perpetual daemon status, or perpetual daemon stop")


def _detach(cli: CliContext, words: list[str]) -> int:
    from perpetual_daemon.keeper import ARGUMENTS, NAME
    from perpetual_daemon.ownership import refuse_owned

    services = cli.lab.services
    services.allows("starting the service daemon")
    _refuse_second(cli.lab)
    if not {"--wait", "--stay"} & {*words}:
        refuse_owned(cli.lab)
    cli.lab.part("loop")  # else only the log of a process that has ended would say why
    os.environ[ARGUMENTS] = json.dumps([*(["--safe"] if cli.safe else []), *words])
    services.start(NAME)
    deadline = time.monotonic() + 20.0
    while services.status("daemon")["state"] != "running" and time.monotonic() < deadline:
        if services.status(NAME)["state"] not in ("starting", "running"):
            break  # it had nothing to do, or could not start: the status says which
        time.sleep(0.05)
    keeper = services.status(NAME)
    if keeper["state"] == "failed":
        raise PerpetualError(f"the daemon did not start: {keeper['reason']}", hint="perpetual daemon logs")
    _show_status(cli, services, os.path.join(cli.lab.root, ".perpetual"))
    return 0


@daemon.command()
@json_option
@pass_cli
def status(cli: CliContext) -> None:
    """Show whether the daemon runs, since when, and what its last turn came to."""
    from perpetual_daemon.by_files import services_of

    _show_status(cli, *services_of(cli))


@daemon.command()
@click.option("--grace", metavar="S", default="60", show_default=True, help="Seconds until its process is killed.")
@json_option
@pass_cli
def stop(cli: CliContext, grace: str) -> None:
    """Ask the daemon to end after the present turn, and wait until it has. Runs go on."""
    from perpetual_daemon.by_files import services_of
    from perpetual_daemon.keeper import NAME

    grace_s = seconds_of(grace, "--grace")
    services, folder = services_of(cli)
    deadline = time.monotonic() + grace_s
    for name in (NAME, "daemon"):  # or the keeper would start it again
        services.stop(name, grace_s=max(0.0, deadline - time.monotonic()))
    _show_status(cli, services, folder)


@daemon.command()
@click.option("-n", "--lines", type=click.IntRange(min=1), default=50, show_default=True, help="How many of the last.")
@click.option("-f", "--follow", is_flag=True, help="Go on as lines are written.")
@json_option
@pass_cli
def logs(cli: CliContext, lines: int, follow: bool) -> None:
    """Show what the daemon has written down: its turns, errors and ends."""
    from perpetual_daemon.by_files import services_of
    from perpetual_daemon.daemon import log_in

    path = log_in(services_of(cli)[1])
    found, place = _read_log(path)
    if follow:
        cli.goes_on()
    for item in found[-lines:]:
        _show_line(cli, item)
    while follow:
        time.sleep(_FOLLOW_S)
        found, place = _read_log(path, place)
        for item in found:
            _show_line(cli, item)


@daemon.command()
@click.option("--print", "prints", is_flag=True, help="Print the unit, and install nothing.")
@click.option("--wait", is_flag=True, help="Stay while proposals wait for approval; without it, it stays for all.")
@json_option
@pass_cli
def install(cli: CliContext, prints: bool, wait: bool) -> None:
    """Have the user's service manager keep the daemon: a systemd user unit, or a launchd agent on macOS."""
    from perpetual_daemon import unit

    cli.lab.services.allows("installing the daemon")
    made = unit.unit_of(cli.lab, ["--wait"] if wait else ["--stay"])
    if not prints:
        unit.install(made)
    document = {"path": os.fspath(made.path), "text": made.text, "manager": made.manager, "installed": not prints}
    said = made.text.rstrip("\n") if prints else f"installed {made.path}\nnext: perpetual daemon status"
    cli.answer("daemon_unit", document, said, is_verbatim=True)


@daemon.command()
@click.option("--print", "prints", is_flag=True, help="Show which unit it would be, and change nothing.")
@json_option
@pass_cli
def uninstall(cli: CliContext, prints: bool) -> None:
    """Have the service manager end the daemon and forget it. Runs go on."""
    from perpetual_daemon import unit

    cli.lab.services.allows("uninstalling the daemon")
    made = unit.unit_of(cli.lab, [])
    was = made.path.exists() if prints else unit.uninstall(made)
    said = f"{'would remove' if prints else 'removed'} {made.path}" if was else "no unit of this project is installed"
    document = {"path": os.fspath(made.path), "text": "", "manager": made.manager, "installed": was and prints}
    cli.answer("daemon_unit", document, said)


def _plan(cli: CliContext) -> None:
    lab = cli.lab
    lab.part("loop")  # it can be built
    companions = [name for name, _ in lab.parts("companion")]
    ready: list[str] = []
    proposed: list[str] = []
    approved: list[str] = []
    halt: tuple[str, str] | None = None
    with lab.together(undo=True):
        halt = lab.loop.halt_reason()
        if halt is None:
            proposed, approved = lab.loop.propose(), lab.loop.approve()
            ready = [item.id for status in ("approved", "active") for item in _all(lab, status)]
    known = {item.id for item in _all(lab, "proposed")}
    document: DaemonPlan = {
        "strategy": lab.config.chosen(lab.registry.slot("loop")),
        "companions": companions,
        "would_propose": len(proposed),
        "would_approve": [id for id in approved if id in known],
        "ready": [id for id in ready if id not in proposed],
        "live": len(lab.runs.live()),
        "reason": halt[0] if halt else None,
        "explanation": halt[1] if halt else None,
    }
    lines = [
        f"the loop {document['strategy']}, beside it {', '.join(companions) or 'nothing'}",
        f"would propose {counted(len(proposed), 'experiment')} and approve {len(approved)}",
        f"could start: {_ids(document['ready'])}; live now: {document['live']}",
    ]
    if halt is not None:
        lines = [lines[0], f"would stop at once: {halt[0]} ({halt[1]})"]
    cli.answer("daemon_plan", {**document}, "\n".join(lines))


def _all(lab: Lab, status: str) -> list[Experiment]:
    return [*lab.experiments.list(status=status, limit=1000).items]


def _show_status(cli: CliContext, services: Services, folder: str) -> None:
    from perpetual_daemon.daemon import log_in
    from perpetual_daemon.keeper import NAME

    now, keeper = services.status("daemon"), services.status(NAME)
    is_kept = keeper["state"] in ("starting", "running", "failed")
    document: DaemonStatus = {**now, "keeper": keeper if is_kept else None, "log": log_in(folder)}
    words = [f"daemon {now['state']}" + (f" (process {now['pid']}) since {shown_time(now['started_at'])}"
                                          if now["pid"] else "")]  # fmt: skip
    if now["health"] is not None:
        words.append(f"  {printable(now['health']['detail'])}")
    if now["reason"]:
        words.append(f"  {printable(now['reason'])}")
    if is_kept:
        about = keeper["reason"] or (keeper["health"]["detail"] if keeper["health"] else "")
        words.append(f"keeper {keeper['state']}: {printable(about)}".rstrip(": "))
    last, _ = _read_log(document["log"]) if now["pid"] is None else ([], 0)
    if last:
        words.append(f"  last: {_line_words(last[-1])}")
    cli.answer("daemon_status", {**document}, "\n".join(words))


def _read_log(path: str, start: int = 0) -> tuple[list[dict[str, object]], int]:
    """Returns the whole lines from the byte `start` on, or from 0 in a shorter file, and where the next one begins.

    Of a file that has outgrown every log of a daemon, only the end is read.
    """
    seen = confined.look(path)
    if seen is None:
        return [], 0
    if seen.st_size < start:
        start = 0
    if seen.st_size == start:
        return [], start
    with os.fdopen(confined.open_file(path, os.O_RDONLY), "rb") as file:
        start = file.seek(max(start, seen.st_size - _MOST_BYTES))
        whole, _, _ = file.read(_MOST_BYTES).rpartition(b"\n")
    if not whole:
        return [], start
    found: list[dict[str, object]] = []
    for text in whole.split(b"\n"):
        try:
            item = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(item, dict):
            found.append(item)
    return found, start + len(whole) + 1


def _show_line(cli: CliContext, item: dict[str, object]) -> None:
    if cli.as_json:
        cli.write(json.dumps({**item, "schema": "perpetual.daemon_log/1"}))
    else:
        click.echo(_line_words(item))


def _line_words(item: dict[str, object]) -> str:
    """Returns a line of the log as people read it."""
    if "error" in item:
        said = f"error: {item['error']}; again in {item.get('retry_s')} s"
    elif isinstance(turn := item.get("turn"), dict):
        said = _words(turn)
    else:
        said = f"ended: {item.get('reason')} ({item.get('explanation')})"
    return f"{_moment(item.get('time'))} {printable(said)}"


def _moment(when: object) -> str:
    try:
        return shown_time(iso(datetime.fromtimestamp(when, UTC))) if isinstance(when, float) else "-"
    except (ValueError, OverflowError, OSError):  # no time of a calendar
        return "-"


def _is_worth_a_line(document: DaemonCycle, before: object) -> bool:
    """Returns whether anything was done in a turn, or it ends or waits for another reason than the one before."""
    found: Mapping[str, object] = document
    return any(found[name] for name in _LISTS) or _standing(document) not in (before, (None, None))


def _standing(document: DaemonCycle) -> tuple[object, object]:
    return document["reason"], document["paused"]


_LISTS = ("done", "analysed", "proposed", "approved", "launched")


def _words(document: Mapping[str, object]) -> str:
    """Returns a turn on a line."""
    said = [f"{name} {_ids(found)}" for name in _LISTS if isinstance(found := document.get(name), list) and found]
    said.append(f"{document.get('open')} open")
    if document.get("paused"):
        said.append(f"paused: {document['paused']}")
    if document.get("reason"):
        said.append(f"{document['reason']}: {document.get('explanation')}")
    return f"cycle {document.get('cycle')}: " + "; ".join(said)


def _ids(found: Sequence[object]) -> str:
    shown = ", ".join(str(id) for id in found[:_MOST_SHOWN])
    more = len(found) - _MOST_SHOWN
    return (shown or "nothing") + (f" and {more} more" if more > 0 else "")
