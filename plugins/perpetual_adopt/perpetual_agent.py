"""A project of perpetual-agent 0.1.0: `graph.db`, a folder a run, notes, methodology and a budget.

What it says of a run's end is often a guess: its watchdog died with the command that started the run, so a later scan
took any word on standard error for a crash, and the time of the scan for the end. Only an exit status that its
watchdog saw is believed; the rest is taken over with its own words as the reason.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from perpetual.api import Conflict, CorruptData, UsageError
from perpetual.toolkit import platform
from perpetual.toolkit.import_records import (
    EndStatus,
    ImportedExperiment,
    ImportedHypothesis,
    ImportedNote,
    ImportedRun,
)
from perpetual_adopt.perpetual_agent_settings import methodology_of
from perpetual_adopt.reading import (
    Outside,
    Plain,
    clean,
    database,
    finite_or_none,
    has_tables,
    inside,
    line,
    moment,
    plain,
    seconds_between,
    settings,
)
from perpetual_adopt.source import AGENT, Item, Skipped, Source, Wanted, decided_by

__all__ = ["DATABASE", "AgentProject", "is_project"]

DATABASE = "graph.db"
_TABLES = ("hypotheses", "experiments", "budget_log")
_MOST_COPIED = 1024 * 1024  # bytes of a log; a longer one stays where it is
_LARGEST_JSON = 1024 * 1024
_LARGEST_NOTE = 256 * 1024
_SURE = 1e-4  # as near to 0 and 1 as a belief comes
_SAME_START_S = 30.0
# What `init` and the command line write by themselves.
_WRITTEN_BY_IT = {
    "index.md": "_No entries yet._",
    "project.md": "_Not configured._",
}
_LOGS = ("stdout.log", "stderr.log")
_TYPED = "typed in perpetual-agent"


def is_project(folder: Path) -> bool:
    """Returns whether the folder is such a project's `.perpetual/` (or one that was moved aside)."""
    path = folder / DATABASE
    return path.is_file() and has_tables(path, _TABLES)


