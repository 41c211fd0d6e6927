"""The units of `perpetual daemon install`: what is in them, and what the real systemd says of one."""

from __future__ import annotations

import plistlib
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.api import PerpetualError, UsageError
from perpetual_daemon import unit as units


def _lab(folder: Path) -> Lab:
    return Lab.init(folder, name="unit")


@pytest.mark.skipif(sys.platform != "linux", reason="systemd is Linux's")
@pytest.mark.parametrize("name", ["plain", "with space", "per%cent", "dollar$HOME", 'quo"te', "back\\slash"])
def test_the_command_line_is_read_as_it_was_meant(tmp_path: Path, name: str) -> None:
    with _lab(tmp_path / name) as lab:
        made = units.unit_of(lab, ["--stay"])
        line = next(line for line in made.text.splitlines() if line.startswith("ExecStart="))
        words = shlex.split(line.removeprefix("ExecStart=").replace("%%", "%").replace("$$", "$"))
        root = str(lab.root)
    assert words == [sys.executable, "-P", "-m", "perpetual", "--project", root, "daemon", "--stay"]
    assert made.path.suffix == ".service"


@pytest.mark.skipif(sys.platform != "linux", reason="systemd is Linux's")
def test_systemd_takes_it(tmp_path: Path) -> None:
    analyse = shutil.which("systemd-analyze")
    if analyse is None:
        pytest.skip("systemd is not here")
    with _lab(tmp_path / "with space") as lab:
        made = units.unit_of(lab, ["--stay"])
    path = tmp_path / made.name
    path.write_text(made.text, "utf-8")
    done = subprocess.run([analyse, "--user", "verify", str(path)], capture_output=True, text=True, check=False)
    said = [line for line in (done.stdout + done.stderr).splitlines() if made.name in line]
    assert said == []


def test_it_starts_again_after_a_crash_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    with _lab(tmp_path / "project") as lab:
        text = units.unit_of(lab, ["--stay"]).text
    assert "Restart=on-failure" in text
    assert "RestartPreventExitStatus=2 3 4 6 7 8 9" in text
    assert "KillMode=process" in text  # runs go on


def test_launchd_gets_a_property_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with _lab(tmp_path / "with <space>") as lab:
        made = units.unit_of(lab, ["--wait"])
        root = str(lab.root)
    found = plistlib.loads(made.text.encode())
    assert found["ProgramArguments"][-4:] == ["--project", root, "daemon", "--wait"]
    assert found["KeepAlive"] == {"Crashed": True}


def test_a_platform_without_either_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    with _lab(tmp_path / "project") as lab, pytest.raises(UsageError) as found:
        units.unit_of(lab, [])
    assert "--detach" in (found.value.hint or "")


@pytest.mark.parametrize(("system", "asked"), [("linux", "systemctl"), ("darwin", "launchctl")])
def test_the_manager_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, asked: str) -> None:
    """With a program of the manager's name, which writes down what it is asked: the real one needs a session."""
    heard = tmp_path / "asked"
    tool = tmp_path / "bin" / asked
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\necho "$@" >> {shlex.quote(str(heard))}\n', "utf-8")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with _lab(tmp_path / "project") as lab:
        monkeypatch.setattr(sys, "platform", system)
        made = units.unit_of(lab, ["--stay"])
        units.install(made)
        assert made.path.read_text("utf-8") == made.text
        assert units.uninstall(made)
        assert not made.path.exists()
        assert not units.uninstall(made)
    lines = heard.read_text("utf-8").splitlines()
    assert len(lines) == (4 if system == "linux" else 2)
    assert any(made.name in line for line in lines)


def test_a_manager_that_refuses_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with _lab(tmp_path / "project") as lab:
        made = units.unit_of(lab, [])
        with pytest.raises(PerpetualError) as found:
            units.install(made)
    assert "systemctl" in found.value.message
    assert "--detach" in (found.value.hint or "")
