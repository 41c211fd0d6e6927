"""Projects are copied, cloned, imported, moved and restored at random; only what was accepted in its place runs."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from tenacity import retry, stop_after_attempt

from perpetual import Lab
from perpetual.errors import PerpetualError

STEPS = 14
again = retry(stop=stop_after_attempt(20), reraise=True)  # a run that ends beside it makes and removes files


def refusal_of(deed: Callable[[], object]) -> PerpetualError | None:
    """What the program refused, or None; any other exception is a failure."""
    try:
        deed()
    except PerpetualError as problem:
        return problem
    return None


def copied(source: Path, target: Path) -> None:
    """`cp -a` of a folder in which a run may be ending: a file that goes while it is copied is left out."""

    def take(file: str, copy: str) -> None:
        with suppress(FileNotFoundError):
            shutil.copy2(file, copy, follow_symlinks=False)

    shutil.copytree(source, target, symlinks=True, copy_function=take)


@again
def removed(folder: Path) -> None:
    """`rm -rf` of such a folder."""
    shutil.rmtree(folder)


@again
def staged(git: list[str]) -> None:
    """`git add` of such a folder: a file that goes meanwhile ends the whole command."""
    subprocess.run([*git, "add", "-f", "."], check=True, capture_output=True)


@dataclass
class Place:
    """A project's folder, the tags of the experiments that its record holds, and of those that were accepted there."""

    path: Path
    tags: set[int] = field(default_factory=set)
    accepted: set[int] = field(default_factory=set)


