"""Changing one value of a YAML file: nobody's change is lost, its rights and links stay, a refusal changes nothing."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from perpetual.errors import PerpetualError, TransientError
from perpetual.toolkit import confined, yamlfile
from perpetual.toolkit.foreign import check_yaml
from perpetual.toolkit.lock import FileLock


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "settings.yaml"
    path.write_text("# by a person\none: 1 # kept\n", "utf-8")
    return path


def test_changes_at_the_same_time_are_all_there(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reads only what the one before has written: all have read before one could write, if nobody waited."""
    everybody = threading.Barrier(4)
    read_bytes = confined.read_bytes

    def read(path: Path, *, limit: int) -> bytes:
        found = read_bytes(path, limit=limit)
        try:
            everybody.wait(0.05)  # without a lock all four meet here; under it this is only a pause
        except threading.BrokenBarrierError:
            everybody.reset()
        return found

    monkeypatch.setattr(confined, "read_bytes", read)
    names = ["a", "b", "c", "d"]
    threads = [threading.Thread(target=yamlfile.set_value, args=(file, (name,), 1)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    monkeypatch.undo()
    found = yamlfile.read_yaml(file)
    assert found is not None
    assert sorted(found) == [*names, "one"]
    assert file.read_text("utf-8").startswith("# by a person\none: 1 # kept\n")


def test_a_file_locked_by_another_process_is_a_transient_error(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yamlfile, "PATIENCE_S", 0.01)
    before = file.read_bytes()
    with (
        FileLock(file.with_name("settings.yaml.lock")),
        pytest.raises(TransientError, match="being changed by another process"),
    ):
        yamlfile.set_value(file, ("one",), 2)
    assert file.read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="rights and links of POSIX")
def test_rights_and_links_stay(file: Path, tmp_path: Path) -> None:
    file.chmod(0o664)
    link = tmp_path / "link.yaml"
    link.symlink_to(file.name)
    before = os.umask(0o077)
    try:
        yamlfile.set_value(link, ("one",), 2)
    finally:
        os.umask(before)
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o664
    assert yamlfile.read_yaml(file) == {"one": 2}


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(PerpetualError, match=r"gone.*settings\.yaml could not be written.*nothing was changed") as told:
        yamlfile.set_value(tmp_path / "gone" / "settings.yaml", ("one",), 1)
    assert told.value.code == "not_written"


def test_equal_texts_are_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parser is slow; and what one caller does with its values, no other sees."""
    parsed: list[str] = []

    def counted(text: str) -> None:
        parsed.append(text)
        check_yaml(text)

    monkeypatch.setattr("perpetual.toolkit.yamlfile.check_yaml", counted)
    text = f"# {tmp_path}\none: [1, 2.5, 'a', null, true]\n"
    places = [tmp_path / f"{number}.yaml" for number in range(3)]
    for place in places:
        place.write_text(text, "utf-8")
        found = yamlfile.read_yaml(place)
        assert found == {"one": [1, 2.5, "a", None, True]}
        found.clear()
    assert parsed == [text]
    places[0].write_text(text + "two: 2\n", "utf-8")
    changed = yamlfile.read_yaml(places[0])
    assert changed is not None
    assert changed["two"] == 2


@pytest.mark.parametrize(
    ("text", "keys", "left"),
    [
        ("a: |\n  text\n\n# c\nb: 2\n", ("a",), "\n# c\nb: 2\n"),
        ("x: 1\na:\n  - 1\n  # in\n  - 2\n# after\n", ("a",), "x: 1\n# after\n"),
        ("a: # note\n  c: 1 # d\n  e: 2\nb: 2\n", ("a", "c"), "a: # note\n  e: 2\nb: 2\n"),
        ("a: 1\r\nb: 2 # c\r\n# d\r\nc: 3\r\n", ("b",), "a: 1\r\n# d\r\nc: 3\r\n"),
        ("a: &x {q: 1}\nb: *x\n", ("a",), "b: {q: 1}\n"),
        ("5: {a: 1, c: 3}\nb: 2\n", ("5", "a"), "5: {c: 3}\nb: 2\n"),
        ("a: [1,\n  2]  # z\nb: 3\n", ("a",), "b: 3\n"),
        ("x:\n  a: {b: 1}\n# tail\n", ("x", "a", "b"), "# tail\n"),
        ("a:\n- 1\n# in\n- 2\n# after\nb: 2\n", ("a",), "# after\nb: 2\n"),
        ("a: |\n  one\n  # two\nb: 2\n", ("a",), "b: 2\n"),
        ("a: [\n  1\n]\nb: 2 # c\n", ("a",), "b: 2 # c\n"),
        ("x:\n  a: 1\n  # of b\n  b: 2\n", ("x", "a"), "x:\n  # of b\n  b: 2\n"),
    ],
)
def test_a_key_is_taken_out_and_the_other_lines_stay(
    tmp_path: Path, text: str, keys: tuple[str, ...], left: str
) -> None:
    path = tmp_path / "file.yaml"
    path.write_bytes(text.encode())
    assert yamlfile.remove_value(path, keys)
    assert path.read_bytes().decode() == left
    assert not yamlfile.remove_value(path, keys)
    assert not yamlfile.remove_value(tmp_path / "none.yaml", keys)
