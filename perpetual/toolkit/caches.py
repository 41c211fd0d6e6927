"""The user's cache folder: things that can be computed again (discovery, parsed configuration). Floor 0.

Used by the registry, the YAML reader and the fast path of the command; so it imports next to nothing. A cache that
cannot be read or written is no error: the thing is computed again.
"""

from __future__ import annotations

import json
import os
import sys
from zlib import crc32

from perpetual.toolkit import confined

TYPE_CHECKING = False  # as typing's, whose import the fast path cannot afford
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

__all__ = ["WITHOUT", "cache_dir", "left_out", "load", "plugins_key", "save"]

WITHOUT = "PERPETUAL_WITHOUT"  # the variable with the plugins that are left out, separated by commas


def cache_dir() -> str:
    """Returns the folder: `PERPETUAL_CACHE_DIR`, or the platform's own place for caches."""
    chosen = os.environ.get("PERPETUAL_CACHE_DIR")
    if chosen:
        return chosen
    if sys.platform.startswith("linux"):
        # What platformdirs answers here, without its import, which alone would cost the fast path its goal.
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        return os.path.join(base, "perpetual")
    from platformdirs import user_cache_dir

    return user_cache_dir("perpetual", appauthor=False)


def _path(kind: str, key: str) -> str:
    # A short checksum names the file; the whole key stands inside and is compared, so a collision is only a miss.
    return os.path.join(cache_dir(), f"{kind}-{crc32(key.encode('utf-8', 'surrogateescape')):08x}.json")


def _stamp(path: str) -> list[int] | None:
    try:
        seen = os.stat(path)
    except OSError:
        return None
    return [seen.st_ino, seen.st_size, seen.st_mtime_ns]


def load(kind: str, key: str) -> Any:
    """Returns the value cached under (kind, key), or None.

    Also None once a file that it was computed from has changed.
    """
    try:
        kept = json.loads(confined.read_bytes(_path(kind, key)))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(kept, dict) or kept.get("key") != key or not isinstance(kept.get("files"), dict):
        return None
    return kept["value"] if all(_stamp(path) == stamp for path, stamp in kept["files"].items()) else None


def save(kind: str, key: str, value: object, files: Iterable[str] = ()) -> None:
    """Caches a JSON value computed from these files; a reader sees the old or the new one, never a part."""
    stamps = {path: _stamp(path) for path in files}
    path = _path(kind, key)
    temporary = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump({"key": key, "files": stamps, "value": value}, file)
        os.replace(temporary, path)
    except OSError:
        # A read-only home must not stop a command: without a cache it is only slower.
        return


def left_out() -> list[str]:
    """Returns the plugins that `PERPETUAL_WITHOUT` names, bare or qualified."""
    return [name for name in map(str.strip, os.environ.get(WITHOUT, "").split(",")) if name]


def plugins_key(disabled: Sequence[str] = (), *, safe: bool = False) -> str:
    """Returns the cache's key of a discovery.

    The interpreter, the import path's folders and times, what is switched off.

    The first entry of the path is left out where it is the script's own folder or the working directory, which differ
    between two ways of starting the same program; under `python -P` there is no such entry.
    """
    from perpetual import __version__

    parts = [sys.executable, sys.version, __version__, repr(safe), *sorted(disabled)]
    parts += [f"without {name}" for name in sorted(left_out())]
    for folder in sys.path if sys.flags.safe_path else sys.path[1:]:
        try:
            parts.append(f"{folder}:{os.stat(folder).st_mtime_ns}")
        except OSError:
            parts.append(folder)
    return "\n".join(parts)
