"""`make bench`, dispatch: what one turn of a driven harness costs the lab, and whether turns leave processes behind.

The harness is a program without a model, so its own time is next to nothing; CPU is that of the process of `perpetual
ask` alone, from its start to its end, beside that of an empty interpreter: best of 15, interleaved. Nothing here is a
test: a figure over its goal is said.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from perpetual import Lab
from perpetual_harnesses.dispatch.driving import Driving
from perpetual_harnesses.dispatch.records import TURN
from perpetual_harnesses.testing import AGENT, living

_GOAL_S = 1.0
_ROUNDS = 15
_TURNS = 200
_ASK = """
import atexit, sys, time
atexit.register(lambda: sys.stderr.write(f"cpu {time.process_time()}\\n"))
from perpetual.entry import main
sys.argv = ["perpetual", "ask", "What is the answer?", "--json"]
sys.exit(main())
"""
_FLOOR = "import sys, time; sys.stderr.write(f'cpu {time.process_time()}\\n')"


def cpu_s(code: str, cwd: Path, env: dict[str, str]) -> tuple[float, str]:
    """Returns the CPU seconds of an interpreter that runs the code, and what it printed."""
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=cwd, env=env, capture_output=True, text=True,
                          check=False)  # fmt: skip
    lines = [line for line in done.stderr.splitlines() if line.startswith("cpu ")]
    return float(lines[-1].split()[1]), done.stdout


def main() -> int:
    """Prints the figures; returns 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=_TURNS)
    turns = parser.parse_args().turns
    with tempfile.TemporaryDirectory() as scratch:
        root, programs = Path(scratch) / "project", Path(scratch) / "programs"
        programs.mkdir()
        adapter = programs / "claude-agent-acp"
        adapter.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{AGENT}" acp server\n')
        adapter.chmod(0o755)
        os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
        with Lab.init(root, name="dispatch"):
            pass
        asked, floor = [], []
        for _ in range(_ROUNDS):
            spent, out = cpu_s(_ASK, root, dict(os.environ))
            if json.loads(out)["outcome"] != "done":
                raise SystemExit(f"the turn is not done: {out}")
            asked.append(spent)
            floor.append(cpu_s(_FLOOR, root, dict(os.environ))[0])
        best, least = min(asked), min(floor)
        verdict = "within" if best <= _GOAL_S else "OVER"
        print(f"a turn of perpetual ask   {best:6.3f} s CPU, {best / least:5.1f} x an empty interpreter"
              f"   goal {_GOAL_S:g} s: {verdict}")  # fmt: skip
        with Lab.open(root) as lab:
            driving = Driving(lab)
            for _ in range(turns):
                driving.drive("What is the answer?", with_lab=False)
            left = sum(len(living(str(turn["mark"]))) for turn in lab.records(TURN).find())
        print(f"processes after {turns} turns  {left}   goal 0: {'within' if not left else 'OVER'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
