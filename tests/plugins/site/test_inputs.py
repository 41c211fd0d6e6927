"""What a site is made from: nothing is made again while all of it is the same, and each change shows at once."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest

from perpetual import Lab
from perpetual.api import EvidenceFold, MetricHistory, PartialRecord
from perpetual.lab.runs import Runs
from perpetual.testing.projects import trust_project
from perpetual_report.documents import SiteReport
from perpetual_site.build import build
from perpetual_site.inputs import loaded_files, look
from perpetual_site.laid import Laid
from perpetual_site.output import MANIFEST, Folder, Page, Saved
from perpetual_site.pages import Pages
from tests.support import LONG_S, until

_PROGRAM = "sh -c 'for n in 1 2 3; do echo step=$n acc=0.$n$((PERPETUAL_SEED % 10)); done'"


def _run(lab: Lab, of: str | None = None, *, extends: str | None = None, replicates: int = 1) -> str:
    """Runs a program that logs a curve; of a hypothesis with a setting of its own."""
    if extends:
        made = lab.experiments.propose(None, extends=extends, replicates=replicates)
    elif of:
        made = lab.experiments.propose(of, command=f"{_PROGRAM} tried", replicates=replicates)
    else:
        made = lab.experiments.propose(None, command=_PROGRAM, metric="acc", direction="max", replicates=replicates)
    lab.experiments.approve(made.id)
    lab.runs.launch(made.id, every=True)
    lab.wait([made.id], timeout_s=LONG_S)
    return made.id


@pytest.fixture(scope="module")
def ran(campaign: Path, tmp_path_factory: pytest.TempPathFactory, shared_cache: Path, shared_state: Path) -> Path:
    """The small record, with a baseline e2 and with e3 of h3 that is compared with it; their runs have curves."""
    folder = tmp_path_factory.mktemp("ran") / "project"
    shutil.copytree(campaign, folder, symlinks=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PERPETUAL_STATE_DIR", str(shared_state))
        patch.setenv("PERPETUAL_CACHE_DIR", str(shared_cache))
        patch.setenv("PERPETUAL_QUEUE_MOVES", "false")
        trust_project(folder, like=campaign)
        with Lab.open(folder, actor="user:zelda") as lab:
            base = _run(lab, replicates=2)
            claim = lab.hypotheses.add("it helps", metric="acc", direction="max", mde=0.1, baseline=base)
            _run(lab, claim.id, replicates=2)
    return folder


@pytest.fixture
def lab(ran: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """The lab of a copy, with a cache of its own."""
    monkeypatch.setenv("PERPETUAL_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "project"
    shutil.copytree(ran, folder, symlinks=True)
    trust_project(folder, like=ran)
    with Lab.open(folder) as opened:
        yield opened


class Builds:
    """Builds of one site, each with the pages that it has laid out."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        self.looked: list[str] = []  # pages of which it was asked what they are made from
        self.laid: list[str] = []  # and those that were made

    def __call__(self) -> SiteReport:
        self.looked.clear()
        self.laid.clear()
        return build({}).write(self.lab, self.folder)

    def settle(self) -> None:
        """Builds until nothing is made: files that were written just now are in doubt for a moment."""

        def is_quiet() -> bool:
            self()
            return not self.looked

        until(is_quiet, "pages are made although nothing changes")

    def texts(self) -> dict[str, str]:
        """The pages by their path."""
        return {path.relative_to(self.folder).as_posix(): path.read_text() for path in self.folder.rglob("*.html")}

    def fresh(self) -> dict[str, str]:
        """The pages as they are made into an empty folder without a cache."""
        other = Builds(self.lab, self.folder.with_name("fresh"))
        shutil.rmtree(other.folder, ignore_errors=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PERPETUAL_CACHE_DIR", str(self.folder.with_name(f"cache-{time.monotonic_ns()}")))
            other()
        return other.texts()


@pytest.fixture
def site(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Builds:
    """A site of which nothing has changed since it was built."""
    made, real = Builds(lab, tmp_path / "site"), Pages.page

    def page(self: Pages, name: str, before: Laid | None) -> tuple[Laid, str | None]:
        found = real(self, name, before)
        made.looked.append(name)
        if found[1] is not None:
            made.laid.append(name)
        return found

    monkeypatch.setattr(Pages, "page", page)
    # Tests before these may have loaded code that they wrote; that is looked at below.
    for user in ("inputs", "kept"):
        monkeypatch.setattr(f"perpetual_site.{user}.loaded_files", list)
    made.settle()
    return made


def test_nothing_is_made_while_nothing_changes(site: Builds) -> None:
    def times() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in site.folder.rglob("*") if path.is_file()}

    before, names = times(), {*site.texts()}
    again = site()
    assert site.looked == []
    assert (again["written"], again["removed"], {*again["unchanged"]}) == ([], [], names)
    assert again["seq"] == site.lab.feed.last()
    assert any("not accepted" in note for note in again["notes"])
    assert times() == before
    assert "curves-e2" in site.texts()["e/e2.html"]


def test_a_site_inside_of_the_project_is_no_source_of_itself(site: Builds) -> None:
    inside = Builds(site.lab, site.lab.root / "published")
    inside.looked = site.looked
    inside.settle()
    assert inside.texts() == site.texts()


def _edit_note(lab: Lab) -> None:
    lab.memory.write("notes/kept.md", "# What helps now\n\nSomething else.\n")
    lab.memory.promote("notes/kept.md", "seen again")


def _log_more(lab: Lab) -> None:
    with open(lab.runs.log_dir("r1") / "stdout.log", "a") as log:
        log.write("step=4 acc=0.75\n")


def _log_beside(lab: Lab) -> None:
    path = lab.root / "unread.csv"
    path.write_text("epoch,other\n0,0.5\n")


# What changes, and pages that show it; none named: nothing does, and all are made anew to know.
CHANGES: list[tuple[str, Callable[[Lab], object], set[str]]] = [
    ("hypothesis", lambda lab: lab.hypotheses.add("another one"), {"index.html", "h/h4.html"}),
    ("run", _run, {"index.html", "experiments.html", "e/e4.html"}),
    ("replicate", lambda lab: _run(lab, extends="e3"), {"index.html", "h/h3.html", "e/e3.html", "e/e4.html"}),
    ("run of the baseline", lambda lab: _run(lab, extends="e2"), {"h/h3.html", "e/e3.html", "e/e4.html"}),
    ("retraction", lambda lab: lab.evidence.retract("v2", why="wrong"), {"index.html", "h/h3.html", "e/e3.html"}),
    ("statement", lambda lab: lab.hypotheses.edit("h2", statement="it does"), {"index.html", "h/h2.html"}),
    ("title", lambda lab: lab.experiments.edit("e1", title="renamed"), {"e/e1.html", "experiments.html"}),
    ("note", _edit_note, {"logbook/1.html", "logbook/index.html"}),
    ("rejected note", lambda lab: lab.memory.reject("notes/kept.md", "wrong"), {"logbook/1.html"}),
    ("archive", lambda lab: lab.hypotheses.archive("h2"), {"index.html", "h/h2.html"}),
    ("threshold", lambda lab: lab.settings.set_methodology("confidence_support_threshold", "0.7"), {"index.html"}),
    ("budget", lambda lab: lab.budget.set_limit(5.0), {"index.html"}),
    ("evidence", lambda lab: lab.evidence.add("h2", verdict="refutes", strength=0.6, why="so"), {"h/h2.html"}),
    ("name", lambda lab: lab.settings.set_config("project", "renamed"), {"index.html"}),
    ("log", _log_more, {"e/e2.html"}),
    ("file beside", _log_beside, set()),
]


@pytest.mark.slow
@pytest.mark.parametrize(("change", "shown"), [row[1:] for row in CHANGES], ids=[row[0] for row in CHANGES])
def test_each_change_renews_what_shows_it(site: Builds, change: Callable[[Lab], object], shown: set[str]) -> None:
    change(site.lab)
    made = site()
    assert site.looked
    assert shown <= {*made["written"]}, made["written"]
    assert {*made["written"]} <= {*site.laid}
    assert bool(shown) == bool(made["written"])
    assert site.texts() == site.fresh()
    site.settle()
    assert site.texts() == site.fresh()


@pytest.mark.slow
def test_changes_one_after_the_other_leave_no_page_behind(site: Builds) -> None:
    for name, change, _ in CHANGES:
        change(site.lab)
        site()
        assert site.texts() == site.fresh(), name


@pytest.mark.slow
def test_what_a_change_does_not_touch_is_not_computed_again(site: Builds, monkeypatch: pytest.MonkeyPatch) -> None:
    folded: list[str] = []
    read: list[str] = []
    fold, curves = PartialRecord.fold, Runs.curves

    def counted(self: PartialRecord, hypothesis_id: str, **own: object) -> EvidenceFold:
        folded.append(hypothesis_id)
        return fold(self, hypothesis_id, **own)

    def asked(
        self: Runs, run_id: str, metrics: Collection[str] = (), *, limit_bytes: int | None = None
    ) -> dict[str, MetricHistory]:
        read.append(run_id)
        return curves(self, run_id, metrics, limit_bytes=limit_bytes)

    monkeypatch.setattr(PartialRecord, "fold", counted)
    monkeypatch.setattr(Runs, "curves", asked)

    def done(change: Callable[[Lab], object]) -> tuple[set[str], set[str]]:
        site.lab.budget.set_limit(float(site.lab.feed.last()))  # what is written behind the last event is in doubt
        site.settle()
        change(site.lab)
        folded.clear()
        read.clear()
        site()
        assert site.looked
        return {*folded}, {*read}

    assert done(lambda lab: lab.hypotheses.archive("h2")) == ({"h2"}, set())
    assert done(_run) == (set(), {"r5"})
    assert done(lambda lab: _run(lab, extends="e2")) == ({"h3"}, {"r1", "r2", "r6"})  # h3 is compared with it
    assert done(_log_more) == (set(), {"r1", "r2"})
    more = site.lab.experiments.propose(None, extends="e2", replicates=1).id
    site.lab.experiments.approve(more)
    site.lab.runs.launch(more)
    assert done(lambda lab: lab.wait([more], timeout_s=LONG_S)) == ({"h3"}, {"r7"})
    everything = ({"h1", "h2", "h3"}, {f"r{number}" for number in range(1, 8)})
    assert done(lambda lab: lab.settings.set_methodology("confidence_support_threshold", "0.7")) == everything


def test_a_record_that_a_backup_put_back_is_read_anew(site: Builds, tmp_path: Path) -> None:
    lab, store = site.lab, site.lab.root / ".perpetual" / "store"
    saved = shutil.copytree(store, tmp_path / "backup")
    lab.evidence.add("h2", verdict="refutes", strength=0.6, why="so")
    site()
    lab.close()
    shutil.rmtree(store)
    shutil.copytree(saved, store)
    with Lab.open(lab.root) as again:
        site.lab = again
        again.evidence.add("h2", verdict="supports", strength=0.6, why="so")
        again.evidence.add("h1", verdict="supports", strength=0.6, why="so")
        site()
        assert site.texts() == site.fresh()


def test_another_name_to_take_out_renews_the_pages(site: Builds, monkeypatch: pytest.MonkeyPatch) -> None:
    site.lab.hypotheses.add("ganondorf says so")
    site()
    site.settle()
    assert "ganondorf" in site.texts()["h/h4.html"]
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "ganondorf")
    assert "h/h4.html" in site()["written"]
    assert "ganondorf" not in "".join(site.texts().values())


