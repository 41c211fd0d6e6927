"""The contract suite of the scaffolder slot: the promises of `perpetual.slots.scaffolder`, as tests to be subclassed.

    class TestAcmeScaffolder(ScaffolderContract):
        @pytest.fixture
        def scaffolder(self):
            return acme.scaffolder.build({})

It works in folders of its own, for harnesses that the suite brings. Nothing but pytest is needed.
"""

from __future__ import annotations

import json
import os
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from perpetual.errors import PluginError, UsageError
from perpetual.slots.harness import FilePlan, Harness, Scaffold
from perpetual.slots.scaffolder import OfferedHarness, ScaffoldAnswer, Scaffolder, ScaffoldView
from perpetual.slots.sections import Finding

__all__ = ["Place", "ScaffolderContract"]

_ENTRY = {"command": "c"}
_THEIRS = {
    "a.json": b'{\r\n   "servers": {"theirs": {"x": 1.50}},\r\n   "allow": ["theirs"]}',
    "a.toml": b"# Theirs\nlevel = 1.50\n[servers.theirs]\nx = 1 # a comment",
    "AGENTS.md": b"# Theirs\r\n\r\nlines",
}
_BEYOND = ("../x", "/tmp/x", "a/../../x", ".git/config", ".perpetual/config.yaml", "")


class _Asks(Harness):
    """Asks for files; detected where the first of them stands."""

    def __init__(self, *files: FilePlan) -> None:
        self.files = files

    def scaffold(self, *, project: str, command: tuple[str, ...]) -> Scaffold:
        return Scaffold(self.files, ("accept it",))

    def detect(self, folder: Path) -> bool:
        return (folder / self.files[0].path).exists()


class _Fails(Harness):
    """Answers no scaffold."""

    def scaffold(self, *, project: str, command: tuple[str, ...]) -> Scaffold:
        raise RuntimeError("out of paper")


class _Tells(Harness):
    """Writes how it was asked."""

    def scaffold(self, *, project: str, command: tuple[str, ...]) -> Scaffold:
        return Scaffold((FilePlan("told.md", "block", text=f"{project}: {' '.join(command)}"),))


def _alpha() -> Harness:
    """Asks for a file of each way."""
    return _Asks(
        FilePlan("deep/own.md", "own", text="Ours.\n"),
        FilePlan("a.json", "json", keys=("servers", "perpetual"), value=_ENTRY),
        FilePlan("a.json", "json_items", keys=("allow",), value=["perpetual"]),
        FilePlan("a.toml", "toml", keys=("servers", "perpetual"), value=_ENTRY),
        FilePlan("AGENTS.md", "block", text="Ours, too."),
    )


def _beta() -> Harness:
    return _Asks(FilePlan("beta.md", "block", text="Beta."))


@dataclass
class Place:
    """A project's folder, and the harnesses that are offered there as (qualified name, harness)."""

    root: Path
    harnesses: list[tuple[str, Harness]] = field(default_factory=list)
    built: list[str] = field(default_factory=list)

    def view(self, *accepted: str) -> ScaffoldView:
        """Returns what the scaffolder sees."""
        offers = tuple(self._offered(*item) for item in self.harnesses)

        def choose(name: str) -> OfferedHarness:
            hits = [offer for offer in offers if name == offer.qualified_name]
            hits = hits or [offer for offer in offers if name == offer.name]
            if len(hits) != 1:
                raise PluginError(f"{name} is offered {len(hits)} times")
            return hits[0]

        return ScaffoldView(self.root, self.root / ".perpetual", "demo", offers, choose, accepted)

    def _offered(self, name: str, harness: Harness) -> OfferedHarness:
        def build() -> Harness:
            self.built.append(name)
            return harness

        return OfferedHarness(name.rpartition("/")[2], name, build)

    def brings_theirs(self) -> dict[str, bytes | None]:
        """Writes what others have into the files that are shared; answers the snapshot."""
        for path, content in _THEIRS.items():
            (self.root / path).write_bytes(content)
        return self.snapshot()

    def snapshot(self) -> dict[str, bytes | None]:
        """Returns every file outside of `.perpetual` with its bytes, every folder with None."""
        return {
            str(path.relative_to(self.root)): path.read_bytes() if path.is_file() else None
            for path in sorted(self.root.rglob("*"))
            if ".perpetual" not in path.parts
        }

    def text(self, path: str) -> str:
        """Returns what a file holds."""
        return (self.root / path).read_text(encoding="utf-8")


