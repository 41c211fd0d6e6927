"""Replay tasks: the files `replay/NAME.yaml` of a project, each a command that prints a score in [0, 1]."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from perpetual.api import ConfigError, UsageError
from perpetual.toolkit import confined
from perpetual.toolkit.units import seconds_of
from perpetual.toolkit.yamlfile import read_yaml

__all__ = ["FOLDER", "Task", "digest_of", "draws", "read_tasks", "score_of", "sources_of"]

FOLDER = "replay"
MOST_TASKS = 200
_WALL_S = 600.0
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")
_KEYS = ("command", "seed", "weight", "wall", "gpus", "cwd", "query", "source", "canary")
_ID = re.compile(r"(?<![A-Za-z0-9_])[her][1-9][0-9]{0,8}(?![A-Za-z0-9_])")
_SCORE = re.compile(r"([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})(e[-+]?[0-9]{1,3})?\Z")


@dataclass(frozen=True, slots=True)
class Task:
    """One task, as its file says.

    - `seed`: the runs' seed, the same in both arms; None draws one for each pair.
    - `weight`: how often it is drawn, relative to the others.
    - `wall_s`: seconds after which a run is ended, and scores 0.
    - `query`: what notes are looked up by for its context.
    - `sources`: ids and paths of the work that it was made from: a note of the same work is not tested on it.
    - `canary`: a note that is known to be of no use for it; None takes the bundled one.
    """

    name: str
    command: str
    seed: int | None = None
    weight: float = 1.0
    wall_s: float = _WALL_S
    gpus: int = 0
    cwd: str | None = None
    query: str = ""
    sources: tuple[str, ...] = ()
    canary: str | None = None


def read_tasks(root: Path) -> list[Task]:
    """Returns the tasks of the project at `root`, by name.

    Raises:
        ConfigError: for a file that is no task, naming its key.
        UsageError: for more tasks than are read.
    """
    folder = root / FOLDER
    files = sorted(folder.glob("*.yaml")) if folder.is_dir() else []
    if len(files) > MOST_TASKS:
        raise UsageError(f"{FOLDER}/ holds {len(files)} tasks", hint=f"at most {MOST_TASKS} are read")
    return [_task(path) for path in files]


def _task(path: Path) -> Task:
    shown = f"{FOLDER}/{path.name}"
    if not _NAME.match(path.stem):
        raise ConfigError(f"{shown}: a task's name is of small letters, digits, - and _")
    try:
        confined.check_file(path)
    except OSError as problem:
        raise (confined.explain(problem) or ConfigError(f"{shown} cannot be read: {problem}")) from problem
    found = read_yaml(path) or {}
    wrong = next((key for key in found if key not in _KEYS), None)
    if wrong is not None:
        raise ConfigError(f"{shown}: unknown key {wrong!r}", hint=f"there is {', '.join(_KEYS)}")
    seed, gpus = found.get("seed"), found.get("gpus", 0)
    if seed is not None and not (type(seed) is int and 0 <= seed < 2**31):
        raise ConfigError(f"{shown}: seed is an integer in [0, 2**31), not {seed!r}")
    if not (type(gpus) is int and 0 <= gpus <= 64):
        raise ConfigError(f"{shown}: gpus is a number of GPUs, not {gpus!r}")
    sources = found.get("source", ())
    sources = [sources] if isinstance(sources, str) else sources
    if not isinstance(sources, (list, tuple)) or not all(isinstance(one, str) for one in sources):
        raise ConfigError(f"{shown}: source is an id or a path, or a list of them")
    return Task(
        name=path.stem,
        command=_text(found, "command", shown) or _lacking(shown),
        seed=seed,
        weight=_weight(found.get("weight", 1.0), shown),
        wall_s=_wall(found.get("wall", _WALL_S), shown),
        gpus=gpus,
        cwd=_text(found, "cwd", shown),
        query=_text(found, "query", shown) or path.stem.replace("-", " ").replace("_", " "),
        sources=tuple(sources),
        canary=_text(found, "canary", shown),
    )


def _lacking(shown: str) -> str:
    raise ConfigError(f"{shown}: command is missing", hint="command: python replay/task.py")


def _text(found: Mapping[str, object], key: str, shown: str) -> str | None:
    value = found.get(key)
    if value is not None and not (isinstance(value, str) and value.strip() and len(value) <= 10_000):
        raise ConfigError(f"{shown}: {key} is a text of at most 10,000 characters, not {value!r:.40}")
    return value


def _weight(value: object, shown: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1e6:
        raise ConfigError(f"{shown}: weight is a number above 0, at most 1e6, not {value!r:.40}")
    return float(value)


def _wall(value: object, shown: str) -> float:
    try:
        return seconds_of(str(value), "wall")
    except UsageError as problem:
        raise ConfigError(f"{shown}: {problem.message}", hint=problem.hint) from problem


def digest_of(tasks: Sequence[Task]) -> str:
    """Returns the digest of a set of tasks, as a trial binds it."""
    return sha256(json.dumps([asdict(task) for task in tasks], sort_keys=True).encode()).hexdigest()


def draws(tasks: Sequence[Task], key: str, count: int) -> list[tuple[int, int, bool]]:
    """Returns the pairs of a trial before any is run: (index of the task, seed, whether the note's arm starts first).

    Tasks are drawn with replacement by their weights, so that the mean difference is that over the project's tasks.
    Everything follows from `key`: a trial that was cut off goes on with the same pairs.
    """
    total = math.fsum(task.weight for task in tasks)
    found = []
    for number in range(count):
        bits = sha256(f"{key}/{number}".encode()).digest()
        point = int.from_bytes(bits[:8], "big") / 2**64 * total
        index, reached = 0, tasks[0].weight
        while point >= reached and index < len(tasks) - 1:
            index += 1
            reached += tasks[index].weight
        own = tasks[index].seed
        seed = int.from_bytes(bits[8:12], "big") % 2**31 if own is None else own
        found.append((index, seed, bool(bits[12] & 1)))
    return found


def sources_of(path: str, text: str) -> set[str]:
    """Returns what a note comes from, as far as it says so: ids of hypotheses, experiments and runs, and its path."""
    return {path, *_ID.findall(text)}


def score_of(output: str) -> float | None:
    """Returns the score that a command printed as the last line of its output; None where that is none in [0, 1]."""
    lines = output.strip().splitlines()
    line = lines[-1].strip() if lines else ""
    if not _SCORE.match(line):
        return None
    score = float(line)
    return score if 0 <= score <= 1 else None
