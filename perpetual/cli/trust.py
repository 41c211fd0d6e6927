"""The command `trust`: what of this project a person here accepts. Loaded by the command table alone."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from perpetual.commands import CliContext, json_option, pass_cli, printable
from perpetual.commands.offered import OpenGroup
from perpetual.errors import NotPermitted, UsageError
from perpetual.toolkit.named_path import named_path
from perpetual.toolkit.readers import FOR_A_PERSON

if TYPE_CHECKING:
    from perpetual.documents.trust import Held, Trust

__all__ = ["ask_about_changes", "trust"]

_KINDS = {
    "approval": "approved elsewhere",
    "queued_run": "queued elsewhere",
    "setting": "settings that protect less",
    "scaffold": "start command of files for agents",
    "owner": "files of another user",
}


@click.group(cls=OpenGroup, invoke_without_command=True)
@click.option("--show", is_flag=True, help="Show what would count, with its digest, and accept nothing.")
@click.option("--yes", is_flag=True, help="Accept new work here; what came along stays held.")
@click.option("--accept", metavar="DIGEST", help="Accept also all that --show printed under this digest.")
@json_option
@click.pass_context
def trust(context: click.Context, show: bool, yes: bool, accept: str | None) -> None:
    """Accept this project here: its approvals, queue and settings count only once a person has seen them."""
    if context.invoked_subcommand is not None:
        if show or yes or accept:
            raise UsageError("--show, --yes and --accept do not go with a subcommand")
        return
    cli = context.ensure_object(CliContext)
    if sum((show, yes, accept is not None)) > 1:
        raise UsageError("--show, --yes and --accept exclude each other")
    cli.lab.trust.refuse_agents()  # what is shown here would lead an agent round a person
    if show:
        _answer(cli, cli.lab.trust.review().document())
    elif yes or accept is not None:
        _answer(cli, cli.lab.trust.accept(accept).document())
    else:
        _ask(cli)


def _ask(cli: CliContext) -> None:
    """Shows what would count and asks; names the option where there is no terminal to ask at."""
    review = cli.lab.trust.review()
    if review.state != "held" and not review.held:
        _answer(cli, review.document())
        return
    if cli.as_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "trusting needs a person at a terminal, or an option",
            hint="perpetual trust --show, then --accept DIGEST; or --yes for new work only",
        )
    click.echo(_text(review.document()), err=True)
    if click.confirm("Accept all of this?", default=False, err=True):
        _answer(cli, cli.lab.trust.accept(review.digest).document())
    else:
        click.echo("nothing was accepted", err=True)


def _answer(cli: CliContext, document: Trust) -> None:
    cli.answer("trust", document, lambda: _text(document))


def _text(document: Trust) -> str:
    state = document["state"]
    why = f": {document['why']}" if document["why"] else ""
    lines = [f"project {document['project']} in {document['path']} is {state}{why}"]
    if not document["held"]:
        lines.append("nothing in it is held" if state != "held" else "it has no approvals, queue or weaker settings")
    for kind, words in _KINDS.items():
        items = [item for item in document["held"] if item["kind"] == kind]
        if items:
            lines.append(f"{words}:")
            lines += [f"  {line}" for item in items for line in _item_lines(item)]
    if state == "held" or document["held"]:
        lines.append(f"digest {document['digest']}")
    return printable("\n".join(lines))


def _item_lines(item: Held) -> list[str]:
    """Returns one held thing as a person reads it: for an approval, exactly what would run."""
    detail, subject = item["detail"], item["subject"]
    if item["kind"] == "approval":
        head = f"{subject} ({detail['status']}, approved by {_line(detail['approved_by'])})"
        lines = [f"{head}: {_line(detail['command'])}"]
        for key in ("cwd", "env", "config"):
            if detail[key]:
                lines.append(f"    {key}: {_line(detail[key])}")
        resources = {name: value for name, value in detail["resources"].items() if value}
        return [*lines, f"    resources: {_line(resources)}"] if resources else lines
    if item["kind"] == "queued_run":
        return [f"{subject} of {detail['experiment_id']}"]
    if item["kind"] == "setting":
        return [f"{subject}: {_line(detail)}"]
    if item["kind"] == "scaffold":
        return [_line(" ".join(detail))]
    return [f"user {subject}"]


def _line(value: object) -> str:
    """Returns a value on one line, its control characters visible."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


@trust.command(name="list")
@json_option
@pass_cli
def list_(cli: CliContext) -> None:
    """List the projects that this user created or accepted here."""
    from perpetual.lab.trust_review import trusted_projects

    cli.items(
        "trusted",
        trusted_projects(),
        None,
        ("project", "state", "path", "there", "since"),
        lambda item: (
            item["project_id"],
            item["state"],
            item["path"],
            "yes" if item["is_there"] else "no",
            item["at"][:10],
        ),
        empty="no project is trusted here",
    )


@trust.command()
@click.argument("folder", required=False)
@json_option
@pass_cli
def revoke(cli: CliContext, folder: str | None) -> None:
    """Take the trust in this project, or in the one in FOLDER, back: it is held from now on."""
    from perpetual.config import find_project
    from perpetual.lab.trust_review import revoke as take_back

    if cli.withholds:
        raise NotPermitted("taking trust back is for a person", hint=FOR_A_PERSON)
    root = named_path(folder) if folder else find_project(explicit=cli.project)
    take_back(str(root))
    cli.answer("trust_revoked", {"path": str(root)}, f"{printable(root)} is held from now on")


def ask_about_changes(cli: CliContext) -> None:
    """Asks once about settings that protect less since the project's files were edited by hand.

    Only a person at a terminal is asked; for others the settings stay as they were, and `status` names them.
    """
    review = cli.lab.trust
    if cli.as_json or not (sys.stdin.isatty() and sys.stderr.isatty()) or cli.withholds:
        return
    changed = review.changed_by_hand()
    if not changed:
        return
    click.echo("These settings protect less than those that you trusted, and do not count yet:", err=True)
    for name, value in changed.items():
        click.echo(f"  {printable(name)}: {_line(value)}", err=True)
    if click.confirm("Let them count?", default=False, err=True):
        review.accept_values(changed)
    else:
        review.decline(changed)
        click.echo("They stay out of force; perpetual trust accepts them later.", err=True)
