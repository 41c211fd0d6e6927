"""Trials: one version of a note, tested by pairs of runs on the project's replay tasks.

A comparison of a bisection is a trial as well, of the memory of a later state against that of an earlier one; it
decides on no note.

Everything that a trial will do is in its record when it is made: the tasks, both contexts of each, and, by its key, the
order of the pairs. So it goes on from the record after any end of a process. A run that gave no score counts 0; a pair
in which a run was lost or killed is run again, both arms of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from perpetual.api import (
    Conflict,
    NotFound,
    PerpetualError,
    UsageError,
    from_json,
)
from perpetual.toolkit.atomic import write_atomic
from perpetual.toolkit.units import iso
from perpetual_replay.consent import counts, mark_of
from perpetual_replay.evalues import Pairs, bar, weigh
from perpetual_replay.tasks import (
    FOLDER,
    Task,
    digest_of,
    draws,
    read_tasks,
    score_of,
    sources_of,
)

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Experiment, Note, Record, Run

__all__ = ["BISECTION", "CANARY", "FIRST", "OPEN", "PAIR", "TRIAL", "Trials", "Verdict"]

TRIAL, PAIR, CONTEXT, BISECTION = "replay.trial", "replay.pair", "replay.context", "replay.bisection"
OPEN = ("proposed", "running")
_RESUMED = ("stopped", "withdrawn")  # states from which a person's ask takes a trial on again
_ENDED = ("done", "failed", "timeout", "killed", "lost")
_VOID = ("killed", "lost")  # of a run that was not its own end
FIRST = "the tasks are tested by a note of no use first"
_STOPPED = "stopped"
_ELSEWHERE = "it was not approved here: a person approves it by asking for the same"
_ATTEMPTS = 3  # at a pair
_TESTABLE = ("candidate", "quarantined", "promoted", "expired")
_PLACE = ".perpetual/replay"
CANARY = "# On notes\n\nNotes are kept in folders. A folder may hold many notes, and a note may have a title.\n"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a trial's pairs say: `helps`, `harms`, `undecided`, or `running` while more pairs are needed."""

    state: str
    found: Pairs
    bar: float
    reason: str


