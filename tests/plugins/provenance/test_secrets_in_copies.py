"""The copies of code that are kept beside a run hold no secret."""

from __future__ import annotations

import random
import string
import subprocess
from pathlib import Path

import pytest

from perpetual.api import MASK
from perpetual.testing.redactors import bundled_redactor
from perpetual_provenance.git_snapshot import capture_code
from perpetual_provenance.patches import without_secrets
from perpetual_provenance.secret_files import names_secret


def _drawn(number: int, length: int = 36) -> str:
    return "".join(random.Random(number).choices(string.ascii_letters + string.digits, k=length))


def _token(number: int) -> str:
    return "ghp_" + _drawn(number)


def _files_with(folder: Path, secret: str) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [str(path.relative_to(folder)) for path in files if secret.encode() in path.read_bytes()]


def _git(folder: Path, *words: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True, capture_output=True
    )


def test_copies_of_code_hold_no_secret(tmp_path: Path) -> None:
    code, place = tmp_path / "code", tmp_path / "place"
    code.mkdir()
    place.mkdir()
    pem = "-----BEGIN PRIVATE KEY-----\n" + "\n".join(_drawn(n, 64) for n in range(3)) + "\n-----END PRIVATE KEY-----\n"
    (code / "train.py").write_text("a = 1\nb = 2\n")
    (code / ".env").write_text("X=1\n")
    (code / "plain.py").write_text("c = 3\n")
    _git(code, "init", "-q")
    _git(code, "add", "-A")
    _git(code, "commit", "-qm", "first")
    (code / "train.py").write_text(f"a = 1\nkey = '{_token(40)}'\nb = 2\n")
    (code / ".env").write_text("X=s3cr3tvalue\n")
    (code / "plain.py").write_text("c = 4\n")
    (code / "id_ed25519").write_text(pem)
    (code / "notes.txt").write_text(f"look:\n{pem}")
    (code / "run.sh").write_text(f"export WANDB_API_KEY={_drawn(41, 40)}\n./train\n")
    found = capture_code(code, place, bundled_redactor())
    for secret in (_token(40), "s3cr3tvalue", _drawn(1, 64), _drawn(41, 40)):
        assert not _files_with(place, secret), secret
    document = found.document
    assert (document["patch_left_out"], document["patch_redacted"]) == ([".env"], ["train.py"])
    entries = {entry["path"]: entry for entry in document["untracked"]}
    assert entries["id_ed25519"]["why"] == entries["notes.txt"]["why"] == "not copied: may hold a secret"
    assert not entries["notes.txt"]["kept"]
    assert (entries["run.sh"]["kept"], entries["run.sh"]["redacted"]) == (True, True)
    assert (place / "untracked" / "run.sh").read_text().endswith("\n./train\n")
    assert any(".env" in problem for problem in found.problems)
    assert any("train.py" in problem for problem in found.problems)
    patch = (place / "code.patch").read_bytes()
    assert b"+c = 4" in patch
    _git(code, "stash", "-u", "-q")
    _git(code, "apply", str(place / "code.patch"))  # masked lines that were added still apply
    assert MASK in (code / "train.py").read_text()


def test_a_key_of_several_lines_leaves_as_many_lines_in_a_patch() -> None:
    lines = "\n".join(f"+{_drawn(n, 64)}" for n in range(3))
    section = (
        f"diff --git a/x.txt b/x.txt\n--- a/x.txt\n+++ b/x.txt\n@@ -1 +1,4 @@\n a\n+token = {_token(50)}\n+b\n{lines}\n"
    )
    kept = without_secrets(bundled_redactor(), section.encode())
    assert kept.redacted == ["x.txt"]
    assert kept.patch.count(b"\n") == section.count("\n")
    assert b"ghp_" not in kept.patch


@pytest.mark.parametrize(
    "path",
    [".env", "conf/.env.local", ".ssh/config", "id_ed25519", "keys/id_rsa.old", "server.pem", "a.key", "credentials",
     ".netrc", ".kube/config", ".npmrc", ".pypirc", "gcp-service-account.json", "client_secret_1.json",
     "credentials.json", ".aws/x"],
)  # fmt: skip
def test_a_secret_file_is_known_by_its_name(path: str) -> None:
    assert names_secret(path)


@pytest.mark.parametrize(
    "path", ["train.py", "secrets.py", "token.py", "id_rsa.pub", ".env.example", "conf.yaml", "tokens.md"]
)
def test_an_ordinary_file_is_not_taken_for_a_secret(path: str) -> None:
    assert not names_secret(path)
