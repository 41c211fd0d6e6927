"""A small project in a git repository, whose loss follows from one file and the seed."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from perpetual import Lab
from perpetual.api import Launched, LaunchSpec, Record, Sighting
from perpetual_campaign.campaigns import Campaigns
from perpetual_local.scheduler import LocalScheduler

COMMAND = f"{sys.executable} train.py"
# The noise of a candidate differs from that of the best also where the seed is the same, as in any real change.
TRAIN = """\
import os, random
import model
if model.GAIN == "crash":
    raise SystemExit("no such layer")
noise = random.Random(os.environ["PERPETUAL_SEED"] + open("model.py").read()).gauss(0, 0.01)
print("loss:", 1.0 - model.GAIN - getattr(model, "MORE", 0.0) + noise)
"""


def git(folder: Path, *words: str) -> str:
    """Runs git as a user would, and returns what it prints."""
    identity = ("-c", "user.name=me", "-c", "user.email=me@localhost")
    done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return done.stdout.strip()


def repository(folder: Path) -> None:
    """Makes the project's folder a repository with a program and the file that candidates change."""
    (folder / "train.py").write_text(TRAIN)
    (folder / "model.py").write_text("GAIN = 0.0\n")
    (folder / ".gitignore").write_text(".perpetual/\n__pycache__/\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "train.py", "model.py", ".gitignore")
    git(folder, "commit", "-q", "-m", "first")


def started(lab: Lab, **keys: Any) -> Campaigns:
    """A campaign `demo` on the file `model.py`."""
    campaigns = Campaigns(lab)
    keys = {"command": COMMAND, "metric": "loss", "direction": "min", "mde": 0.05, "edit": ["model.py"],
            "wall_s": 60.0, "replicates": 3, **keys}  # fmt: skip
    campaigns.new("demo", **keys)
    return campaigns


def edited(campaigns: Campaigns, text: str, idea: str = "another gain") -> Record:
    """A candidate whose file holds a text."""
    made = campaigns.candidate("demo", idea)
    (campaigns.worktree(made) / "model.py").write_text(text)
    return made


def settled(lab: Lab, id: str, timeout_s: float = 60.0) -> Record:
    """Scans until a candidate is over."""
    campaigns, end = Campaigns(lab), time.monotonic() + timeout_s
    while (found := campaigns.get(id))["state"] not in ("kept", "archived"):
        assert time.monotonic() < end, (found.fields, campaigns.advance())
        live = [run.id for run in lab.runs.live()]
        if live:
            lab.wait(live, timeout_s=30)
        lab.scan()
    return found


def users_state(folder: Path) -> tuple[object, ...]:
    """What of the repository is the user's: branch, head, index, status and files."""
    index = (folder / ".git" / "index").read_bytes()
    files = {name: (folder / name).read_bytes() for name in os.listdir(folder) if (folder / name).is_file()}
    status = git(folder, "--no-optional-locks", "status", "--porcelain", "--branch")
    return (folder / ".git" / "HEAD").read_text(), git(folder, "rev-parse", "HEAD"), index, status, files


class Instant(LocalScheduler):
    """Runs that are over when they have started: what the program would print is worked out here, by the same rule."""

    def launch(self, spec: LaunchSpec) -> Launched:
        text = (spec.cwd / "model.py").read_text()
        gain, *more = [line.partition("= ")[2] for line in text.splitlines() if "= " in line]
        if gain != CRASH:
            noise = random.Random(spec.env["PERPETUAL_SEED"] + text).gauss(0, 0.01)
            (spec.log_dir / "metrics.jsonl").write_text(
                json.dumps({"loss": 1.0 - sum(map(float, (gain, *more))) + noise}) + "\n"
            )
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        (spec.log_dir / "instant").write_text(f"{int(gain == CRASH)} {at} {spec.nonce} {spec.spec_hash}")
        return Launched(f"instant-{spec.run_id}", None, at)

    def poll(self, native_id: str | None, log_dir: Path) -> Sighting:
        """Answers that it has ended."""
        try:
            code, at, nonce, digest = (log_dir / "instant").read_text().split()
        except FileNotFoundError:
            return Sighting("absent")
        return Sighting("ended", reason="exited", exit_code=int(code), started_at=at, ended_at=at, duration_s=0.0,
                        nonce=nonce, spec_hash=digest)  # fmt: skip

    def wait(self, native_id: str | None, log_dir: Path, timeout_s: float) -> Sighting:
        """Answers that it has ended."""
        return self.poll(native_id, log_dir)


CRASH = '"crash"'


def apart(gain: float, more: float) -> str:
    """A program with two settings so far from each other that changes of both go together."""
    return f"GAIN = {gain}\n" + "# between\n" * 9 + f"MORE = {more}\n"


def instantly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the local scheduler start no process."""
    for name in ("launch", "poll", "wait"):
        monkeypatch.setattr(LocalScheduler, name, getattr(Instant, name))
