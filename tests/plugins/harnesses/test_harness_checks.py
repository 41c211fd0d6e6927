"""The doctor's further looks at harnesses: hooks that nobody has accepted, and a PATH that a login shell loses."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from perpetual.api import PluginError
from perpetual_harnesses.harness_checks import CHECKS, Look, codex_hooks, login_shell
from perpetual_harnesses.template import TemplateHarness


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """A project with a hook of a person's and two of Perpetual's, and a home in which nothing is accepted."""
    root = tmp_path / "a project"
    (root / ".codex").mkdir(parents=True)
    (tmp_path / "home/.codex").mkdir(parents=True)
    theirs = {"hooks": [{"type": "command", "command": "date"}]}
    ours = [{"hooks": [{"type": "command", "command": f"/opt/perpetual hook {name}"}]} for name in ("prompt", "stop")]
    hooks = {"hooks": {"UserPromptSubmit": [theirs, ours[0]], "Stop": [ours[1]]}}
    (root / ".codex/hooks.json").write_text(json.dumps(hooks))
    return Look(root, "perpetual", {"HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]})


def accept(look: Look, *keys: str, line: str = 'trusted_hash = "sha256:0"') -> None:
    file = Path(look.environment["HOME"]) / ".codex/config.toml"
    path = look.root / ".codex/hooks.json"
    file.write_text("".join(f"[hooks.state.{json.dumps(f'{path}:{key}')}]\n{line}\n" for key in keys))


def test_hooks_that_no_one_accepted_are_named_by_event(look: Look) -> None:
    note = codex_hooks(look)
    assert note is not None
    assert "(UserPromptSubmit, Stop)" in note.text
    accept(look, "user_prompt_submit:1:0")
    note = codex_hooks(look)
    assert note is not None
    assert "(Stop)" in note.text
    accept(look, "user_prompt_submit:1:0", "stop:0:0")
    assert codex_hooks(look) is None
    accept(look, "user_prompt_submit:0:0", "stop:0:0")  # the person's own hook, which stands before ours
    assert codex_hooks(look) is not None


def test_a_hook_that_a_person_has_switched_off_is_no_question(look: Look) -> None:
    accept(look, "user_prompt_submit:1:0", "stop:0:0", line="enabled = false")
    assert codex_hooks(look) is None


@pytest.mark.parametrize("text", ["", "[", "hooks = 1", '[hooks]\nstate = "x"', "[hooks.state]\nx = 1", "\udcff"])
def test_a_configuration_that_cannot_be_read_accepts_nothing(look: Look, text: str) -> None:
    (Path(look.environment["HOME"]) / ".codex/config.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert codex_hooks(look) is not None


@pytest.mark.parametrize("text", ["", "[]", '{"hooks": []}', '{"hooks": {"Stop": [1]}}', "[" * 100_000])
def test_hooks_that_cannot_be_read_are_no_finding_of_this_look(look: Look, text: str) -> None:
    (look.root / ".codex/hooks.json").write_text(text)
    assert codex_hooks(look) is None


def test_the_folder_of_codex_is_that_of_its_variable(look: Look, tmp_path: Path) -> None:
    accept(look, "user_prompt_submit:1:0", "stop:0:0")
    elsewhere = Look(look.root, look.starter, {**look.environment, "CODEX_HOME": str(tmp_path)})
    assert codex_hooks(look) is None
    assert codex_hooks(elsewhere) is not None


def test_a_program_that_a_login_shell_does_not_find_is_named(look: Look, tmp_path: Path) -> None:
    place = tmp_path / "venv/bin"
    place.mkdir(parents=True)
    (place / "a-lab").write_text("#!/bin/sh\n")
    (place / "a-lab").chmod(0o755)
    environment = {**look.environment, "PATH": f"{place}{os.pathsep}{look.environment['PATH']}"}
    profile = Path(environment["HOME"]) / ".profile"
    profile.write_text("PATH=/usr/bin:/bin\n")
    note = login_shell(Look(look.root, "a-lab", environment))
    assert note is not None
    assert "a login shell (bash -lc) does not find a-lab" in note.text
    profile.write_text(f"PATH={place}:/usr/bin:/bin\n")
    assert login_shell(Look(look.root, "a-lab", environment)) is None
    assert login_shell(Look(look.root, str(place / "a-lab"), environment)) is None  # named by its path
    assert login_shell(Look(look.root, "a-lab; touch x", environment)) is not None  # a name, never a command
    assert not (look.root / "x").exists()


def test_only_known_looks_are_named(tmp_path: Path) -> None:
    assert TemplateHarness("codex").checks() == tuple(CHECKS)
    assert TemplateHarness("mcp").checks() == ()
    (tmp_path / "own").mkdir()
    (tmp_path / "own/template.yaml").write_text("detect: []\nfiles: []\ntrust: []\ndoctor: [horoscope]\n")
    with pytest.raises(PluginError, match="'horoscope' is none of codex-hooks, login-shell"):
        TemplateHarness("own", tmp_path).checks()
