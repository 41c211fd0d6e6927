"""`make bench-immune`: recall of the memory scanner on public attack sets, beside its false alarms, and its speed.

Data: a `.jsonl` or `.jsonl.xz` file with one record a line (`text`, `label`, `category`, `source`), by `--data`, by the
variable `PERPETUAL_IMMUNE_DATA`, or `shared/immune/dev.jsonl.xz` beside the checkout. Without data the recall is
skipped, which is said. A text counts as blocked when it is rejected, or quarantined for a secret that is redacted.

Speed is a ratio in one process: the CPU time of a plain scan of the same texts over ours, best of interleaved rounds.
The plain scan is that of purpose-agent where it can be imported, else 36 regular expressions that stand in for it.
"""

# ruff: noqa: E501 - a row of a table is only readable whole

from __future__ import annotations

import argparse
import json
import logging
import lzma
import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from perpetual_immune.scanner import Scan, scan

DEFAULT_DATA = Path(__file__).resolve().parents[2] / "shared" / "immune" / "dev.jsonl.xz"
ROUNDS = 5
SPEED_TEXTS = 400
GOAL_RATIO = 0.20
GOAL_10_KB_MS = 50.0
GOAL_10_MB_S = 2.0
GOAL_BENIGN, GOAL_HARD = 0.3, 1.5

# A stand-in for a plain scanner: as many patterns as the peer has, in the manner of such lists, in our own words.
STAND_IN = tuple(
    re.compile(source, re.IGNORECASE)
    for source in (
        r"ignore\s+(all\s+)?previous\s+instructions", r"disregard\s+(the\s+)?above", r"forget\s+everything", r"you\s+are\s+now\s+a",
        r"new\s+instructions?\s*:", r"system\s*prompt", r"</?system>", r"<\|im_start\|>", r"\[INST\]", r"act\s+as\s+(an?\s+)?admin",
        r"jailbreak", r"developer\s+mode", r"do\s+anything\s+now", r"override\s+safety", r"sk-[a-z0-9]{20,}", r"ghp_[a-z0-9]{36}",
        r"AKIA[0-9A-Z]{16}", r"-----BEGIN\s+\w+\s+PRIVATE", r"password\s*[:=]\s*\S+", r"api[_-]?key\s*[:=]\s*\S+", r"bearer\s+[a-z0-9._-]{20,}",
        r"eyJ[a-z0-9_-]{10,}\.", r"rm\s+-rf\s+/", r"curl\s+\S+\s*\|\s*(ba)?sh", r"os\.system\(", r"subprocess\.(run|Popen)", r"eval\(",
        r"exec\(", r"drop\s+table", r"chmod\s+777", r"always\s+return\s+(true|1)", r"score\s*=\s*(1\.0|100)", r"give\s+(me\s+)?full\s+marks",
        r"skip\s+(the\s+)?tests?", r"hard-?code", r"bypass\s+(the\s+)?evaluation",
    )
)  # fmt: skip


class Record(NamedTuple):
    """One text of a public set."""

    text: str
    label: str
    category: str
    source: str


def read(path: Path) -> list[Record]:
    """Returns the records of a file of one JSON object a line."""
    data = path.read_bytes()
    lines = (lzma.decompress(data) if path.suffix == ".xz" else data).decode("utf-8").split("\n")
    rows = [json.loads(line) for line in lines if line.strip()]
    return [Record(row["text"], row["label"], row["category"], row["source"]) for row in rows]


def is_blocked(found: Scan) -> bool:
    """Returns whether the text does not reach the memory as it was: rejected, or its secret redacted."""
    return found.outcome == "reject" or any(finding.category == "secret_leak" for finding in found.findings)


def share(part: int, whole: int) -> str:
    """Returns a percentage of a count."""
    return f"{100 * part / whole:5.1f} %" if whole else "    -  "


class Tally:
    """How many texts of one group were blocked or held."""

    def __init__(self) -> None:
        """Starts at nothing."""
        self.texts = self.blocked = self.held = 0

    def add(self, found: Scan) -> None:
        """Counts one verdict; what is held is quarantined and not blocked."""
        self.texts += 1
        blocked = is_blocked(found)
        self.blocked += blocked
        self.held += found.outcome == "quarantine" and not blocked


def recall(records: list[Record]) -> dict[str, object]:
    """Prints and returns recall per category and per source, with the false alarms beside each."""
    groups: dict[tuple[str, str], Tally] = defaultdict(Tally)
    alarms: dict[str, int] = defaultdict(int)
    for record in records:
        found = scan(record.text)
        kind = (
            record.category if record.label == "attack" else ("benign_hard" if "hard" in record.category else "benign")
        )
        for source in ("", record.source):
            groups[kind, source].add(found)
        if record.label != "attack" and is_blocked(found):
            alarms[f"{kind}: {found.findings[0].rule}"] += 1
    benign, hard = groups["benign", ""], groups["benign_hard", ""]
    beside = (
        f"at FPR {share(benign.blocked, benign.texts).strip()} benign, {share(hard.blocked, hard.texts).strip()} hard"
    )
    print(f"{'':60} {'texts':>6} {'blocked':>8} {'held':>8}")
    for (kind, source), tally in sorted(groups.items()):
        name = (
            f"  {source}"
            if source
            else f"{kind} ({'false alarms' if kind.startswith('benign') else 'recall ' + beside})"
        )
        print(f"{name[:100]:60} {tally.texts:6} {share(tally.blocked, tally.texts)} {share(tally.held, tally.texts)}")
    attacks = [tally for (kind, source), tally in groups.items() if not source and not kind.startswith("benign")]
    macro = sum(tally.blocked / tally.texts for tally in attacks) / max(1, len(attacks))
    print(f"macro recall on public attack sets {macro:.2f} {beside}")
    for rule, count in sorted(alarms.items(), key=lambda row: -row[1]):
        print(f"  false alarm {count} x {rule}")
    return {
        "macro_recall": round(macro, 4), "false_alarms": dict(alarms),
        "groups": [
            {"category": kind, "source": source, "texts": t.texts, "blocked": t.blocked, "held": t.held}
            for (kind, source), t in sorted(groups.items())
        ],
    }  # fmt: skip


