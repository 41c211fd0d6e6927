"""Symptoms: what the last lines of an unsuccessful run's logs say of its end, and ways out. Words for people.

How a run ended is what its exit record says; a symptom is the line of its output that explains it. Used by the
analyser `rules`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from perpetual.api import Redactor, Run, RunOutput, Symptom
from perpetual.toolkit.causes import ERROR
from perpetual.toolkit.confined import open_file

__all__ = ["HINTS", "RULES", "hint_of", "last_error", "read", "seen_in", "symptoms_of"]

TAIL_BYTES = 64 * 1024
COUNTED_BYTES = 128 * 2**20  # beyond it the line's number is left out: a scan must not read a whole disk
_PIECE_BYTES = 2**20
_EXCERPT = 300  # characters of a line
_AROUND = 8192  # characters before and after it: more than a private key has
_LINE = re.compile(r"[^\r\n]+")
_ERROR_LINE = re.compile(r"\s{0,40}[\w.]{0,120}(?:Error|Exception|Interrupt|[Ff]atal|FATAL|ERROR|error|panic)\b")


class Rule(NamedTuple):
    """The words that well-known programs use for one kind of trouble."""

    kind: str
    stems: tuple[str, ...]  # in small letters; a text that has none of them is not searched
    words: re.Pattern[str]  # bounded, for lines may be long


RULES: tuple[Rule, ...] = (
    Rule(
        "oom",
        ("memor", "oom", "bad_alloc"),
        re.compile(
            r"(?:\b_?(?:Array)?|OutOf)MemoryError\b|(?:CUDA|HIP) out of memory|CUDA error: out of memory|"
            r"CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|RESOURCE_EXHAUSTED: Out of memory|"
            r"OOM when allocating tensor|can't allocate memory|Cannot allocate memory|"
            r"std::bad_alloc|oom[-_]kill|Out of memory: Killed process"
        ),
    ),
    Rule("shm", ("shared memory",), re.compile(r"insufficient shared memory \(shm\)")),
    Rule("disk", ("no space", "quota"), re.compile(r"No space left on device|Disk quota exceeded")),
    Rule(
        "import",
        ("importerror", "modulenotfound"),
        re.compile(
            r"ModuleNotFoundError: No module named|ImportError: cannot import name|"
            r"ImportError: .{1,200}: cannot open shared object file"
        ),
    ),
    Rule(
        "nccl",
        ("nccl",),
        re.compile(
            r"NCCL timeout|Watchdog caught collective operation timeout|NCCL error|"
            r"ncclSystemError|ncclUnhandledCudaError|ncclRemoteError"
        ),
    ),
    Rule(
        "cuda",
        ("cuda",),
        re.compile(r"CUDA error: (?!out of memory)|No CUDA GPUs are available|CUDA driver version is insufficient"),
    ),
    Rule(
        "crash",
        ("fault", "bus error", "core dumped", "fatal python"),
        re.compile(r"Segmentation fault|Bus error|core dumped|Fatal Python error"),
    ),
    Rule(
        "killed",
        ("killed",),
        re.compile(r"\b[Kk]illed(?:[ \t]{2,}\S|[ \t\r]*$)|is killed by signal: Killed", re.MULTILINE),
    ),
    Rule("nan", ("nan",), re.compile(r"loss\b.{0,24}\bnan\b|\bnan\b.{0,24}loss\b", re.IGNORECASE)),
)

HINTS: dict[str, str] = {
    "oom": "a smaller batch or model; on a GPU that others share, declare the memory it needs: propose --gpu-memory",
    "killed": "something ended a process by SIGKILL: often the kernel, when the machine's memory was used up",
    "shm": "fewer data-loader workers, or a larger /dev/shm",
    "disk": "make room on the disk that it writes to, then: perpetual retry {run}",
    "import": "install what it imports where its interpreter looks, then: perpetual retry {run}",
    "nccl": "look at the other ranks' logs first: one that died leaves the others waiting",
    "cuda": "the device or its driver refused: perpetual gpu-status",
    "crash": "a native library crashed: python -X faulthandler shows where",
    "nan": "the loss was not a number: a smaller step, or gradient clipping",
}

_LINE_ENDS = ("\n", "\r")  # progress bars rewrite their line


def seen_in(output: RunOutput) -> list[Symptom]:
    """Returns the symptoms of a run's output; where it failed, its last error line too."""
    found = symptoms_of(output.redactor, [output.stderr, output.stdout])
    error = last_error(output.redactor, output.stderr) if output.status == "failed" else None
    return [*found, error] if error is not None else found


