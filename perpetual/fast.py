"""The fast path: `--version`, `brief` and `hook` answered from files that are kept anyway.

Imported by `perpetual.entry` alone. It declines (answers None) whenever something is not exactly as expected: an
option it does not know, a stale status, a cache that is missing, a user's own configuration. It never computes.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # as typing's, whose import this path cannot afford
if TYPE_CHECKING:
    from typing import Any

__all__ = ["HOOKS", "answer", "brief_document", "hook_document"]

# hook NAME -> the harness's name of the event; both kinds of event take context for the agent
HOOKS = {"session-start": "SessionStart", "user-prompt": "UserPromptSubmit"}


def brief_document(text: str, tokens: int) -> dict[str, Any]:
    """`perpetual brief --json`."""
    from perpetual.brief import tokens_of

    return {"schema": "perpetual.brief/1", "text": text, "tokens": tokens_of(text), "limit_tokens": tokens}


def hook_document(name: str, text: str) -> dict[str, Any]:
    """What a harness's hook prints: the brief as context of that event."""
    return {"hookSpecificOutput": {"hookEventName": HOOKS[name], "additionalContext": text}}


def answer(arguments: list[str]) -> str | None:
    """The command's whole standard output, or None to leave it to the full command line."""
    if os.environ.get("PERPETUAL_OUTPUT") or os.environ.get("PERPETUAL_TRACE_HOOKS"):
        return None
    words = [word for word in arguments if word != "--json"]
    as_json = len(words) != len(arguments)
    if words == ["--version"]:
        return _version(as_json)
    options = _options(words)
    if options is None:
        return None
    name, tokens = options
    status = _status()
    if status is None:
        return None
    from perpetual.brief import render

    text = render(status, tokens)
    import json

    if name is not None:
        return json.dumps(hook_document(name, text)) + "\n"
    return json.dumps(brief_document(text, tokens), ensure_ascii=False) + "\n" if as_json else text + "\n"


def _version(as_json: bool) -> str:
    from perpetual import __version__

    if as_json:
        return f'{{"schema": "perpetual.version/1", "version": "{__version__}"}}\n'
    return f"perpetual {__version__}\n"


def _options(words: list[str]) -> tuple[str | None, int] | None:
    """(hook's name or None, tokens) of a `brief` or `hook` command line, None for any other."""
    import argparse

    from perpetual.brief import DEFAULT_TOKENS

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    commands = parser.add_subparsers(dest="command")
    brief = commands.add_parser("brief", add_help=False, exit_on_error=False)
    brief.add_argument("--tokens", type=int, default=DEFAULT_TOKENS)
    hook = commands.add_parser("hook", add_help=False, exit_on_error=False)
    hook.add_argument("name", choices=[*HOOKS])
    try:
        found, rest = parser.parse_known_args(words)
    except (argparse.ArgumentError, SystemExit):
        return None  # the full command line says what is wrong
    if rest or found.command is None:
        return None
    if found.command == "hook":
        return found.name, DEFAULT_TOKENS
    return (None, found.tokens) if found.tokens > 0 else None


def _project() -> str | None:
    """The `.perpetual/` folder that the full command line would find, if it is plainly ours."""
    given = os.environ.get("PERPETUAL_PROJECT")
    if given:
        folder = os.path.join(given, ".perpetual")
        return folder if os.path.isfile(os.path.join(folder, "config.yaml")) else None
    here = os.getcwd()
    while True:
        folder = os.path.join(here, ".perpetual")
        if os.path.isdir(folder):
            plain = os.path.isfile(os.path.join(folder, "config.yaml")) and not os.path.exists(
                os.path.join(folder, "graph.db")
            )
            return folder if plain else None
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above


def _status() -> dict[str, Any] | None:
    """The kept status document of the project, if it is of the store's present state."""
    folder = _project()
    if folder is None or "PERPETUAL_STORE" in os.environ or os.environ.get("XDG_CONFIG_HOME"):
        return None
    if os.path.exists(os.path.join(os.path.expanduser("~"), ".config", "perpetual", "config.yaml")):
        return None
    from perpetual.toolkit import caches

    path = os.path.join(folder, "config.yaml")
    cached = caches.load("yaml-" + caches.digest(os.path.abspath(path)))
    seen = os.stat(path)
    if not isinstance(cached, dict) or cached.get("stamp") != [seen.st_ino, seen.st_size, seen.st_mtime_ns]:
        return None
    config = cached["data"]
    sections = config.get("plugins") or {}
    plugins = caches.load(caches.plugins_name(sections.get("disabled") or []))
    head = _head(plugins, config.get("store"))
    if head is None:
        return None
    from importlib import import_module

    module, _, name = head.partition(":")
    token = getattr(import_module(module), name)(os.path.join(folder, "store"))
    return _kept(folder, token)


def _head(plugins: Any, store: object) -> str | None:
    """The head function of the one provider that the configuration's `store` names."""
    if not isinstance(plugins, list):
        return None
    found = [
        offer["provider"]["head"]
        for info in plugins
        for offer in info["offers"]
        if offer["provider"]["slot"] == "store" and store in (offer["provider"]["name"], offer["qualified_name"])
    ]
    return found[0] if len(found) == 1 else None


def _kept(folder: str, token: str) -> dict[str, Any] | None:
    from perpetual.statusfile import read_cached

    return read_cached(folder, token)
