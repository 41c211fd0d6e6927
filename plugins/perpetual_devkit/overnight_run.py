"""The training run of an overnight test, copied into its projects: its score is a function of its arm and its seed.

It needs the standard library alone. Each start is noted in the folder that all attempts of a replicate share, so that
what really ran can be compared with the record.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from pathlib import Path

_STEPS = 3
_SPREAD = 0.1


def _score(effect: float, seed: str) -> float:
    """Returns the score: noise that arms of one seed share, some of the arm's own, and the effect."""
    shared = random.Random(f"shared {seed}").gauss(0.0, _SPREAD)
    own = random.Random(f"{effect} {seed}").gauss(0.0, _SPREAD)
    return round(1.0 + effect + shared + own, 6)


def _attempt(folder: Path) -> int:
    """Notes the start, with the pids of this program and of its supervisor; returns which one it is."""
    line = json.dumps([os.environ["PERPETUAL_RUN"], os.getpid(), os.getppid()]) + "\n"
    descriptor = os.open(folder / "starts", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, line.encode())
    os.close(descriptor)
    return len((folder / "starts").read_bytes().splitlines())


def main() -> int:
    """Runs for `--seconds`, or ends as `--fault` says."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--effect", type=float, default=0.0)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--fault", choices=("none", "crash", "hang", "oom"), default="none")
    options = parser.parse_args()
    attempt = _attempt(Path(os.environ["PERPETUAL_CHECKPOINT_DIR"]))
    score = _score(options.effect, os.environ["PERPETUAL_SEED"])
    for step in range(1, _STEPS + 1):
        time.sleep(options.seconds / _STEPS)
        with open(os.environ["PERPETUAL_METRICS"], "a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, "progress": score}) + "\n")
        if options.fault == "crash":
            sys.stderr.write("the data could not be read\n")
            return 3
        if options.fault == "hang":
            time.sleep(3600.0)
        if options.fault == "oom" and attempt == 1:
            raise MemoryError
    sys.stdout.write(f"score: {score}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
