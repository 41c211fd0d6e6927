"""YAML files that people edit: read with the line of every mistake, changed with comments kept. Floor 0.

Used by configuration and methodology. ruamel.yaml is imported only when a file has changed since it was last parsed.
Its parser is slow, so a process parses the same text once, in whichever file it stands.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from io import StringIO
from pathlib import Path
from typing import Any

from perpetual.errors import ConfigError, PerpetualError, TransientError, UsageError
from perpetual.toolkit import caches, confined
from perpetual.toolkit.foreign import LARGEST_YAML, check_yaml
from perpetual.toolkit.lock import FileLock

__all__ = ["place_of", "plain_values", "read_yaml", "remove_value", "set_value", "unreadable", "write_document"]

PATIENCE_S = 10.0
_LARGEST_BYTES = 1024 * 1024  # of a file that people write
_MOST_BITS = 1023  # of a whole number: what fits into a float
_MOST_TEXTS = 32  # whose values a process remembers


def plain_values(value: object) -> object:
    """Returns the value in Python's own kinds.

    Raises:
        ValueError: for a whole number that is no float (Python cannot even write one of thousands of digits, as
            hexadecimal digits spell them), and for text that is not Unicode.
    """
    if isinstance(value, Mapping):
        return {str(plain_values(key)): plain_values(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_values(item) for item in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        if value.bit_length() > _MOST_BITS:
            raise ValueError(f"a whole number of {value.bit_length():,} bits is too large")
        return int(value)
    if isinstance(value, float):
        return float(value)
    text = str(value)
    if not text.isascii():
        text.encode("utf-8")
    return text


def _yaml() -> Any:
    """Reads and writes a file as a person wrote it: quotes kept, long lines not folded."""
    from ruamel.yaml import YAML

    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 4096
    return yaml


def _document(text: str) -> object:
    """Returns what the text holds, with its comments and places; a new object each time."""
    check_yaml(text)
    return _yaml().load(text)


@lru_cache(maxsize=_MOST_TEXTS)
def _values(text: str) -> str:
    """Returns the plain values that the text holds, as JSON: each caller decodes values of its own."""
    return json.dumps(plain_values(_document(text)))


def _parse(path: Path, load: Callable[[str], object] = _document) -> Any:
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        return load(_bytes_of(path).decode("utf-8"))
    except MarkedYAMLError as problem:
        mark = problem.problem_mark or problem.context_mark
        line = f":{mark.line + 1}" if mark is not None else ""
        raise ConfigError(
            f"{path}{line}: {problem.problem or problem.context}", hint="mend that line; nothing was changed"
        ) from problem
    except (OSError, PerpetualError):
        raise
    except (YAMLError, UnicodeDecodeError) as problem:
        raise ConfigError(f"{path}: {problem}", hint="mend the file; nothing was changed") from problem
    except Exception as problem:  # the parser stumbles in many ways over broken input, and each is named
        raise ConfigError(
            f"{path}: it cannot be read as YAML: {type(problem).__name__ if not str(problem) else problem}",
            hint="mend the file; nothing was changed",
        ) from problem


def _bytes_of(path: Path) -> bytes:
    """Returns the file's bytes.

    A link of the user's own is followed, one below `.perpetual` is not, and a pipe never.
    """
    place = path if confined.is_inside(path) else Path(os.path.realpath(path))
    try:
        return confined.read_bytes(place, limit=_LARGEST_BYTES)
    except OSError as problem:
        raise unreadable(path, problem) from problem


def unreadable(path: Path, problem: OSError) -> ConfigError:
    """Returns the error for a file of settings that cannot be read."""
    if isinstance(problem, confined.UnsafePath):
        return ConfigError(problem.message, hint=problem.hint, code=problem.code)
    return ConfigError(f"{path} cannot be read: {problem.strerror or problem}", hint=f"mend its rights: ls -l {path}")


def _seen(path: Path) -> os.stat_result | None:
    try:
        return confined.look(path) if confined.is_inside(path) else os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise unreadable(path, problem) from problem


def read_yaml(path: Path) -> dict[str, object] | None:
    """Returns the file's top-level mapping as plain values, {} for an empty file, None if there is no file.

    Raises:
        ConfigError: naming file and line, if it is no YAML or no mapping, or what cannot be read.
    """
    status = _seen(path)
    if status is None:
        return None
    stamp = [status.st_ino, status.st_size, status.st_mtime_ns]
    cached = caches.load("yaml", os.path.abspath(path))
    if isinstance(cached, dict) and cached.get("stamp") == stamp:
        data: dict[str, object] = cached["data"]
        return data
    data = json.loads(_parse(path, _values))
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise ConfigError(f"{path}:1: expected keys with values, not a {type(data).__name__}")
    caches.save("yaml", os.path.abspath(path), {"stamp": stamp, "data": data})
    return data


def place_of(path: Path, *keys: str) -> str:
    """Returns the place of a key, as error messages name it.

    The path and, if the key is there, its line. Parses the file.
    """
    node: Any = _parse(path)
    place = str(path)
    for key in keys:
        try:
            place = f"{path}:{node.lc.key(key)[0] + 1}"
            node = node[key]
        except (AttributeError, KeyError, TypeError):
            break
    return place


def set_value(path: Path, keys: tuple[str, ...], value: object) -> None:
    """Sets one value in the file, every comment, the order of the other keys and its rights kept; replaced atomically.

    A link is followed, unless it is below `.perpetual`: the file that it leads to is replaced. Two processes that set
    at once both succeed: each reads what the other has written, under a lock beside the file.

    Raises:
        ConfigError: if the file is no YAML.
        TransientError: if another process has not finished within ten seconds.
        PerpetualError: (not_written) for a full disk, or a folder that may not be written.
    """
    _changed(path, lambda: _set_value(path, keys, value))


def remove_value(path: Path, keys: tuple[str, ...]) -> bool:
    """Takes one key out of the file, and the sections that are empty without it; every other line stays.

    Returns:
        whether it was there.

    Raises:
        as `set_value` does.
    """
    if _seen(path) is None:
        return False
    found: list[bool] = []
    _changed(path, lambda: found.append(_remove_value(path, keys)))
    return found[0]


def _changed(path: Path, change: Callable[[], None]) -> None:
    """Calls `change` under the lock beside the file; raises as `set_value` does."""
    guard = FileLock(path.with_name(f"{path.name}.lock"))
    try:
        if not guard.acquire(timeout_s=PATIENCE_S):
            raise TransientError(f"{path} is being changed by another process", hint="the same again")
        try:
            change()
        finally:
            guard.release()
    except confined.UnsafePath as problem:
        raise unreadable(path, problem) from problem
    except OSError as problem:
        raise PerpetualError(
            f"{path} could not be written: {problem.strerror or problem}; nothing was changed",
            hint="free some space or mend the folder's rights, then repeat",
            code="not_written",
        ) from problem


def _dumped(document: object) -> str:
    stream = StringIO()
    _yaml().dump(document, stream)
    return stream.getvalue()


def _set_value(path: Path, keys: tuple[str, ...], value: object) -> None:
    from ruamel.yaml.comments import CommentedMap

    document = _parse(path) if _seen(path) is not None else None
    if document is None:
        document = CommentedMap()
    node = document
    for key in keys[:-1]:
        if not isinstance(node.get(key), Mapping):
            node[key] = CommentedMap()
        node = node[key]
    node[keys[-1]] = value
    _write(path, _dumped(document))


def _remove_value(path: Path, keys: tuple[str, ...]) -> bool:
    """Takes the lines of a key out; where that is not enough, the parser writes the file and keeps what it can."""
    document = node = _parse(path)
    holder, own = None, None  # the section that the key goes out of, and the key as it is there: a number is one
    for key in keys:
        found = [each for each in node if str(plain_values(each)) == key] if isinstance(node, Mapping) else []
        if not found:
            return False
        if holder is None or len(node) > 1:  # a section that holds nothing else goes as a whole
            holder, own = node, found[0]
        node = node[found[0]]
    assert holder is not None
    try:
        cut = _cut(_bytes_of(path).decode("utf-8"), *holder.lc.key(own))
    except (AttributeError, KeyError, TypeError):  # it has no place of its own: an alias
        cut = None
    del holder[own]
    try:
        is_cut = cut is not None and plain_values(_document(cut) or {}) == plain_values(document)
    except Exception:  # noqa: BLE001 - a cut that is no YAML, in whichever way, is not written
        is_cut = False
    _write(path, cut if cut is not None and is_cut else _dumped(document))
    return True


def _cut(text: str, first: int, column: int) -> str:
    """Returns the text without the key at a place and what is indented below it; comments above and below stay."""
    lines = text.splitlines(keepends=True)
    end = first + 1
    for number, line in enumerate(lines[end:], end):
        rest = line.lstrip()
        indent = len(line) - len(rest)
        if rest and (indent > column or (indent == column and rest.startswith("-"))):
            end = number + 1
        elif rest and not rest.startswith("#"):
            break
    return "".join([*lines[:first], *lines[end:]])


def _write(path: Path, text: str) -> None:
    """Replaces the file, with the rights that it has."""
    from perpetual.toolkit.atomic import write_atomic

    if len(text) > LARGEST_YAML:
        raise UsageError(f"{path} would be larger than {LARGEST_YAML // 1024} KiB, and could not be read again")
    real = os.fspath(path) if confined.is_inside(path) else os.path.realpath(path)
    mode = os.stat(real).st_mode & 0o777 if os.path.exists(real) else None
    write_atomic(real, text, mode=0o600 if mode is None else mode)
    if mode is not None:
        os.chmod(real, mode)  # the umask may have narrowed it


def write_document(path: Path, entries: list[tuple[str, object, str]], *, title: str) -> None:
    """Writes a new file of (key, value, comment) with `title` above; replaced atomically."""
    from ruamel.yaml.comments import CommentedMap

    from perpetual.toolkit.atomic import write_atomic

    document = CommentedMap()
    for key, value, comment in entries:
        document[key] = value
        document.yaml_set_comment_before_after_key(key, before="\n" + comment)
    document.yaml_set_start_comment(title)
    write_atomic(path, _dumped(document))
