"""What the doctor says of scaffolds: whether they stand, and whether the harness takes them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

from perpetual import Lab
from perpetual_harnesses import scaffold_check

if TYPE_CHECKING:
    from perpetual.documents.machine import DoctorCheck

pytestmark = pytest.mark.slow  # each asks the doctor, which starts an MCP server

Finding: TypeAlias = "DoctorCheck"


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A lab that is registered with Codex."""
    with Lab.init(tmp_path / "project", name="test") as made:
        made.scaffold(["codex"])
        yield made


@pytest.fixture
def codex(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a program `codex` beside `perpetual` on the PATH, with a body; without one there is none."""
    place = tmp_path / "bin"
    place.mkdir()
    (place / "perpetual").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(place))

    def put(body: str) -> None:
        program = place / "codex"
        program.write_text(f"#!{sys.executable}\nimport os, sys, time\n{body}\n")
        program.chmod(0o755)

    return put


def _finding(lab: Lab) -> Finding:
    (found,) = [check for check in lab.doctor() if check["check"] == "harness codex"]
    return found


def test_the_check_finds_nothing_without_a_scaffold(tmp_path: Path) -> None:
    with Lab.init(tmp_path / "project", name="test") as lab:
        assert [check for check in lab.doctor() if check["check"].startswith("harness")] == []


@pytest.mark.parametrize(
    ("body", "ok", "told"),
    [
        ("print('[]')", None, "codex mcp list --json waits for a person"),
        ("print('[{}]')", False, "codex mcp list --json does not list it: [{}]"),
        ("sys.exit(3)", False, "does not list it: exit 3"),
    ],
)  # fmt: skip
def test_the_answer_of_the_harness_is_shown(
    lab: Lab, codex: Callable[[str], None], body: str, ok: bool | None, told: str
) -> None:
    codex(body)
    found = _finding(lab)
    assert (found["ok"], "in place; " in found["detail"]) == (ok, True)
    assert told in found["detail"]
    assert "trust it" in str(found["hint"])


def test_what_the_harness_lists_is_shown_with_hooks_that_it_skips(lab: Lab, codex: Callable[[str], None]) -> None:
    codex("""print('[{"name": "perpetual", "enabled": true}]' if sys.argv[1:3] == ["mcp", "list"] else 'usage')""")
    found = _finding(lab)
    assert "codex mcp list --json lists it" in found["detail"]
    assert "Codex skips the hooks of .codex/hooks.json until a person accepts them" in found["detail"]
    assert (found["ok"], "accept the hooks" in str(found["hint"])) == (None, True)
    (lab.root / ".codex/hooks.json").unlink()
    lab.scaffold(["mcp"], remove=["codex"])
    assert [one["ok"] for one in lab.doctor() if one["check"].startswith("harness")] == [True]


def test_a_harness_that_hangs_is_ended(
    lab: Lab, codex: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scaffold_check, "ASKED_FOR_S", 10.0)  # so that it comes to write its pid
    codex(f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)")
    found = _finding(lab)
    assert (found["ok"], "gave no answer within 10 s" in found["detail"]) == (None, True)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.usefixtures("codex")
def test_a_harness_that_is_not_installed(lab: Lab) -> None:
    found = _finding(lab)
    assert (found["ok"], found["hint"]) == (None, None)
    assert "there is no program codex on the PATH" in found["detail"]


@pytest.mark.usefixtures("codex")
def test_files_that_start_a_missing_program_are_named(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "bin" / "perpetual").unlink()
    found = _finding(lab)
    assert (found["ok"], found["hint"]) == (None, "perpetual init -H codex --command PATH")
    assert "they start perpetual, which is not on this PATH" in found["detail"]
    lab.scaffold(["codex"], command=[str(tmp_path / "gone" / "perpetual")])
    found = _finding(lab)
    assert (found["ok"], "gone/perpetual, which is no program" in found["detail"]) == (False, True)
    lab.scaffold(["codex"], command=["env/perpetual"])  # a path from the project's folder, whatever the working one
    (lab.root / "env").mkdir()
    (lab.root / "env" / "perpetual").symlink_to(sys.executable)
    assert "there is no program codex" in _finding(lab)["detail"]


@pytest.mark.usefixtures("codex")
def test_files_that_are_missing_or_changed_are_named(lab: Lab) -> None:
    (lab.root / "AGENTS.md").unlink()
    (lab.root / ".codex/config.toml").write_text("[mcp_servers]\n")
    (lab.root / ".codex/hooks.json").write_text("oops")
    found = _finding(lab)
    assert (found["ok"], found["hint"]) == (False, "perpetual init -H codex")
    assert "AGENTS.md is missing" in found["detail"]
    assert ".codex/config.toml is not as init wrote it" in found["detail"]
    assert ".codex/hooks.json cannot be merged" in found["detail"]
    assert (lab.root / ".codex/hooks.json").read_text() == "oops"  # looking changes nothing
    assert not (lab.root / "AGENTS.md").exists()


@pytest.mark.usefixtures("codex")
def test_a_file_edited_by_hand_is_named_and_accepted(lab: Lab) -> None:
    path = lab.root / ".agents/skills/perpetual/SKILL.md"
    path.write_text(path.read_text().replace("How to work", "How we work"))
    assert "edited by hand: .agents/skills/perpetual/SKILL.md" in _finding(lab)["detail"]
