"""The three laws of the house: one door, the record decides, imports go down only.

The first and third are read from the source: import-linter's contracts, and the syntax trees. Each check is also run
on a planted violation, so that it is known to bite.
"""

from __future__ import annotations

import ast
import configparser
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.errors import Conflict
from perpetual.lab.kinds import RUN
from perpetual.records import Experiment, Hypothesis
from perpetual.registry import Registry

ROOT = Path(__file__).parents[2]
Campaign = Callable[..., tuple[Hypothesis, Experiment]]

# --- law 3: down only -----------------------------------------------------------------------------------------------


def _lint(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [str(program), "--no-cache", "--no-logo", *arguments],
        cwd=folder,
        env={"PYTHONPATH": f"{folder}:{folder / 'plugins'}", "PATH": "", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def _contracts() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    return parser


def _words(text: str) -> list[str]:
    return text.split()


def test_the_contracts_are_kept() -> None:
    found = _lint(ROOT)
    assert found.returncode == 0, found.stdout + found.stderr
    assert " 0 broken" in found.stdout


def test_the_contracts_cover_every_package_of_the_wheel() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    shipped = {Path(name).name for name in wheel["packages"]} - {"perpetual_templates"}
    plugins = shipped - {"perpetual"}
    parser = _contracts()
    assert set(_words(parser["importlinter"]["root_packages"])) == shipped
    assert set(_words(parser["importlinter:contract:kernel"]["forbidden_modules"])) == plugins
    assert set(_words(parser["importlinter:contract:plugins"]["modules"])) == plugins
    assert set(_words(parser["importlinter:contract:public"]["source_modules"])) == plugins


def test_plugins_may_import_public_modules_only() -> None:
    forbidden = set(_words(_contracts()["importlinter:contract:public"]["forbidden_modules"]))
    kernel = {f"perpetual.{path.stem}" for path in (ROOT / "perpetual").iterdir() if path.name != "__init__.py"
              and (path.suffix == ".py" or (path / "__init__.py").exists())}  # fmt: skip
    public = {f"perpetual.{name}" for name in ("api", "documents", "loop", "science", "testing", "toolkit")}
    assert kernel - forbidden == public


def test_a_plugin_imports_another_only_where_its_offers_require_it() -> None:
    lines = _contracts()["importlinter:contract:plugins"]["ignore_imports"].strip().splitlines()
    exceptions = {tuple(part.strip().removesuffix(".**") for part in line.split("->")) for line in lines}
    required = {
        (_package(info.name), _package(name))
        for info in Registry().plugins
        for offer in info.offers
        for name in offer.provider.requires
        if info.qualified_name.startswith("perpetual-lab/")
    }
    assert exceptions == required


def _package(name: str) -> str:
    """The package of a bundled plugin."""
    return f"perpetual_{name}"


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source in a folder where it may be spoilt."""
    folder = tmp_path_factory.mktemp("copy")
    for name in ("perpetual", "plugins"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".importlinter", folder)
    return folder


_PLANTED = [
    ("floors", "perpetual.records", "perpetual.api"),
    ("floors", "perpetual.config", "perpetual.lab.budget"),
    ("floors", "perpetual.lab.ledger.runs", "perpetual.commands"),
    ("nouns", "perpetual.lab.ledger.runs", "perpetual.lab.budget"),
    ("nouns", "perpetual.lab.memory", "perpetual.lab.evidence.confidence"),
    ("nouns", "perpetual.lab.evidence.manual", "perpetual.lab.runs.launch"),
    ("operations", "perpetual.cli.overview", "perpetual.lab.evidence.confidence"),
    ("store", "perpetual.cli.overview", "perpetual.slots.store"),
    ("store", "perpetual.loop", "perpetual.slots.store"),
    ("kernel", "perpetual.registry", "perpetual_tinydb.store"),
    ("plugins", "perpetual_scorers.information_gain", "perpetual_metrics.readers"),
    ("public", "perpetual_local.scheduler", "perpetual.registry"),
    ("public", "perpetual_supervisor.rundir", "perpetual.lab"),
    ("plugins", "perpetual_metrics.readers", "perpetual_supervisor.rundir"),
    ("public", "perpetual_git.memory", "perpetual.lab"),
    ("science", "perpetual.science.stdio_server", "perpetual.toolkit.units"),
    ("science", "perpetual_scorers.proposing.sweep", "perpetual.toolkit.units"),
]


@contextmanager
def _planted(copied: Path, imports: Iterable[tuple[str, str]]) -> Iterator[None]:
    """The copy with these imports, each inside a function: an import that is put off is an import all the same."""
    before: dict[Path, str] = {}
    for importer, imported in imports:
        base = copied if importer.startswith("perpetual.") else copied / "plugins"
        path = base.joinpath(*importer.split("."))
        path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        before.setdefault(path, path.read_text())
        path.write_text(f"{path.read_text()}\n\ndef _planted() -> None:\n    import {imported}\n")
    try:
        yield
    finally:
        for path, text in before.items():
            path.write_text(text)


def test_the_contracts_bite(copied: Path) -> None:
    with _planted(copied, [(importer, imported) for _, importer, imported in _PLANTED]):
        found = _lint(copied)
    assert found.returncode == 1, found.stdout + found.stderr
    names = {contract: _contracts()[f"importlinter:contract:{contract}"]["name"] for contract, _, _ in _PLANTED}
    assert {name for name in names.values() if f"{name} BROKEN" not in found.stdout} == set()
    for _, importer, imported in _PLANTED:
        assert f"{importer} -> {imported} (l." in found.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("contract", "importer", "imported"), _PLANTED)
def test_each_contract_bites(copied: Path, contract: str, importer: str, imported: str) -> None:
    with _planted(copied, [(importer, imported)]):
        found = _lint(copied, "--contract", contract)
    assert found.returncode == 1, found.stdout + found.stderr
    assert f"{importer} -> {imported} (l." in found.stdout


def test_a_module_without_a_layer_is_named(copied: Path) -> None:
    stray = copied / "perpetual" / "stray.py"
    stray.write_text("")
    try:
        found = _lint(copied, "--contract", "floors")
    finally:
        stray.unlink()
    assert found.returncode == 1
    assert "perpetual.stray" in found.stdout


# --- law 1: one door ------------------------------------------------------------------------------------------------

# What is not a face: the parts that the lab itself is made of, which hold a store, a process, a repository, a device.
_PARTS = ("perpetual_tinydb", "perpetual_sqlite", "perpetual_local", "perpetual_git", "perpetual_nvml",
          "perpetual_provenance", "perpetual_supervisor")  # fmt: skip
# Nor is what reads other tools' files: their databases and repositories, never the lab's.
_READERS = tuple(f"perpetual_adopt/{name}.py" for name in ("perpetual_agent", "commits", "mlflow_database", "reading"))
# Nor is what starts and kills processes on stores and projects of its own, in scratch folders.
_SCRATCH = tuple(
    f"perpetual_devkit/{name}.py"
    for name in ("chaos", "chaos_judge", "chaos_writer", "contract_runner", "overnight", "scratch_calls")
)
# Nor is what runs pip or uv, and asks fresh processes what they find.
_INSTALLERS = ("perpetual_devkit/installer.py",)
# Nor is a pool of processes that compute: it knows no project.
_POOLS = ("perpetual_scorers/process_pool.py",)
# Nor is what looks at the processes that a GPU serves.
_OWNERS = ("perpetual_gpus/owners.py",)
# Nor is what asks a harness for the servers that it knows.
_HARNESSES = ("perpetual_harnesses/scaffold_check.py", "perpetual_harnesses/dispatch/process.py",
              "perpetual_harnesses/dispatch/guardian.py", "perpetual_harnesses/login.py",
              "perpetual_harnesses/harness_checks.py", "perpetual_harnesses/testing/agent.py")  # fmt: skip
# Nor is what asks the MCP server for its tools, as a client would.
_CLIENTS = ("perpetual_devkit/server_check.py",)
# Nor is a cache that any process may build anew.
_CACHES = ("perpetual_find/index.py", "perpetual_find/logs.py", "perpetual_find/transaction.py",
           "perpetual_report/board_cache.py", "perpetual_mirrors/outbox.py", "perpetual_site/kept.py",
           "perpetual_lineage/index.py", "perpetual_recall/cache_file.py", "perpetual_recall/index.py",
           "perpetual_recall/outcomes.py", "perpetual_notify/outbox.py", "perpetual_agents/memory_index.py",
           "perpetual_agents/memory_search.py")  # fmt: skip
# Nor is what starts the process that loads a tracker's library.
_PUSHERS = ("perpetual_mirrors/starting.py",)
# Nor is what shows a notice on the desktop, or starts the user's own program for it.
_NOTICES = ("perpetual_dispatch/notices.py", "perpetual_notify/desktop.py", "perpetual_notify/program.py")
# Nor is what keeps the daemon's process, and what asks the user's service manager to.
_KEEPERS = ("perpetual_daemon/keeper.py", "perpetual_daemon/unit.py")
# Nor is what keeps the MCP server loaded, and forks a session for each start.
_RESIDENTS = ("perpetual_mcp/warm.py", "perpetual_mcp/resident.py")
# Nor is git, as campaigns use it: worktrees and branches of their own.
_CAMPAIGNS = ("perpetual_campaign/repository.py",)
# Nor is what reads the time of a commit.
_COMMITS = ("perpetual_report/commits.py",)
# Nor is what starts the program of a thinker, and what looks whether one has left a process behind.
_THINKERS = ("perpetual_thinkers/by_command.py", "perpetual_thinkers/testing/__init__.py")
# Nor is what looks whether a backend of models has left a process or a connection behind.
_MODELS = ("perpetual_agents/testing/backends.py",)
_INSIDES = frozenset({"_ctx", "context", "store", "_store", "transaction", "kill", "killpg", "fork", "posix_spawn"})
_TOOLS = frozenset({"subprocess", "multiprocessing", "sqlite3", "tinydb", "dulwich", "psutil", "pynvml", "git"})


def _reaches(source: str) -> Iterator[str]:
    """What a face touches that only the lab may: `line: what`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in _INSIDES:
            owner = ast.unparse(node.value)
            # lab.runs.kill and lab.transaction are the doors for it
            is_door = (node.attr, owner.rpartition(".")[2]) in {("kill", "runs"), ("transaction", "lab")}
            if not (is_door or (node.attr == "fork" and owner != "os")):  # an agent is forked too
                yield f"{node.lineno}: {owner}.{node.attr}"
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            yield from (f"{node.lineno}: import {name}" for name in names if name.split(".")[0] in _TOOLS)


def _faces() -> list[Path]:
    exempt = (*_READERS, *_SCRATCH, *_INSTALLERS, *_POOLS, *_OWNERS, *_HARNESSES, *_CLIENTS, *_CACHES, *_NOTICES,
              *_PUSHERS, *_COMMITS, *_KEEPERS, *_THINKERS, *_CAMPAIGNS, *_RESIDENTS,
              *_MODELS)  # fmt: skip
    plugins = [path for path in (ROOT / "plugins").glob("perpetual_*/**/*.py")
               if path.relative_to(ROOT / "plugins").parts[0] not in _PARTS
               and path.relative_to(ROOT / "plugins").as_posix() not in exempt]  # fmt: skip
    kernel = [path for part in ("cli", "loop") for path in (ROOT / "perpetual" / part).rglob("*.py")]
    return sorted([*kernel, *plugins])


def test_faces_touch_no_store_no_process_and_no_repository() -> None:
    faces = _faces()
    assert len(faces) > 10
    found = {str(path.relative_to(ROOT)): [*_reaches(path.read_text())] for path in faces}
    assert {name: reached for name, reached in found.items() if reached} == {}


@pytest.mark.parametrize(
    "line",
    [
        "face.lab.context.store.find('run')",
        "with lab.context.store.transaction() as tx: pass",
        "import subprocess",
        "from tinydb import TinyDB",
        "def late():\n    import dulwich.repo",
        "import os\nos.kill(1, 9)",
    ],
)
def test_the_first_law_bites(line: str) -> None:
    assert [*_reaches(line)] != []


def test_the_first_law_lets_the_door_through() -> None:
    assert [*_reaches("face.lab.runs.kill('r1')\nface.lab.config['store']\nlab.status()\nlab.transaction()")] == []


def test_the_facade_is_a_facade() -> None:
    tree = ast.parse((ROOT / "perpetual" / "lab" / "__init__.py").read_text())
    branches = [node for node in ast.walk(tree) if isinstance(node, (ast.While, ast.Try))]
    assert branches == []  # operations are in the packages of the nouns


# --- law 2: the record decides --------------------------------------------------------------------------------------


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    yield f"{node.name}.{inner.name}", inner


@cache
def _nodes(function: ast.AST) -> list[ast.AST]:
    """The parts of a function by which it can write something; kept, as every law asks for those of all functions."""
    return [node for node in ast.walk(function) if isinstance(node, (ast.Call, ast.Dict, ast.Subscript))]


def _writes_key(function: ast.AST, key: str) -> bool:
    """Whether a function puts `key` into a mapping: in a display, by assignment, or as a keyword of `dict`."""
    for node in _nodes(function):
        if isinstance(node, ast.Dict) and any(isinstance(k, ast.Constant) and k.value == key for k in node.keys):
            return True
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.slice, ast.Constant)
            and node.slice.value == key
        ):
            return True
        makes = isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("dict", "update")
        if makes and any(keyword.arg == key for keyword in getattr(node, "keywords", ())):
            return True
    return False


