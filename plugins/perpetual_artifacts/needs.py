"""Hands a run the artifacts of other runs that it needs: links in its folder `needs`, once their hashes were checked.

A link, not a copy: a checkpoint is large, and an evaluation of twenty replicates would keep it twenty times. What a run
writes through the link changes the original; the next run that needs it does not start, and this one is noted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from hashlib import file_digest
from pathlib import Path

from perpetual.api import RunEnd, RunStart
from perpetual.toolkit import confined
from perpetual.toolkit.run_folder import ARTIFACTS, NEEDS

__all__ = ["altered", "handed_over"]

_AGAIN = "put it back as it was and retry this run, or propose the experiment on artifacts of another"


def handed_over(start: RunStart) -> list[Mapping[str, object]] | str:
    """Makes the links and returns what was handed over; text says why an artifact cannot be."""
    found: list[Mapping[str, object]] = []
    for need in start.needs:
        name, run_id = str(need["artifact"]), str(need["run_id"])
        first, _, path = name.partition("/")
        source = start.folder.parent / run_id / ARTIFACTS / path
        try:
            with open(confined.open_file(source), "rb", buffering=0) as file:
                digest = file_digest(file, "sha256").hexdigest()
        except OSError as problem:
            return f"{name} of {run_id} cannot be read: {problem.strerror}; {_AGAIN}"
        if digest != need["sha256"]:
            was = str(need["sha256"])
            return f"{name} is not what {run_id} left: its SHA-256 is {digest[:16]}, and was {was[:16]}; {_AGAIN}"
        _link(start.folder / NEEDS / first / path, source)
        found.append(need)
    return found


def _link(link: Path, source: Path) -> None:
    confined.make_folder(link.parent)
    temporary = f"{link}.{os.urandom(4).hex()}"
    os.symlink(source, temporary)
    os.replace(temporary, link)  # of a launcher that died before, it may be there


def altered(end: RunEnd) -> Iterator[str]:
    """Yields what was changed while the run could write to it, in sentences; by size and time, not read again."""
    needs = end.facts.get("needs")
    for need in needs if isinstance(needs, list) else ():
        first, _, path = str(need["artifact"]).partition("/")
        try:
            there = os.stat(end.folder.parent / str(need["run_id"]) / ARTIFACTS / path)
            began = os.lstat(end.folder / NEEDS / first / path).st_mtime_ns
        except OSError:
            yield f"{need['artifact']}, which it needed, was removed while it ran"
            continue
        if there.st_size != need["size_bytes"] or there.st_mtime_ns > began:
            yield f"{need['artifact']}, which it needed, was changed while it ran"
