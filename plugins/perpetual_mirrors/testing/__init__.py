"""The contract suite of mirrors: the promises of `perpetual_mirrors.base` as tests.

    class TestAcme(MirrorContract):
        @pytest.fixture
        def mirror(self):
            return acme.mirror.build({})

The suite opens the mirror itself, in a folder of its own, and lets it contact nothing but this machine.
"""

from __future__ import annotations

import contextlib
import copy
import math
import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from perpetual_mirrors.base import Mirror, MirroredCurve, MirroredRun

__all__ = ["MirrorContract", "example"]

_BEGAN_S = 1_790_000_000.0
_LOCAL = ("127.", "::1", "localhost", "/", "\0")


def example(number: int = 1, *, points: int = 20, **changes: object) -> MirroredRun:
    """Returns a run with two curves, a metric without a curve, parameters and a claim."""
    steps = range(points)
    times = [_BEGAN_S + step for step in steps]
    curves = {
        "val_loss": MirroredCurve("step", [*steps], [2 / (1 + step) for step in steps], times),
        "acc": MirroredCurve("epoch", [*steps], [step / points for step in steps], times),
    }
    made = MirroredRun(
        key=f"0123456789abcdef-r{number}", project="mirror contract", run=f"r{number}", experiment="e1",
        title="warm-up helps", status="done", started_s=_BEGAN_S, ended_s=_BEGAN_S + points, tags=["base"],
        parameters={"lr": 0.1, "layers": 3, "name": "adam", "amsgrad": True},
        facts={"seed": 7 * number, "git_commit": "0" * 40, "tainted": False, "duration_s": float(points)},
        metrics={"val_loss": 2 / points, "acc": (points - 1) / points, "size": 12.5}, curves=curves,
        claim="h1 is open as of 2 rows of evidence: warm-up helps", notes=["acc: 1 value not finite, left out"],
    )  # fmt: skip
    return replace(made, **changes)  # type: ignore[arg-type]


def hostile() -> MirroredRun:
    """Returns a run whose names, texts and numbers are as bad as a program may make them."""
    bad = [
        "../../out",
        "/abs/olute",
        "a b\u2028c",
        "_step",
        "step",
        "run",
        "ünï ☃",
        "x" * 400,
        ".",
        "a=b;c'\"`$(id)",
        "",
    ]
    curve = MirroredCurve("epoch", [-2, 0, 2**40], [1e300, -1e-300, 0.0], [_BEGAN_S] * 3)
    return example(
        99,
        title="</script><b>" + "t" * 500,
        tags=["x" * 300, "a,b", "ünï ☃"],
        parameters={**dict.fromkeys(bad, "v" * 3000), **{f"p{n}": n for n in range(150)}, "big": 2**52},
        curves=dict.fromkeys(bad, curve),
        metrics={"final only": -1.0, **dict.fromkeys(bad, 0.5)},
        claim="c" * 4000,
        status="failed",
    )


class MirrorContract:
    """For every mirror; see the module."""

    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Returns the mirror's folder; the working directory and the home are beside it."""
        for name in ("mirror", "home", "cwd"):
            (tmp_path / name).mkdir()
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.chdir(tmp_path / "cwd")
        return tmp_path / "mirror"

    @pytest.fixture
    def opened(self, mirror: Mirror, folder: Path) -> Iterator[Mirror]:
        """Yields the mirror, open; its changes of the environment are taken back."""
        before = dict(os.environ)
        try:
            mirror.open(folder)
            yield mirror
        finally:
            mirror.close()
            os.environ.clear()
            os.environ.update(before)

    def test_a_pushed_run_is_held(self, opened: Mirror, folder: Path) -> None:
        """By its key, and still after the mirror was closed and opened again."""
        opened.push(example(1))
        opened.push(example(2))
        assert sorted(opened.keys()) == [example(1).key, example(2).key]
        opened.close()
        opened.open(folder)
        assert sorted(opened.keys()) == [example(1).key, example(2).key], "a run is gone once the mirror was closed"

    def test_a_repeated_push_makes_no_second_run(self, opened: Mirror) -> None:
        """As after a crash, when it is not known whether the run had arrived."""
        for _ in range(2):
            opened.push(example(1))
        assert [*opened.keys()] == [example(1).key]

    def test_a_changed_run_takes_its_own_place(self, opened: Mirror) -> None:
        """Also where parameters, numbers and its title differ, which some trackers never change."""
        opened.push(example(1))
        changed = example(1, points=25, title="another", parameters={"lr": 0.2}, status="failed", tags=["tainted"])
        opened.push(changed)
        assert [*opened.keys()] == [changed.key]

    def test_bad_names_and_numbers_arrive(self, opened: Mirror) -> None:
        """A run is pushed whatever its program has called its metrics, and one that measured nothing is a run too."""
        opened.push(hostile())
        nothing = example(3, curves={}, metrics={}, parameters={}, facts={}, tags=[], claim=None, notes=[])
        opened.push(nothing)
        assert sorted(opened.keys()) == sorted([hostile().key, nothing.key])

    def test_everything_lies_in_its_folder(self, opened: Mirror, folder: Path) -> None:
        """Nothing is written to the home or the working directory, and no name leads out of the folder."""
        opened.push(hostile())
        opened.close()
        beside = [path for path in folder.parent.rglob("*") if folder not in (path, *path.parents)]
        assert sorted(path.name for path in beside if path.is_file()) == []

    def test_nothing_leaves_the_machine(self, mirror: Mirror, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without an address that a person has set, a mirror connects to this machine alone."""
        asked: list[object] = []
        connect = socket.socket.connect

        def watched(self: socket.socket, address: object) -> None:
            host = address[0] if isinstance(address, tuple) else address
            if not str(host.decode() if isinstance(host, bytes) else host).startswith(_LOCAL):
                asked.append(host)
                raise OSError(f"the contract allows no connection to {host!r}")
            connect(self, address)  # type: ignore[arg-type]

        monkeypatch.setattr(socket.socket, "connect", watched)
        before = dict(os.environ)
        try:
            with contextlib.suppress(OSError):
                mirror.open(folder)
                mirror.push(example(1))
        finally:
            mirror.close()
            os.environ.clear()
            os.environ.update(before)
        assert asked == []

    def test_the_run_is_not_changed(self, opened: Mirror) -> None:
        """Other mirrors are pushed the same one."""
        run = example(1)
        before = copy.deepcopy(run)
        opened.push(run)
        assert run == before
        assert all(math.isfinite(value) for curve in run.curves.values() for value in curve.values)

    def test_a_run_that_cannot_be_kept_raises(self, mirror: Mirror, folder: Path) -> None:
        """A push that returns has written the run; here a file is in the place of the folder."""
        place = folder / "file"
        place.write_text("in the way")
        before = dict(os.environ)

        def keep() -> None:
            mirror.open(place)
            mirror.push(example(1))

        try:
            with pytest.raises((Exception, SystemExit)):
                keep()
        finally:
            with contextlib.suppress(Exception, SystemExit):
                mirror.close()
            os.environ.clear()
            os.environ.update(before)
        assert place.read_text() == "in the way"
