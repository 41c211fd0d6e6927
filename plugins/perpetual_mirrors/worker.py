"""The process that pushes, started by `perpetual mirror` and, in the background, by scans.

Trackers' libraries are large, write to the terminal, change the environment and may hang or end the process: here they
do so alone. With `--answer` its document is written to standard output as one line of JSON; what libraries print goes
to standard error.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from perpetual import Lab
from perpetual.api import PerpetualError
from perpetual_mirrors.outbox import is_of_interest
from perpetual_mirrors.pushing import push_all
from perpetual_mirrors.targets import folder_of, mirror_named, note_of

__all__ = ["ACTOR", "main"]

ACTOR = "mirror"


def main(arguments: Sequence[str]) -> int:
    """Pushes to a mirror of a project; returns the exit status."""
    parser = argparse.ArgumentParser(prog="perpetual_mirrors")
    parser.add_argument("project", type=Path)
    parser.add_argument("target")
    for flag in ("--answer", "--rebuild", "--dry-run"):
        parser.add_argument(flag, action="store_true")
    given = parser.parse_args(arguments)
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    answer: Mapping[str, object] | None
    try:
        with Lab.open(given.project, actor=ACTOR) as lab:
            lab.trust.require("pushing runs to a tracker")
            if given.answer:
                mirror = mirror_named(lab, given.target)
                answer = push_all(lab, given.target, mirror, rebuild=given.rebuild, dry_run=given.dry_run)
            else:
                return _background(lab, given.target)
    except PerpetualError as problem:
        answer = problem.document()
    with out:
        out.write(json.dumps(answer) + "\n")
    return 0


def _background(lab: Lab, target: str) -> int:
    """Pushes until nothing has come meanwhile: a scan that finds the lock taken relies on this last look."""
    while push_all(lab, target, mirror_named(lab, target), now=False) is not None:
        news = lab.feed.read(since=note_of(folder_of(lab), target).seq)
        if not any(map(is_of_interest, news)):
            break
    return 0
