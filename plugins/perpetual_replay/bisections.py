"""Bisections: the change of a note after which replay scores fell, by comparisons of states of the memory.

A bisection's record holds all that it will do: the tasks, what each of them is shown in each state, and the bar. Its
comparisons are trials, whose pairs follow from their keys. So it goes on from the record after any end of a process.
A state's memory block is made of its notes alone: see `perpetual_recall.snapshot`.

States that show the tasks the same are one: a change that reaches none of them cannot have moved a score. See
`perpetual_replay.search` for the order of comparisons and for what they guarantee.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, TypedDict

from perpetual.api import Conflict, UsageError
from perpetual.toolkit.units import counted
from perpetual_replay.consent import counts, mark_of
from perpetual_replay.history import Change, History, Shown
from perpetual_replay.search import Comparison, Place, Result, bar, decide, follow
from perpetual_replay.tasks import FOLDER, Task, digest_of, read_tasks
from perpetual_replay.trials import BISECTION, Trials

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Record
    from perpetual_recall.snapshot import Snapshot

__all__ = ["BISECTION", "Bisections", "Plan", "State"]


_MOST_BLOCKS = 20_000  # memory blocks that are made to find the states
_MOST_CONTEXTS = 2_000  # texts of contexts that a bisection keeps
_COMMIT = re.compile(r"[0-9a-f]{7,64}\Z")
_EVENT = re.compile(r"(seq:)?([0-9]{1,12})\Z")
_HINT = "a time as 2026-11-25, so long ago as 3d, a commit of the memory, an event as seq:120"


class State(TypedDict):
    """A state of the memory, by the change that made it; `contexts` are digests of what each task is shown."""

    seq: int
    time: str
    path: str | None
    deed: str | None
    before: str | None
    after: str | None
    contexts: list[str]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a bisection would do: the fields of its record that say so, and the texts of its contexts by digest."""

    fields: dict[str, object]
    states: list[State]
    texts: dict[str, str] = field(repr=False)

    @property
    def key(self) -> str:
        """Returns the digest of all that it does."""
        bound = [[{**state, "time": None, "seq": place and state["seq"]} for place, state in enumerate(self.states)],
                 *(self.fields[name] for name in ("tasks_digest", "alpha", "max_pairs", "block_tokens"))]  # fmt: skip
        return sha256(json.dumps(bound, sort_keys=True).encode()).hexdigest()


@dataclass(slots=True)
class _Walk:
    """The memory's way from its beginning through the good state to the bad one."""

    history: History
    left_out: Collection[tuple[str, str | None]]
    good: int
    bad: int
    texts: dict[tuple[str, int], str] = field(default_factory=dict)

    def base(self) -> list[tuple[str, Shown]]:
        """Returns the notes of the good state, in the order in which they were first shown."""
        shown: dict[str, Shown | None] = {}
        for change in self.history.until(self.good, self.left_out):
            shown[change.path] = change.after
        return [(path, version) for path, version in shown.items() if version is not None]

    def later(self) -> list[Change]:
        """Returns the changes after the good state."""
        return [change for change in self.history.until(self.bad, self.left_out) if change.seq > self.good]

    def text(self, path: str, version: Shown) -> str:
        """Returns the text of a version, read once."""
        key = (path, version.number)
        if key not in self.texts:
            self.texts[key] = self.history.text(path, version)
        return self.texts[key]

    def put(self, snapshot: Snapshot, path: str, version: Shown | None) -> None:
        """Makes a note of a snapshot this version, or none."""
        if version is None:
            snapshot.drop(path)
        else:
            snapshot.put(path, version.type, self.text(path, version))


