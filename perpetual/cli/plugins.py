"""Commands on plugins: `plugins list|show|check`. They also work outside a project; `perpetual.cli.app` loads them."""

from __future__ import annotations

from typing import Any

import click

from perpetual.cli.base import Face, json_option, pass_face, printable

__all__ = ["plugins"]


@click.group()
def plugins() -> None:
    """Which plugins there are, what they offer, and what is in force."""


@plugins.command(name="list")
@json_option
@pass_face
def list_(face: Face) -> None:
    """Every plugin with version, state (active, available, disabled or failed) and the reason."""
    inventory = face.inventory()
    problems = inventory.problems()
    face.items(
        "plugins",
        inventory.plugins(),
        None,
        ("plugin", "version", "state", "offers", "reason"),
        lambda item: (item["qualified_name"], item["version"], item["state"], _offers(item), item["reason"] or ""),
        empty="there are no plugins",
        extra={"problems": problems},
    )
    for problem in problems:
        face.progress(printable(f"problem: {problem['message']}\n  {problem['hint']}"))


def _offers(item: dict[str, Any]) -> str:
    """The plugin's providers, those that are not in force in brackets."""
    words = [f"{one['slot']} {one['name']}" for one in item["providers"]]
    return ", ".join(
        word if one["state"] == "active" else f"({word})" for word, one in zip(words, item["providers"], strict=True)
    )


@plugins.command()
@click.argument("name")
@json_option
@pass_face
def show(face: Face, name: str) -> None:
    """One plugin in full: its hooks, and each provider with factory and options."""
    document = face.inventory().plugin(name)
    face.answer("plugin", document, lambda: _plugin_text(document))


def _plugin_text(document: dict[str, Any]) -> str:
    lines = [f"{document['qualified_name']} {document['version']}: {document['state']}"]
    if document["reason"]:
        lines.append(f"  {document['reason']}")
    if document["hooks"]:
        lines.append(f"hooks: {', '.join(document['hooks'])}")
    for one in document["providers"]:
        why = f" ({one['reason']})" if one["reason"] else ""
        lines.append(f"{one['slot']} {one['name']}: {one['state']}{why}")
        lines.append(f"  {one['summary'] or 'says nothing of itself'}")
        lines.append(f"  factory {one['factory']}")
        if one["requires"]:
            lines.append(f"  needs {', '.join(one['requires'])}")
        lines += [
            f"  plugins.{one['name']}.{option['key']} ({option['type']}, {option['default']!r}): {option['meaning']}"
            for option in one["options"]
        ]
    return printable("\n".join(lines))


@plugins.command()
@click.argument("name", required=False)
@json_option
@pass_face
def check(face: Face, name: str | None) -> int:
    """Load every provider of the plugin NAME (or of all) and compare it with its slot; exit 1 if one does not fit.

    Nothing is built or called: signature and return annotation of each factory are looked at.
    """
    items = face.inventory().examine(name)
    good = all(item["ok"] is not False for item in items)
    face.items(
        "plugins_check",
        items,
        None,
        ("provider", "slot", "holds", "what does not"),
        lambda item: (item["qualified_name"], item["slot"] or "-", _holds(item, True), _holds(item, False)),
        empty="there is nothing to check",
        extra={"ok": good},
    )
    return 0 if good else 1


def _holds(item: dict[str, Any], ok: bool) -> str:
    if ok:
        return ", ".join(one["check"] for one in item["checks"] if one["ok"] is True)
    return "; ".join(f"{one['check']}: {one['detail']}" for one in item["checks"] if one["ok"] is False)
