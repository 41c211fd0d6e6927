"""What is kept so that a command can be instant: the parsed configuration, the discovered plugins, the status. Light.

Read by the fast path, by `--help` and by the status department; each reader answers None when what is kept is not of
the present state, and then the real thing is computed (and kept) elsewhere.

`status.json` is a projection of the store. It carries the token of the store's head and of the configuration files it
was computed from, and is trusted only while both are the same.
"""

from __future__ import annotations

import json
import os
import stat
import time

from perpetual.toolkit import caches, confined
from perpetual.toolkit.reserved import known_name, known_names

TYPE_CHECKING = False  # as typing's, whose import the fast path cannot afford
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "RULES",
    "RULES_FILE",
    "STATUS_FILE",
    "agent_marks",
    "commands",
    "folder",
    "help_text",
    "keep_help",
    "read_status",
    "status",
    "token_of",
]

STATUS_FILE = "status.json"
_LARGEST_BYTES = 16 * 1024 * 1024
RULES_FILE = "rules.json"
RULES = 2  # of the evidence: another number where the same ledger amounts to something else


def token_of(folder: str, head: str) -> str:
    """What a status was computed from: the store's head, the evidence rules, the stats of the configuration files."""
    parts = [head, f"rules{RULES}"]
    for name in ("config.yaml", "methodology.yaml"):
        try:
            seen = os.lstat(os.path.join(folder, name))
            parts.append(f"{seen.st_ino}-{seen.st_size}-{seen.st_mtime_ns}")
        except FileNotFoundError:
            parts.append("-")
    from perpetual.toolkit.trust_path import stamp

    parts.append(stamp(os.path.dirname(folder)))
    return "/".join(parts)


def read_status(folder: str, token: str) -> dict[str, Any] | None:
    """The kept status document of the `.perpetual/` folder, if it is of exactly the state of that token."""
    try:
        kept = json.loads(confined.read_bytes(os.path.join(folder, STATUS_FILE), limit=_LARGEST_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(kept, dict) or kept.get("token") != token:
        return None
    document = kept.get("document")
    brief = document.get("brief") if isinstance(document, dict) else None
    if not isinstance(brief, dict) or "is_redacted" not in brief:
        return None  # of an earlier version: it does not say what agents are shown, and may hold secrets
    return document


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
        if os.path.lexists(found):
            return _ours(found)
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above


def _ours(found: str) -> str | None:
    try:
        if not stat.S_ISDIR(os.lstat(found).st_mode) or os.path.lexists(os.path.join(found, "graph.db")):
            return None
        return found if confined.look(os.path.join(found, "config.yaml")) is not None else None
    except OSError:
        return None  # the full command line says what is wrong


def _config(found: str) -> dict[str, Any] | None:
    """The parsed configuration file, if the kept one is of its present state and nothing else has a say."""
    if {"PERPETUAL_STORE", "PERPETUAL_AGENT_MARKS"} & os.environ.keys() or os.environ.get("XDG_CONFIG_HOME"):
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


def agent_marks(project: str | None = None) -> list[str]:
    """The `agent_marks` of the project's configuration file; `status` has answered, so no other place has a say."""
    found = folder(project)
    marks = (_config(found) or {}).get("agent_marks") if found else None
    return [name for name in marks if isinstance(name, str)] if isinstance(marks, list) else []


def _plugins(config: dict[str, Any] | None, safe: bool) -> list[dict[str, Any]] | None:
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


def commands(*, safe: bool = False) -> dict[str, tuple[str, str, str]] | None:
    """The commands that plugins offer, name -> (factory, summary, qualified name), or None to look that up."""
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
    offers = [offer for offer in offers if offer["refused"] is None]
    names = known_names("command", [offer["qualified_name"] for offer in offers])
    return {
        name: (offer["provider"]["factory"], offer["provider"]["summary"], offer["qualified_name"])
        for name, offer in zip(names, offers, strict=True)
    }


def help_text() -> str | None:
    """The text of `perpetual --help` for this terminal, if the one that was kept would be written again."""
    key = _help_key()
    text = caches.load("help", key) if key is not None else None
    return text if isinstance(text, str) else None


def keep_help(text: str, sources: list[str]) -> None:
    """Keeps the text of `perpetual --help`; a change of a source file, a plugin or the terminal's width ends it."""
    key = _help_key()
    if key is not None and caches.load("help", key) != text:
        caches.save("help", key, text, sources)


def _help_key() -> str | None:
    """All that the text depends on, but for the program's own files; None where a plugin is to be looked up first."""
    offered = commands()
    if offered is None:
        return None
    from shutil import get_terminal_size

    language = [os.environ.get(name) for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")]
    return repr((caches.plugins_key(), get_terminal_size().columns, language, sorted(offered.items())))


def status(project: str | None = None) -> dict[str, Any] | None:
    """The kept status document of the project, if it is of the store's present state."""
    found = folder(project)
    config = _config(found) if found else None
    if found is None or config is None or any(map(os.environ.get, ("PERPETUAL_TRACE_HOOKS", "PERPETUAL_TRUSTED"))):
        return None
    reader = _head(_plugins(config, False), config.get("store"))
    if reader is None:
        return None
    module, _, name = reader.partition(":")
    try:
        head = getattr(__import__(module, fromlist=[name]), name)(os.path.join(found, "store"))
        document = read_status(found, token_of(found, head))
        return None if document is None else {**document, "services": _services(found)}
    except OSError:
        return None  # the full command line says what is wrong


def _services(found: str) -> list[dict[str, Any]]:
    """The services that ran here; whether one still does is asked of the operating system."""
    if not os.path.isdir(os.path.join(found, "services")):
        return []
    from perpetual.toolkit.service_state import service_states

    return service_states(found)


def _head(plugins: list[dict[str, Any]] | None, store: object) -> str | None:
    """The head function of the one provider that the configuration's `store` names."""
    found = [
        offer["provider"]["head"]
        for info in plugins or []
        for offer in info["offers"]
        if offer["provider"]["slot"] == "store"
        and store in (known_name("store", offer["qualified_name"]), offer["qualified_name"])
    ]
    return found[0] if len(found) == 1 else None
