"""Hostile names as ids, artifacts and notes: each is refused by name, and nothing outside the project is opened."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.cli.app import run
from perpetual.errors import PerpetualError

NAMES = {
    "above": "../../outside/secret",
    "etc": "../../../../../../../../etc/passwd",
    "absolute": "/etc/passwd",
    "nul": "notes/a\0.md",
    "backslash": "..\\..\\outside\\secret",
    "encoded": "%2e%2e%2foutside%2fsecret",
    "twice encoded": "%252e%252e%252foutside",
    "inside out": "notes/../../outside/secret",
    "drive": "C:\\outside\\secret",
    "share": "//outside/secret",
    "device": "notes/CON",
    "of git": ".git/config",
    "turned": "notes/\u202ecod.md",
    "endless": "a/" * 3000,
    "long": "a" * 5000,
    "newline": "notes/a\n../../outside",
}
DEEDS: dict[str, Callable[[Lab, str], Any]] = {
    "memory write": lambda lab, name: lab.memory.write(name, "a text"),
    "memory read": lambda lab, name: lab.memory.read(name),
    "memory history": lambda lab, name: lab.memory.history(name),
    "memory promote": lambda lab, name: lab.memory.promote(name, "why"),
    "hypothesis": lambda lab, name: lab.hypotheses.get(name),
    "experiment": lambda lab, name: lab.experiments.get(name),
    "run": lambda lab, name: lab.runs.get(name),
    "logs": lambda lab, name: lab.runs.logs(name),
    "kill": lambda lab, name: lab.runs.kill(name),
    "metrics": lambda lab, name: lab.runs.read_metrics(name),
    "provenance": lambda lab, name: lab.runs.provenance(name),
}
COMMANDS = ("memory show", "memory history", "logs", "runs show", "experiments show", "hypotheses show", "artifacts")


@pytest.fixture
def opened_files(project: Path) -> Iterator[list[str]]:
    """The files that are opened meanwhile, as the interpreter reports them; outside of the project lies a secret."""
    outside = project.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("zqsecret")
    (outside / "secret.md").write_text("zqsecret")
    seen: list[str] = []
    is_on = [True]

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if is_on[0] and event == "open" and isinstance(arguments[0], (str, bytes)):
            seen.append(os.fsdecode(arguments[0]))

    sys.addaudithook(hook)  # which cannot be taken off
    yield seen
    is_on[0] = False


def _is_outside(name: str) -> bool:
    return "outside" in name or name == "/etc/passwd" or name.endswith("/etc/passwd")


@pytest.mark.parametrize("name", NAMES)
def test_a_hostile_name_is_refused_everywhere(
    project: Path, opened_files: list[str], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(project.parent.rglob("*"))
    with Lab.open(project) as lab:
        for deed, call in DEEDS.items():
            with pytest.raises(PerpetualError) as refused:
                call(lab, NAMES[name])
            assert len(refused.value.message) < 12_000, deed
            if deed.startswith("memory"):
                assert refused.value.code == "path_refused", deed
                assert refused.value.exit == 2
        if os.path.basename(NAMES[name]) != NAMES[name]:
            with pytest.raises(PerpetualError, match="no id of a run"):
                lab.runs.log_dir(NAMES[name])
    for command in COMMANDS:
        assert run([*command.split(), NAMES[name]]) != 0, command
    assert not [file for file in opened_files if _is_outside(file)]
    assert "zqsecret" not in "".join(capsys.readouterr())
    made = {path for path in project.parent.rglob("*") if project not in path.parents} - {*before}
    assert not made


def _use(project: Path) -> None:
    with Lab.open(project) as lab:
        lab.memory.write("notes/b", "another")
        lab.hypotheses.add("a claim")
        lab.memory.history("notes/a")


@pytest.mark.skipif(os.name == "nt", reason="needs links")
@pytest.mark.parametrize("part", ["memory.git", "memory.git/objects", "memory.git/refs/heads/main", "store"])
def test_a_link_swapped_in_is_not_followed(project: Path, part: str) -> None:
    with Lab.open(project) as lab:
        lab.memory.write("notes/a", "a text")
    place, outside = project / ".perpetual" / part, project.parent / "outside"
    place.rename(outside)
    place.symlink_to(outside)
    before = {path: path.stat().st_mtime_ns for path in [outside, *outside.rglob("*")] if path.exists()}
    with pytest.raises((PerpetualError, OSError)) as refused:
        _use(project)
    assert "link" in str(refused.value)
    assert {path: path.stat().st_mtime_ns for path in [outside, *outside.rglob("*")] if path.exists()} == before
