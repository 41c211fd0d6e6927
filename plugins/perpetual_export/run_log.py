"""`perpetual.log`: a run's own metrics, one JSON line a call, appended to the file that PERPETUAL_METRICS names.

Imported by training scripts, so it imports next to nothing: not even `json`, which would double the cost of the first
line. Outside a run (without PERPETUAL_METRICS) it does nothing, unless `perpetual.init` has begun one.

A line is written whole by one call on an append-only file: threads, forked workers and other processes may log to the
same file. A process that is killed leaves at most one torn line at the end of the file; the next writer begins a
line of its own, and readers skip what is no JSON. A training is worth more than a line of its log: where a line cannot
be written (disk full, folder gone) a warning is printed once, and the run goes on.
"""

from __future__ import annotations

import os
import stat
import sys

try:
    from _json import encode_basestring_ascii as _quoted  # what json.dumps does with a text
except ImportError:  # an interpreter without CPython's accelerator
    from json.encoder import encode_basestring_ascii as _quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

__all__ = ["log"]

_DEEPEST = 20  # levels of a nested value; a cycle ends here too
_LONGEST_TEXT = 200  # of what is kept of an object that is no JSON
_PROJECT = f"{os.sep}.perpetual{os.sep}"
_EXACT_BITS = 63  # a longer integer breaks other readers of the file

_failed = False
sink: str | None = None  # where lines go outside a launched run: set by `perpetual.init`, for this process alone


def log(table: dict[str, object] | None = None, /, **values: object) -> None:
    """Appends a line such as `{"step": 3, "loss": 2.1}`; `step` is what the caller says it is, and may be left out.

    Values may come as keywords, as a dict before them (`log({"val/loss": 2.1}, step=3)`), or both.

    Numbers, also those of numpy and torch, texts, None, lists and dicts with names become JSON. What JSON cannot carry
    keeps its type: NaN is `{"type": "float", "text": "nan"}`, and so are infinities, integers of more than 63 bits (in
    hexadecimal) and other objects (their `repr`, cut short). A metric is a number: the rest is kept and not compared.

    Raises nothing: a line that cannot be written is named once on standard error, and the run goes on.
    """
    path = os.environ.get("PERPETUAL_METRICS") or sink
    if not path:
        return
    try:
        _append(path, (_encoded({**(table or {}), **values}, 0) + "\n").encode("ascii"))
    except Exception as problem:  # noqa: BLE001 - also of foreign code, as of a text's own __str__
        _warn(path, problem)


def _append(path: str, line: bytes) -> None:
    # Opened for each line: what is shared with a forked child, or open in two threads, has nothing to confuse.
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    if _PROJECT in path:  # in a run's own folder a link would lead out of it
        flags |= getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            _write(descriptor, line)  # a pipe, or a terminal: it has no end to look at
            return
        end = os.lseek(descriptor, 0, os.SEEK_END)
        # Or a line that another process is just writing: then an empty line is left between, which is no harm.
        if end and not _ends_a_line(descriptor, end):
            line = b"\n" + line
        _write(descriptor, line)
        start = os.lseek(descriptor, 0, os.SEEK_CUR) - len(line)
        if line[0] != 10 and start > 0 and not _ends_a_line(descriptor, start):
            _write(descriptor, b"\n" + line)  # another process was killed in the middle of its line just before ours
    finally:
        os.close(descriptor)


def _ends_a_line(descriptor: int, end: int) -> bool:
    os.lseek(descriptor, end - 1, os.SEEK_SET)  # Windows has no pread; appending does not depend on the position
    return os.read(descriptor, 1) == b"\n"


def _write(descriptor: int, line: bytes) -> None:
    written = os.write(descriptor, line)
    if written != len(line):  # the rest would stand behind another process's line
        raise OSError(f"only {written} of {len(line)} bytes could be written")


def _warn(path: str, problem: Exception) -> None:
    global _failed
    if not _failed:
        _failed = True
        try:
            sys.stderr.write(f"perpetual.log: {path}: {problem}; lines are lost, the run goes on\n")
            sys.stderr.flush()
        except (OSError, ValueError, AttributeError):  # standard error is full, closed or absent
            return


def _encoded(value: object, depth: int) -> str:
    """Returns the value as JSON in ASCII."""
    if value is None or value is True or value is False:
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return str(_quoted(str(value)))
    if isinstance(value, int):
        is_exact = int.bit_length(value) <= _EXACT_BITS
        return int.__repr__(value) if is_exact else _typed("int", hex(value))
    if isinstance(value, float):
        text = float.__repr__(value)
        return _typed("float", text) if text in ("nan", "inf", "-inf") else text
    if depth >= _DEEPEST:
        return _typed(type(value).__name__, "nested too deeply")
    try:
        if isinstance(value, dict):
            pairs = [f"{_quoted(str(name))}: {_encoded(item, depth + 1)}" for name, item in value.items()]
            return "{" + ", ".join(pairs) + "}"
        if isinstance(value, (list, tuple)):
            return "[" + ", ".join([_encoded(item, depth + 1) for item in value]) + "]"
    except Exception as problem:  # noqa: BLE001 - foreign code, or another thread changes it meanwhile
        return _typed(type(value).__name__, f"no JSON: {type(problem).__name__}")
    return _scalar(value, depth)


def _scalar(value: object, depth: int) -> str:
    """Returns a number of another library.

    Else what the object says of itself. Foreign code, so anything may be raised.
    """
    try:
        if hasattr(value, "item"):
            found = value.item()  # of numpy and torch; more than one element is an error there
            if isinstance(found, (int, float, str)):
                return _encoded(found, depth + 1)
        elif hasattr(value, "__float__"):
            return _encoded(float(value), depth + 1)
    except Exception:  # noqa: BLE001, S110 - it is no single number then, and is kept as text
        pass
    try:
        text = repr(value)
    except Exception as problem:  # noqa: BLE001 - the training must survive an object that cannot show itself
        text = f"no repr: {type(problem).__name__}"
    return _typed(type(value).__name__, text)


def _typed(name: str, text: str) -> str:
    return f'{{"type": {_quoted(name)}, "text": {_quoted(text[:_LONGEST_TEXT])}}}'
