"""Commands on the ledger: list, add, retract, refold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perpetual.api import CliContext, OpenGroup, json_option, key_option, page_options, pass_cli, printable
from perpetual.toolkit.claims import WORDS
from perpetual.toolkit.units import counted, shown_bound
from perpetual_cli.words import speaks, verbose_option

if TYPE_CHECKING:
    from perpetual.documents.ledger import Fold

__all__ = ["evidence"]

Json = dict[str, Any]


@click.group(cls=OpenGroup)
def evidence() -> None:
    """Read and extend the ledger that every confidence is folded from: list, add, retract, refold."""


@evidence.command(name="list")
@click.option("--hypothesis", "hypothesis_id", metavar="ID", help="Only the rows of this one.")
@page_options
@verbose_option("The weight of each row in nats, and its actor, too.")
@json_option
@pass_cli
def list_(cli: CliContext, hypothesis_id: str | None, limit: int, cursor: str | None, verbose: bool) -> None:
    """List the rows of the ledger, oldest first: what each one says, and whether it speaks for its hypothesis."""
    from perpetual.api import to_json

    page = cli.lab.evidence.list(hypothesis_id=hypothesis_id, limit=limit, cursor=cursor)
    cli.items(
        "evidence_list",
        [to_json(item) for item in page.items],
        page.next_cursor,
        ("id", "hypothesis", "kind", "says", "speaks", "nats", "weight", "run", "actor", "retracted", "reason"),
        lambda item: (
            item["id"],
            item["hypothesis_id"],
            item["kind"],
            _says(item),
            speaks(item["log_bayes_factor"]),
            _nats(item) if verbose else "",
            f"{item['weight']:g}" if verbose else "",
            item["run_id"] or "",
            item["actor"] if verbose else "",
            f"by {item['retracted_by']}" if item["retracted_by"] else "",
            item["reason"] or "",
        ),
        empty="no evidence yet: runs of a claim, opinions and retractions make rows",
    )
    if not cli.as_json and page.items:
        click.echo(f"evidence: {WORDS['evidence']}")
        if verbose:
            click.echo("nats: how far a row moved the log odds when it was added; +0.69 doubles the odds")
        _tell_flags(cli, list(dict.fromkeys(item.hypothesis_id for item in page.items)))


@evidence.command()
@click.argument("hypothesis")
@click.option("--verdict", required=True, metavar="V", help="supports, refutes or inconclusive.")
@click.option("--strength", type=float, default=1.0, show_default=True, help="How strongly, from 0 to 1.")
@click.option("--why", required=True, metavar="T", help="The reason, kept in the row.")
@click.option("--run", "run_id", metavar="ID", help="The run that the opinion is about.")
@key_option
@json_option
@pass_cli
def add(
    cli: CliContext,
    hypothesis: str,
    verdict: str,
    strength: float,
    why: str,
    run_id: str | None,
    idempotency_key: str | None,
) -> None:
    """Add an opinion on HYPOTHESIS: it at most doubles the odds, all opinions together at most triple them.

    It can never decide a hypothesis by itself.
    """
    from perpetual.api import to_json

    row = to_json(
        cli.lab.evidence.add(
            hypothesis, verdict=verdict, strength=strength, why=why, run_id=run_id, idempotency_key=idempotency_key
        )
    )
    cli.answer("evidence", row, lambda: _text(cli, row))


@evidence.command()
@click.argument("id", metavar="EVIDENCE")
@click.option("--why", required=True, metavar="T", help="The reason, kept in the row.")
@json_option
@pass_cli
def retract(cli: CliContext, id: str, why: str) -> None:
    """Take the row EVIDENCE back by a new row; both stay in the ledger."""
    from perpetual.api import to_json

    row = to_json(cli.lab.evidence.retract(id, why=why))
    cli.answer("evidence", row, lambda: _text(cli, row))


@evidence.command()
@click.option("--check", is_flag=True, help="Change nothing; exit 1 if a stored confidence differs from its fold.")
@json_option
@pass_cli
def refold(cli: CliContext, check: bool) -> int:
    """Fold every hypothesis anew from the ledger, and name those whose stored fold differed."""
    found = cli.lab.evidence.refold(check=check)
    cli.items(
        "refold",
        found,
        None,
        ("hypothesis", "stored", "folded"),
        lambda item: (item["id"], _fold(item["stored"]), _fold(item["folded"])),
        empty="every stored confidence is the fold of its ledger",
    )
    return 1 if check and found else 0


def _fold(values: Fold) -> str:
    return f"{values['status']} {values['confidence']:.4f} from {counted(values['evidence_count'], 'row')}"


def _nats(item: Json) -> str:
    return "" if item["log_bayes_factor"] is None else f"{item['log_bayes_factor']:+.3f}"


def _says(item: Json) -> str:
    if item["kind"] == "measured":
        return f"{item['metric']} {item['value']:.6g}" if item["value"] is not None else "a failed run, as was claimed"
    if item["kind"] == "judged":
        return f"{item['verdict']} ({item['strength']:g})"
    if item["kind"] == "retraction":
        return f"takes back {item['target']}"
    return item["verdict"] or "a shift by hand"


def _tell_flags(cli: CliContext, ids: list[str]) -> None:
    """Prints the remarks on the hypotheses whose rows were listed, each on a line of its own."""
    from perpetual.toolkit.screen import folded

    for id in ids:
        flags = cli.lab.hypotheses.get(id).flags
        if flags:
            click.echo(f"{id}:")
            for flag in flags:
                click.echo(folded(printable(f"  {flag}")))


def _text(cli: CliContext, row: Json) -> str:
    subject = cli.lab.hypotheses.get(row["hypothesis_id"])
    return (
        f"{row['id']}  {row['kind']}: {printable(_says(row))}\n"
        f"  {subject.id} is {subject.status} at confidence {subject.confidence:.3f}"
        f" (false-alarm bound {shown_bound(subject.false_alarm_bound)})"
    )
