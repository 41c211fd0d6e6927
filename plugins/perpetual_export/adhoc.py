"""Ad-hoc runs: what a script or a notebook measures without being launched.

    import perpetual

    with perpetual.init("a first look", config={"lr": 0.1, "seed": 3}):
        perpetual.log(step=1, val_loss=2.3)

The run is kept, marked ad hoc, and never counts as evidence: it was neither proposed nor approved, and could be
stopped when it looked good. Recording never ends a training. Where nothing can be recorded, one line on
standard error says why, and the calls do nothing. Ctrl-C passes through.

Inside a launched run `init` answers that run and changes nothing. Ranks above 0 of a distributed training, forked and
spawned workers record nothing.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from perpetual_export import run_log

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from perpetual import Lab
    from perpetual.api import Redactor

__all__ = ["FOLDER", "SPOILT", "AdHocRun", "finish", "init", "say", "sound"]

FOLDER = "adhoc"  # below .perpetual: a folder for each ad-hoc run that is not in the record yet
SPOILT = ("bad_import", "bad_ad_hoc_run")  # codes of errors that no later scan mends
LOCK, FACTS, END, SERIES = "run.lock", "run.json", "end.json", "metrics.jsonl"
_RANKS = ("RANK", "LOCAL_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
_DEEPEST, _LONGEST_TEXT, _LARGEST_CONFIG = 16, 1_000, 1_000_000
_T = TypeVar("_T")


class AdHocRun:
    """A run that `init` began, a launched one, or one that records nothing. A context manager."""

    def __init__(self, id: str | None = None) -> None:
        self.id = id  # of a launched run; of an ad-hoc one once it is recorded
        self.is_recording = False  # until `finish`
        self._folder: Path | None = None
        self._lock: int | None = None
        self._began_s = time.monotonic()
        # In a session an exception of long ago ended nothing.
        self._is_script = hasattr(sys.modules.get("__main__"), "__file__") and not hasattr(sys, "ps1")

    def log(self, table: dict[str, object] | None = None, /, **values: object) -> None:
        """Appends a line of metrics, as `perpetual.log` does."""
        run_log.log(table, **values)

    def finish(self, *, failed: str | None = None) -> None:
        """Ends the run and records it; `failed` says why it gave no result. A second call does nothing."""
        if self.is_recording:
            _guarded("perpetual.finish", lambda: self._finish("done" if failed is None else "failed", failed))

    def __enter__(self) -> AdHocRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_recording:
            status, reason = _end_of(error)
            _guarded("perpetual.finish", lambda: self._finish(status, reason))

    # --- not for callers ---------------------------------------------------------------------------------------

    def begin(self, folder: Path, lock: int) -> None:
        """Takes over the folder that `init` made."""
        self._folder, self._lock, self.is_recording = folder, lock, True
        run_log.sink = os.fspath(folder / SERIES)

    def forget(self) -> None:
        """Lets go of the run in a forked child, whose parent records it."""
        self.is_recording, run_log.sink = False, None
        if self._lock is not None:
            os.close(self._lock)  # the parent's copy holds the lock on
            self._lock = None

    def at_exit(self) -> None:
        """Ends the run with its process; an exception that ended a script is its reason."""
        if self.is_recording:
            error = getattr(sys, "last_value", None) if self._is_script else None
            status, reason = _end_of(error)
            _guarded("perpetual.finish", lambda: self._finish(status, reason))

    def _finish(self, status: str, reason: str | None) -> None:
        from datetime import UTC, datetime

        from perpetual import Lab
        from perpetual.toolkit.atomic import dump_json, write_atomic
        from perpetual.toolkit.units import iso
        from perpetual_export.left_over import record

        global _current
        folder, self.is_recording, run_log.sink = self._folder, False, None
        atexit.unregister(self.at_exit)
        if _current is self:
            _current = None
        assert folder is not None  # it records
        try:
            duration_s = round(time.monotonic() - self._began_s, 6)
            end = {"status": status, "reason": reason, "ended_at": iso(datetime.now(UTC)), "duration_s": duration_s}
            write_atomic(folder / END, dump_json(end), durable=False)
            with Lab.open(folder.parents[2]) as lab:
                self.id = record(lab, folder)
        finally:
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None


_current: AdHocRun | None = None
_is_forked = False  # from a process whose run was going on


def init(
    title: str | None = None,
    *,
    config: object = None,
    tags: Sequence[str] = (),
    seed: int | None = None,
    metric: str | None = None,
    direction: str | None = None,
    project: str | os.PathLike[str] | None = None,
) -> AdHocRun:
    """Begins an ad-hoc run; it ends with `finish`, at the end of a `with` block, or with the process.

    Runs of the same title, command and configuration belong to one experiment, each with its seed.

    Args:
        config: parameters, as a dict, an `argparse.Namespace` or a dataclass. `seed` in it is the run's seed.
        metric: what the run is about, and `direction` (`max` or `min`) which way is better.
        project: its folder; None is the nearest one above the working directory.

    Returns:
        The run; inside a launched run that one, and a run that records nothing where none can be recorded.
    """
    global _current
    launched = os.environ.get("PERPETUAL_RUN")
    if launched:
        return AdHocRun(launched)
    if _current is not None:
        say("perpetual.init: a run has begun already, and goes on; perpetual.finish() ends it")
        return _current
    run = AdHocRun()
    if _is_worker():
        return run
    about: dict[str, object] = {"title": title, "metric": metric, "direction": direction, "seed": seed}
    names = [tags] if isinstance(tags, str) else tags
    if _guarded("perpetual.init", lambda: _begin(run, about, [*map(str, names)], config, project)):
        _current = run
        atexit.register(run.at_exit)
    return run


def finish(*, failed: str | None = None) -> None:
    """Ends the run that `init` began and records it; does nothing where there is none."""
    if _current is not None:
        _current.finish(failed=failed)


def _begin(
    run: AdHocRun, about: dict[str, object], tags: Sequence[str], config: object, project: str | os.PathLike[str] | None
) -> bool:
    from datetime import UTC, datetime

    from perpetual import Lab
    from perpetual.toolkit.atomic import dump_json, write_atomic
    from perpetual.toolkit.confined import make_folder
    from perpetual.toolkit.hosts import this_host
    from perpetual.toolkit.lock import open_locked
    from perpetual.toolkit.units import iso

    with Lab.open(os.fspath(project) if project is not None else None) as lab:
        lab.trust.require("recording an ad-hoc run")
        facts = _facts(lab, about, tags, config)
    facts |= {"started_at": iso(datetime.now(UTC)), "host": this_host().id, "pid": os.getpid()}
    name = f"{time.time_ns():x}-{os.urandom(4).hex()}"
    made = lab.root / ".perpetual" / FOLDER / f".{name}"
    make_folder(made.parent)
    make_folder(made)
    write_atomic(made / FACTS, dump_json(sound(facts)), durable=False)
    lock = open_locked(made / LOCK)
    assert lock is not None  # no other process knows the name
    folder = made.with_name(name)
    os.rename(made, folder)  # a scan sees it whole, and held
    run.begin(folder, lock)
    return True


def _facts(lab: Lab, about: dict[str, object], tags: Sequence[str], config: object) -> dict[str, object]:
    """Returns what is known of the run at its beginning, without secrets."""
    redactor: Redactor = lab.part("redactor")
    values = _plain(config if config is not None else {}, 0)
    settings = redactor.values(values if isinstance(values, dict) else {"config": values})
    import json

    if len(json.dumps(settings)) > _LARGEST_CONFIG:
        settings = {}
        say("perpetual.init: the configuration is too large and is left out; the run goes on")
    asked = _plain(about["seed"], 0)  # also one of numpy
    seed = asked if asked is not None else settings.get("seed")
    if isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed < 2**63:
        settings = {name: value for name, value in settings.items() if name != "seed"}
    else:
        if asked is not None:
            say(f"perpetual.init: seed must be a whole number from 0 on, not {_shown(asked)}; the run goes on without")
        seed = None
    problem = _problem(about["metric"], about["direction"])
    if problem is not None:
        say(f"perpetual.init: {problem}; the run goes on, and is about no metric")
    command, title = _program(str(lab.root))
    commit, dirty = _code(lab)
    return {
        **{name: value if isinstance(value, str) else None for name, value in about.items()},
        "title": redactor.text(str(about["title"] or title)),
        "tags": [redactor.text(tag) for tag in tags],
        "seed": seed,
        "config": settings,
        "command": None if command is None else redactor.command(command),
        "cwd": os.getcwd(),
        "commit": commit,
        "dirty": dirty,
    }


def _problem(metric: object, direction: object) -> str | None:
    """Returns what keeps a metric and its direction from being recorded; they are of use together alone."""
    if metric is None:
        return None if direction is None else "direction belongs to a metric, as in metric='loss', direction='min'"
    if not isinstance(metric, str) or not metric.strip():
        return f"metric must be a name, not {_shown(metric)}"
    if direction is None:
        return f"metric {_shown(metric)} needs a direction: 'max' or 'min'"
    if not isinstance(direction, str) or direction.strip() not in ("max", "min"):
        return f"direction must be 'max' or 'min', not {_shown(direction)}"
    return None


def _shown(value: object) -> str:
    """Returns a wrong value for one line, whatever object it is."""
    found = _plain(value, 0)
    return ascii(found)[:60] if isinstance(found, (str, int, float)) else type(value).__qualname__


def _program(root: str) -> tuple[str | None, str]:
    """Returns the command that runs this program, None for a notebook, and a title."""
    import shlex

    main = sys.modules.get("__main__")
    file, spec = getattr(main, "__file__", None), getattr(main, "__spec__", None)
    if "ipykernel" in sys.modules or not isinstance(file, str):
        return None, "notebook" if "ipykernel" in sys.modules else "interactive session"
    real, top = os.path.realpath(file), os.path.join(os.path.realpath(root), "")
    shown = os.path.relpath(real, top) if real.startswith(top) else real
    words = ["python", "-m", spec.name] if spec is not None else ["python", shown]
    return shlex.join([*words, *sys.argv[1:]]), os.path.basename(file)


def _code(lab: Lab) -> tuple[str | None, bool | None]:
    """Returns the commit that the project's files are at, and whether they differ from it; (None, None) if unknown."""
    for _, capture in lab.parts("capture"):
        reader = capture.code_reader(lab.root, lab.config.methodology["code_ignore"])
        if reader is not None:
            state = reader.read((), None)
            return state.commit, state.dirty
    return None, None