class World:
    """The folders that there are, and what may have run in which of them."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.draw, self.log = root, random.Random(seed), root / "log"
        self.allowed: set[tuple[str, int]] = set()
        self.count = 0
        self.places = [self._made()]

    def _free(self) -> Path:
        self.count += 1
        return self.root / f"place{self.count}"

    def _made(self) -> Place:
        path = self._free()
        Lab.init(path).close()
        return Place(path)

    # --- what a person does -------------------------------------------------------------------------------------

    def work(self, place: Place) -> None:
        """Approves a run that logs where it is, and launches it or leaves it in a paused queue."""
        self.count += 1
        tag = self.count
        with Lab.open(place.path) as lab:
            command = f"sh -c 'echo \"$PWD {tag}\" >> {self.log}'"
            made = lab.experiments.propose(command=command, wall_s=60.0, cost_run_hours=0.001, replicates=2)
            lab.experiments.approve(made.id)
            place.tags.add(tag)
            place.accepted.add(tag)
            self.allowed.add((str(place.path), tag))
            lab.queue.set_state(self.draw.choice(["paused", "running"]))
            lab.runs.launch(made.id)
            lab.queue.set_state("running")

    def accept_new_work(self, place: Place) -> None:
        """`trust --yes`."""
        with Lab.open(place.path) as lab:
            lab.trust.accept()

    def accept_all(self, place: Place) -> None:
        """`trust --accept DIGEST`."""
        with Lab.open(place.path) as lab:
            self.allowed |= {(str(place.path), tag) for tag in place.tags}
            lab.trust.accept(lab.trust.review().digest)
            place.accepted |= place.tags

    # --- what befalls a project ---------------------------------------------------------------------------------

    def copy(self, place: Place) -> None:
        """`cp -a`."""
        path = self._free()
        copied(place.path, path)
        self.places.append(Place(path, {*place.tags}))

    def clone(self, place: Place) -> None:
        """`git add -f`, `git clone`."""
        path = self._free()
        git = ["git", "-c", "user.name=x", "-c", "user.email=x@y", "-C", str(place.path)]
        subprocess.run([*git, "init", "-q"], check=True, capture_output=True)
        staged(git)
        subprocess.run([*git, "commit", "-qm", "all", "--allow-empty"], check=True, capture_output=True)
        subprocess.run(["git", "clone", "-q", str(place.path), str(path)], check=True, capture_output=True)
        self.places.append(Place(path, {*place.tags}))

    def take_over(self, place: Place) -> None:
        """`store export`, `store import` into a new project."""
        made, file = self._made(), self._free()
        with Lab.open(place.path) as lab:
            lab.storage.export_file(file)
        with Lab.open(made.path) as lab:
            lab.storage.import_file(file)
        made.tags = {*place.tags}
        self.places.append(made)

    def move(self, place: Place) -> None:
        """`mv`; the person's own approvals count in the new place once it is trusted."""
        path = self._free()
        place.path.rename(path)
        place.path = path
        self.allowed |= {(str(path), tag) for tag in place.accepted}

    def restore(self, place: Place) -> None:
        """A backup is put back over the folder, whole or the store alone."""
        backup, tags = self._free(), {*place.tags}
        copied(place.path, backup)
        try:
            self.work(place)
        except PerpetualError:
            return  # a held project: there is nothing newer than the backup
        part = self.draw.choice([".", ".perpetual/store"])
        removed(place.path / part)
        copied(backup / part, place.path / part)
        with Lab.open(place.path) as lab:
            assert lab.trust.state() == "held"
        place.tags = tags

    # --- what anyone may call -----------------------------------------------------------------------------------

    def prod(self, place: Place) -> None:
        """Tries what would start or end something; a refusal is an error of the program, and no other."""
        with Lab.open(place.path) as lab:
            was_held = lab.trust.state() == "held"
            runs = [run.id for run in lab.runs.list().items]
            experiments = [made.id for made in lab.experiments.list().items]
            deeds: list[Callable[[], object]] = [lambda: lab.scan(), lambda: lab.queue.set_state("running")]
            deeds += [partial(lab.runs.launch, id, every=True) for id in experiments]
            deeds += [partial(lab.runs.retry, id) for id in runs]
            before = {item.id: item.status for item in lab.hypotheses.list().items}
            for deed in deeds:
                refusal = refusal_of(deed)
                assert not was_held or refusal is None or refusal.code == "not_trusted", refusal
            assert {item.id: item.status for item in lab.hypotheses.list().items} == before

    def check(self) -> None:
        """Nothing has run where it was not accepted."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        ran = {(path, int(tag)) for path, tag in (line.rsplit(" ", 1) for line in lines)}
        assert ran <= self.allowed


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_nothing_runs_where_it_was_not_accepted(tmp_path: Path, seed: int) -> None:
    world = World(tmp_path, seed)
    world.work(world.places[0])
    persons = [world.work, world.accept_new_work, world.accept_all]
    events = [world.copy, world.clone, world.take_over, world.move, world.restore]
    for _ in range(STEPS):
        step = world.draw.choice(events * 2 + persons)
        place = world.draw.choice(world.places)
        refusal = refusal_of(partial(step, place))
        assert refusal is None or refusal.code in ("not_trusted", "conflict"), refusal
        for each in world.places:
            world.prod(each)
        world.check()
    for each in world.places:
        with Lab.open(each.path) as lab:
            live = [run.id for run in lab.runs.list().items if run.status in ("launching", "running")]
            if live and lab.trust.state() != "held":
                lab.wait(live, timeout_s=60)
            # A restored record takes a number again whose run's files lie there: they are put aside, and named.
            problems = [problem for problem in lab.storage.verify() if ".aside-" not in problem]
            assert problems == [] or lab.trust.state() == "held"
    world.check()
    assert world.log.exists()


@pytest.mark.slow
def test_a_live_run_is_ended_by_no_copy_of_its_project(tmp_path: Path) -> None:
    world = World(tmp_path, 0)
    first = world.places[0]
    with Lab.open(first.path) as lab:
        made = lab.experiments.propose(command="sleep 300", wall_s=600.0, cost_run_hours=0.001)
        lab.experiments.approve(made.id)
        run = lab.runs.launch(made.id)[0]
        try:
            world.copy(first)
            world.clone(first)
            world.take_over(first)
            for place in world.places[1:]:
                for is_trusted in (False, True):
                    with Lab.open(place.path) as other:
                        if is_trusted:
                            other.trust.accept(other.trust.review().digest)
                        for deed in (lambda: other.runs.kill(run.id, grace_s=0.0), lambda: other.scan()):
                            refusal = refusal_of(deed)
                            assert refusal is None or refusal.exit in (1, 3, 4, 6), refusal
                    assert lab.runs.look(run.id)[0] == "running"
        finally:
            lab.runs.kill(run.id, grace_s=0.0)
