"""`perpetual records`: the records of kinds that plugins bring."""

from __future__ import annotations

import json
from collections.abc import Mapping

import click

from perpetual.api import CliContext, UsageError, json_option, page_options, pass_cli

__all__ = ["records"]


@click.command()
@click.argument("kind", required=False)
@click.argument("id", required=False)
@click.option("--where", multiple=True, metavar="FIELD=VALUE", help="Only records with this value, as JSON or text.")
@page_options
@json_option
@pass_cli
def records(
    cli: CliContext, kind: str | None, id: str | None, where: tuple[str, ...], limit: int, cursor: str | None
) -> None:
    """List the kinds of records that plugins bring, the records of KIND, or show the one called ID.

    Records stay readable after their plugin is gone. Plugins write them, from Python: `lab.records(KIND).add(...)`.
    """
    from perpetual.api import to_json

    if kind is None:
        _kinds(cli)
        return
    found = cli.lab.records(kind)
    if id is not None:
        document = to_json(found.get(id))
        cli.answer("record", document, lambda: _text(document))
        return
    equals = dict(_equals(one) for one in where)
    if equals:
        items, next_cursor = [to_json(record) for record in found.find(**equals)], None
    else:
        page = found.list(limit=limit, cursor=cursor)
        items, next_cursor = [to_json(record) for record in page.items], page.next_cursor
    names = [*items[0]["fields"]][:4] if items else []
    cli.items(
        "records",
        items,
        next_cursor,
        ("id", "created", *names),
        lambda item: (item["id"], item["created_at"], *(_shown(item["fields"][name]) for name in names)),
        empty=f"there is no {found.name} yet",
    )


def _kinds(cli: CliContext) -> None:
    cli.items(
        "record_kinds",
        cli.lab.records.kinds(),
        None,
        ("kind", "records", "plugin", "state"),
        lambda item: (
            item["name"],
            str(item["count"]),
            item["plugin"],
            "active" if item["active"] else item["reason"] or "",
        ),
        empty="no plugin brings a kind of record",
    )


def _equals(text: str) -> tuple[str, object]:
    name, sign, value = text.partition("=")
    if not sign:
        raise UsageError(f"--where {text!r} is not FIELD=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _text(document: Mapping[str, object]) -> str:
    head = f"{document['kind']} {document['id']}, by {document['plugin']} {document['plugin_version']}"
    origin = f"created {document['created_at']} by {document['created_by']}"
    fields = document["fields"]
    assert isinstance(fields, dict)
    return "\n".join([head, origin, *(f"{name}: {_shown(value)}" for name, value in fields.items())])


def _shown(value: object) -> str:
    return "-" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