class Bisections:
    """The bisections of a lab."""

    def __init__(self, lab: Lab, trials: Trials | None = None) -> None:
        """Opens the bisections of a lab, whose pairs these trials run; by default the lab's own."""
        self._lab = lab
        self._records = lab.records(BISECTION)
        self._trials = Trials(lab) if trials is None else trials

    # --- asking for one -----------------------------------------------------------------------------------------------

    def plan(self, good: str | None = None, bad: str | None = None) -> Plan:
        """Returns what a bisection between two states would do; nothing is recorded.

        Args:
            good: a time, an event (`seq:120`; 0 is the empty memory), or a commit of the memory; by default the event
                of the first promotion, or the first change where no note was promoted.
            bad: the same of the bad state; by default now.

        Raises:
            UsageError: without a task, for what names no state, where good is not before bad, and where what the tasks
                are shown has not changed between them.
            Conflict: where the memory does not hold the text of a version.
        """
        tasks = read_tasks(self._lab.root)
        if not tasks:
            raise UsageError(f"this project has no replay task ({FOLDER}/NAME.yaml)",
                             hint="perpetual memory replay --example writes three")  # fmt: skip
        options = self._lab.options("replay")
        self._lab.memory.flush()  # a version that was written before a crash has its commit then
        exposure = str(self._lab.config.methodology["memory_exposure"])
        history = History(self._lab, exposure)
        first = history.promoted or (history.changes[0].seq if history.changes else 0)
        start = first if good is None else self._seq(history, good, "--good")
        end = self._lab.feed.last() if bad is None else self._seq(history, bad, "--bad")
        if start >= end:
            raise UsageError(f"the good state (event {start}) is not before the bad one (event {end})",
                             hint="--good and --bad are times, commits of the memory, or events (seq:120)")  # fmt: skip
        walk = _Walk(history, {(path, None) for path in history.inconsistent(self._lab)}, start, end)
        walk.left_out = {*walk.left_out, *self._attacks(walk)}
        tokens = int(str(options["block_tokens"]))
        states, texts = self._states(walk, tasks, tokens)
        changes = len(walk.later())
        _check_changes(states, changes, start, end)
        return Plan({
            "good": start, "bad": end, "exposure": exposure,
            "left_out": [[path, blob] for path, blob in sorted(walk.left_out, key=lambda one: (one[0], one[1] or ""))],
            "tasks": [{**asdict(task), "sources": [*task.sources]} for task in tasks],
            "tasks_digest": digest_of(tasks), "changes": changes, "alpha": float(str(options["bisect_alpha"])),
            "max_pairs": options["bisect_pairs"], "block_tokens": tokens,
        }, states, texts)  # fmt: skip

    def request(self, good: str | None = None, bad: str | None = None) -> Record:
        """Returns the bisection between two states, made where there is none yet; a person's ask approves its runs.

        An agent's stays proposed until a person asks for the same. One that was stopped goes on. Raises as `plan` does.
        """
        plan = self.plan(good, bad)
        with self._lab.together():
            for text in plan.texts.values():
                self._trials.keep(text)
            made = self._records.add(
                **plan.fields, key=plan.key, states=[{**state} for state in plan.states], state="proposed",
                approved_by=None, results=[], found=None, confirmation=None, confirmed=None, reason=None,
                idempotency_key=f"replay-bisection:{plan.key}",
            )  # fmt: skip
        return self._approved(made)

    def known(self, plan: Plan) -> Record | None:
        """Returns the bisection that does as a plan says, None where it was not asked for."""
        return next(iter(self._records.find(key=plan.key)), None)

    def again(self, bisection: Record) -> Record:
        """Returns the bisection as it is now."""
        return self._records.get(bisection.id)

    def newest(self, limit: int = 100) -> list[Record]:
        """Returns the newest bisections, the newest first."""
        return [*self._records.list(limit=limit, newest_first=True).items]

    def of(self, path: str) -> list[Record]:
        """Returns the bisections that ended at a change of a note, oldest first."""
        return self._records.find(found=path)

    def _seq(self, history: History, text: str, option: str) -> int:
        """Returns the event that a text names."""
        from perpetual_report.moments import moment_of

        words, last = text.strip(), self._lab.feed.last()
        number = _EVENT.match(words)
        if number is not None and int(number[2]) <= last:
            return int(number[2])
        named = {commit: seq for commit, seq in history.commits if _COMMIT.match(words) and commit.startswith(words)}
        if len(named) > 1:
            raise UsageError(f"{option}: {len(named)} commits begin with {words}", hint="write more of it")
        if named:
            return named.popitem()[1]
        if number is not None:
            raise UsageError(f"{option}: the record has {last} events, and none numbered {number[2]}",
                             hint="perpetual events lists them")  # fmt: skip
        if _COMMIT.match(words):
            raise UsageError(f"{option}: the memory has no commit {words[:40]}",
                             hint="see perpetual memory history PATH; commit:REV is a commit of the code")  # fmt: skip
        try:
            return moment_of(self._lab, words).seq
        except UsageError as problem:
            raise UsageError(f"{option}: {problem.message.removeprefix('--at is ')}", hint=_HINT) from problem

    def _attacks(self, walk: _Walk) -> Iterable[tuple[str, str]]:
        """Yields the versions that a gate rejects today: a replay would carry out what they say."""
        versions = [*walk.base(), *((change.path, change.after) for change in walk.later())]
        for path, version in dict.fromkeys(versions):
            if version is None:
                continue
            said = self._lab.memory.scan(walk.text(path, version), path=path, type=version.type)
            if said["outcome"] == "reject":
                yield path, version.blob

    def _states(self, walk: _Walk, tasks: Sequence[Task], tokens: int) -> tuple[list[State], dict[str, str]]:
        """Returns the good state and those after a change that reaches a task, and the texts of all contexts."""
        from perpetual_recall.snapshot import Snapshot

        later, queries = walk.later(), len({task.query for task in tasks})
        if (len(later) + 1) * queries > _MOST_BLOCKS:
            raise UsageError(f"the memory changed {len(later)} times, and the tasks have {queries} queries",
                             hint="name a later good state: --good")  # fmt: skip
        texts: dict[str, str] = {}
        with Snapshot(self._lab) as snapshot:
            for path, version in walk.base():
                walk.put(snapshot, path, version)
            contexts = self._contexts(snapshot, tasks, tokens, texts)
            began = next(iter(self._lab.events(since=walk.good - 1, limit=1)), None) if walk.good else None
            states: list[State] = [{"seq": walk.good, "time": began.time if began else "", "path": None, "deed": None,
                                    "before": None, "after": None, "contexts": contexts}]  # fmt: skip
            for change in later:
                walk.put(snapshot, change.path, change.after)
                contexts = self._contexts(snapshot, tasks, tokens, texts)
                if contexts == states[-1]["contexts"]:
                    continue
                if len(texts) > _MOST_CONTEXTS:
                    raise UsageError(f"the tasks are shown more than {_MOST_CONTEXTS} different contexts",
                                     hint="name a later good state: --good")  # fmt: skip
                states.append({
                    "seq": change.seq, "time": change.time, "path": change.path, "deed": change.deed,
                    "before": _blob(change.before), "after": _blob(change.after),
                    "contexts": contexts,
                })  # fmt: skip
        return states, texts

    @staticmethod
    def _contexts(snapshot: Snapshot, tasks: Sequence[Task], tokens: int, texts: dict[str, str]) -> list[str]:
        """Returns the digests of what each task is shown; puts the texts into `texts`."""
        digests: dict[str, str] = {}
        for task in tasks:
            if task.query not in digests:
                text = snapshot.block(task.query, tokens=tokens).text
                digests[task.query] = sha256(text.encode()).hexdigest()
                texts[digests[task.query]] = text
        return [digests[task.query] for task in tasks]

    def _approved(self, bisection: Record) -> Record:
        is_new = bisection["state"] in ("proposed", "stopped")
        is_foreign = bisection["state"] == "running" and not counts(self._lab, bisection)
        if not (is_new or is_foreign) or self._lab.settings.withholds:
            return bisection
        try:
            if bisection["state"] == "stopped":
                for trial in self.trials_of(bisection):
                    self._trials.resume(trial)
            self._change(bisection, state="running", approved_by=self._lab.actor, reason=None,
                         mark=mark_of(self._lab, bisection))  # fmt: skip
        except Conflict:
            pass  # another process has let it go on meanwhile
        return self.again(bisection)

    # --- going on -----------------------------------------------------------------------------------------------------

    def advance(self) -> dict[str, str]:
        """Takes every running bisection as far as it goes without waiting; returns why those that wait do, by ids."""
        waits = {}
        for bisection in self._records.find(state="running"):
            try:
                why = self._advance(bisection)
            except Conflict:
                continue  # another process takes it on
            if why is not None:
                waits[bisection.id] = why
        return waits

    def _advance(self, bisection: Record) -> str | None:
        while True:
            place = self.place(bisection)
            if place.none:
                self._change(bisection, state="none")
                return None
            if place.comparisons:
                trials = [self._trials.comparison(bisection, _name(one), _tasks(bisection, one), needed(bisection))
                          for one in place.comparisons]  # fmt: skip
            else:
                bisection = self._with_confirmation(bisection, place)
                if bisection["state"] != "running":
                    return None
                trials = [self._trials.get(bisection["confirmation"])]
            result, why = self._step(bisection, trials)
            if result is None:
                return why
            if not place.comparisons:
                self._found(bisection, place, trials[0].id, confirmed=result.shown is not None)
                return None
            said = {"shown": result.shown, "e_values": [*result.e_values], "trials": [one.id for one in trials]}
            bisection = self._change(bisection, results=[*bisection["results"], said])

    def _with_confirmation(self, bisection: Record, place: Place) -> Record:
        """Returns the bisection with the trial that confirms its change, or at its end where none needs to run."""
        if bisection["confirmation"] is not None:
            return bisection
        try:
            later, earlier = self._alone(bisection, place)
        except Conflict as problem:  # the memory has lost a text
            return self._change(bisection, state="stopped", reason=problem.message)
        if later == earlier:
            return self._found(bisection, place, None, confirmed=False)
        states = bisection["states"]
        if place.shown and (later, earlier) == (states[place.high]["contexts"], states[place.low]["contexts"]):
            shown = [one["trials"][one["shown"]] for one in bisection["results"] if one["shown"] is not None]
            return self._found(bisection, place, shown[-1], confirmed=True)  # by the very pairs that found it
        tasks = _differing(bisection["tasks"], later, earlier)
        trial = self._trials.comparison(bisection, "the change alone", tasks, needed(bisection))
        return self._change(bisection, confirmation=trial.id)

    def _alone(self, bisection: Record, place: Place) -> tuple[list[str], list[str]]:
        """Returns the contexts of the bad state's memory with the version after the found change, and the one before.

        Their texts are recorded.
        """
        from perpetual_recall.snapshot import Snapshot

        found = bisection["states"][place.high]
        left_out = {(path, blob) for path, blob in bisection["left_out"]}
        walk = _Walk(History(self._lab, bisection["exposure"]), left_out, bisection["good"], bisection["bad"])
        tasks = [Task(one["name"], one["command"], query=one["query"]) for one in bisection["tasks"]]
        (change,) = (one for one in walk.later() if one.seq == found["seq"])
        texts: dict[str, str] = {}
        with Snapshot(self._lab) as snapshot:
            for path, version in [*walk.base(), *((one.path, one.after) for one in walk.later())]:
                walk.put(snapshot, path, version)
            made = []
            for version in (change.after, change.before):
                walk.put(snapshot, change.path, version)
                made.append(self._contexts(snapshot, tasks, int(bisection["block_tokens"]), texts))
        with self._lab.together():
            for text in texts.values():
                self._trials.keep(text)
        return made[0], made[1]

    def _step(self, bisection: Record, trials: Sequence[Record]) -> tuple[Result | None, str | None]:
        """Runs the pairs of a step as far as they go; returns what they say, or None and why they wait."""
        while True:
            differences = [self._trials.differences(trial) for trial in trials]
            result = decide(differences, needed(bisection), int(bisection["max_pairs"]))
            trials = self._trials.again(trials)
            if result is not None:
                for place, trial in enumerate(trials):
                    self._trials.end(trial, "harms" if place == result.shown else "undecided", "the step is decided")
                return result, None
            count = min(len(one) for one in differences)
            waits = [self._trials.take(trial, count + 1) for trial in trials]
            trials = self._trials.again(trials)
            if any(trial["state"] == "stopped" for trial in trials):
                why = next(trial["reason"] for trial in trials if trial["state"] == "stopped")
                self._change(bisection, state="stopped", reason=why)
                return None, None
            if any(int(trial["pairs"]) <= count for trial in trials):
                return None, next((why for why in waits if why is not None), None)

    def _found(self, bisection: Record, place: Place, trial: str | None, *, confirmed: bool) -> Record:
        path = bisection["states"][place.high]["path"]
        return self._change(bisection, state="found", found=path, confirmation=trial, confirmed=confirmed)

    def _change(self, bisection: Record, **fields: object) -> Record:
        return self._records.update(bisection.id, expect_revision=bisection.revision, **fields)

    # --- what they say ------------------------------------------------------------------------------------------------

    def place(self, bisection: Record) -> Place:
        """Returns where its search is."""
        states = bisection["states"]
        results = [Result(one["shown"], tuple(one["e_values"])) for one in bisection["results"]]
        return follow(len(states) - 1, results, _sameness(states))

    def trials_of(self, bisection: Record) -> list[Record]:
        """Returns the trials that it has made, in their order."""
        return self._trials.of_bisection(bisection.id)


