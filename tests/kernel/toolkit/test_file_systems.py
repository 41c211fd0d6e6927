"""What can be told of a folder's file system without writing to it."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from perpetual.toolkit import filesystems

_MOUNTS = rb"""22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
30 27 0:25 / /home rw,relatime shared:7 master:2 - nfs4 server:/home rw,vers=4.2
31 30 0:26 / /home/ann/local\040disk rw - xfs /dev/sdb rw
32 27 0:27 / /mnt/a\134b\011c rw - fuse.sshfs host: rw
33 27 0:28 / /data rw - ext4 /dev/sdc rw
34 33 0:29 / /data rw - cifs //server/data rw
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/etc/passwd", "ext4"),
        ("/home", "nfs4"),
        ("/homes/ann", "ext4"),
        ("/home/ann/lab/.perpetual/not/yet/there", "nfs4"),
        ("/home/ann/local disk", "xfs"),
        ("/home/ann/local disk/lab", "xfs"),
        ("/home/ann/local", "nfs4"),
        ("/mnt/a\\b\tc/x", "fuse.sshfs"),
        ("/data/x", "cifs"),  # mounted over the other
    ],
)
def test_the_longest_mount_point_counts(monkeypatch: pytest.MonkeyPatch, path: str, kind: str) -> None:
    monkeypatch.setattr(filesystems, "open", lambda *given: io.BytesIO(_MOUNTS), raising=False)
    monkeypatch.setattr(os.path, "realpath", lambda path: path)
    assert filesystems.file_system(path) == kind


def test_the_file_system_of_a_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform == "linux":
        assert filesystems.file_system("/proc/self") == "proc"
        (tmp_path / "link").symlink_to("/proc")
        assert filesystems.file_system(tmp_path / "link" / "self") == "proc"
        assert filesystems.file_system(tmp_path / "not yet" / "there") == filesystems.file_system(tmp_path) is not None

    def absent(*given: Any) -> Any:
        raise FileNotFoundError

    monkeypatch.setattr(filesystems, "open", absent, raising=False)
    assert filesystems.file_system(tmp_path) is None


@pytest.mark.parametrize(
    ("kind", "network"),
    [
        ("ext4", False), ("xfs", False), ("btrfs", False), ("zfs", False), ("tmpfs", False), ("overlay", False),
        ("fuseblk", False), ("nfs", True), ("nfs4", True), ("cifs", True), ("smb3", True), ("9p", True),
        ("lustre", True), ("ceph", True), ("virtiofs", True), ("fuse", True), ("fuse.sshfs", True),
        ("fuse.anything", True), ("fusectl", False),
    ],
)  # fmt: skip
def test_network_file_systems_are_known(kind: str, network: bool) -> None:
    assert filesystems.is_network(kind) is network


def test_a_folder_that_knows_case(tmp_path: Path) -> None:
    """Told from the names that are there; nothing is written to find out."""
    assert filesystems.is_case_insensitive(tmp_path) is None
    assert filesystems.is_case_insensitive(tmp_path / "absent") is None
    (tmp_path / "123").touch()
    (tmp_path / "straße").touch()
    assert filesystems.is_case_insensitive(tmp_path) is None  # in capitals this name is another one in small letters
    (tmp_path / "Note.md").touch()
    has_case = not (tmp_path / "nOTE.MD").exists()
    assert filesystems.is_case_insensitive(tmp_path) is (not has_case)
    assert sorted(os.listdir(tmp_path)) == ["123", "Note.md", "straße"]


def test_a_folder_that_knows_no_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Note.md").touch()
    seen = os.path.samefile
    # A file system that folds case: any spelling is the file.
    monkeypatch.setattr(
        os.path, "samefile", lambda one, other: seen(one, tmp_path / "Note.md" if "nOTE" in str(other) else other)
    )
    assert filesystems.is_case_insensitive(tmp_path) is True
    monkeypatch.undo()
    if not (tmp_path / "nOTE.MD").exists():
        (tmp_path / "nOTE.MD").touch()  # both are there
        assert filesystems.is_case_insensitive(tmp_path) is None
