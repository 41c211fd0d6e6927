"""Secrets in a note's text, message, author or path: none is in any object of the memory, nor ever was."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import pytest

from perpetual import Lab
from perpetual.errors import PerpetualError
from perpetual_git.repository import NoteRepository

SECRETS = {
    "github": "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "openai": "sk-proj-0123456789abcdefghijABCDEFGHIJ0123456789abcdefghijABCDEFGHIJ",
    "aws": "AKIAZQ3DXMP7TBN5WLKC",
    "slack": "xoxb-123456789012-1234567890123-abcdefABCDEF0123456789ab",
    "url": "postgres://admin:hunter2hunter2@db.internal.example.org:5432/main",
    "key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAu1SU1LfVLPHCozMxH2Mo4lgOEePzNm0tRgeLezV6ffAt0gun\n"
    "-----END RSA PRIVATE KEY-----",
}


def objects(memory: Path) -> bytes:
    """The content of every object, reachable or not."""
    return b"\n".join(zlib.decompress(path.read_bytes()) for path in memory.glob("objects/??/*"))


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_never_reaches_git(project: Path, name: str) -> None:
    secret = SECRETS[name]
    core = secret.splitlines()[1] if "\n" in secret else secret.removeprefix("postgres://admin:").partition("@")[0]
    said: list[str] = []
    with Lab.open(project) as lab:
        lab.memory.write("notes/clean", "a clean note")
        for number, (text, message) in enumerate([(f"use {secret} here", "m"), ("a text", f"with {secret}")]):
            try:
                lab.memory.write(f"notes/{number}", text, message=message)
            except PerpetualError as problem:
                said.append(json.dumps([problem.message, problem.data, problem.hint]))
        lab.scan()
        lab.storage.export_file(project / "record.jsonl")
        assert core not in repr([lab.events(), lab.memory.list().items, lab.status(), said])
    memory = project / ".perpetual" / "memory.git"
    assert core.encode() not in objects(memory)
    assert core not in (project / "record.jsonl").read_text("utf-8")
    with NoteRepository.open(memory) as notes:
        assert [path for path, _ in notes.listing()][-1] == "notes/clean.md"


def test_a_path_that_holds_a_secret_is_refused(project: Path) -> None:
    with Lab.open(project) as lab:
        with pytest.raises(PerpetualError) as refused:
            lab.memory.write(f"notes/{SECRETS['github']}", "a text")
        assert SECRETS["github"] not in refused.value.message
        assert lab.memory.list().items == ()