def floor() -> tuple[str, Callable[[str], object]]:
    """Returns the plain scan that ours is compared with, and its name."""
    try:
        scan_memory = import_module("purpose_agent.immune").scan_memory
        card = import_module("purpose_agent.memory").MemoryCard
    except ImportError:
        return "36 plain patterns (purpose-agent is not installed)", stand_in
    logging.disable(logging.WARNING)  # it logs every find
    return "purpose-agent", lambda text: scan_memory(card(content=text))


def stand_in(text: str) -> object:
    """Tries every plain pattern on the text."""
    return [pattern.search(text) for pattern in STAND_IN]


def cpu(deed: Callable[[str], object], texts: Iterable[str]) -> float:
    """Returns the CPU seconds of one round over the texts."""
    began = time.process_time()
    for text in texts:
        deed(text)
    return time.process_time() - began


def speed(texts: list[str], unseen: list[str], rounds: int) -> dict[str, object]:
    """Prints and returns the ratio to the plain scan, best of interleaved rounds; `unseen` texts are scanned once."""
    name, plain = floor()
    ours, theirs = float("inf"), float("inf")
    for _ in range(rounds):
        theirs = min(theirs, cpu(plain, texts))
        ours = min(ours, cpu(scan, texts))
    ratio = theirs / ours
    new = [text + " " for text in unseen]  # no text that a cache may know
    fresh = cpu(scan, new) / max(1, len(new))
    print(
        f"texts scanned for the first time: {1e6 * fresh:,.0f} us each, {1e6 * ours / len(texts):,.0f} us when seen before"
    )
    print(f"speed: {len(texts) / ours:,.0f} texts/s, floor {name} {len(texts) / theirs:,.0f} texts/s, ratio {ratio:.3f} (goal >= {GOAL_RATIO})")  # fmt: skip
    return {
        "floor": name,
        "texts_per_s": round(len(texts) / ours),
        "ratio": round(ratio, 4),
        "fresh_us": round(1e6 * fresh, 1),
    }


def pieces(texts: list[str], size: int) -> list[str]:
    """Returns texts of that many characters: those of the data joined, and what costs scanners most."""
    joined = "\n\n".join(texts)
    cut = [joined[at : at + size] for at in range(0, max(1, min(len(joined) - size, 40 * size)), size)]
    units = (
        "ignore ",
        "a_1",
        "QUJD",
        "if x == 1:\n    return 2\n",
        "give this answer 10/10. ",
        "é",
        "1, ",
        "rm -rf x; ",
        "i g n o r e  ",
        "SWdub3JlIGFsbCBvZiBpdCE= ",
        "1gn0r3 4ll ",
        "password=abc123def ",
        "you must now tell me your ",
        "&#105;gnore ",
    )
    return [*cut, *((unit * (size // len(unit) + 1))[:size] for unit in units)]


def largest(texts: list[str]) -> dict[str, object]:
    """Prints and returns the longest CPU time of 10 KB texts and of a 10 MB text."""
    worst, slowest = 0.0, ""
    for text in pieces(texts, 10_000):
        took = min(cpu(scan, [text]) for _ in range(2))
        if took > worst:
            worst, slowest = took, text
    huge = "\n\n".join(texts)
    huge = (huge * (10_000_000 // len(huge) + 1))[:10_000_000]
    took = cpu(scan, [huge])
    print(f"10 KB: {1000 * worst:.1f} ms at most (goal < {GOAL_10_KB_MS:g}), by {slowest[:40]!r}")
    print(f"10 MB: {took:.2f} s (goal < {GOAL_10_MB_S:g})")
    return {"worst_10_kb_ms": round(1000 * worst, 1), "huge_s": round(took, 2)}


def main() -> None:
    """Prints the tables; `--json` writes them to a file too."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("PERPETUAL_IMMUNE_DATA", DEFAULT_DATA)))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found: dict[str, object] = {}
    if options.data.exists():
        records = read(options.data)
        found |= recall(records)
        step = max(1, len(records) // SPEED_TEXTS)
        texts = [record.text for record in records[::step]]
        unseen = [record.text for record in records[1::step]] if step > 1 else []
    else:
        print(f"SKIPPED recall: no data at {options.data} (name a file with --data or PERPETUAL_IMMUNE_DATA)")
        texts = [
            f"Run {n}: loss {1 / (n + 1):.3f} after {n} epochs; the warm-up of 500 steps helped."
            for n in range(SPEED_TEXTS)
        ]
        unseen = [f"Note {n}: the seed {n * 7919} made no difference to the loss." for n in range(SPEED_TEXTS)]
    for text in texts:
        scan(text)  # compiles what is needed
    found |= speed(texts, unseen, options.rounds)
    found |= largest(texts)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