def test_a_page_that_was_edited_or_removed_is_made_anew(site: Builds) -> None:
    before = site.texts()
    (site.folder / "h" / "h1.html").write_text("mine")
    (site.folder / "e" / "e1.html").unlink()
    assert {*site()["written"]} == {"h/h1.html", "e/e1.html"}
    assert site.texts() == before
    shutil.rmtree(site.folder)
    assert {*site()["written"]} == {*before}


def test_a_list_that_was_edited_vouches_for_nothing(site: Builds) -> None:
    before = site.texts()
    page, path = site.folder / "h" / "h1.html", site.folder / MANIFEST
    listed = json.loads(path.read_text())
    page.write_text("false")
    listed["files"]["h/h1.html"] = sha256(b"false").hexdigest()
    path.write_text(json.dumps(listed))
    assert site()["written"] == ["h/h1.html"]
    assert site.texts() == before


@pytest.mark.slow
def test_only_pages_that_a_change_reaches_are_made(site: Builds) -> None:
    def made(change: Callable[[Lab], object]) -> set[str]:
        change(site.lab)
        site()
        laid = {*site.laid}
        assert site.texts() == site.fresh()
        return laid

    always = {"index.html", "experiments.html", "logbook/1.html", "logbook/index.html"}
    site.lab.budget.set_limit(1.0)
    site.settle()
    assert made(lambda lab: lab.hypotheses.archive("h2")) <= always | {"h/h2.html"}
    assert made(lambda lab: lab.hypotheses.add("another one")) <= always | {"h/h4.html"}
    assert made(_run) <= always | {"e/e4.html"}
    assert made(lambda lab: lab.experiments.edit("e4", title="renamed")) <= always | {"e/e4.html"}
    # Cells are counted anew, so that those behind the note's have moved.
    assert made(lambda lab: lab.memory.reject("notes/kept.md", "wrong")) <= always


