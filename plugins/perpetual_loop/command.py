"""`perpetual auto`: the owner of the loop; start, next and stop for plugins of coding agents. Loaded when called."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, Conflict, NotPermitted, OpenGroup, UsageError, json_option, line, pass_cli
from perpetual.toolkit.units import iso, shown_time
from perpetual_loop.lease import DAEMON, MOST_ROUNDS, ROUNDS, arm, lease_of, owner, release, session_problem

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_loop.documents import Auto, AutoNext, HandoverLine, LoopOwner
    from perpetual_loop.handover import Handover
    from perpetual_loop.lease import Lease

__all__ = ["auto", "document_of"]

_session = click.option("--session", metavar="ID", required=True, help="The session, as its harness names it.")


@click.group(cls=OpenGroup, invoke_without_command=True)
@json_option
@pass_cli
@click.pass_context
def auto(ctx: click.Context, cli: CliContext) -> None:
    """Show which session or daemon owns the loop, and how sessions left the research.

    A person arms a session by typing /auto (in Codex $perpetual-auto) in a coding agent; its hooks or its plugin call
    the subcommands. While one session or the daemon owns the loop, no other goes on by itself.
    """
    if ctx.invoked_subcommand is None:
        _show(cli)


@auto.command()
@json_option
@pass_cli
def status(cli: CliContext) -> None:
    """Show which session or daemon owns the loop, and how sessions left the research."""
    _show(cli)


@auto.command()
@_session
@click.option("--harness", metavar="NAME", default="other", show_default=True, help="The coding agent.")
@click.option(
    "--rounds", type=click.IntRange(0, MOST_ROUNDS), default=ROUNDS, show_default=True, help="Further turns at most."
)
@click.option("--pid", type=click.IntRange(1), help="The process of the coding agent, whose end frees the loop.")
@json_option
@pass_cli
def start(cli: CliContext, session: str, harness: str, rounds: int, pid: int | None) -> None:
    """Let a session own the loop: what /auto does. Refused (6) while another owns it, and to an agent's shell (4)."""
    from perpetual.toolkit.platform import identity_of
    from perpetual_loop.rounds import clear_stop

    lab = cli.lab
    if cli.withholds:
        raise NotPermitted("arming the loop is for a person", hint="the person types /auto")
    if harness == DAEMON or session.startswith(f"{DAEMON}/"):
        raise UsageError("daemon is the name of the daemon's own lease", hint="perpetual daemon starts it")
    clear_stop(lab)
    process = None if pid is None else identity_of(pid)
    if pid is not None and process is None:
        raise UsageError(f"there is no process {pid}")
    arm(lab, session, harness=harness, rounds=rounds, process=process)
    _show(cli)


@auto.command("next")
@_session
@click.option("--harness", metavar="NAME", default="other", show_default=True, help="The coding agent.")
@json_option
@pass_cli
def next_(cli: CliContext, session: str, harness: str) -> None:
    """Decide at the end of a turn: go on with another round, which this uses up, or stop."""
    from perpetual_loop.handover import write_handover
    from perpetual_loop.rounds import decide

    if (wrong := session_problem(session)) is not None:
        raise UsageError(wrong)
    made = decide(cli.lab, session)
    if not made.goes_on:
        write_handover(cli.lab, session, harness=harness, ended=made.explanation if made.was_armed else None)
    document: AutoNext = {
        "session": session,
        "go_on": made.goes_on,
        "text": made.text,
        "reason": made.reason,
        "explanation": made.explanation,
        "rounds_left": made.rounds_left,
    }
    cli.answer("auto_next", {**document}, made.text or f"stop: {made.reason} ({made.explanation})")


@auto.command()
@click.option("--session", metavar="ID", help="Only where this session owns it; by default whichever session does.")
@click.option("--why", metavar="TEXT", default="a person asked for it", show_default=True, help="The reason.")
@json_option
@pass_cli
def stop(cli: CliContext, session: str | None, why: str) -> None:
    """Take the loop back from a session: it ends with its present turn. The daemon's own command stops that one."""
    found = owner(cli.lab)
    if found is not None and found.harness == DAEMON and session is not None:
        raise Conflict("the daemon owns the loop", hint=found.way_out, code="loop_owned")
    release(cli.lab, session, reason="stop_requested", explanation=line(why)[:200])
    _show(cli)


def _show(cli: CliContext) -> None:
    document = document_of(cli.lab)
    cli.answer("auto", {**document}, lambda: _words(document))


def document_of(lab: Lab) -> Auto:
    """Returns the owner of the loop, how the last one ended, and how sessions left the research."""
    from perpetual_loop.handover import handovers

    last, now = lease_of(lab), owner(lab)
    is_over = last is not None and now is None
    reason, explanation = (last.reason, last.explanation) if last is not None and is_over else (None, None)
    if last is not None and is_over and last.is_held:
        reason, explanation = "expired", "its session or its process ended without giving it back"
    return {
        "owner": None if now is None else _owner(now),
        "last_reason": reason,
        "last_explanation": explanation,
        "handovers": [_line(one) for one in handovers(lab)],
    }


def _owner(lease: Lease) -> LoopOwner:
    return {
        "session": lease.session, "harness": lease.harness, "actor": lease.actor, "armed_at": lease.armed_at,
        "renewed_at": iso(lease.renewed_at), "until": iso(lease.until), "rounds": lease.rounds,
        "rounds_left": lease.rounds_left,
    }  # fmt: skip


def _line(one: Handover) -> HandoverLine:
    return {
        "session": one.session, "harness": one.harness, "actor": one.actor, "ended_at": one.ended_at,
        "last_words": one.last_words, "live_runs": [*one.live_runs], "waiting": [*one.waiting], "armed": one.armed,
        "seq": one.seq,
    }  # fmt: skip


def _words(document: Auto) -> str:
    now = document["owner"]
    if now is None:
        why = document["last_explanation"]
        lines = ["the loop is free" + (f"; the last owner ended: {line(why)}" if why else "")]
    else:
        left = "" if now["rounds_left"] is None else f", {now['rounds_left']} of {now['rounds']} rounds left"
        is_daemon = now["harness"] == DAEMON
        who = "the daemon" if is_daemon else f"session {line(now['session'])} of {line(now['harness'])}"
        lines = [f"{who} owns the loop until {shown_time(now['until'])} at most{left}"]
    for one in document["handovers"]:
        runs = f"; live: {', '.join(map(line, one['live_runs']))}" if one["live_runs"] else ""
        waits = f"; waits for a person: {', '.join(map(line, one['waiting']))}" if one["waiting"] else ""
        lines.append(f"left by {line(one['session'])} of {line(one['harness'])} at {shown_time(one['ended_at'])}"
                     f"{runs}{waits}")  # fmt: skip
        if one["last_words"]:
            lines.append(f"  {line(one['last_words'])[-300:]}")
    return "\n".join(lines)
