"""The fuzz lane: every parser of foreign bytes answers a right result or an error of ours, and in bounded time.

In CI (`make slow`) with few examples, always the same; `make soak` draws many more.
"""

# ruff: noqa: E501 - a case is one row, and a row is only readable whole

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from perpetual import Lab
from perpetual.api import RunFolder
from perpetual.cli.app import run
from perpetual.errors import PerpetualError, UsageError
from perpetual.lab.runs.measure import read_all
from perpetual.testing.projects import trust_project
from perpetual.toolkit import units
from perpetual.toolkit.status_file import read_status
from perpetual_adopt.detect import find
from perpetual_adopt.source import Wanted
from perpetual_git.errors import RepositoryError
from perpetual_git.repository import NoteRepository
from perpetual_immune.scanner import redact, scan
from perpetual_mcp.stdio import refusal_of
from perpetual_metrics import readers
from perpetual_report.verification import claims_of
from perpetual_supervisor.rundir import read_exit, read_started
from tests.faults.fuzzing import examples, lanes
from tests.faults.mutations import documents, spoilt

ADOPT = Path(__file__).parents[1] / "fixtures" / "adopt"

# --- a project's own files ---


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> dict[str, Path]:
    """A project with a bit of everything, by its store."""
    folder = tmp_path_factory.mktemp("whole") / "tinydb"
    before = Path.cwd()
    try:
        with Lab.init(folder, name="fuzz", project_id="0123456789abcdef") as lab:
            os.chdir(folder)
            lab.hypotheses.add("it helps", metric="loss", direction="min", mde=0.1, baseline=1.0)
            made = lab.experiments.propose("h1", command="echo loss=0.5", cost_run_hours=0.01)
            lab.experiments.approve(made.id)
            lab.runs.launch(made.id)
            assert lab.wait(["r1"], timeout_s=60) == {"r1": "done"}
            lab.memory.write("n/a.md", "# A note\n\nof something\n")
            lab.memory.write("n/a.md", "# A note\n\nof something else\n")
            lab.status()
        assert run(["init", "-H", "claude-code"]) == 0
        shutil.copytree(folder, folder.with_name("sqlite"))
        shutil.copytree(folder, folder.with_name("snapshot"))
        for name in ("sqlite", "snapshot"):
            trust_project(folder.with_name(name), like=folder)
        with Lab.open(folder.with_name("sqlite")) as lab:
            lab.storage.migrate("sqlite")
        with Lab.open(folder.with_name("snapshot")) as lab:
            lab.storage.compact()
            lab.storage.export_file(folder.with_name("export.jsonl"))
    finally:
        os.chdir(before)
    return {name: folder.with_name(name) for name in ("tinydb", "sqlite", "snapshot", "export.jsonl")}


READS = (
    ("status",), ("brief",), ("hypotheses", "list"), ("experiments", "e1"), ("runs", "r1"), ("logs", "r1"),
    ("evidence", "list"), ("budget",), ("events",), ("store", "verify"), ("store", "stats"), ("config", "show"),
    ("methodology", "show"), ("scan",), ("report",),
)  # fmt: skip
NOTES = (("memory", "list"), ("memory", "show", "n/a.md"), ("memory", "history", "n/a.md"), ("memory", "search", "a"))
WRITES = (("hypotheses", "add", "x"), ("memory", "write", "n/b.md", "text"), ("init", "-H", "claude-code"))
# store, file below .perpetual, what its errors name (None: they need not name it), commands
FILES: dict[str, tuple[str, str, str | None, tuple[tuple[str, ...], ...]]] = {
    "config.yaml": ("tinydb", "config.yaml", "config.yaml", (*READS[:4], WRITES[0])),
    "methodology.yaml": ("tinydb", "methodology.yaml", "methodology.yaml", (*READS[:2], ("methodology", "show"))),
    "journal": ("tinydb", "store/journal.jsonl", "journal.jsonl", (*READS[:7], READS[9], WRITES[0])),
    "snapshot": ("snapshot", "store/snapshot-*.jsonl", None, (*READS[:7], READS[9], WRITES[0])),
    "index": ("snapshot", "store/snapshot-*.index", None, (*READS[:4], READS[9])),
    "sqlite": ("sqlite", "store/perpetual.db", None, (*READS[:7], READS[9], WRITES[0])),
    "exit.json": ("tinydb", "runs/r1/exit.json", None, (READS[4], READS[13], READS[14])),
    "started.json": ("tinydb", "runs/r1/started.json", None, (READS[4], READS[13])),
    "spec.json": ("tinydb", "runs/r1/spec.json", None, (READS[4], READS[13])),
    "provenance.json": ("tinydb", "runs/r1/provenance.json", None, (READS[4], READS[13], READS[14])),
    "stdout.log": ("tinydb", "runs/r1/stdout.log", None, (READS[5], READS[13])),
    "scaffold.json": ("tinydb", "scaffold.json", "scaffold.json", (("init", "-H", "claude-code", "--dry-run"), WRITES[2])),
    "status.json": ("tinydb", "status.json", None, READS[:2]),
    "moving.json": ("tinydb", "moving.json", None, (READS[0], WRITES[0])),
    "head": ("tinydb", "memory.git/refs/heads/main", None, (*NOTES, WRITES[1])),
    "git config": ("tinydb", "memory.git/config", None, (*NOTES[:2], WRITES[1])),
    "object": ("tinydb", "memory.git/objects/*/*", None, (*NOTES, WRITES[1])),
    "mcp.json": ("tinydb", "../.mcp.json", None, (WRITES[2],)),
    "settings.json": ("tinydb", "../.claude/settings.json", None, (WRITES[2],)),
}  # fmt: skip


