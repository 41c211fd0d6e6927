"""The path law: what is opened below `.perpetual`, and what is refused by name."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from perpetual.toolkit import confined
from perpetual.toolkit.confined import Confined, UnsafePath, check_folder, look, make_folder, open_file, read_bytes

as_root = pytest.mark.skipif(not hasattr(os, "setuid") or os.getuid() != 0, reason="gives files away")


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    folder = tmp_path / "p" / ".perpetual" / "runs" / "r1"
    folder.mkdir(parents=True)
    (folder / "stdout.log").write_bytes(b"said")
    (tmp_path / "secret").write_bytes(b"secret")
    return tmp_path / "p" / ".perpetual"


def test_a_file_is_read_and_written(inside: Path) -> None:
    log = inside / "runs" / "r1" / "stdout.log"
    assert read_bytes(log, limit=4) == Confined(inside).read_bytes("runs/r1/stdout.log", limit=9) == b"said"
    os.close(open_file(log, os.O_WRONLY | os.O_TRUNC))
    assert read_bytes(log) == b""
    os.close(Confined(inside).open("runs/r1/new", os.O_WRONLY | os.O_CREAT))
    assert (inside / "runs/r1/new").stat().st_mode & 0o777 == 0o600
    assert Confined(inside).check_folder("runs/r1")
    assert not check_folder(inside / "runs" / "r2")


def test_links_above_the_project_are_the_users_own(inside: Path, tmp_path: Path) -> None:
    (tmp_path / "other").symlink_to(tmp_path / "p")
    assert read_bytes(tmp_path / "other" / ".perpetual" / "runs" / "r1" / "stdout.log") == b"said"


@pytest.mark.parametrize("component", [".perpetual", ".perpetual/runs", ".perpetual/runs/r1", "stdout.log"])
def test_a_link_in_any_component_is_refused_by_name(inside: Path, tmp_path: Path, component: str) -> None:
    log = inside / "runs" / "r1" / "stdout.log"
    place = log if component == "stdout.log" else inside.parent / component
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    for flags in (os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
        with pytest.raises(UnsafePath, match="it is a link") as caught:
            open_file(log, flags)
        assert caught.value.filename == str(place)
        assert caught.value.errno == errno.ELOOP
    if place != log:
        with pytest.raises(UnsafePath, match="it is a link"):
            make_folder(log.parent / "sub")
    found = confined.explain(caught.value)
    assert found is not None
    assert (found.code, found.exit) == ("unsafe_path", 1)
    assert found.hint


def test_a_link_is_not_created_through(inside: Path, tmp_path: Path) -> None:
    (inside / "scaffold.lock").symlink_to(tmp_path / "new")
    with pytest.raises(UnsafePath):
        open_file(inside / "scaffold.lock", os.O_RDWR | os.O_CREAT)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY, os.O_RDWR])
@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_anything_but_a_file_is_refused_at_once(inside: Path, kind: str, flags: int) -> None:
    place = inside / "status.json"
    if kind == "pipe":
        os.mkfifo(place)
    else:
        place.mkdir()
    with pytest.raises(UnsafePath, match=r"status\.json: it is not a regular file"):
        open_file(place, flags)
    with pytest.raises(UnsafePath, match="not a regular file"):
        look(place)
    if kind == "pipe":
        with pytest.raises(UnsafePath, match="it is not a folder"):
            check_folder(place / "sub")


@pytest.mark.parametrize("name", ["../../secret", "runs/../../../secret", "/etc/passwd"])
def test_no_relative_path_leads_out(inside: Path, name: str) -> None:
    with pytest.raises(UnsafePath):
        Confined(inside).open(name)


def test_a_path_that_climbs_below_the_project_is_refused(inside: Path) -> None:
    with pytest.raises(UnsafePath, match="leads out"):
        open_file(f"{inside}/runs/../config.yaml")


def test_a_missing_file_is_just_missing(inside: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        open_file(inside / "nothing" / "here")
    assert caught.value.filename == str(inside / "nothing")
    assert look(inside / "nothing") is None
    make_folder(inside / "nothing" / "here")
    assert (inside / "nothing" / "here").is_dir()


def test_a_file_over_the_limit_is_refused(inside: Path) -> None:
    with pytest.raises(UnsafePath, match="more than 3 bytes"):
        read_bytes(inside / "runs" / "r1" / "stdout.log", limit=3)


def test_elsewhere_the_last_component_alone_is_held_to_it(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_text("x")
    (tmp_path / "way").symlink_to("real")
    (tmp_path / "link").symlink_to("real/file")
    assert read_bytes(tmp_path / "way" / "file") == b"x"
    with pytest.raises(UnsafePath):
        read_bytes(tmp_path / "link")


@as_root
def test_a_strangers_file_is_refused_until_its_owner_is_listed(inside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = inside / "runs" / "r1" / "stdout.log"
    os.chown(log, 65534, 65534)
    with pytest.raises(UnsafePath, match=r"another user \(uid 65534\)"):
        read_bytes(log)
    monkeypatch.setitem(confined.owners, str(inside), {65534})
    assert read_bytes(log) == b"said"


@as_root
def test_a_project_of_another_user_is_read_and_not_written(inside: Path) -> None:
    log = inside / "runs" / "r1" / "stdout.log"
    for path in (inside, log):
        os.chown(path, 65534, 65534)
    assert read_bytes(log) == b"said"
    with pytest.raises(UnsafePath, match="another user"):
        open_file(log, os.O_WRONLY)


def test_other_errors_keep_their_kind_and_are_explained(tmp_path: Path) -> None:
    found = confined.explain(PermissionError(errno.EACCES, "Permission denied", str(tmp_path)))
    assert found is not None
    assert found.message == f"{tmp_path}: Permission denied"
    assert confined.explain(OSError("no file")) is None