@pytest.mark.parametrize(
    "links", [{"e99": "../e/e99.html"}, {"e1": None}, {"c2": "../logbook/9.html#c2"}, {"c999": "x"}]
)
def test_a_page_whose_links_lead_elsewhere_is_made(
    site: Builds, monkeypatch: pytest.MonkeyPatch, links: dict[str, str | None]
) -> None:
    real = Pages.page

    def page(self: Pages, name: str, before: Laid | None) -> tuple[Laid, str | None]:
        if name == "h/h1.html" and before is not None:
            before = before._replace(links={**before.links, **links})
        return real(self, name, before)

    monkeypatch.setattr(Pages, "page", page)
    site.lab.hypotheses.add("another one")
    site()
    assert "h/h1.html" in site.laid
    assert "h/h3.html" not in site.laid


def test_a_page_that_changed_meanwhile_is_written(site: Builds, monkeypatch: pytest.MonkeyPatch) -> None:
    before, real = site.texts(), Folder.save

    def save(self: Folder, pages: Mapping[str, Page], project: str, seq: int, debits: int) -> Saved:
        (site.folder / "h" / "h1.html").write_text("mine")
        return real(self, pages, project, seq, debits)

    site.lab.hypotheses.add("another one")
    monkeypatch.setattr(Folder, "save", save)
    assert "h/h1.html" in site()["written"]
    assert "h/h1.html" not in site.laid
    assert site.texts()["h/h1.html"] == before["h/h1.html"]