def _calls_with(function: ast.AST, methods: Collection[str], kind: str) -> bool:
    """Whether a function calls one of the methods for a kind: by its name, or by its constant of `lab/kinds.py`."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in methods
        and bool(node.args)
        and ast.unparse(node.args[0]) in (repr(kind), kind.upper(), f"kinds.{kind.upper()}")
        for node in _nodes(function)
    )


def _puts(function: ast.AST, kind: str) -> bool:
    """Whether a function writes documents of a kind."""
    return _calls_with(function, ("put", "create"), kind)


def test_a_planted_write_is_seen_by_name_and_by_constant() -> None:
    for written in ('tx.put("hypothesis", id, body)', "tx.put(HYPOTHESIS, id, body)", "tx.create(kinds.HYPOTHESIS, b)"):
        assert _puts(ast.parse(f"def f():\n    {written}\n").body[0], "hypothesis")
    assert not _puts(ast.parse("def f():\n    tx.get(HYPOTHESIS, id)\n").body[0], "hypothesis")


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _where(test: Callable[[ast.AST], bool]) -> set[str]:
    found = set()
    for path in (ROOT / "perpetual").rglob("*.py"):
        if "testing" in path.parts:
            continue  # suites write what they like into stores of their own
        for name, function in _functions(_tree(path)):
            if test(function):
                found.add(f"{path.relative_to(ROOT / 'perpetual')}:{name}")
    return found


def test_confidence_is_written_by_the_fold_alone() -> None:
    writers = _where(lambda function: _puts(function, "hypothesis"))
    assert writers == {
        "lab/evidence/confidence.py:count_rows",  # how many rows of no weight came
        "lab/evidence/confidence.py:refold",
        "lab/hypotheses.py:Hypotheses.add",
        "lab/ledger/hypotheses.py:HypothesisRecords.edit",
    }
    having = _where(lambda function: _writes_key(function, "confidence"))
    assert having & writers == writers - {"lab/evidence/confidence.py:count_rows"}
    assert having - writers <= {
        "lab/evidence/manual.py:_fold_of",  # what `refold` answers
        "lab/hypotheses.py:Hypotheses.update",  # hands a person's value on
        "lab/proposals.py:Proposals.state",  # what a scorer is shown
        "lab/status.py:_hypothesis_line",  # what the status shows
        "science/evidence.py:confidence",  # the formula's answer
    }


def test_ledgers_are_appended_by_their_rows_modules_alone() -> None:
    def appends(kind: str) -> set[str]:
        return _where(lambda function: _calls_with(function, ("append",), kind))

    assert appends("evidence") == {"lab/ledger/evidence.py:EvidenceRecords.append"}
    assert appends("debit") == {"lab/budget.py:Budget._append"}
    assert appends("event") == {"lab/context.py:Context.emit"}


def test_the_check_for_writers_bites() -> None:
    for line in ("body['confidence'] = 1", "tx.put('x', 'y', {'confidence': 1})", "body.update(confidence=1)"):
        assert _writes_key(ast.parse(line), "confidence")
    assert not _writes_key(ast.parse("print(body['confidence'])"), "confidence")


def _record(lab: Lab) -> dict[str, Any]:
    """Everything that the lab tells of its record."""
    return {
        "hypotheses": lab.hypotheses.list().items,
        "experiments": lab.experiments.list().items,
        "runs": lab.runs.list().items,
        "evidence": lab.evidence.list().items,
        "budget": lab.budget.show(),
        "events": lab.events(),
        "notes": lab.memory.list().items,
    }


def test_scanning_twice_is_scanning_once(lab: Lab, campaign: Campaign) -> None:
    hypothesis, experiment = campaign(replicates=1)
    run = lab.runs.launch(experiment.id)[0]
    lab.part("scheduler").wait(None, lab.root / run.log_dir, 60.0)
    first = lab.scan()
    assert [change["to"] for change in first["changes"]] == ["done"]
    assert len(first["debits"]) == 1
    assert [row["run_id"] for row in first["evidence"]] == [run.id]
    before = _record(lab)
    assert lab.scan() == {"changes": [], "debits": [], "evidence": [], "problems": []}
    assert _record(lab) == before
    assert lab.evidence.refold() == []
    assert lab.hypotheses.get(hypothesis.id).evidence_count == 1


def test_two_labs_that_scan_at_once_record_one_end(lab: Lab, project: Path, campaign: Campaign) -> None:
    from concurrent.futures import ThreadPoolExecutor

    _, experiment = campaign(replicates=2)
    runs = lab.runs.launch(experiment.id, every=True)
    for run in runs:
        lab.part("scheduler").wait(None, lab.root / run.log_dir, 60.0)
    with Lab.open(project) as other, ThreadPoolExecutor(4) as pool:
        answers = [*pool.map(lambda lab: lab.scan(), [lab, other, lab, other])]
    changed = [change["run_id"] for answer in answers for change in answer["changes"]]
    assert sorted(changed) == sorted(run.id for run in runs)
    assert len([debit for answer in answers for debit in answer["debits"]]) == 2
    assert len(lab.evidence.list().items) == 2


def test_settling_twice_is_settling_once(lab: Lab, campaign: Campaign) -> None:
    _, experiment = campaign(replicates=1)
    run = lab.runs.launch(experiment.id)[0]
    lab.wait([run.id], timeout_s=20)
    spent = lab.budget.show()
    assert spent["by_experiment"][experiment.id]["runs"] == 1
    ctx, document = lab.context, lab.context.need(RUN, run.id)
    with ctx.store.transaction() as tx:
        assert lab.budget.settle(tx, document.body, gpu_hours=9.0, run_hours=9.0) is None
    assert lab.budget.show() == spent


def test_the_same_key_makes_one_thing(lab: Lab) -> None:
    first = lab.hypotheses.add("one", idempotency_key="a")
    assert lab.hypotheses.add("another", idempotency_key="a") == first
    experiment = lab.experiments.propose(first.id, command="true", idempotency_key="b")
    assert lab.experiments.propose(first.id, command="true", idempotency_key="b") == experiment
    note = lab.memory.write("notes/x.md", "some words", idempotency_key="c")
    assert lab.memory.write("notes/x.md", "some words", idempotency_key="c") == note
    with pytest.raises(Conflict) as caught:
        lab.experiments.propose(first.id, command="true", idempotency_key="a")
    assert "hypothesis" in caught.value.message
    assert [len(lab.hypotheses.list().items), len(lab.experiments.list().items)] == [1, 1]
    assert len(lab.memory.history("notes/x.md")) == 1


def test_a_deed_that_is_done_is_refused_or_nothing(lab: Lab, campaign: Campaign) -> None:
    _, experiment = campaign()
    with pytest.raises(Conflict):
        lab.experiments.approve(experiment.id)
    row = lab.evidence.add("h1", verdict="supports", strength=0.5, why="it looks so")
    lab.evidence.retract(row.id, why="it did not")
    with pytest.raises(Conflict):
        lab.evidence.retract(row.id, why="it did not")
    before = _record(lab)
    assert lab.queue.set_state("running") == "running"
    lab.budget.set_limit(None)
    assert Lab.init(lab.root).root == lab.root
    assert _record(lab) == before


def test_a_note_is_committed_once(lab: Lab) -> None:
    lab.memory.write("notes/once.md", "what was seen")
    assert lab.memory.flush() == 0
    # The commit was made and the store does not know: git's trailer says that it is done.
    ctx = lab.context
    with ctx.store.transaction() as tx:
        tx.put("setting", "memory_cursor", {"intent": 0})
    assert lab.memory.flush() == 1
    assert len(lab.memory.history("notes/once.md")) == 1


@pytest.mark.parametrize("damage", ["deleted", "of another state", "torn", "of another configuration"])
def test_the_kept_status_is_a_projection(lab: Lab, campaign: Campaign, damage: str) -> None:
    _, experiment = campaign(replicates=1)
    lab.wait([lab.runs.launch(experiment.id)[0].id], timeout_s=20)
    kept = lab.root / ".perpetual" / "status.json"
    told = lab.status()
    stale = kept.read_text()
    assert lab.status() == told
    if damage == "deleted":
        kept.unlink()
    elif damage == "torn":
        kept.write_text(stale[: len(stale) // 2])
    elif damage == "of another state":
        lab.hypotheses.add("one more")
        expected = lab.status()
        assert expected != told
        told = expected
        kept.write_text(stale)
    else:
        lab.config.set("project", "renamed")
        told = {**told, "project": "renamed"}
    assert lab.status() == told
    assert kept.exists()
    with Lab.open(lab.root) as other:
        assert other.status() == told


def test_a_lost_fold_is_computed_again(lab: Lab, campaign: Campaign) -> None:
    hypothesis, experiment = campaign(replicates=1)
    lab.wait([lab.runs.launch(experiment.id)[0].id], timeout_s=20)
    right = lab.hypotheses.get(hypothesis.id)
    ctx = lab.context
    with ctx.store.transaction() as tx:
        body = ctx.need("hypothesis", hypothesis.id).body
        tx.put("hypothesis", hypothesis.id, {**body, "confidence": 0.123, "status": "refuted"})
    assert [item["id"] for item in lab.evidence.refold(check=True)] == [hypothesis.id]
    assert lab.hypotheses.get(hypothesis.id).confidence == 0.123
    assert [item["folded"]["confidence"] for item in lab.evidence.refold()] == [right.confidence]
    assert lab.hypotheses.get(hypothesis.id) == right
    assert lab.evidence.refold(check=True) == []
