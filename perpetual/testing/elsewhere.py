"""The same part in another process: with another hash seed, in another folder, and at a later time of the clock.

    here = [scorer.score(state)]
    now, later = elsewhere(scorer, [("score", (state,))])

The other process builds the part by its factory, or, where the suite has none, gets a copy by `pickle`.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

__all__ = ["Deed", "elsewhere"]

Deed = tuple[str, tuple[object, ...]]  # a method and its arguments

_LIMIT_S = 50.0
# It must not import anything that reads the clock before the clock can be set.
_PROGRAM = """
import datetime, pickle, sys, time

ahead = 0.0

def moved(real, scale):
    return lambda: real() + type(real())(ahead * scale)

def at(real):
    return lambda *given: real(*given) if given and given[0] is not None else real(time.time())

for name, scale in (("time", 1), ("monotonic", 1), ("perf_counter", 1), ("time_ns", 10**9), ("monotonic_ns", 10**9),
                    ("perf_counter_ns", 10**9)):
    setattr(time, name, moved(getattr(time, name), scale))
for name in ("localtime", "gmtime", "ctime"):
    setattr(time, name, at(getattr(time, name)))
strftime, asctime = time.strftime, time.asctime
time.strftime = lambda form, given=None: strftime(form, given or time.localtime())
time.asctime = lambda given=None: asctime(given or time.localtime())

def later(real):
    class Like(type):
        def __instancecheck__(cls, one):
            return isinstance(one, real)
    class Later(real, metaclass=Like):
        @classmethod
        def today(cls):
            return real.today() + datetime.timedelta(seconds=ahead)
        @classmethod
        def now(cls, tz=None):
            return real.now(tz) + datetime.timedelta(seconds=ahead)
        @classmethod
        def utcnow(cls):
            return real.now(datetime.timezone.utc).replace(tzinfo=None) + datetime.timedelta(seconds=ahead)
    Later.__name__ = Later.__qualname__ = real.__name__
    Later.__module__ = "datetime"
    return Later

datetime.date, datetime.datetime = later(datetime.date), later(datetime.datetime)
channel, sys.stdout = sys.stdout.buffer, sys.stderr
path, factory, options, copy, deeds, later_s = pickle.load(sys.stdin.buffer)
sys.path[:] = path
try:
    if factory:
        from importlib import import_module
        module, _, name = factory.partition(":")
        part = getattr(import_module(module), name)(options)
    else:
        part = pickle.loads(copy)
    deeds = pickle.loads(deeds)
except (ImportError, AttributeError) as problem:
    if factory:
        raise
    pickle.dump(str(problem), channel)
    sys.exit()
answers = []
for ahead in (0.0, later_s):
    answers.append([getattr(part, name)(*given) for name, given in deeds])
pickle.dump(answers, channel)
"""
_LATER_S = 400 * 86400.0 + 7 * 3600 + 13 * 60 + 11  # another year, month, day, hour, minute and second


def elsewhere(
    part: object,
    deeds: Sequence[Deed],
    *,
    factory: str = "",
    options: Mapping[str, object] | None = None,
) -> tuple[list[object], list[object]]:
    """Returns what each call answers in another process: at once, and when its clock shows a time of next year.

    Args:
        part: the part as the suite has it; its copy is asked where there is no factory.
        deeds: methods with their arguments, all of which `pickle` carries.
        factory: `module:callable`, called with `options`.

    A part that can be neither built nor copied there ends the test as skipped; one that raises fails it.
    """
    copy = b"" if factory else _pickled(part)
    if copy is None:
        pytest.skip("it cannot be had in another process: set `factory` (and `options`) in the suite's subclass")
    path = [str(Path(folder).resolve()) for folder in sys.path]
    asked = (path, factory, dict(options or {}), copy, pickle.dumps(list(deeds)), _LATER_S)
    with TemporaryDirectory(prefix="perpetual-elsewhere-", ignore_cleanup_errors=True) as folder:
        environment = {**os.environ, "PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"}
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM], input=pickle.dumps(asked), capture_output=True, cwd=folder,
            env=environment, timeout=_LIMIT_S, check=False,
        )  # fmt: skip
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    assert done.returncode == 0, f"in another process it failed: {said[-1] if said else done.returncode}"
    answers = pickle.loads(done.stdout)
    if isinstance(answers, str):
        pytest.skip(f"it cannot be had in another process ({answers}): set `factory` in the suite's subclass")
    now, later = answers
    return now, later


def _pickled(part: object) -> bytes | None:
    dumps: Callable[[object], bytes] = pickle.dumps
    try:
        return dumps(part)
    except (TypeError, AttributeError, pickle.PicklingError):
        return None