def test_another_program_renews_the_pages(site: Builds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perpetual_site.inputs.site_form", lambda: "0123456789ab")
    site()
    assert site.laid


def test_code_that_was_changed_since_it_was_loaded_vouches_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loaded.py").write_text("")
    module = SimpleNamespace(__file__=str(tmp_path / "loaded.py"))
    monkeypatch.setattr("perpetual_site.inputs.sys", SimpleNamespace(modules={"loaded": module}))
    os.utime(tmp_path / "loaded.py", (1, 1))
    assert loaded_files() == [module.__file__]
    os.utime(tmp_path / "loaded.py", (2**33, 2**33))
    assert loaded_files() is None


@pytest.mark.slow
@pytest.mark.parametrize("body", ["", "[]"])
def test_a_broken_cache_is_none(site: Builds, tmp_path: Path, body: str) -> None:
    (path,) = (path for path in (tmp_path / "cache").glob("site-*.json") if "kept" not in path.name)
    path.write_text(body)
    assert site()["written"] == []
    assert site.looked
    for database in (tmp_path / "cache").glob("site-*.sqlite"):
        database.write_text("no database")
    site.lab.hypotheses.add("another one")
    site()
    assert site.texts() == site.fresh()
    kept = json.loads(path.read_text())
    for built in (None, {}, {"manifest": 1}, {**kept["value"]["built"], "places": None}):
        path.write_text(json.dumps({**kept, "value": {**kept["value"], "built": built}}))
        assert site()["written"] == []
        assert site.looked


def test_a_look_sees_every_change_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    file = tmp_path / "sub" / "log.csv"
    file.write_text("a,b\n1,2\n")
    until(lambda: look([str(tmp_path)]), "a file that rests stays in doubt")
    first = look([str(tmp_path)])
    assert look([str(tmp_path)], {str(file)}) != first
    state = file.stat()
    file.write_text("a,b\n1,3\n")
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))  # which leaves its size and its time
    assert look([str(tmp_path)]) is None  # written just now
    until(lambda: look([str(tmp_path)]), "a file that rests stays in doubt")
    assert look([str(tmp_path)]) != first