class AgentProject(Source):
    """The project whose `.perpetual/` is (or was) `folder`."""

    kind = AGENT

    def __init__(self, folder: Path, wanted: Wanted, *, is_takeover: bool = False) -> None:
        self.path, self._wanted, self._is_takeover = folder, wanted, is_takeover
        options = settings(folder / "config.yaml") or {}
        self.name = line(options.get("project") or "", 120)
        if self.name in ("", "unnamed"):
            self.name = folder.absolute().parent.name
        self._limit = finite_or_none(options.get("budget_gpu_hours"))
        self._connection: sqlite3.Connection
        self._key = ""
        self._metric, self._direction = decided_by(wanted)

    @property
    def limit_gpu_hours(self) -> float | None:
        """Returns its budget; None where it has none that is a number of hours."""
        return self._limit if self._limit is not None and self._limit >= 0 else None

    def methodology(self) -> tuple[dict[str, object], list[Skipped]]:
        """Returns the keys of its methodology that mean the same here; and what of its settings is left, with why."""
        path = self.path / "methodology.yaml"
        found = settings(path)
        taken, left = methodology_of(found or {})
        if found is None and path.exists():
            left.append(Skipped(path.name, "it cannot be read: the methodology is the default one"))
        if self._limit is None or self._limit < 0:
            left.append(Skipped("budget_gpu_hours", "it is no number of hours: the budget is unlimited here"))
        return taken, left

    def check(self) -> None:
        """Implements `Source`."""
        with database(self.path / DATABASE, check=True) as self._connection:
            try:
                self._read_key()
                known = {
                    str(id) for table in _TABLES[:2] for (id,) in self._connection.execute(f"SELECT id FROM {table}")
                }
            except sqlite3.Error as problem:
                raise CorruptData(f"{self.path / DATABASE} has other tables than 0.1.0 writes: {problem}") from problem
        missing = [name for name in self._wanted.names if name not in known]
        if missing:
            raise UsageError(f"{self.path} has no {missing[0]!r}", hint="--experiment takes an id, as in exp-001")

    def check_at_rest(self) -> None:
        """Raises Conflict while one of its runs is alive: moved, it would lose its folder."""
        with database(self.path / DATABASE) as self._connection:
            for (id,) in self._connection.execute("SELECT id FROM experiments WHERE status = 'running'").fetchall():
                pid = self._living(str(id))
                if pid is not None:
                    raise Conflict(
                        f"{line(id, 60)} is still running (process {pid}), and its folder would be moved",
                        hint="wait until it has ended, or end it, and adopt again",
                    )

    def _living(self, id: str) -> int | None:
        """Returns the process of a run if it is alive, and not another that was given its number since."""
        folder = self._folder(id)
        found = {} if folder is None else self._json(folder / "metadata.json")
        pid, started = found.get("pid"), moment(found.get("started_at"))
        if not isinstance(pid, int) or isinstance(pid, bool) or pid <= 0 or started is None:
            return None
        identity = platform.identity_of(pid)
        age_s = platform.age_s(identity) if identity is not None else None
        if age_s is None:
            return None
        since_s = (datetime.now(UTC) - datetime.fromisoformat(started)).total_seconds()
        return pid if abs(age_s - since_s) < _SAME_START_S else None

    # --- items ----------------------------------------------------------------------------------------------

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Implements `Source`."""
        with database(self.path / DATABASE) as self._connection:
            self._connection.row_factory = sqlite3.Row
            self._connection.execute("BEGIN")
            yield

    def items(self) -> Iterator[Item]:
        """Implements `Source`."""
        self._read_key()
        yield from self._hypotheses()
        yield from self._experiments()
        yield from self._unassigned_hours()
        if not self._wanted.names:
            yield from self._notes()
            yield from self._rest()

    def _read_key(self) -> None:
        """Reads the project's key, the same wherever it lies: its first record."""
        first = self._connection.execute(
            "SELECT 'h', id, created_at, claim FROM hypotheses UNION ALL "
            "SELECT 'e', id, created_at, config FROM experiments ORDER BY 3, 1 DESC, 2 LIMIT 1"
        ).fetchone()
        self._key = sha256("\0".join(map(str, first or ("empty",))).encode()).hexdigest()[:16]

    def _rows(self, table: str) -> Iterator[sqlite3.Row]:
        with closing(self._connection.cursor()) as rows:
            yield from rows.execute(f"SELECT * FROM {table} ORDER BY rowid")

    def _is_wanted(self, row: sqlite3.Row) -> bool:
        names = self._wanted.names
        if not names or row["id"] in names:
            return True
        return "hypothesis_id" in row.keys() and row["hypothesis_id"] in names  # noqa: SIM118 - a Row holds values

    def _hypotheses(self) -> Iterator[Item]:
        names = self._wanted.names
        # Of an experiment that was asked for by its id, the hypothesis comes too.
        also = {row["hypothesis_id"] for row in self._rows("experiments") if row["id"] in names} if names else set()
        for row in self._rows("hypotheses"):
            id = line(row["id"], 60)
            if not self._is_wanted(row) and row["id"] not in also:
                continue
            prior, confidence = finite_or_none(row["prior"]), finite_or_none(row["confidence"])
            status = str(row["status"])
            if prior is None or not 0.0 < prior < 1.0:
                shown = 0.5 if prior is None else min(max(prior, _SURE), 1 - _SURE)
                yield Skipped(f"prior {row['prior']!r} of {id}", f"no belief can be that: {shown:g} stands for it")
                prior = shown
            if status not in ("open", "supported", "refuted", "suspended"):
                yield Skipped(f"status {line(status, 40)!r} of {id}", "no such status: it is open here")
            if self._count(row["evidence"]):
                yield Skipped(f"evidence column of {id}", "free words without a run behind them")
            # 0.0 is what the column starts with: no value was typed.
            typed = None if not confidence else min(max(confidence, _SURE), 1 - _SURE)
            yield ImportedHypothesis(
                key=f"{self._key}:{row['id']}",
                statement=line(row["claim"], 2000) or id,
                prior=prior,
                tags=(AGENT,),
                created_at=moment(row["created_at"]),
                parked=status == "suspended",
                confidence=typed,
                verdict=status if status in ("supported", "refuted") else None,
                why=_TYPED,
            )

    def _count(self, text: object) -> int:
        try:
            found = json.loads(str(text or "[]"))
        except (ValueError, RecursionError):
            return 1
        return len(found) if isinstance(found, (list, dict)) else 1

    def _experiments(self) -> Iterator[Item]:
        claims = {row["id"] for row in self._rows("hypotheses")}
        for row in self._rows("experiments"):
            id = line(row["id"], 60)
            if not self._is_wanted(row):
                continue
            status = str(row["status"])
            folder = self._folder(str(row["id"]))
            has_run = status in ("running", "done", "failed")
            if status == "running" and not self._is_takeover and self._living(str(row["id"])) is not None:
                yield Skipped(id, "it is running there; adopt again when it has ended")
                continue
            if status not in ("proposed", "approved", "running", "done", "failed"):
                yield Skipped(f"status {line(status, 40)!r} of {id}", "no such status: it is proposed here")
            if status == "approved":
                yield Skipped(f"approval of {id}", "an approval binds a whole specification; a person gives it anew")
            owner = row["hypothesis_id"]
            if owner is not None and owner not in claims:
                yield Skipped(f"hypothesis {line(owner, 60)} of {id}", "there is no such hypothesis")
                owner = None
            started = {} if folder is None else self._json(folder / "config.json")
            config, why = self._config(row["config"])
            if why is not None:
                yield Skipped(f"configuration of {id}", why)
            gpus = _gpus(started)
            yield ImportedExperiment(
                key=f"{self._key}:{row['id']}",
                hypothesis=None if owner is None else f"{self._key}:{owner}",
                title=line(row["notes"] or "", 80) or f"perpetual-agent {id}",
                command=_command(started.get("command")),
                config=config,
                notes=clean(row["notes"] or ""),
                tags=(AGENT, id),
                metric=self._metric,
                direction=self._direction,
                gpus=len(gpus),
                created_at=moment(row["created_at"]),
            )
            if has_run:
                yield self._run(row, folder, gpus)

    def _config(self, text: object) -> tuple[dict[str, Plain], str | None]:
        """Returns an experiment's configuration, and why it is not all there."""
        raw = str(text or "{}")
        if len(raw) > _LARGEST_JSON:
            return {}, f"it is {len(raw)} characters long"
        try:
            found = plain(json.loads(raw))
        except (ValueError, RecursionError):
            return {}, "it is no JSON"
        # Lists and single values were accepted there.
        return (found, None) if isinstance(found, dict) else ({"value": found}, None)

    def _run(self, row: sqlite3.Row, folder: Path | None, gpus: tuple[str, ...]) -> ImportedRun:
        markers = {name: {} if folder is None else self._json(folder / f"{name}.json") for name in _MARKERS}
        status, reason, exit_code = _verdict(str(row["status"]), markers)
        started, ended = moment(markers["metadata"].get("started_at")), None
        if exit_code is not None:
            ended = moment((markers["done"] or markers["crash"]).get("finished_at"))
        duration_s = seconds_between(started, ended)
        charged = self._charged(row["id"])
        logs: dict[str, Path] = {}
        notes: list[dict[str, str]] = []
        for name in _LOGS:
            try:
                path = inside(self.path, folder / name) if folder is not None else None
            except Outside as problem:
                if folder is not None and os.path.lexists(folder / name):
                    notes.append({"kind": "log", "text": f"{name} {problem}", "source": str(folder / name)})
                continue
            size = 0 if path is None else path.stat().st_size
            if path is not None and size <= _MOST_COPIED:
                logs[name] = path
            elif path is not None:
                text = f"{name} is {size} bytes long and stays where it is"
                notes.append({"kind": "log", "text": text, "source": str(path)})
        return ImportedRun(
            key=f"{self._key}:{row['id']}:run",
            experiment=f"{self._key}:{row['id']}",
            status=status,
            reason=reason,
            started_at=started,
            ended_at=ended,
            duration_s=duration_s,
            exit_code=exit_code,
            gpus=gpus,
            # As it charged them: the limit that is carried over was counted so.
            gpu_hours=charged,
            run_hours=charged if duration_s is None else duration_s / 3600.0 * max(1, len(gpus)),
            logs=logs,
            annotations=(*notes,),
            origin={
                "path": str(folder) if folder is not None else str(self.path),
                "id": line(row["id"], 60),
                "status": line(row["status"], 40),
                "files": plain({name: found for name, found in markers.items() if found}),
            },
        )

    def _charged(self, id: object) -> float | None:
        rows = self._connection.execute("SELECT gpu_hours FROM budget_log WHERE experiment_id = ?", (id,)).fetchall()
        hours = [value for (raw,) in rows if (value := finite_or_none(raw)) is not None and value >= 0]
        return sum(hours) if hours else None

    def _unassigned_hours(self) -> Iterator[Item]:
        rows = self._connection.execute(
            "SELECT count(*), sum(gpu_hours) FROM budget_log WHERE experiment_id IS NULL OR experiment_id NOT IN "
            "(SELECT id FROM experiments WHERE status IN ('running', 'done', 'failed'))"
        ).fetchone()
        if rows[0]:
            hours = finite_or_none(rows[1]) or 0.0
            yield Skipped(f"{hours:.3f} GPU-hours of its budget", f"{rows[0]} rows belong to no run that it knows")

    def _folder(self, id: str) -> Path | None:
        """Returns the folder of a run; None if there is none, or the id would lead elsewhere."""
        path = self.path / "runs" / id
        if not id or Path(id).name != id or id in (".", ".."):
            return None
        return path if path.is_dir() and not path.is_symlink() else None

    def _json(self, path: Path) -> dict[str, object]:
        """Returns a run's file of that name; empty if there is none that can be read."""
        try:
            real = inside(self.path, path)
            if real.stat().st_size > _LARGEST_JSON:
                return {}
            found = json.loads(real.read_bytes())
        except (Outside, OSError, ValueError, RecursionError):
            return {}  # its own program takes it for missing too
        return found if isinstance(found, dict) else {}

    def _notes(self) -> Iterator[Item]:
        root = self.path / "memory"
        for place, folders, names in os.walk(root):
            folders[:] = sorted(name for name in folders if name != ".git")
            for name in sorted(names):
                relative = Path(os.path.relpath(os.path.join(place, name), root)).as_posix()
                found = self._text(root, Path(place) / name, relative)
                if isinstance(found, Skipped):
                    yield found
                elif found is not None:
                    path = relative if self._is_takeover else f"adopted/{self._key[:8]}/{relative}"
                    message = f"taken over from perpetual-agent: {relative}"
                    yield ImportedNote(f"{self._key}:note:{relative}", clean(path), found, clean(message))

    def _text(self, root: Path, path: Path, relative: str) -> str | Skipped | None:
        what = f"note {line(relative, 200)}"
        try:
            real = inside(root, path)
            if real.stat().st_size > _LARGEST_NOTE:
                return Skipped(what, f"it is longer than {_LARGEST_NOTE // 1024} KiB")
            text = real.read_bytes().decode("utf-8")
        except (Outside, OSError) as problem:
            return Skipped(what, str(problem))
        except UnicodeDecodeError:
            return Skipped(what, "it is no UTF-8 text")
        if relative == "hypotheses.md":
            return Skipped(what, "a list of the hypotheses, which are taken over themselves")
        if not text.strip() or _WRITTEN_BY_IT.get(relative, "\0") in text:
            return Skipped(what, "it is empty, or as perpetual-agent wrote it")
        return text

    def _rest(self) -> Iterator[Item]:
        for name in ("reports", "procedures", "policies"):
            folder = self.path / name
            count = sum(len(names) for _, _, names in os.walk(folder))
            if count:
                yield Skipped(f"{count} files of {name}/", f"nothing here takes them; they stay in {folder}")
        if not self._is_takeover:
            yield Skipped("budget and methodology", "this project has its own")