def needed(bisection: Record) -> float:
    """Returns the e-value from which a comparison of a bisection shows a fall."""
    return bar(len(bisection["states"]) - 1, float(bisection["alpha"]))


def _sameness(states: Sequence[State]) -> Callable[[int, int], bool]:
    return lambda one, other: states[one]["contexts"] == states[other]["contexts"]


def _blob(version: Shown | None) -> str | None:
    return None if version is None else version.blob


def _name(one: Comparison) -> str:
    return f"state {one.later} against {one.earlier}"


def _tasks(bisection: Record, one: Comparison) -> list[dict[str, object]]:
    states = bisection["states"]
    return _differing(bisection["tasks"], states[one.later]["contexts"], states[one.earlier]["contexts"])


def _differing(
    tasks: Sequence[Mapping[str, object]], later: Sequence[str], earlier: Sequence[str]
) -> list[dict[str, object]]:
    """Returns the tasks that are shown something else in the two states: no other can score otherwise."""
    return [{**task, "with": one, "without": other} for task, one, other in zip(tasks, later, earlier, strict=True)
            if one != other]  # fmt: skip


def _check_changes(states: Sequence[State], changes: int, good: int, bad: int) -> None:
    """Checks that there is something to search."""
    if len(states) > 1:
        return
    if changes == 0:
        raise UsageError(f"what agents are shown did not change between the events {good} and {bad}",
                         hint="name an earlier good state: --good seq:0 is the empty memory")  # fmt: skip
    raise UsageError(
        f"the memory changed {counted(changes, 'time')} between the events {good} and {bad}, and no change reaches "
        "what a replay task is shown",
        hint=f"`query` of {FOLDER}/NAME.yaml says what notes are looked up by; or name an earlier good state: --good",
    )
