"""The user's state folder: made private, drawn once, and refused by name where it cannot be used."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from perpetual.errors import PerpetualError
from perpetual.toolkit import user_state


def test_the_variable_moves_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(user_state.VARIABLE)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert user_state.folder() == tmp_path / "xdg" / "perpetual"
    monkeypatch.setenv(user_state.VARIABLE, str(tmp_path / "own"))
    assert user_state.folder() == tmp_path / "own"
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700


def test_place_and_secret_are_drawn_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(user_state.VARIABLE, str(tmp_path / "own"))
    with ThreadPoolExecutor(8) as pool:
        secrets = {pool.submit(user_state.secret).result() for _ in range(8)}
    assert len(secrets) == 1
    assert len(secrets.pop()) == 32
    assert user_state.place() == user_state.place()
    assert (tmp_path / "own" / "secret").stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv(user_state.VARIABLE, str(tmp_path / "other"))
    assert user_state.place() != (tmp_path / "own" / "place").read_text()


def test_a_draw_that_was_cut_off_is_drawn_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(user_state.VARIABLE, str(tmp_path))
    tmp_path.chmod(0o700)
    (tmp_path / "secret").write_text("abc")
    assert len(user_state.secret()) == 32
    assert user_state.secret() == user_state.secret()


def test_a_folder_that_others_may_write_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(user_state.VARIABLE, str(tmp_path / "own"))
    (tmp_path / "own").mkdir()
    os.chmod(tmp_path / "own", 0o777)
    with pytest.raises(PerpetualError) as caught:
        user_state.folder()
    assert caught.value.code == "state_not_writable"
    assert user_state.VARIABLE in str(caught.value.hint)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(user_state.VARIABLE, str(tmp_path / "file" / "state"))
    with pytest.raises(PerpetualError) as caught:
        user_state.secret()
    assert caught.value.code == "state_not_writable"


def test_looking_for_what_was_drawn_draws_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(user_state.VARIABLE, str(tmp_path / "own"))
    assert (user_state.drawn_place(), user_state.drawn_secret()) == (None, None)
    assert not (tmp_path / "own").exists()
    assert (user_state.place(), user_state.secret()) == (user_state.drawn_place(), user_state.drawn_secret())