_MARKERS = ("metadata", "done", "crash", "heartbeat")


def _verdict(status: str, markers: Mapping[str, Mapping[str, object]]) -> tuple[EndStatus, str | None, int | None]:
    """(status, reason, exit code): what was seen is believed, what was guessed is called a guess."""
    done, crash = markers["done"], markers["crash"]
    marker = done or crash  # in its own order
    code = marker.get("returncode")
    if isinstance(code, int) and not isinstance(code, bool):
        return ("done", None, 0) if code == 0 else ("failed", f"exit code {code}", code)
    words = line(marker.get("note") or "", 120)
    if not done and words == "killed by user":
        return "killed", "killed with perpetual-agent", None
    if status == "done":
        return "done", "perpetual-agent took it for done; its exit status was never recorded", None
    if crash and not done:
        seen = line(crash.get("pattern") or "", 60)
        why = f"it found {seen!r} in its output" if seen else "it found words on its standard error"
        return "failed", f"perpetual-agent took it for failed ({why}); its exit status was never recorded", None
    return "lost", f"perpetual-agent last knew it as {status}; how it ended was never recorded", None


def _gpus(started: Mapping[str, object]) -> tuple[str, ...]:
    devices = started.get("gpu_devices")
    if not isinstance(devices, list):
        return ()
    return tuple(str(item) for item in devices[:64] if isinstance(item, int) and not isinstance(item, bool))


def _command(found: object) -> str | None:
    """Returns the command as it can be run here, without a shell: what went through one there goes through one here."""
    import shlex

    if isinstance(found, list):
        return shlex.join(clean(word) for word in found) or None
    if not isinstance(found, str) or not found.strip() or "\0" in found:
        return None
    text = clean(found)
    try:
        words = shlex.split(text)
    except ValueError:
        words = []
    simple = words and shlex.join(words) == text and "=" not in words[0]
    return text if simple else f"sh -c {shlex.quote(text)}"
