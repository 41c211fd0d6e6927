"""Experiments and runs of an A/A test: two arms with an experiment's own specification, on fresh seeds, interleaved.

The arms claim nothing, so no run of theirs is evidence; their seeds are picked here, so none counts for a baseline
either. Which they are follows from the project's id, so a test that was cut off goes on with the same runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from perpetual.api import MASK, Conflict, UsageError

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Experiment

__all__ = ["ARMS", "RUNS", "AaTest", "Slot", "check_runnable", "current", "experiments_of", "proposed", "slots",
           "source_of", "tests_of", "with_metric"]  # fmt: skip

ARMS = ("A", "B")
RUNS = 8
FEWEST_RUNS, MOST_RUNS = 4, 1_000
_TAG = "aa"
_SEEDS = 2**31
_NOTES = (
    "An arm of an A/A test: the same specification twice, so that every difference between the arms is luck. "
    "It tests no hypothesis, and its runs are no evidence."
)


class Slot(NamedTuple):
    """A run of the plan, in the order of launches: replicate `replicate` of an arm, on a seed."""

    arm: str
    replicate: int
    seed: int
    is_shared: bool  # the other arm has a run on the same seed


@dataclass(frozen=True)
class AaTest:
    """The A/A test `number` of an experiment, and its arms as far as they are proposed."""

    of: str
    number: int
    arms: dict[str, Experiment] = field(default_factory=dict)

    @property
    def runs(self) -> int:
        """Returns how many runs both arms have when the test is complete; 0 before it is proposed."""
        return sum(arm.design.replicates for arm in self.arms.values())

    def tags(self, arm: str) -> tuple[str, ...]:
        """Returns the tags by which an arm is found again."""
        return (_TAG, f"{_TAG}:{self.of}:{self.number}:{arm}")


def slots(lab: Lab, test: AaTest, runs: int) -> list[Slot]:
    """Returns the plan: of the pairs one half, rounded up, on a shared seed; all runs in random order."""
    pairs = runs // 2
    shared = (pairs + 1) // 2
    word = f"aa:{lab.config.project_id}:{test.of}:{test.number}"

    def seed(name: str) -> int:
        return int.from_bytes(sha256(f"{word}:{name}".encode()).digest()[:8]) % _SEEDS

    drawn = [(arm, seed(f"{n}" if n < shared else f"{n}{arm}"), n < shared) for n in range(pairs) for arm in ARMS]
    Random(word).shuffle(drawn)
    number = dict.fromkeys(ARMS, 0)
    found = []
    for arm, value, is_shared in drawn:
        number[arm] += 1
        found.append(Slot(arm, number[arm], value, is_shared))
    return found


def source_of(lab: Lab, experiment_id: str) -> Experiment:
    """Returns the experiment that is to be tested.

    Raises:
        NotFound: if there is none of that id.
        Conflict: if it is an arm itself.
    """
    found = lab.experiments.get(experiment_id)
    of = _arm_of(found)
    if of is not None:
        raise Conflict(f"{found.id} is an arm of the A/A test of {of[0]}", hint=f"perpetual aa {of[0]}")
    return found


def with_metric(lab: Lab, source: Experiment, metric: str | None, direction: str | None) -> tuple[str, str]:
    """Returns metric and direction: those given, else the experiment's, else those of a claim against it.

    Raises:
        UsageError: if neither says it, or the direction is no such word.
    """
    designs = [source.design, *(item.design for item in experiments_of(lab) if item.design.baseline == source.id)]
    metric = metric or next((each.metric for each in designs if each.metric), None)
    if metric is None:
        raise UsageError(f"{source.id} declares no metric", hint=f"perpetual aa {source.id} --metric NAME")
    direction = direction or next(
        (each.direction for each in designs if each.direction and each.metric == metric), None
    )
    if direction not in ("max", "min"):
        problem = "declares no direction" if direction is None else f"has no direction {direction!r}"
        raise UsageError(f"{source.id} {problem}", hint="--direction max (more is better) or min (less is)")
    return metric, direction


def experiments_of(lab: Lab) -> Iterator[Experiment]:
    """Yields every experiment of the project, oldest first."""
    cursor: str | None = None
    while True:
        page = lab.experiments.list(limit=1_000, cursor=cursor)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return


def tests_of(lab: Lab, source: Experiment) -> list[AaTest]:
    """Returns the A/A tests of an experiment, oldest first.

    An experiment counts as an arm by its tags, and only if it specifies and claims what an arm does: another command
    that is proposed under these tags is none, nor is one that waits for approval with other resources.
    """
    found: dict[int, dict[str, Experiment]] = {}
    for item in experiments_of(lab):
        of = _arm_of(item)
        if of is not None and of[0] == source.id and _is_like(item, source):
            found.setdefault(of[1], {}).setdefault(of[2], item)
    return [AaTest(source.id, number, found[number]) for number in sorted(found)]


def _arm_of(item: Experiment) -> tuple[str, int, str] | None:
    """Returns (experiment, number of the test, arm) of an arm; None for any other experiment."""
    if item.design.claim is not None or item.hypothesis_id is not None or _TAG not in item.tags:
        return None
    for tag in item.tags:
        words = tag.split(":")
        if len(words) == 4 and words[0] == _TAG and words[2].isdecimal() and len(words[2]) < 7 and words[3] in ARMS:
            return words[1], int(words[2]), words[3]
    return None


def _is_like(item: Experiment, source: Experiment) -> bool:
    parts = ("command", "cwd", "env", "config", *(["resources"] if item.approved_by is None else []))
    return all(getattr(item, name) == getattr(source, name) for name in parts)


def proposed(lab: Lab, source: Experiment, *, runs: int | None, again: bool, metric: str, direction: str) -> AaTest:
    """Returns the newest A/A test of an experiment, or with `again` a new one, with both arms proposed.

    Raises:
        Conflict: if the test has another size, or one of its arms was rejected.
    """
    with lab.transaction():  # or a second caller proposes the same arms
        test = current(lab, source, again=again)
        _check_size(test, runs)
        count = test.runs or runs or RUNS
        arms = {arm: test.arms.get(arm) or _propose(lab, source, test, arm, count, metric, direction) for arm in ARMS}
    return AaTest(test.of, test.number, arms)


def check_runnable(source: Experiment, runs: int | None) -> None:
    """Checks that so many runs of an experiment make an A/A test.

    Raises:
        UsageError: for a number of runs that makes no pairs.
        Conflict: if the experiment has no command that could be run again as it is.
    """
    if source.command is None:
        raise Conflict(
            f"{source.id} has no command to run", hint=f"its own runs alone: perpetual aa {source.id} --no-run"
        )
    if MASK in json.dumps([source.command, source.env, source.config, source.cwd]):
        raise Conflict(f"{source.id} holds a secret that was masked", hint="propose it anew, without the secret")
    if runs is not None and (runs % 2 or not FEWEST_RUNS <= runs <= MOST_RUNS):
        raise UsageError(
            f"an A/A test takes an even number of runs from {FEWEST_RUNS} to {MOST_RUNS}, not {runs}",
            hint="--runs 8 makes four pairs",
        )


def current(lab: Lab, source: Experiment, *, again: bool) -> AaTest:
    """Returns the newest A/A test of an experiment; where there is none, or with `again`, the next one, unproposed."""
    tests = tests_of(lab, source)
    if tests and not again:
        return tests[-1]
    return AaTest(source.id, tests[-1].number + 1 if tests else 1)


def _check_size(test: AaTest, runs: int | None) -> None:
    """Raises Conflict for a test of another size than a caller asks for, or approves without asking."""
    for arm in test.arms.values():
        if arm.status in ("rejected", "expired"):
            raise Conflict(f"{arm.id}, an arm of the A/A test of {test.of}, is {arm.status}",
                           hint=f"perpetual aa {test.of} --again")  # fmt: skip
        size = 2 * arm.design.replicates
        wanted = RUNS if runs is None and arm.status == "proposed" else runs
        if wanted is not None and size != wanted:
            raise Conflict(f"A/A test {test.number} of {test.of} has {size} runs, not {wanted}",
                           hint=f"perpetual aa {test.of} --runs {size}, or a new one: --again --runs {wanted}",
                           code="other_size")  # fmt: skip


def _propose(
    lab: Lab, source: Experiment, test: AaTest, arm: str, runs: int, metric: str, direction: str
) -> Experiment:
    need = source.resources
    return lab.experiments.propose(
        command=source.command,
        title=f"A/A test {test.number} of {source.id}, arm {arm}",
        config=source.config,
        notes=_NOTES,
        cwd=source.cwd,
        env=source.env,
        tags=test.tags(arm),
        priority=source.priority,
        metric=metric,
        direction=direction,
        kind=source.design.kind,
        claim="none",
        replicates=runs // 2,
        cost_run_hours=source.design.cost_run_hours,
        gpus=need.gpus,
        gpu_memory_bytes=need.gpu_memory_bytes,
        cpus=need.cpus,
        wall_s=need.wall_s,
        no_output_s=need.no_output_s,
        memory_bytes=need.memory_bytes,
        nodes=need.nodes,
        scheduler=need.scheduler,
        engine=need.engine or None,
    )