def _plain(value: object, depth: int) -> object:
    """Returns a value as JSON that approval could bind: finite numbers, texts, lists and objects."""
    if value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) < 2**63):
        return value
    if isinstance(value, str):
        return value[: _LONGEST_TEXT * 10]
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if depth >= _DEEPEST:
        return "nested too deeply"
    table = value if isinstance(value, Mapping) else _attributes(value)
    if table is not None:
        return {str(name)[:_LONGEST_TEXT]: _plain(item, depth + 1) for name, item in table.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item, depth + 1) for item in value]
    item = getattr(value, "item", None)  # of numpy and torch
    try:
        found = item() if callable(item) else None
    except Exception:  # noqa: BLE001 - it holds more than one number
        found = None
    if isinstance(found, (bool, int, float, str)):
        return _plain(found, depth + 1)
    try:
        words = str(value)[:_LONGEST_TEXT]
    except Exception:  # noqa: BLE001 - foreign code
        words = " at 0x"
    # Where an object lies in memory makes no other experiment of a run.
    return type(value).__qualname__ if " at 0x" in words else words


def _attributes(value: object) -> Mapping[str, object] | None:
    """Returns the fields of a namespace or a dataclass; None for any other object."""
    if type(value).__name__ in ("Namespace", "SimpleNamespace") or hasattr(type(value), "__dataclass_fields__"):
        return {name: getattr(value, name) for name in getattr(type(value), "__dataclass_fields__", vars(value))}
    return None


