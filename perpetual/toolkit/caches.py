"""The user's cache folder: things that can be computed again (discovery, parsed configuration). Floor 0.

Used by the registry, the YAML reader and the fast path of the command; so it imports next to nothing. A cache that
cannot be read or written is no error: the thing is computed again.
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False  # as typing's, whose import the fast path cannot afford
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["cache_dir", "digest", "load", "plugins_name", "save"]


def cache_dir() -> str:
    """The folder: `PERPETUAL_CACHE_DIR`, or the platform's own place for caches."""
    chosen = os.environ.get("PERPETUAL_CACHE_DIR")
    if chosen:
        return chosen
    if sys.platform.startswith("linux"):
        # What platformdirs answers here, without its import, which alone would cost the fast path its goal.
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        return os.path.join(base, "perpetual")
    from platformdirs import user_cache_dir

    return user_cache_dir("perpetual", appauthor=False)


def digest(text: str) -> str:
    """A short name for a cached thing."""
    from hashlib import blake2b

    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()


def load(name: str) -> Any:
    """The cached value called `name`, or None."""
    try:
        with open(os.path.join(cache_dir(), name + ".json"), encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def save(name: str, value: Any) -> None:
    """Caches a JSON value; a reader sees the old or the new one, never a part."""
    folder = cache_dir()
    temporary = os.path.join(folder, f".{name}.{os.getpid()}")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(value, file)
        os.replace(temporary, os.path.join(folder, name + ".json"))
    except OSError:
        # A read-only home must not stop a command: without a cache it is only slower.
        return


def plugins_name(disabled: Sequence[str] = (), *, safe: bool = False) -> str:
    """The cache's name for discovery: by interpreter, the import path's folders and times, and what is switched off.

    The first entry of the path is left out: it is the script's own folder or the working directory, which differ
    between two ways of starting the same program.
    """
    from perpetual import __version__

    parts = [sys.executable, sys.version, __version__, repr(safe), *sorted(disabled)]
    for folder in sys.path[1:]:
        try:
            parts.append(f"{folder}:{os.stat(folder).st_mtime_ns}")
        except OSError:
            parts.append(folder)
    return "plugins-" + digest("\n".join(parts))
