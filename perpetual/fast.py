"""The fast path: `--version`, `status`, `brief` and `hook` answered from files that are kept anyway.

Imported by `perpetual.entry`, and for its renderers by the commands that do the same the long way. It declines (answers
None) whenever something is not exactly as expected: an option it does not know, a stale status, a cache that is
missing, a user's own configuration. It never computes.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # as typing's, whose import this path cannot afford
if TYPE_CHECKING:
    from typing import Any

__all__ = ["HOOKS", "answer", "brief_document", "hook_document", "status_document", "status_text"]

# hook NAME -> the harness's name of the event; both kinds of event take context for the agent
HOOKS = {"session-start": "SessionStart", "user-prompt": "UserPromptSubmit"}


def status_document(status: dict[str, Any]) -> dict[str, Any]:
    """`perpetual status --json`: the kept document without what only the brief needs."""
    return {"schema": "perpetual.status/1", **{key: value for key, value in status.items() if key != "brief"}}


def brief_document(text: str, tokens: int) -> dict[str, Any]:
    """`perpetual brief --json`."""
    from perpetual.brief import tokens_of

    return {"schema": "perpetual.brief/1", "text": text, "tokens": tokens_of(text), "limit_tokens": tokens}


def hook_document(name: str, text: str) -> dict[str, Any]:
    """What a harness's hook prints: the brief as context of that event."""
    return {"hookSpecificOutput": {"hookEventName": HOOKS[name], "additionalContext": text}}


def answer(arguments: list[str]) -> str | None:
    """The command's whole standard output, or None to leave it to the full command line."""
    if os.environ.get("PERPETUAL_OUTPUT"):
        return None
    words = [word for word in arguments if word != "--json"]
    as_json = len(words) != len(arguments)
    if words == ["--version"]:
        return _version(as_json)
    options = _options(words)
    if options is None:
        return None
    from perpetual import kept

    status = kept.status()
    if status is None:
        return None
    import json

    if options.command == "status":
        document = status_document(status)
        return (json.dumps(document, ensure_ascii=False) if as_json else status_text(status)) + "\n"
    from perpetual.brief import DEFAULT_TOKENS, render

    if options.command == "hook":
        return json.dumps(hook_document(options.name, render(status, DEFAULT_TOKENS))) + "\n"
    text = render(status, options.tokens)
    return (json.dumps(brief_document(text, options.tokens), ensure_ascii=False) if as_json else text) + "\n"


def _version(as_json: bool) -> str:
    from perpetual import __version__

    if as_json:
        return f'{{"schema": "perpetual.version/1", "version": "{__version__}"}}\n'
    return f"perpetual {__version__}\n"


def _options(words: list[str]) -> Any:
    """The parsed command line of `status`, `brief` or `hook`; None for any other, or a wrong one."""
    import argparse

    from perpetual.brief import DEFAULT_TOKENS

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("command", choices=["status", "brief", "hook"])
    parser.add_argument("name", nargs="?", choices=[*HOOKS])
    parser.add_argument("--tokens", type=int)
    try:
        found, rest = parser.parse_known_args(words)
    except (argparse.ArgumentError, SystemExit):
        return None  # the full command line says what is wrong
    if rest or (found.command == "hook") != (found.name is not None):
        return None
    if found.tokens is not None and (found.command != "brief" or found.tokens < 1):
        return None
    found.tokens = found.tokens or DEFAULT_TOKENS
    return found


def _plain(text: object) -> str:
    """User text on one line, its control characters made visible."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in str(text))


def _spent(budget: dict[str, Any]) -> str:
    """GPU-hours spent, and reserved if any are, against the limit."""
    limit, spent, reserved = budget["limit_gpu_hours"], budget["spent_gpu_hours"], budget["reserved_gpu_hours"]
    held = f", {reserved:.3g} reserved" if reserved else ""
    of = f" of {limit:g}" if limit is not None else ""
    return f"{spent:.3g}{of} GPU-hours spent{held}" + ("" if of else " (unlimited)")


def _hours(hours: float) -> str:
    """As `perpetual.toolkit.units.shown_hours`, whose import this path cannot afford."""
    if hours < 120 / 3600:
        return f"{hours * 3600:.1f} s"
    return f"{hours * 60:.1f} min" if hours < 2 else f"{hours:.2f} h"


def status_text(status: dict[str, Any]) -> str:
    """`perpetual status` for people."""
    budget = status["budget"]
    lines = [
        f"{_plain(status['project'])}  (seq {status['seq']})",
        f"budget: {_spent(budget)}, {_hours(budget['run_hours'])} of run time",
        "experiments: " + (", ".join(f"{n} {name}" for name, n in status["experiments"].items()) or "none"),
    ]
    if status["memory"]:
        lines.append("memory: " + ", ".join(f"{n} {name}" for name, n in status["memory"].items()))
    if status["queue"] != "running":
        lines.append(f"queue: {status['queue']}")
    if status["hypotheses"]:
        lines.append("hypotheses:")
        lines += [
            f"  {item['id']:<5} {item['status']:<9} {item['confidence']:.3f}  {_plain(item['statement'])}"
            for item in status["hypotheses"]
        ]
        left = status["hypotheses_total"] - len(status["hypotheses"])
        if left:
            lines.append(f"  and {left} more: perpetual hypotheses list")
    runs = status["runs"]
    if runs["active"] or runs["queued"]:
        lines.append(f"runs: {len(runs['active'])} live, {runs['queued']} queued")
        lines += [
            f"  {run['id']:<5} {run['status']:<9} of {run['experiment_id']}  {_plain(run['reason'] or '')}".rstrip()
            for run in runs["active"]
        ]
    if status["next"]:
        lines.append("next:")
        lines += [f"  {step}" for step in status["next"]]
    return "\n".join(lines)