# --- around it ------------------------------------------------------------------------------------------------------


def _is_worker() -> bool:
    """Returns whether this process is one of a training whose first process records."""
    if _is_forked:
        return True
    for name in _RANKS:
        text = os.environ.get(name, "")
        if text.isdecimal() and int(text[:9]) > 0:
            return True
    # While the program is imported again, for a worker or for the server that forks them, there is no parent yet.
    if getattr(sys.modules.get("__mp_main__"), "__name__", "") == "__mp_main__":
        return True
    multiprocessing = sys.modules.get("multiprocessing.process")
    return multiprocessing is not None and multiprocessing.parent_process() is not None


def _end_of(error: object) -> tuple[str, str | None]:
    """Returns the status and the reason of a run that ended with an exception, or with None."""
    if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
        return "done", None
    if isinstance(error, KeyboardInterrupt):
        return "killed", "KeyboardInterrupt"
    try:
        words = str(error)[:_LONGEST_TEXT]
    except Exception:  # noqa: BLE001 - foreign code: an error that cannot say what it is
        words = ""
    return "failed", f"{type(error).__name__}: {words}".rstrip(": ")


def _guarded(what: str, call: Callable[[], _T]) -> _T | None:
    """Calls it; an error becomes one line on standard error, and None is the answer."""
    try:
        return call()
    except Exception as problem:  # noqa: BLE001 - a training is worth more than its record
        words = getattr(problem, "message", None) or f"{type(problem).__name__}: {problem}"
        hint = getattr(problem, "hint", None)
        later = "perpetual scan records it later" if what.endswith("finish") else "this run is not recorded"
        if getattr(problem, "code", None) in SPOILT:
            later = f"its files stay in .perpetual/{FOLDER}"
        say(f"{what}: {words}; {later}, and the program goes on" + (f" (hint: {hint})" if hint else ""))
        return None


def sound(found: Mapping[str, object]) -> dict[str, object]:
    """Returns JSON whose texts can be written as UTF-8: half a surrogate pair becomes a question mark."""
    import json

    mended: dict[str, object] = json.loads(json.dumps(found, ensure_ascii=False).encode("utf-8", "replace"))
    return mended


def say(words: str) -> None:
    """Writes one line to standard error, where there is one."""
    shown = "".join(c if c.isprintable() else " " for c in words)
    try:
        sys.stderr.write(f"{shown}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):  # standard error is full, closed or absent
        return


def _after_fork() -> None:
    global _current, _is_forked
    if _current is not None:
        _current.forget()
        _current, _is_forked = None, True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