def _actions(answer: ScaffoldAnswer) -> dict[str, str]:
    return {item["path"]: item["action"] for item in answer["files"]}


class ScaffolderContract:
    """For every scaffolder."""

    @pytest.fixture
    def place(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
        """Returns a project with two harnesses, and a state folder of its own."""
        monkeypatch.setenv("PERPETUAL_STATE_DIR", str(tmp_path / "state"))
        (tmp_path / "project" / ".perpetual").mkdir(parents=True)
        return Place(tmp_path / "project", [("acme/alpha", _alpha()), ("acme/beta", _beta())])

    # --- chosen ---------------------------------------------------------------------------------------------

    def test_names_are_chosen_in_order(self, scaffolder: Scaffolder, place: Place) -> None:
        """Each once and bare; `all` means every one, `none` no one."""
        view = place.view()
        for names, wanted in (
            (["beta", "alpha", "beta"], ["beta", "alpha"]),
            (["acme/beta"], ["beta"]),
            (["beta", "all"], ["beta", "alpha"]),
            (["none"], []),
        ):
            assert scaffolder.chosen(view, names) == wanted, f"{names}"
        with pytest.raises(UsageError):
            scaffolder.chosen(view, ["none", "alpha"])

    def test_what_is_not_offered_is_refused(self, scaffolder: Scaffolder, place: Place) -> None:
        """With the nearest; a name that means two is refused as `choose` refuses it."""
        with pytest.raises(UsageError, match="alpha"):
            scaffolder.chosen(place.view(), ["alpa"])
        with pytest.raises(UsageError):
            scaffolder.scaffold(place.view(), remove=["alpa"])
        with pytest.raises(UsageError):
            scaffolder.scaffold(place.view(), ["alpha"], remove=["alpha"])
        place.harnesses.append(("other/alpha", _beta()))
        with pytest.raises(PluginError):
            scaffolder.chosen(place.view(), ["alpha"])

    def test_no_names_mean_what_is_there(self, scaffolder: Scaffolder, place: Place) -> None:
        """What the last call scaffolded, else what is detected."""
        (place.root / "beta.md").write_text("theirs\n")
        assert scaffolder.chosen(place.view()) == ["beta"], "its file is in the folder"
        scaffolder.scaffold(place.view(), ["alpha"])
        assert scaffolder.chosen(place.view()) == ["alpha"], "it is what the last call named"

    # --- files ----------------------------------------------------------------------------------------------

    def test_every_way_is_written(self, scaffolder: Scaffolder, place: Place) -> None:
        """In a fresh folder; the answer says what was done, and only what was asked for is built."""
        answer = scaffolder.scaffold(place.view(), ["alpha"])
        assert _actions(answer) == dict.fromkeys(["deep/own.md", "a.json", "a.toml", "AGENTS.md"], "created")
        assert (answer["harnesses"], answer["trust"]) == (["alpha"], ["accept it"])
        assert {*place.built} == {"acme/alpha"}, "a harness was built that the call does not name"
        assert "Ours." in place.text("deep/own.md")
        assert json.loads(place.text("a.json")) == {"servers": {"perpetual": _ENTRY}, "allow": ["perpetual"]}
        assert tomllib.loads(place.text("a.toml")) == {"servers": {"perpetual": _ENTRY}}
        assert "Ours, too." in place.text("AGENTS.md")

    def test_what_others_have_stays(self, scaffolder: Scaffolder, place: Place) -> None:
        """Entries, comments, number spellings and line ends."""
        place.brings_theirs()
        assert _actions(scaffolder.scaffold(place.view(), ["alpha"]))["a.json"] == "merged"
        assert json.loads(place.text("a.json"))["servers"] == {"theirs": {"x": 1.5}, "perpetual": _ENTRY}
        assert json.loads(place.text("a.json"))["allow"] == ["theirs", "perpetual"]
        assert tomllib.loads(place.text("a.toml"))["servers"] == {"theirs": {"x": 1}, "perpetual": _ENTRY}
        for path, part in (("a.json", b'   "servers": {"theirs": {"x": 1.50}'), ("a.toml", b"x = 1 # a comment"),
                           ("AGENTS.md", _THEIRS["AGENTS.md"])):  # fmt: skip
            assert part in (place.root / path).read_bytes(), path

    def test_a_second_call_changes_nothing(self, scaffolder: Scaffolder, place: Place) -> None:
        """Named again, or without names."""
        place.brings_theirs()
        scaffolder.scaffold(place.view(), ["alpha"])
        before = place.snapshot()
        for names in (["alpha"], []):
            assert {*_actions(scaffolder.scaffold(place.view(), names)).values()} == {"unchanged"}
            assert place.snapshot() == before

    def test_removal_gives_the_bytes_back(self, scaffolder: Scaffolder, place: Place) -> None:
        """Of a fresh folder, and of one with what others have; what another harness wrote stays."""
        before = place.snapshot()
        scaffolder.scaffold(place.view(), ["alpha"])
        assert scaffolder.scaffold(place.view(), remove=["alpha"])["harnesses"] == []
        assert place.snapshot() == before == {}
        before = place.brings_theirs()
        scaffolder.scaffold(place.view(), ["all"])
        assert scaffolder.scaffold(place.view(), remove=["alpha"])["harnesses"] == ["beta"]
        assert {path: text for path, text in place.snapshot().items() if path != "beta.md"} == before
        assert "Beta." in place.text("beta.md")
        scaffolder.scaffold(place.view(), remove=["all"])
        assert place.snapshot() == before

    def test_what_a_person_edited_stays(self, scaffolder: Scaffolder, place: Place) -> None:
        """A merged file loses ours alone; a generated one is replaced and removed by `force` alone."""
        scaffolder.scaffold(place.view(), ["alpha"])
        with (place.root / "AGENTS.md").open("a") as file:
            file.write("\nmy line\n")
        own = place.root / "deep" / "own.md"
        own.write_text("mine\n")
        assert _actions(scaffolder.scaffold(place.view(), ["alpha"]))["deep/own.md"] == "unchanged"
        scaffolder.scaffold(place.view(), remove=["alpha"])
        assert own.read_text() == "mine\n"
        assert "my line" in place.text("AGENTS.md")
        assert "Ours" not in place.text("AGENTS.md")
        scaffolder.scaffold(place.view(), ["alpha"], force=True)
        assert "Ours." in own.read_text()

    def test_a_conflict_spares_the_rest(self, scaffolder: Scaffolder, place: Place) -> None:
        """A file that cannot be merged stands as it was; a harness that fails is named."""
        (place.root / "a.json").write_bytes(b"{ not json")
        place.harnesses.append(("acme/fails", _Fails()))
        answer = scaffolder.scaffold(place.view(), ["fails", "alpha"])
        found = _actions(answer)
        assert (found["a.json"], found["fails"], found["a.toml"]) == ("conflict", "conflict", "created")
        assert (place.root / "a.json").read_bytes() == b"{ not json"
        assert all(item["reason"] for item in answer["files"] if item["action"] == "conflict")
        assert answer["harnesses"] == ["alpha"]

    def test_no_file_lies_beyond_the_project(self, scaffolder: Scaffolder, place: Place) -> None:
        """By its path, or by a link that is there."""
        outside = place.root.parent / "outside"
        outside.mkdir()
        os.symlink(outside, place.root / "link")
        before = sorted(map(str, place.root.parent.rglob("*")))
        for path in (*_BEYOND, "link/x"):
            place.harnesses[:] = [("acme/far", _Asks(FilePlan(path, "own", text="x")))]
            answer = scaffolder.scaffold(place.view(), ["far"], dry_run=True)
            assert {*_actions(answer).values()} == {"conflict"}, path
            scaffolder.scaffold(place.view(), ["far"])
        after = {*map(str, place.root.parent.rglob("*"))} - {*before}
        assert not [name for name in after if f"{os.sep}.perpetual" not in name and f"{os.sep}state" not in name]
        assert not (place.root / ".perpetual" / "config.yaml").exists()

    def test_a_dry_run_writes_nothing(self, scaffolder: Scaffolder, place: Place) -> None:
        """Not even below `.perpetual`; the answer is the same, with each file's `diff`."""
        place.brings_theirs()
        before = place.snapshot()
        planned = scaffolder.scaffold(place.view(), ["alpha"], dry_run=True)
        assert (place.snapshot(), os.listdir(place.root / ".perpetual")) == (before, [])
        assert all("+" in item["diff"] for item in planned["files"]), "a changed file has its diff"
        assert _actions(planned) == _actions(scaffolder.scaffold(place.view(), ["alpha"]))

    # --- command --------------------------------------------------------------------------------------------

    def test_the_command_is_kept(self, scaffolder: Scaffolder, place: Place) -> None:
        """`perpetual`, unless a person accepted or named another; the last one named stays."""
        place.harnesses.append(("acme/tells", _Tells()))
        for command, accepted, wanted in (
            (None, (), ["perpetual"]),
            (["/opt/a b/perpetual", "--safe"], (), ["/opt/a b/perpetual", "--safe"]),
            (None, ("other",), ["/opt/a b/perpetual", "--safe"]),
        ):
            answer = scaffolder.scaffold(place.view(*accepted), ["tells"], command=command)
            assert answer["command"] == wanted
            assert f"demo: {' '.join(wanted)}\n" in place.text("told.md")

    def test_an_accepted_command_counts_first(self, scaffolder: Scaffolder, place: Place) -> None:
        """Where no call has named one."""
        assert scaffolder.scaffold(place.view("/opt/accepted"), ["beta"])["command"] == ["/opt/accepted"]

    def test_another_users_record_is_not_believed(
        self, scaffolder: Scaffolder, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It starts nothing, and gives back nothing that it says stood there."""
        place.brings_theirs()
        scaffolder.scaffold(place.view(), ["alpha"], command=["/opt/evil"])
        monkeypatch.setenv("PERPETUAL_STATE_DIR", str(tmp_path / "another"))
        (place.root / "AGENTS.md").write_bytes(b"as cloned")
        assert scaffolder.scaffold(place.view(), ["alpha"], dry_run=True)["command"] == ["perpetual"]
        scaffolder.scaffold(place.view(), remove=["alpha"])
        assert (place.root / "AGENTS.md").read_bytes() == b"as cloned"

    # --- the doctor -----------------------------------------------------------------------------------------

    def test_what_stands_is_found(self, scaffolder: Scaffolder, place: Place, tmp_path: Path) -> None:
        """A finding for each harness that was scaffolded; a file that is gone is a fault, and comes not back by it."""
        assert scaffolder.examine(place.view()) == []
        program = tmp_path / "starts"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        scaffolder.scaffold(place.view(), ["alpha", "beta"], command=[str(program)])
        found = scaffolder.examine(place.view())
        assert all(type(item) is Finding for _, item in found)
        assert [item.ok for _, item in found] == [True, True], f"{found}"
        (place.root / "beta.md").unlink()
        found = scaffolder.examine(place.view())
        assert [(item.ok, "beta" in name) for name, item in found] == [(True, False), (False, True)], f"{found}"
        assert not (place.root / "beta.md").exists()
