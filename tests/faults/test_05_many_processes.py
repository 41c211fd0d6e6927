"""Row 5: eight processes write to the record while others look at it: nothing is lost, and no lock is ever shown."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.cli.app import run

WRITERS, DEEDS = 8, 12

_WRITE = f"""
import os, sys
from perpetual import Lab

with Lab.open() as lab:
    lab.status()
children = []
for worker in range({WRITERS}):
    if child := os.fork():
        children.append(child)
        continue
    with Lab.open(actor=f"writer-{{worker}}") as lab:
        for n in range({DEEDS}):
            lab.hypotheses.add(
                f"{{worker}} {{n}}", metric="acc", direction="max", mde=0.1, idempotency_key=f"{{worker}}/{{n}}"
            )
    os._exit(0)
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
"""


@pytest.mark.parametrize("store", ["tinydb", "sqlite"])
def test_eight_writers_and_a_dashboard(project: Path, store: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Lab.open(project) as lab:
        lab.config.set("store", store)
    writers = subprocess.Popen(
        [sys.executable, "-c", _WRITE], cwd=project, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    seen: list[int] = []
    try:
        while writers.poll() is None:
            for command in (["status"], ["hypotheses", "list", "--limit", "5"], ["events"]):
                assert run([*command, "--json"]) == 0
                document = json.loads(capsys.readouterr().out)
                if command == ["status"]:
                    seen.append(document["seq"])
        answer = writers.communicate(timeout=60)[0]
    finally:
        writers.kill()
        writers.communicate()
    assert answer == f"{[0] * WRITERS}\n"  # no error, and nothing about a lock
    assert seen == sorted(seen)
    with Lab.open(project) as lab:
        found = lab.hypotheses.list(limit=1000).items
        assert sorted(item.statement for item in found) == sorted(
            f"{worker} {n}" for worker in range(WRITERS) for n in range(DEEDS)
        )
        assert sorted(item.id for item in found) == sorted(f"h{n}" for n in range(1, WRITERS * DEEDS + 1))
        events = lab.events()
        assert [event.seq for event in events] == [*range(1, len(events) + 1)]
        told = [event for event in events if event.kind == "hypothesis_added"]
        assert {event.actor for event in told} == {f"writer-{worker}" for worker in range(WRITERS)}
        assert len(told) == WRITERS * DEEDS
        assert lab.storage.verify() == []