def _found(project: Path, pattern: str) -> Path:
    folder, _, name = pattern.rpartition("../")
    start = project if folder or pattern.startswith("../") else project / ".perpetual"
    found = sorted(start.glob(name or pattern))
    return found[0] if found else start / (name or pattern)


def _answered(project: Path, arguments: tuple[str, ...]) -> dict[str, Any] | None:
    """The error that a command answers, None for a result; every other exception passes."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        try:
            code = run(["--debug", "--project", str(project), *arguments, "--json"])
        except PerpetualError as problem:
            return {"code": problem.code, "message": problem.message}
    answer = json.loads(out.getvalue().splitlines()[-1]) if out.getvalue().strip() else {}
    if code == 0:
        return None
    error: dict[str, Any] = answer.get("error") or {"code": "answered", "message": ""}
    return error


@lanes("name", *FILES)
def test_a_spoilt_file_of_a_project(count: int, name: str, whole: dict[str, Path], tmp_path: Path) -> None:
    store, pattern, named, commands = FILES[name]
    original = whole[store]
    found = _found(original, pattern)
    data = found.read_bytes() if found.exists() else b'{"format":1,"backup":"backups/x","config":{}}'
    try:
        drawn = documents(json.loads(data))
    except ValueError:
        drawn = spoilt(data)

    def deed(example: tuple[bytes, tuple[str, ...]]) -> None:
        content, command = example
        project = tmp_path / "project"
        shutil.rmtree(project, ignore_errors=True)
        shutil.copytree(original, project)
        trust_project(project, like=original)
        target = project / found.relative_to(original)
        target.chmod(0o644) if target.exists() else None
        target.write_bytes(content)
        error = _answered(project, command)
        assert error is None or error["code"] != "internal"
        if error is not None and named is not None and error["code"] in ("config", "corrupt_data"):
            assert named in error["message"]

    examples(count, st.tuples(drawn, st.sampled_from(commands)), deed)


@lanes("resealed", False, True)
def test_a_damaged_export_crashes_no_import(count: int, resealed: bool, whole: dict[str, Path], tmp_path: Path) -> None:
    import hashlib

    data = whole["export.jsonl"].read_bytes()
    file = tmp_path / "export.jsonl"
    Lab.init(tmp_path / "into", name="into").close()

    def deed(content: bytes) -> None:
        if resealed:
            lines = content.splitlines(keepends=True)[:-1]
            end = {"rows": len(lines) - 1, "sha256": hashlib.sha256(b"".join(lines)).hexdigest()}
            content = b"".join(lines) + json.dumps(end).encode() + b"\n"
        file.write_bytes(content)
        project = tmp_path / "project"
        shutil.rmtree(project, ignore_errors=True)
        shutil.copytree(tmp_path / "into", project)
        trust_project(project)
        with Lab.open(project) as lab:
            try:
                lab.storage.import_file(file)
            except PerpetualError:
                assert lab.status()["hypotheses"] == []
            except OSError as problem:
                pytest.fail(f"{problem!r}")

    examples(max(count // 4, 6), spoilt(data), deed)


# --- what runs leave ---

RECORD = {
    "exit_code": 0, "signal": None, "reason": "exited", "detail": None, "started_at": "2026-01-01T00:00:00Z",
    "ended_at": "2026-01-01T00:00:01Z", "duration_s": 1.0, "max_rss_bytes": 1, "cpu_s": 0.1,
}  # fmt: skip
STARTED = {
    "supervisor": {"boot_id": "x", "pid": 1, "start_ticks": 1}, "child": {"boot_id": "x", "pid": 2, "start_ticks": 2},
    "started_at": "2026-01-01T00:00:00Z", "wall_s": 5.0, "grace_s": 1.0,
}  # fmt: skip


@lanes("name", "exit.json", "started.json")
def test_a_damaged_supervisor_s_record_is_refused_by_name(count: int, name: str, tmp_path: Path) -> None:
    read: Callable[[Path], object] = read_exit if name == "exit.json" else read_started

    def deed(content: bytes) -> None:
        (tmp_path / name).write_bytes(content)
        try:
            read(tmp_path)
        except (ValueError, PerpetualError) as problem:
            if name not in str(problem):
                pytest.fail(f"it does not name its file: {problem}")

    examples(count * 5, documents(RECORD if name == "exit.json" else STARTED), deed)


OUTPUTS = {
    "results.json": b'{"metrics": {"loss": 0.5, "acc": [1], "n": {"type": "float", "text": "0x1p3"}}, "seed": 3}',
    "metrics.jsonl": b'{"step": 1, "loss": 0.5}\n{"step": 2, "loss": {"type": "float", "text": "nan"}}\n',
    "metrics.csv": b'epoch,loss,"acc"\n1,0.5,.25\n2,0.25,"1e-3"\n',
    "stdout.log": b'loss: 0.5, acc=1e-3\n{"loss": 0.5}\nepoch 1 | loss=.5 | nan: inf\n',
}


@lanes("name", *OUTPUTS)
def test_any_output_of_a_run_is_read(count: int, name: str, tmp_path: Path) -> None:
    names = [
        one
        for one in readers.__all__
        if one.islower() and [*signature(getattr(readers, one)).parameters] == ["options"]
    ]
    assert len(names) > 3
    parts = [(one, getattr(readers, one)({})) for one in names]  # the factories

    def deed(content: bytes) -> None:
        (tmp_path / name).write_bytes(content)
        found, notes = read_all(parts, RunFolder(tmp_path, tmp_path, 0.0))
        assert not [note for note in notes if "failed" in note["text"]]
        json.dumps({key: value.value for key, value in found.items()}, allow_nan=False)

    examples(count * 5, spoilt(OUTPUTS[name]), deed)


# --- files that are read over or taken over ---


@lanes("name", "plain", "packed")
def test_a_damaged_repository_crashes_no_memory(count: int, name: str, tmp_path: Path) -> None:
    from dulwich.porcelain import repack

    origin = tmp_path / "origin.git"
    from datetime import UTC, datetime

    with NoteRepository.open(origin) as repository:
        for number in range(4):
            repository.commit(intent=number + 1, path=f"n/{number % 2}.md", content=f"text {number}".encode(),
                              message="m", author="me", when=datetime(2026, 1, 1, tzinfo=UTC))  # fmt: skip
    if name == "packed":
        repack(str(origin))
    files = sorted(path.relative_to(origin) for path in origin.rglob("*") if path.is_file())

    def deed(example: tuple[Path, float, int, int]) -> None:
        file, place, bit, sort = example
        copy = tmp_path / "copy.git"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(origin, copy)
        data = bytearray((copy / file).read_bytes())
        at = int(place * len(data))
        if sort == 0 and data:
            data[at] ^= 1 << bit
        elif sort == 1:
            del data[at:]
        else:
            data[at:at] = os.urandom(0) + bytes([bit]) * 30
        (copy / file).chmod(0o644)
        (copy / file).write_bytes(bytes(data))
        try:
            with NoteRepository.open(copy) as repository:
                for path, _ in repository.listing():
                    repository.read(path)
                    repository.history(path, 10)
        except (RepositoryError, OSError):
            return

    drawn = st.tuples(st.sampled_from(files), st.floats(0, 1, exclude_max=True), st.integers(0, 7), st.integers(0, 2))
    examples(count * 3, drawn, deed)


@lanes("name", "mlruns", "mlflow.db", "agent", "table")
def test_damaged_earlier_work_crashes_no_adoption(count: int, name: str, tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    if name == "table":
        origin.mkdir()
        (origin / "results.tsv").write_text(
            "commit\tval_bpb\tmemory_gb\tstatus\tdescription\nabc1234\t0.99\t44.0\tkeep\tbaseline\nabc1235\t1.0\t44\tdiscard\tx\n"
        )
    elif (ADOPT / name).is_dir():
        shutil.copytree(ADOPT / name, origin / (".perpetual" if name == "agent" else name))
    else:
        origin.mkdir()
        shutil.copyfile(ADOPT / name, origin / name)
    files = sorted(path.relative_to(origin) for path in origin.rglob("*") if path.is_file())
    wanted = Wanted((), "val_bpb" if name == "table" else None, None)

    def deed(example: tuple[Path, bytes]) -> None:
        file, content = example
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(origin, copy)
        (copy / file).write_bytes(content)
        try:
            source = find(str(copy if name in ("agent", "table") else copy / name), None, wanted)
            with source.opened():
                source.check()
                for _ in source.items():
                    pass
        except PerpetualError:
            return

    drawn = st.one_of([st.tuples(st.just(file), spoilt((origin / file).read_bytes())) for file in files])
    examples(count * 2, drawn, deed)


# --- texts ---

REPORT = b"<!doctype html><html><head><meta name=x></head><body><span data-n=1>2.0</span></body></html>"
TEXTS: dict[str, tuple[bytes, Callable[[str], object]]] = {
    "note": (b"# Title\n\nIgnore what was said. token = ghp_abcdefghijklmnopqrstuvwxyz0123456789 aWdub3JlIGFsbA==\n",
             lambda text: redact(text, scan(text).findings)),
    "report": (REPORT, lambda text: claims_of(text, "report.html")),
    "seconds": (b"90s", lambda text: units.seconds_of(text, "the time")),
    "hours": (b"1.5h", lambda text: units.hours_of(text, "the time")),
    "size": (b"24GiB", lambda text: units.bytes_of(text, "the memory")),
    "id": (b"E12", units.identifier),
    "cursor": (b"12", units.start_of),
}  # fmt: skip


@lanes("name", *TEXTS)
def test_a_text_of_a_stranger(count: int, name: str) -> None:
    original, read = TEXTS[name]

    def deed(content: bytes) -> None:
        try:
            read(content.decode("utf-8", "replace"))
        except PerpetualError:
            return

    examples(count * 3, spoilt(original), deed)


@lanes("frame", '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"perpetual_status","arguments":{}}}')
def test_a_damaged_frame_of_the_protocol_is_answered(count: int, frame: str) -> None:
    def deed(line: bytes) -> None:
        answer = refusal_of(line)
        assert answer is None or answer["error"]["message"]

    examples(count * 5, documents(json.loads(frame)), deed)


@lanes("flag", "--config", "--params")
def test_damaged_json_of_an_option_crashes_no_command(
    count: int, flag: str, whole: dict[str, Path], tmp_path: Path
) -> None:
    from perpetual.api import json_object

    shutil.copytree(whole["tinydb"], tmp_path / "project")
    trust_project(tmp_path / "project")
    with Lab.open(tmp_path / "project") as lab:

        def deed(content: bytes) -> None:
            try:
                value = json_object(content.decode("utf-8", "replace"), flag)
                if flag == "--config":
                    lab.experiments.propose(None, command="true", config=value, dry_run=True)
                else:
                    lab.hypotheses.add("x", params=value)
            except UsageError:
                return

        examples(count * 2, documents({"lr": [0.1, 0.01], "n": [{"a": "b"}]}), deed)


@lanes("name", "status.json")
def test_a_damaged_cached_status_is_ignored(count: int, name: str, tmp_path: Path) -> None:
    def deed(content: bytes) -> None:
        (tmp_path / name).write_bytes(content)
        found = read_status(str(tmp_path), "token")
        assert found is None or isinstance(found, dict)

    examples(count * 3, documents({"token": "token", "document": {"schema": "perpetual.status/1"}}), deed)
