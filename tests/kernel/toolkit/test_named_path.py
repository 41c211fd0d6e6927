"""Paths as people name them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from perpetual import Lab
from perpetual.config import find_project
from perpetual.errors import UsageError
from perpetual.toolkit.named_path import named_path


def test_a_tilde_is_expanded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert named_path("~/a") == named_path("a") == tmp_path / "a"


def test_a_project_is_created_where_it_is_opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with Lab.init("~/project") as lab:
        assert lab.root == tmp_path / "home" / "project"


@pytest.mark.parametrize("named", ["~nobody-of-this-name/a", "a\0b"])
@pytest.mark.parametrize("deed", [named_path, lambda named: find_project(explicit=named), Lab.open, Lab.init])
def test_an_impossible_path_is_a_usage_error(named: str, deed: Callable[[str], object]) -> None:
    with pytest.raises(UsageError, match=r"there is no user '~|holds a NUL"):
        deed(named)


def test_what_is_no_text_is_no_path() -> None:
    with pytest.raises(UsageError, match="5 is no path"):
        named_path(cast("str", 5))  # as a caller without types may