def hint_of(kind: str, run: Run) -> str | None:
    """Returns a way out of a symptom, None for a kind that has none."""
    hint = HINTS.get(kind)
    return None if hint is None else hint.format(run=run.id)


def symptoms_of(redactor: Redactor, logs: Iterable[Path], *, counted_bytes: int = COUNTED_BYTES) -> list[Symptom]:
    """Returns the last line of each kind, of the first log that has one, in the order of the rules."""
    found: dict[str, Symptom] = {}
    for log in logs:
        found = read(redactor, log, counted_bytes=counted_bytes) | found
    return [found[rule.kind] for rule in RULES if rule.kind in found]


def last_error(redactor: Redactor, stderr: Path) -> Symptom | None:
    """Returns the last line of standard error that names an error, else its last line; None where there is none."""
    found = _tail(stderr)
    if found is None:
        return None
    text, before = found
    lines = [(at.start(), at[0]) for at in _LINE.finditer(text) if at[0].strip()]
    named = [line for line in lines if _ERROR_LINE.match(line[1])]
    if not lines:
        return None
    return _symptom(redactor, ERROR, stderr.name, text, (named or lines)[-1][0], before)


def _tail(log: Path) -> tuple[str, int | None] | None:
    """Returns the end of a log, and how many lines come before it; None if it cannot be read."""
    try:
        descriptor = open_file(log)
    except OSError:
        return None
    try:
        begin = max(0, os.fstat(descriptor).st_size - TAIL_BYTES)
        text = os.pread(descriptor, TAIL_BYTES, begin).decode("utf-8", "replace")
        return text, _lines_before(descriptor, begin)
    finally:
        os.close(descriptor)


def read(redactor: Redactor, log: Path, *, counted_bytes: int = COUNTED_BYTES) -> dict[str, Symptom]:
    """Returns the symptoms of a log's last 64 KiB by kind; none if it cannot be read.

    Lines are counted where at most `counted_bytes` come before that end.
    """
    try:
        # A run may have put a pipe in the log's place, or a link to what is not its own.
        descriptor = open_file(log)
    except OSError:
        return {}
    try:
        facts = os.fstat(descriptor)
        begin = max(0, facts.st_size - TAIL_BYTES)
        text = os.pread(descriptor, TAIL_BYTES, begin).decode("utf-8", "replace")
        small = text.lower()
        hits = {
            rule.kind: match.start()
            for rule in RULES
            if any(stem in small for stem in rule.stems)
            for match in rule.words.finditer(text)  # the last one stays
        }
        before = _lines_before(descriptor, begin, counted_bytes) if hits else None
    finally:
        os.close(descriptor)
    return {kind: _symptom(redactor, kind, log.name, text, at, before) for kind, at in hits.items()}


def _lines_before(descriptor: int, end: int, counted_bytes: int = COUNTED_BYTES) -> int | None:
    """Counts the lines that end before that byte; None if that is too far in to be counted."""
    if end > counted_bytes:
        return None
    return sum(os.pread(descriptor, min(_PIECE_BYTES, end - at), at).count(b"\n") for at in range(0, end, _PIECE_BYTES))


def _symptom(redactor: Redactor, kind: str, name: str, text: str, at: int, before: int | None) -> Symptom:
    begin = 1 + max(text.rfind(mark, 0, at + 1) for mark in _LINE_ENDS)
    end = min(found if (found := text.find(mark, at + 1)) >= 0 else len(text) for mark in _LINE_ENDS)
    if at - begin > _EXCERPT // 2:
        begin = at - _EXCERPT // 2
    # With what surrounds it: half a token has no form, nor has a line out of a key.
    first = max(0, begin - _AROUND)
    shown = redactor.part(text[first : end + _AROUND], begin - first, end - first).strip()
    line = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in shown)
    number = None if before is None else before + text.count("\n", 0, at + 1) + 1
    return Symptom(kind, line[:_EXCERPT], name if number is None else f"{name}:{number}")
