"""Reading foreign files: confined to their folder, databases never written to, text of any form.

Used by the readers of this package.
"""

from __future__ import annotations

import math
import shutil
import sqlite3
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from perpetual.api import CorruptData, TransientError, UsageError
from perpetual.toolkit.units import iso
from perpetual_sqlite.opening import open_reading, stamp

__all__ = [
    "LONGEST_VALUE",
    "Outside",
    "clean",
    "database",
    "finite_or_none",
    "has_tables",
    "inside",
    "line",
    "moment",
    "moment_of_ms",
    "plain",
    "seconds_between",
    "settings",
    "start_of",
]

Plain: TypeAlias = "bool | int | float | str | list[Plain] | dict[str, Plain] | None"  # a value of JSON

LONGEST_VALUE = 10_000  # characters of a parameter or tag; MLflow itself writes 8,000 at most
_LONGEST_LINE = 300
_DEEPEST = 50
_WAL = 2  # byte 18 of an SQLite file that is written through a log
_STILL_S = 5.0


class Outside(Exception):
    """A path that is no regular file inside the folder it belongs to; its words say which."""


def inside(root: Path, path: Path) -> Path:
    """Returns the regular file that `path` is, whatever links lead there.

    Raises:
        Outside: if it lies elsewhere in the end, or is no file, or cannot be looked at.
    """
    try:
        real = path.resolve(strict=True)
        mode = real.stat().st_mode
    except (OSError, RuntimeError) as problem:  # a ring of links is a RuntimeError
        raise Outside(f"cannot be read: {getattr(problem, 'strerror', None) or problem}") from problem
    if not real.is_relative_to(root.resolve()):
        raise Outside("is a link that leads out of the folder")
    if not stat.S_ISREG(mode):
        raise Outside("is no regular file")
    return real


def clean(text: object, limit: int = LONGEST_VALUE) -> str:
    """Returns text that the record can carry: undecodable bytes are replaced, and what is too long is cut."""
    shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    if not shown.isascii():
        shown = shown.encode("utf-8", "replace").decode("utf-8")
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def line(text: object, limit: int = _LONGEST_LINE) -> str:
    """Returns the same on one line, control characters made visible."""
    words = " ".join(clean(text, 4 * limit).split())
    return clean("".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in words), limit)


def plain(value: object, depth: int = 0) -> Plain:
    """Returns a JSON value that the record can carry: NaN and infinity by name, text cleaned, nothing too deep."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if depth >= _DEEPEST:
        return clean(value)
    if isinstance(value, dict):
        return {clean(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, depth + 1) for item in value]
    return clean(value)


def start_of(path: Path, size: int = 4 * LONGEST_VALUE) -> str:
    """Returns the beginning of a text file."""
    with path.open("rb") as file:
        return clean(file.read(size))


def finite_or_none(text: object) -> float | None:
    """Returns the number that this is; None for no number, NaN and infinity."""
    if not isinstance(text, (str, int, float)) or isinstance(text, bool):
        return None
    try:
        value = float(text)
    except (ValueError, OverflowError):
        return None
    return value if math.isfinite(value) else None


def moment(text: object) -> str | None:
    """Returns an ISO 8601 time as the record writes it; one without a zone is UTC. None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
        return iso(found if found.tzinfo else found.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return None


def moment_of_ms(value: object) -> str | None:
    """Returns the time of milliseconds since 1970, or None."""
    number = finite_or_none(value)
    if number is None or number <= 0:
        return None
    try:
        return iso(datetime.fromtimestamp(number / 1000.0, UTC))
    except (ValueError, OverflowError, OSError):
        return None


def seconds_between(start: str | None, end: str | None) -> float | None:
    """Seconds from one moment to another; None if one is unknown, or they stand the wrong way round."""
    if start is None or end is None:
        return None
    length = (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
    return length if length >= 0 else None


def settings(path: Path) -> Mapping[str, object] | None:
    """Returns the keys of a YAML file, read as YAML 1.1, which PyYAML writes; None if it is no readable mapping.

    One whose aliases stand for more than a file of settings holds cannot be read.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    from perpetual.toolkit.foreign import LARGEST_YAML, check_yaml
    from perpetual.toolkit.yamlfile import plain_values

    parser = YAML(typ="safe", pure=True)
    parser.version = (1, 1)
    try:
        if path.stat().st_size > LARGEST_YAML:
            return None
        text = path.read_text("utf-8")
        check_yaml(text)
        data = plain_values(parser.load(text))
    except (OSError, ValueError, YAMLError, RecursionError, AttributeError, TypeError):
        # Whatever a broken file makes the parser stumble over, the answer is that it holds no settings.
        return None
    return data if isinstance(data, dict) else None


# --- databases ----------------------------------------------------------------------------------------------


def has_tables(path: Path, names: Sequence[str]) -> bool:
    """Returns whether the file is an SQLite database with these tables.

    Raises:
        CorruptData: for a database that cannot be read.
        UsageError: for a file that may not be read.
    """
    try:
        with open(path, "rb") as file:
            if file.read(16) != b"SQLite format 3\0":
                return False
    except OSError as problem:
        raise UsageError(f"{path} cannot be read: {problem.strerror or problem}") from problem
    with database(path) as connection:
        found = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")}
    return set(names) <= found


@contextmanager
def database(path: Path, *, check: bool = False) -> Iterator[sqlite3.Connection]:
    """Yields a database for reading; neither the file nor its folder is changed.

    One that is written through a log (WAL) is read from a copy, since its readers write beside it.

    Raises:
        CorruptData: for what is no database, or (with `check`, or later, while it is read) a damaged one.
        UsageError: if there is no such file, or it may not be read.
        TransientError: if another process keeps writing to it.
    """
    try:
        with open(path, "rb") as file:
            is_logged = file.read(20)[18:19] == bytes([_WAL])
        with tempfile.TemporaryDirectory(prefix="perpetual-adopt-") as folder:
            place = _copied(path, Path(folder)) if is_logged else path
            with closing(open_reading(place, _STILL_S).connection) as connection:
                connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
                connection.execute("PRAGMA query_only=ON")
                if check:
                    _examine(path, connection)
                yield connection
    except (sqlite3.Error, UnicodeDecodeError) as problem:  # the latter: SQLite quotes a damaged schema in its words
        raise CorruptData(
            f"{path} is no database that can be read: {problem}", hint="nothing is taken from a damaged one"
        ) from problem
    except OSError as problem:
        raise UsageError(f"{path} cannot be read: {problem.strerror or problem}") from problem


def _examine(path: Path, connection: sqlite3.Connection) -> None:
    ((verdict,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
    if verdict != "ok":
        raise CorruptData(f"{path} is damaged: {line(verdict)}", hint="nothing is taken from a damaged one")


def _copied(path: Path, folder: Path) -> Path:
    """Returns a copy of the file and its log, both as of one moment."""
    import time

    deadline = time.monotonic() + _STILL_S
    target = folder / "copy.db"
    while True:
        before = stamp(path)
        shutil.copyfile(path, target)
        log = Path(f"{path}-wal")
        if log.exists():
            shutil.copyfile(log, f"{target}-wal")
        if stamp(path) == before:
            return target
        if time.monotonic() > deadline:
            raise TransientError(f"{path} is being written to all the time", hint="try again when it is at rest")
        time.sleep(0.05)
