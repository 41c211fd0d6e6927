"""Cached files that make a command instant: the parsed configuration and the discovered plugins. Light.

Read by the fast path and by the command kit; each reader answers None when what is kept is not of the present state,
and then the real thing is computed (and kept) elsewhere.
"""

from __future__ import annotations

import os
import stat
import time

from perpetual.toolkit import caches, confined
from perpetual.toolkit.reserved import known_names

TYPE_CHECKING = False  # as typing's, whose import the fast path cannot afford
if TYPE_CHECKING:
    from typing import Any

__all__ = ["commands", "config_of", "folder", "plugins_of"]


def folder(project: str | None = None) -> str | None:
    """Returns the `.perpetual/` that the full command line would find, if it is plainly ours."""
    given = project or os.environ.get("PERPETUAL_PROJECT")
    try:
        here = given or os.getcwd()
    except FileNotFoundError:
        return None
    while not (given or os.path.lexists(os.path.join(here, ".perpetual")) or here == os.path.dirname(here)):
        here = os.path.dirname(here)
    return _ours(os.path.join(here, ".perpetual"))


def _ours(found: str) -> str | None:
    try:
        if not stat.S_ISDIR(os.lstat(found).st_mode) or os.path.lexists(os.path.join(found, "graph.db")):
            return None
        return found if confined.look(os.path.join(found, "config.yaml")) is not None else None
    except OSError:
        return None  # the full command line says what is wrong


def config_of(found: str) -> dict[str, object] | None:
    """Returns the parsed configuration file, if the kept one is of its present state and nothing else has a say."""
    if {"PERPETUAL_STORE", "PERPETUAL_AGENT_MARKS"} & os.environ.keys() or os.environ.get("XDG_CONFIG_HOME"):
        return None
    if os.path.exists(os.path.join(os.path.expanduser("~"), ".config", "perpetual", "config.yaml")):
        return None
    path = os.path.abspath(os.path.join(found, "config.yaml"))
    kept = caches.load("yaml", path)
    seen = os.stat(path)
    if not isinstance(kept, dict) or kept.get("stamp") != [seen.st_ino, seen.st_size, seen.st_mtime_ns]:
        return None
    data: dict[str, object] = kept["data"]
    return data


def plugins_of(config: dict[str, object] | None, safe: bool) -> list[dict[str, Any]] | None:
    """Returns the discovered plugins, if the cached ones are of the present state."""
    sections = (config or {}).get("plugins")
    disabled = sections.get("disabled") if isinstance(sections, dict) else None
    disabled = disabled or []
    if not isinstance(disabled, list) or not all(type(name) in (str, int) for name in disabled):
        return None  # the full command line says what is wrong
    found = caches.load("plugins", caches.plugins_key([*map(str, disabled)], safe=safe))
    try:
        known = isinstance(found, list) and all(offer["provider"]["slot"] for info in found for offer in info["offers"])
        if known and any(info["retry_at"] is not None and info["retry_at"] <= time.time() for info in found):
            return None  # one that failed is to be tried again
    except (KeyError, TypeError):
        known = False  # of another version, or changed from outside
    return found if known else None


def commands(*, safe: bool = False) -> dict[str, tuple[str, str, str, str]] | None:
    """Returns plugins' commands, name -> (factory, summary, qualified name, topic), or None to look that up."""
    if os.environ.get("PERPETUAL_TRACE_HOOKS"):
        return None
    found = folder()
    config = config_of(found) if found else None
    if found and config is None:
        return None
    plugins = plugins_of(config, safe)
    if plugins is None:
        return None
    offers = [offer for info in plugins for offer in info["offers"] if offer["provider"]["slot"] == "command"]
    offers = [offer for offer in offers if offer["refused"] is None]
    names = known_names("command", [offer["qualified_name"] for offer in offers])
    return {
        name: (
            *(offer["provider"][key] for key in ("factory", "summary")),
            offer["qualified_name"],
            offer["provider"].get("topic", ""),
        )
        for name, offer in zip(names, offers, strict=True)
    }
