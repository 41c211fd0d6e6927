"""Options that commands share, and the value of one that is JSON. `perpetual.api` has their names.

A plugin's command takes them from there. The kernel's own commands need none of them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from perpetual.api import CliContext, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["PersonOption", "json_object", "key_option", "page_options"]


class PersonOption(click.Option):
    """An option for a person: an agent's `--help` does not list it."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Answers what `--help` lists."""
        return None if ctx.ensure_object(CliContext).withholds else super().get_help_record(ctx)


def page_options(command: Callable[..., object]) -> Callable[..., object]:
    """Gives a listing `--limit` and `--cursor`."""
    command = click.option("--cursor", help="Where the page before ended (its next_cursor).")(command)
    return click.option(
        "--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Items on a page."
    )(command)


def key_option(command: Callable[..., object]) -> Callable[..., object]:
    """Gives a command that creates something `--idempotency-key`."""
    return click.option(
        "--idempotency-key", metavar="K", help="A second call with the same key answers what the first one made."
    )(command)


def json_object(text: str | None, flag: str) -> dict[str, object] | None:
    """Returns the JSON object that a person typed as the value of `flag`; None for None.

    Raises:
        UsageError: saying where the text stops being JSON, or what it is instead of an object.
    """
    if text is None:
        return None
    hint = f"""quoted for the shell, as in {flag} '{{"lr": 0.1}}'"""
    from perpetual.toolkit.foreign import parse_json

    try:
        value = parse_json(text)
    except json.JSONDecodeError as problem:
        where = f"line {problem.lineno}, column {problem.colno}"
        near = text[problem.pos : problem.pos + 20]
        raise UsageError(
            f"{flag} is no JSON: {problem.msg} at {where}" + (f", before {near!r}" if near else ""), hint=hint
        ) from problem
    except (ValueError, RecursionError) as problem:  # a number of thousands of digits; brackets a thousand deep
        raise UsageError(f"{flag} is no JSON that can be read: {problem}", hint=hint) from problem
    if not isinstance(value, dict):
        kind = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}.get(type(value), "a number")
        raise UsageError(f"{flag} must be a JSON object, not {kind}", hint=hint)
    return value
