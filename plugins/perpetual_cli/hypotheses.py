"""Commands on hypotheses: add, list, show, update."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import click

from perpetual.api import CliContext, OpenGroup, json_object, json_option, key_option, page_options, pass_cli, printable
from perpetual.science.versions import is_stale
from perpetual.toolkit.claims import WORDS, claim_in_words, effect_in_words
from perpetual.toolkit.screen import folded
from perpetual.toolkit.units import counted, shown_bound, shown_number
from perpetual_cli.board import effect_cell
from perpetual_cli.words import verbose_option

if TYPE_CHECKING:
    from perpetual.api import Prediction

__all__ = ["hypotheses"]


@click.group(cls=OpenGroup)
def hypotheses() -> None:
    """Add, list, show and update hypotheses."""


@hypotheses.command()
@click.argument("statement")
@click.option(
    "--prior", type=float, help="0.25 to 0.75: how likely it is beforehand.  [default: 0.5, see methodology: prior]"
)
@click.option("--metric", help="What its experiments measure, as their runs print it.")
@click.option("--direction", metavar="max|min", help="Whether more or less of the metric is better.")
@click.option("--mde", type=float, help="The smallest effect worth having, in the metric's units.")
@click.option("--baseline", metavar="B", help="What it is compared with: a number or an experiment's id.")
@click.option(
    "--params", metavar="JSON", help="""Values to try, as one claim: '{"lr": [0.1, 0.01]}'; `sweep` finds the best."""
)
@click.option("--tag", "tags", multiple=True, help="A word to find it by; may be repeated.")
@key_option
@json_option
@pass_cli
def add(
    cli: CliContext,
    statement: str,
    prior: float | None,
    metric: str | None,
    direction: str | None,
    mde: float | None,
    baseline: str | None,
    params: str | None,
    tags: tuple[str, ...],
    idempotency_key: str | None,
) -> None:
    """Add a claim, in words, for experiments to support or refute.

    With --metric, --direction, --mde and --baseline its experiments' runs become evidence.
    """
    from perpetual.api import to_json

    made = cli.lab.hypotheses.add(
        statement,
        prior=prior,
        metric=metric,
        direction=direction,
        mde=mde,
        baseline=baseline,
        params=json_object(params, "--params"),
        tags=tags,
        idempotency_key=idempotency_key,
    )
    cli.answer(
        "hypothesis", to_json(made), lambda: f"{_text(cli, to_json(made))}\nnext: {_next(made.id, made.prediction)}"
    )


_NEEDS = {"confirmation": "needs a confirmation", "full_scale": "needs full scale", "evidence": "needs more runs"}


def _waits(item: dict[str, Any]) -> str:
    """Returns why a hypothesis past a threshold is open."""
    needs = item["needs"]
    return f", {_NEEDS.get(needs, 'held open by lost runs')}" if needs and item["status"] == "open" else ""


def _next(id: str, prediction: Prediction) -> str:
    """Returns how the claim is proposed; before that its baseline, where an effect is to be measured against one."""
    first = " --claim none --title baseline" if prediction.mde is not None and prediction.baseline is None else ""
    return f"perpetual propose -h {id}{first} --command 'python train.py ...'"


@hypotheses.command(name="list")
@click.option("--status", metavar="S", help="Only these: open, supported, refuted or parked.")
@click.option("--tag", metavar="T", help="Only those with this tag.")
@click.option("--archived", is_flag=True, help="The archived ones too.")
@page_options
@verbose_option("The tags too.")
@json_option
@pass_cli
def list_(
    cli: CliContext,
    status: str | None,
    tag: str | None,
    archived: bool,
    limit: int,
    cursor: str | None,
    verbose: bool,
) -> None:
    """List hypotheses, oldest first."""
    from perpetual.api import to_json

    page = cli.lab.hypotheses.list(status=status, tag=tag, archived=archived, limit=limit, cursor=cursor)
    cli.items(
        "hypotheses",
        [to_json(item) for item in page.items],
        page.next_cursor,
        ("id", "status", "effect", "confidence", "false-alarm bound", "statement", "tags"),
        lambda item: (
            item["id"],
            item["status"]
            + _by_hand(item)
            + (", stale" if is_stale(item["flags"]) else "")
            + _waits(item)
            + ", archived" * item["archived"],
            effect_cell(item["effect"], item["prediction"]["direction"], _by_runs(item["status"], item["decided_by"])),
            f"{item['confidence']:.3f}",
            shown_bound(item["false_alarm_bound"]),
            item["statement"],
            " ".join(item["tags"]) if verbose else "",
        ),
        empty=_none(status, tag) if status or tag is not None else _none_yet(cli),
    )
    if not cli.as_json and any(item.status in ("supported", "refuted") for item in page.items):
        family = cli.lab.status().get("family")
        click.echo(folded(f"together: {printable(family['sentence'])}") if family else "")


def _by_runs(status: str, decided_by: str | None) -> str | None:
    """Returns the verdict of the runs; None where it is open, or was decided by hand."""
    return status if decided_by == "evidence" else None


def _none(status: str | None, tag: str | None) -> str:
    """Returns why a list is empty."""
    return f"no hypothesis is {status}" if tag is None else "no such hypothesis"


@hypotheses.command()
@click.argument("id")
@verbose_option("The e-values behind the bound too.")
@json_option
@pass_cli
def show(cli: CliContext, id: str, verbose: bool) -> None:
    """Show the hypothesis ID: what is believed of it and why."""
    from perpetual.api import to_json

    found = to_json(cli.lab.hypotheses.get(id))
    cli.answer("hypothesis", found, lambda: "\n".join([_text(cli, found, verbose=verbose), *_explained(found)]))


@hypotheses.command()
@click.argument("id")
@click.option("--statement", help="Say it in other words.")
@click.option("--prior", type=float, help="How likely it was before any evidence; refused once there is some.")
@click.option("--confidence", type=float, help="How likely it is now, by hand: adds a manual row to the ledger.")
@click.option("--status", metavar="S", help="open or parked; supported or refuted by hand adds a manual row.")
@click.option("--tag", "tags", multiple=True, help="Replaces the tags; may be repeated; '' takes them away.")
@click.option("--why", help="The reason, kept in the manual row.")
@json_option
@pass_cli
def update(
    cli: CliContext,
    id: str,
    statement: str | None,
    prior: float | None,
    confidence: float | None,
    status: str | None,
    tags: tuple[str, ...],
    why: str | None,
) -> None:
    """Change the hypothesis ID; what its runs have measured stays as it is."""
    from perpetual.api import to_json

    changed = to_json(
        cli.lab.hypotheses.update(
            id,
            statement=statement,
            prior=prior,
            confidence=confidence,
            status=status,
            tags=tags or None,
            why=why,
        )
    )
    cli.answer("hypothesis", changed, lambda: _text(cli, changed))


def _none_yet(cli: CliContext) -> str:
    is_hidden = cli.lab.hypotheses.list(limit=1).items
    return (
        "every hypothesis is archived: --archived lists them"
        if is_hidden
        else ("no hypothesis yet: perpetual hypotheses add STATEMENT")
    )


def _rows(item: dict[str, Any]) -> str:
    """Returns how many rows of evidence there are, and how many of them count."""
    said = counted(item["evidence_count"], "row")
    return said if item["counting"] in (None, item["evidence_count"]) else f"{said}, {item['counting']} of which count"


def _by_hand(item: dict[str, object]) -> str:
    """Returns the decider in parentheses; empty where evidence has decided."""
    return f" (by {item['decided_by']})" if item["decided_by"] not in (None, "evidence") else ""


def _explained(item: dict[str, Any]) -> list[str]:
    """Returns a line for each word of the answer that a newcomer does not know."""
    decided = [] if _by_hand(item) else [item["status"]]  # a person's word is no test
    effect = item["effect"]
    used = [*decided, "confidence", *(("effect", "interval") if effect else ())]
    used += ["shrunk"] if isinstance(effect, dict) and effect.get("shrunk") is not None else []
    used += ["evidence", "false-alarm bound"]
    return ["words:", *(f"  {word}: {WORDS[word]}" for word in used if word in WORDS)]


def _text(cli: CliContext, item: dict[str, Any], *, verbose: bool = False) -> str:
    prediction = item["prediction"]
    lines = [
        f"{item['id']}  {item['status']}{_by_hand(item)}  "
        f"confidence {item['confidence']:.3f} (prior {item['prior']:g})",
        f"  {printable(item['statement'])}",
    ]
    if item["sentence"]:
        lines.append(f"  {printable(item['sentence'])}")
    if prediction["metric"]:
        lines.append("  predicts: " + printable(claim_in_words(**prediction)))
    if item["effect"]:
        lines.append(
            "  effect: "
            + printable(
                effect_in_words(item["effect"], prediction["direction"], _by_runs(item["status"], item["decided_by"]))
            )
        )
    lines.append(f"  evidence: {_rows(item)}; false-alarm bound {shown_bound(item['false_alarm_bound'])}")
    if verbose:
        lines.append(f"  e-values: {shown_number(item['e_support'])} for, {shown_number(item['e_refute'])} against")
    if item["params"]:
        grid = "; ".join(f"{name} in {values}" for name, values in item["params"].items())
        points = prod(len(values) for values in item["params"].values())
        whole = " (weighed as one claim over all points; perpetual sweep finds the best one)" if points > 1 else ""
        lines.append(f"  to try: {printable(grid)}{whole}")
    if item["needs"] == "confirmation":
        lines.append(f"  next: perpetual propose -h {item['id']} --confirmation --command '... on data kept back'")
    lines += [f"  tags: {printable(', '.join(item['tags']))}"] if item["tags"] else []
    lines += [f"  flag: {printable(flag)}" for flag in item["flags"]]  # sentences: a line each
    lines += [f"  assumes: {printable(text)}" for text in item["assumes"]]
    experiments = cli.lab.experiments.list(hypothesis_id=item["id"]).items
    if experiments:
        lines.append("  experiments: " + ", ".join(f"{found.id} {found.status}" for found in experiments))
    return "\n".join(lines)
