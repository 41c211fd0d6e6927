"""What is kept so that a command can be instant: the parsed configuration, the discovered plugins, the status. Light.

Read by the fast path, by `--help` and by the status department; each reader answers None when what is kept is not of
the present state, and then the real thing is computed (and kept) elsewhere.

`status.json` is a projection of the store. It carries the token of the store's head and of the configuration files it
was computed from, and is trusted only while both are the same.
"""

from __future__ import annotations

import json
import os

from perpetual.toolkit import caches

TYPE_CHECKING = False  # as typing's, whose import the fast path cannot afford
if TYPE_CHECKING:
    from typing import Any

__all__ = ["STATUS_FILE", "commands", "folder", "read_status", "status", "token_of"]

STATUS_FILE = "status.json"


def token_of(folder: str, head: str) -> str:
    """What a status was computed from: the store's head and the stats of the two configuration files."""
    parts = [head]
    for name in ("config.yaml", "methodology.yaml"):
        try:
            seen = os.stat(os.path.join(folder, name))
            parts.append(f"{seen.st_ino}-{seen.st_size}-{seen.st_mtime_ns}")
        except FileNotFoundError:
            parts.append("-")
    return "/".join(parts)


def read_status(folder: str, token: str) -> dict[str, Any] | None:
    """The kept status document of the `.perpetual/` folder, if it is of exactly the state of that token."""
    try:
        with open(os.path.join(folder, STATUS_FILE), encoding="utf-8") as file:
            kept = json.load(file)
    except (OSError, ValueError):
        return None
    if not isinstance(kept, dict) or kept.get("token") != token:
        return None
    document = kept.get("document")
    return document if isinstance(document, dict) else None


def folder(project: str | None = None) -> str | None:
    """The `.perpetual/` that the full command line would find, if it is plainly ours."""
    given = project or os.environ.get("PERPETUAL_PROJECT")
    if given:
        return _ours(os.path.join(given, ".perpetual"))
    try:
        here = os.getcwd()
    except FileNotFoundError:
        return None
    while True:
        found = os.path.join(here, ".perpetual")
        if os.path.isdir(found):
            return _ours(found)
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above


def _ours(found: str) -> str | None:
    if os.path.isfile(os.path.join(found, "config.yaml")) and not os.path.exists(os.path.join(found, "graph.db")):
        return found
    return None


def _config(found: str) -> dict[str, Any] | None:
    """The parsed configuration file, if the kept one is of its present state and nothing else has a say."""
    if "PERPETUAL_STORE" in os.environ or os.environ.get("XDG_CONFIG_HOME"):
        return None
    if os.path.exists(os.path.join(os.path.expanduser("~"), ".config", "perpetual", "config.yaml")):
        return None
    path = os.path.abspath(os.path.join(found, "config.yaml"))
    kept = caches.load("yaml", path)
    seen = os.stat(path)
    if not isinstance(kept, dict) or kept.get("stamp") != [seen.st_ino, seen.st_size, seen.st_mtime_ns]:
        return None
    data: dict[str, Any] = kept["data"]
    return data


def _plugins(config: dict[str, Any] | None, safe: bool) -> list[dict[str, Any]] | None:
    sections = (config or {}).get("plugins")
    disabled = sections.get("disabled") if isinstance(sections, dict) else None
    found = caches.load("plugins", caches.plugins_key(disabled or [], safe=safe))
    try:
        known = isinstance(found, list) and all(offer["provider"]["slot"] for info in found for offer in info["offers"])
    except (KeyError, TypeError):
        known = False  # of another version, or changed from outside
    return found if known else None


def commands(*, safe: bool = False) -> dict[str, tuple[str, str]] | None:
    """The commands that plugins offer, name -> (factory, summary), or None if that must be looked up."""
    if os.environ.get("PERPETUAL_TRACE_HOOKS"):
        return None
    found = folder()
    config = _config(found) if found else None
    if found and config is None:
        return None
    plugins = _plugins(config, safe)
    if plugins is None:
        return None
    offers = [offer for info in plugins for offer in info["offers"] if offer["provider"]["slot"] == "command"]
    return {
        offer["provider"]["name"]: (offer["provider"]["factory"], offer["provider"]["summary"])
        for offer in offers
        if offer["refused"] is None
    }


def status(project: str | None = None) -> dict[str, Any] | None:
    """The kept status document of the project, if it is of the store's present state."""
    found = folder(project)
    config = _config(found) if found else None
    if found is None or config is None or os.environ.get("PERPETUAL_TRACE_HOOKS"):
        return None
    reader = _head(_plugins(config, False), config.get("store"))
    if reader is None:
        return None
    module, _, name = reader.partition(":")
    head = getattr(__import__(module, fromlist=[name]), name)(os.path.join(found, "store"))
    return read_status(found, token_of(found, head))


def _head(plugins: list[dict[str, Any]] | None, store: object) -> str | None:
    """The head function of the one provider that the configuration's `store` names."""
    found = [
        offer["provider"]["head"]
        for info in plugins or []
        for offer in info["offers"]
        if offer["provider"]["slot"] == "store" and store in (offer["provider"]["name"], offer["qualified_name"])
    ]
    return found[0] if len(found) == 1 else None