class Trials:
    """The trials of a lab."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._trials, self._pairs = lab.records(TRIAL), lab.records(PAIR)
        self._options = lab.options("replay")

    # --- asking for one -----------------------------------------------------------------------------------------------

    def request(self, path: str) -> Record:
        """Returns the trial of the note's newest version, made where there is none yet; a person's ask approves it.

        An agent's stays proposed until a person asks for the same. One that was stopped or withdrawn goes on.

        Raises:
            UsageError: where the project has no task, or none that is disjoint from the note's own work.
            Conflict: for a note without an accepted text.
        """
        note = self._lab.memory.get(path)
        if note.status not in _TESTABLE:
            raise Conflict(f"{note.path} is {note.status}, and there is no accepted text to test",
                           hint=f"perpetual memory write {note.path} with another text")  # fmt: skip
        text = self._lab.memory.read(note.path, exposed_only=False)
        tasks = self._tasks_for(note, text)
        made = self._made(note.path, note.blob, note.type, text, tasks, canary=False)
        if made["state"] in ("helps", "harms") and not self._lab.settings.withholds:
            self._lab.memory.decide(note.path)  # again: another stage or a gate may have failed when it was over
        return self._approved(made)

    def queue(self) -> list[Record]:
        """Asks for a trial of each note that waits for a decision, oldest first, and returns them.

        Notes without a task that is disjoint from their own work are left out.
        """
        found, cursor = [], None
        while True:
            page = self._lab.memory.queue(limit=500, cursor=cursor)
            for item in page.items:
                try:
                    found.append(self.request(item.note.path))
                except UsageError:
                    if not read_tasks(self._lab.root):
                        raise
            cursor = page.next_cursor
            if cursor is None:
                return found

    def _tasks_for(self, note: Note, text: str) -> list[Task]:
        tasks = read_tasks(self._lab.root)
        if not tasks:
            raise UsageError(f"this project has no replay task ({FOLDER}/NAME.yaml)",
                             hint="perpetual memory replay --example writes one; without tasks a person decides: "
                             f"perpetual memory promote {note.path} --why T")  # fmt: skip
        own = sources_of(note.path, text)
        left = [task for task in tasks if not own & {*task.sources}]
        if not left:
            raise UsageError(f"every replay task comes from the work that {note.path} was learned from",
                             hint=f"add a task of other work to {FOLDER}/")  # fmt: skip
        return left

    def _made(self, path: str, blob: str, type_: str, text: str, tasks: Sequence[Task], *, canary: bool) -> Record:
        digest = digest_of(tasks)
        options = self._options
        kept = [{**asdict(task), "sources": [*task.sources],
                 **self._contexts(path, type_, task.canary if canary and task.canary else text, task)}
                for task in tasks]  # fmt: skip
        days = float(str(options["expires_days"]))
        return self._trials.add(
            note=path, blob=blob, canary=canary, tasks_digest=digest, tasks=kept, state="proposed", approved_by=None,
            max_pairs=options["canary_pairs"] if canary else options["max_pairs"], pairs=0, e_help=1.0, e_harm=1.0,
            bar=None, voided=0, reason=None, expires_at=iso(datetime.now(UTC) + timedelta(days=days)), bisection=None,
            draws=self._lab.root.name, idempotency_key=f"replay:{path}:{blob}:{digest}:{canary}",
        )  # fmt: skip

    def comparison(self, bisection: Record, name: str, tasks: Sequence[Mapping[str, object]], needed: float) -> Record:
        """Returns a bisection's trial of that name, made where there is none yet.

        It runs as the bisection was approved, pair by pair as `take` lets it, until its e-value of harm reaches a bar.

        Args:
            bisection: the bisection.
            name: of the comparison, once in the bisection.
            tasks: each with the digests of its contexts: `with` of the later state, `without` of the earlier one.
            needed: the bar.
        """
        return self._trials.add(
            note=f"{bisection.id}, {name}", blob=sha256(name.encode()).hexdigest(), canary=False,
            tasks_digest=bisection["tasks_digest"], tasks=[*tasks], state="running",
            approved_by=bisection["approved_by"], max_pairs=bisection["max_pairs"], pairs=0, e_help=1.0, e_harm=1.0,
            bar=needed, voided=0, reason=None, expires_at=bisection.created_at, bisection=bisection.id,
            draws=self._lab.root.name, idempotency_key=f"replay-bisection:{bisection.id}:{name}",
        )  # fmt: skip

    def _contexts(self, path: str, type_: str, text: str, task: Task) -> dict[str, object]:
        """Returns the digests of a task's two contexts, whose texts are recorded, and the note's tokens in the one."""
        from perpetual_recall.block import memory_block

        tokens = int(str(self._options["block_tokens"]))
        with_ = memory_block(self._lab, task.query, tokens=tokens, extra=(path, type_, text), without=(path,))
        without = memory_block(self._lab, task.query, tokens=tokens, without=(path,))
        spent = sum(note.tokens for note in with_.notes if note.path == path)
        return {"with": self.keep(with_.text), "without": self.keep(without.text), "tokens": spent}

    def keep(self, text: str) -> str:
        """Records a context that runs are given; returns its digest."""
        digest = sha256(text.encode()).hexdigest()
        self._lab.records(CONTEXT).add(digest=digest, text=text, idempotency_key=f"replay-context:{digest}")
        return digest

    def _approved(self, trial: Record) -> Record:
        if self._lab.settings.withholds:
            return trial
        for one in (self._canary_of(trial), trial):
            if one is None or not (one["state"] in ("proposed", *_RESUMED) or self._was_approved_elsewhere(one)):
                continue
            voided = int(one["voided"]) + (_ATTEMPTS if one["state"] in _RESUMED else 0)
            with _unless_done():
                self._change(one, state="running", approved_by=self._lab.actor, reason=None, voided=voided,
                             mark=mark_of(self._lab, one))  # fmt: skip
        return self._trials.get(trial.id)

    def _was_approved_elsewhere(self, trial: Record) -> bool:
        if trial["state"] != "running":
            return False
        of = None if trial["bisection"] is None else self._lab.records(BISECTION).get(trial["bisection"])
        return not counts(self._lab, trial, of=of)

    def _canary_of(self, trial: Record) -> Record | None:
        """Returns the canary of the trial's set of tasks, made where there is none yet; None for a canary itself."""
        if trial["canary"]:
            return None
        tasks = [from_json(Task, one) for one in trial["tasks"]]
        return self._made(f"canary of {trial['tasks_digest'][:12]}", sha256(CANARY.encode()).hexdigest(), "note",
                          CANARY, tasks, canary=True)  # fmt: skip

    # --- going on -----------------------------------------------------------------------------------------------------

    def advance(self) -> dict[str, str]:
        """Takes every running trial as far as it goes without waiting; returns why those that wait do, by their ids."""
        waits = {}
        for trial in self._trials.find(state="running"):
            if trial["bisection"] is not None:
                continue  # its bisection says how far it goes
            try:
                why = self._advance(trial)
            except Conflict:
                continue  # another process has just taken it on, or decided on the note
            if why is not None:
                waits[trial.id] = why
        self._expire()
        return waits

    def take(self, trial: Record, pairs: int) -> str | None:
        """Takes a comparison on until it has so many pairs or cannot go on; returns why it waits, None where it runs.

        Raises:
            Conflict: where another process takes it on.
        """
        return self._paired(trial, pairs) if trial["state"] == "running" else None

    def resume(self, trial: Record) -> None:
        """Lets a comparison that was stopped go on, with new attempts at its pair."""
        if trial["state"] == "stopped":
            self._change(trial, state="running", reason=None, voided=int(trial["voided"]) + _ATTEMPTS)

    def end(self, trial: Record, state: str, reason: str | None) -> None:
        """Ends a comparison whose step is decided."""
        if trial["state"] == "running":
            self._change(trial, state=state, reason=reason)

    def _advance(self, trial: Record) -> str | None:
        # A trial that is over is finished below, also where another process has decided on its note by now.
        if not trial["canary"] and self.judge(trial).state == "running" and (gone := self._is_gone(trial)):
            self._change(trial, state="withdrawn", reason=gone)
            return None
        canary = self._canary_of(trial)
        if canary is not None and canary["state"] == "running":
            return FIRST
        return self._paired(trial, int(trial["max_pairs"]))

    def _paired(self, trial: Record, most: int) -> str | None:
        """Runs pairs until there are `most`, or the trial is over or waits; returns why it waits."""
        tasks = [from_json(Task, one) for one in trial["tasks"]]
        plan = draws(tasks, f"{self._draws_of(trial)}:{trial.id}:{trial['blob']}", int(trial["max_pairs"]))
        while True:
            verdict = self.judge(trial)
            if verdict.state != "running" and trial["bisection"] is None:
                self._finish(trial, verdict)
                return None
            place = int(trial["pairs"])
            if place >= most:
                return None
            index, seed, with_first = plan[place]
            names = ("with", "without") if with_first else ("without", "with")
            runs, why = self._runs(trial, tasks[index], trial["tasks"][index], place, seed, names)
            if why == _STOPPED:
                self._change(trial, state="stopped", reason=f"the runs of pair {place + 1} were lost or killed")
                return None
            if runs is None:
                return why
            trial = self._record(trial, tasks[index].name, place, seed, with_first, runs)

    def _draws_of(self, trial: Record) -> str:
        """Returns what the trial's pairs are drawn by: the folder's name when it was declared, whatever it is now."""
        return str(trial.fields.get("draws") or self._lab.root.name)  # a trial of an earlier version has none yet

    def _is_gone(self, trial: Record) -> str | None:
        try:
            note = self._lab.memory.get(trial["note"])
        except NotFound:
            return "the note is gone"
        if note.blob != trial["blob"]:
            return "the note has a newer version"
        return None if note.status in _TESTABLE else f"the note is {note.status}"

    def _runs(
        self, trial: Record, task: Task, kept: Mapping[str, str], place: int, seed: int, names: Sequence[str]
    ) -> tuple[dict[str, Run] | None, str | None]:
        """Returns the ended runs of a pair by arm, started where they are missing; or None and why there are none."""
        if self._was_approved_elsewhere(trial):
            return None, _ELSEWHERE
        for attempt in range(int(trial["voided"]), int(trial["voided"]) + _ATTEMPTS):
            arms = {name: self._arm(trial, task, kept[name], place, seed, name, attempt) for name in names}
            runs = {name: next(iter(self._lab.runs.named([arm.id])), None) for name, arm in arms.items()}
            try:
                for name, arm in arms.items():
                    runs[name] = runs[name] or self._started(arm, kept[name], seed)
            except PerpetualError as problem:
                return None, problem.message
            ended = {name: run for name, run in runs.items() if run is not None and run.status in _ENDED}
            if len(ended) < len(arms):
                return None, None
            if not any(run.status in _VOID or run.seed != seed for run in ended.values()):
                return ended, None
        return None, _STOPPED

    def _arm(
        self, trial: Record, task: Task, digest: str, place: int, seed: int, name: str, attempt: int
    ) -> Experiment:
        """Returns the experiment of one arm of a pair: proposed, and approved as the trial is."""
        of = f"{name} it" if trial["bisection"] is None else f"{'later' if name == 'with' else 'earlier'} memory"
        env = {"PERPETUAL_CONTEXT_FILE": str(self._file(digest)), "PERPETUAL_REPLAY_SEED": str(seed)}
        key = f"replay:{trial.id}:{place}:{name}:{attempt}"

        def proposed(key: str) -> Experiment:
            return self._lab.experiments.propose(
                command=task.command, cwd=task.cwd, gpus=task.gpus, wall_s=task.wall_s, tags=("replay",), priority=-1,
                title=f"replay of {trial['note']}: {task.name} {of}, pair {place + 1}"[:120], env=env,
                idempotency_key=key,
            )  # fmt: skip

        arm = proposed(key)
        if arm.env == env or next(iter(self._lab.runs.named([arm.id])), None) is not None:
            return arm
        # The folder was renamed before its run started, which would look for its context where it was.
        if arm.status in ("proposed", "approved") and not self._lab.settings.withholds:
            self._lab.experiments.reject(arm.id, "the project's folder was renamed: it is proposed anew")
        return proposed(f"{key}:{sha256(str(self._lab.root).encode()).hexdigest()[:16]}")

    def _started(self, arm: Experiment, digest: str, seed: int) -> Run | None:
        """Starts the run of one arm; None where another process has started it meanwhile."""
        self._write(digest)
        if arm.status == "proposed":
            with _unless_done():
                # A person approved the trial, which binds the command; this is what it consists of.
                self._lab.experiments.approve_all([arm.id], allowed=True)
        with _unless_done():
            return self._lab.runs.launch(arm.id, seed=seed)[0]
        return next(iter(self._lab.runs.named([arm.id])), None)

    def _file(self, digest: str) -> Path:
        return self._lab.root / _PLACE / f"{digest}.md"

    def _write(self, digest: str) -> None:
        """Writes the context that runs read, as it was recorded; one that was changed meanwhile is written anew."""
        path = self._file(digest)
        text: str | None = self._lab.records(CONTEXT).find(digest=digest)[0]["text"]
        if text is None:  # it is private, and left out of exports
            raise NotFound("this record was imported without the contexts of its replays", hint="ask for a new one")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(path, text, mode=0o400)

    def _record(
        self, trial: Record, task: str, place: int, seed: int, with_first: bool, runs: Mapping[str, Run]
    ) -> Record:
        scores, remarks = {}, []
        for name, run in runs.items():
            score = self._score(run)
            if score is None:
                remarks.append(f"{run.id} gave no score: {run.reason or 'its last line is no number in [0, 1]'}")
            scores[name] = 0.0 if score is None else score
        earlier = self.differences(trial)
        found = weigh([*earlier, scores["with"] - scores["without"]])
        with self._lab.together():
            self._pairs.append(
                trial=trial.id, place=place, task=task, seed=seed, with_first=with_first, run_with=runs["with"].id,
                run_without=runs["without"].id, score_with=scores["with"], score_without=scores["without"],
                remarks=remarks, idempotency_key=f"replay-pair:{trial.id}:{place}",
            )  # fmt: skip
            self._trials.update(trial.id, expect_revision=trial.revision, pairs=place + 1, e_help=found.e_help,
                                e_harm=found.e_harm, draws=self._draws_of(trial))  # fmt: skip
        for run in runs.values():
            self._lab.experiments.archive(run.experiment_id)
        return self._trials.get(trial.id)

    def _score(self, run: Run) -> float | None:
        if run.status != "done":
            return None
        try:
            return score_of(self._lab.runs.logs(run.id, tail=20)["text"])
        except NotFound:
            return None  # it printed nothing

    def _finish(self, trial: Record, verdict: Verdict) -> None:
        if not trial["canary"] and verdict.state in ("helps", "harms") and self._is_gone(trial) is None:
            # Before the trial's own state: after a crash between the two the same is decided again.
            self._lab.memory.decide(trial["note"])
        self._change(trial, state=verdict.state, reason=verdict.reason, bar=verdict.bar)

    def _expire(self) -> None:
        now = iso(datetime.now(UTC))
        for trial in self._trials.find(state="undecided"):
            if trial["canary"] or trial["bisection"] is not None or now < trial["expires_at"]:
                continue
            with _unless_done():
                self._change(trial, state="expired", reason="undecided for too long")
                if self._is_gone(trial) is None:
                    self._lab.memory.decide(trial["note"])

    def _change(self, trial: Record, **fields: object) -> None:
        self._trials.update(trial.id, expect_revision=trial.revision, **fields)

    def get(self, id: str) -> Record:
        """Returns a trial; raises NotFound."""
        return self._trials.get(id)

    def of_bisection(self, id: str) -> list[Record]:
        """Returns the comparisons of a bisection, in the order in which they were made."""
        return self._trials.find(bisection=id)

    def again(self, trials: Sequence[Record]) -> list[Record]:
        """Returns the trials as they are now."""
        return [self._trials.get(trial.id) for trial in trials]

    def newest(self, limit: int = 100) -> list[Record]:
        """Returns the newest trials of notes, the newest first."""
        found: list[Record] = []
        cursor = None
        while len(found) < limit:
            page = self._trials.list(limit=limit, newest_first=True, cursor=cursor)
            found += [trial for trial in page.items if trial["bisection"] is None]
            cursor = page.next_cursor
            if cursor is None:
                break
        return found[:limit]

    # --- what they say ------------------------------------------------------------------------------------------------

    def of(self, path: str, blob: str) -> Record | None:
        """Returns the newest trial of a version of a note."""
        found = [trial for trial in self._trials.find(note=path) if trial["blob"] == blob and not trial["canary"]]
        return found[-1] if found else None

    def tested(self, paths: Collection[str] | None = None) -> dict[tuple[str, str], Record]:
        """Returns the newest trial with a pair of each version of a note, by its path and blob."""
        found = self._trials.find() if paths is None else [
            trial for path in dict.fromkeys(paths) for trial in self._trials.find(note=path)
        ]  # fmt: skip
        ours = (one for one in found if one["pairs"] and not one["canary"] and one["bisection"] is None)
        return {(one["note"], one["blob"]): one for one in ours}

    def pairs_of(self, trial: Record) -> list[Record]:
        """Returns the trial's pairs, in the planned order."""
        return sorted(self._pairs.find(trial=trial.id), key=lambda pair: int(pair["place"]))

    def differences(self, trial: Record) -> list[float]:
        """Returns score with minus score without of each pair."""
        return [float(pair["score_with"]) - float(pair["score_without"]) for pair in self.pairs_of(trial)]

    def judge(self, trial: Record) -> Verdict:
        """Returns what the pairs of a trial say, at its bar among all notes in the queue."""
        options = self._options
        found = weigh(self.differences(trial))
        if trial["bisection"] is not None:
            return _compared(trial, found)
        needed, harm_bar = self.bar(trial, found.e_help), 1 / float(str(options["harm_alpha"]))
        said = f"{found.pairs} pairs, e-value {found.e_help:.3g} of help (bar {needed:.3g}), {found.e_harm:.3g} of harm"
        if trial["canary"]:
            state = "harms" if found.e_help >= harm_bar else "undecided"
            is_over = found.pairs >= int(trial["max_pairs"]) or state == "harms"
            return Verdict(state if is_over else "running", found, harm_bar, said)
        if found.pairs >= int(str(options["min_pairs"])):
            if found.e_harm >= harm_bar:
                return Verdict("harms", found, needed, said)
            if found.e_help >= needed:
                return Verdict("helps", found, needed, said)
        return Verdict("undecided" if found.pairs >= int(trial["max_pairs"]) else "running", found, needed, said)

    def bar(self, trial: Record, e_help: float) -> float:
        """Returns the e-value from which the trial's note is promoted, by e-BH over the notes of the queue.

        The queue is every note of which a pair was run and whose trial has not expired, whatever came of it: a bar
        that fell with each note that leaves would promise less.
        """
        now = iso(datetime.now(UTC))
        others = [float(one["e_help"]) for one in self._all() if one.id != trial.id and one["expires_at"] > now]
        return bar([e_help, *others], float(str(self._options["alpha"])))

    def _all(self) -> Iterator[Record]:
        for state in ("running", "helps", "harms", "undecided", "stopped"):
            yield from (one for one in self._trials.find(state=state)
                        if not one["canary"] and one["pairs"] and one["bisection"] is None)  # fmt: skip

    def failed_canary(self, trial: Record) -> bool:
        """Returns whether a note of no use seemed to help on the trial's tasks: then nothing is promoted by them."""
        found = self._trials.find(note=f"canary of {trial['tasks_digest'][:12]}")
        return any(one["state"] == "harms" for one in found)

    def passed_canary(self, trial: Record) -> bool:
        """Returns whether the canary of the trial's tasks has been tested, and did not seem to help."""
        found = self._trials.find(note=f"canary of {trial['tasks_digest'][:12]}")
        return bool(found) and all(one["state"] == "undecided" for one in found)


def _compared(trial: Record, found: Pairs) -> Verdict:
    """Returns what the pairs of a bisection's comparison say by themselves: whether the later memory scores less."""
    needed = float(trial["bar"])
    state = "harms" if found.e_harm >= needed else "undecided" if found.pairs >= trial["max_pairs"] else "running"
    said = f"{found.pairs} pairs, e-value {found.e_harm:.3g} of a fall (bar {needed:.3g})"
    return Verdict(state, found, needed, said)


@contextmanager
def _unless_done() -> Iterator[None]:
    """Ignores a Conflict: another process has done it meanwhile."""
    try:
        yield
    except Conflict:
        return
