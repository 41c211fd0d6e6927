"""What becomes of an answer: a note, an opinion, ideas and proposals, each once, whatever ends the process in between.

`check` says what the record does not allow, before anything is written. The note has an idempotency key of the
question; the rest is recorded in the transaction that ends the thought.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from perpetual.api import Conflict, NotFound, PerpetualError, UsageError
from perpetual.toolkit.fence import neutralise
from perpetual.toolkit.likeness import arguments_like
from perpetual_thinkers.records import Thought
from perpetual_thinkers.replies import BadReply
from perpetual_thinkers.variations import Unfit, varied_command, varied_config

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Experiment, Run

__all__ = ["check", "record", "room", "write_note"]

_TAG = "thinker"
_LONGEST_LINE = 300
_PAGE = 500

Answer = Mapping[str, object]


def room(lab: Lab) -> int:
    """Returns how many proposals may be open beside those that are."""
    size = int(lab.config.methodology["proposal_batch_size"])
    return max(0, size - len(lab.experiments.list(status="proposed", limit=_PAGE)))


def check(lab: Lab, thought: Thought, answer: Answer) -> None:
    """Raises BadReply for an id that there is not, and for a proposal that could not be made."""
    if thought.kind == "analyse":
        _check_verdict(lab, lab.runs.get(thought.subject), answer)
        return
    for number, proposal in enumerate(_proposals(answer)):
        try:
            _propose(lab, proposal)
        except Conflict:
            continue  # tried before: it is left out where the others are made
        except (PerpetualError, Unfit) as problem:
            said = problem.message if isinstance(problem, PerpetualError) else str(problem)
            raise BadReply(f"proposals/{number}: {said}") from None


def write_note(lab: Lab, thought: Thought, answer: Answer, *, model: str) -> dict[str, object]:
    """Writes the note of an analysis through the gates, and returns its path, or why there is none.

    It goes to git as well, so it is written before the rest is recorded; its key makes it one note.
    """
    if thought.kind == "propose":
        return {}
    path, problem = _note(lab, thought, lab.runs.get(thought.subject), str(answer["note"]), model)
    return {"note": path, "note_problem": problem}


def record(lab: Lab, thought: Thought, answer: Answer, *, verdicts: bool) -> dict[str, object]:
    """Records the opinion or the proposals, and returns what was written; for a transaction of the caller's."""
    ideas = [neutralise(idea, _LONGEST_LINE) for idea in cast("list[object]", answer.get("ideas") or [])]
    if thought.kind == "propose":
        return {**_make(lab, thought, answer), "ideas": ideas}
    evidence = _verdict(lab, thought, lab.runs.get(thought.subject), answer) if verdicts else None
    return {"evidence": evidence, "ideas": ideas}


# --- analyses ---------------------------------------------------------------------------------------------------------


def _check_verdict(lab: Lab, run: Run, answer: Answer) -> None:
    verdict = answer.get("verdict")
    if not isinstance(verdict, Mapping):
        return
    owner = lab.experiments.get(run.experiment_id).hypothesis_id
    if verdict["hypothesis"] != owner:
        whose = f"{run.id} tests {owner}" if owner else f"{run.id} tests no hypothesis"
        raise BadReply(f"verdict/hypothesis: {whose}, not {verdict['hypothesis']}")


def _note(lab: Lab, thought: Thought, run: Run, text: str, model: str) -> tuple[str | None, str | None]:
    """Returns the path of the note that was written through the gates, or None and why there is none."""
    if not lab.config.methodology["memory_write_on_completion"]:
        return None, "memory_write_on_completion is false"
    path = f"notes/thoughts/{run.id}.md"
    said_by = f"{thought.thinker}, {neutralise(model, 60)}" if model else thought.thinker
    content = f"# A thinker on {run.id} of {run.experiment_id}\n\n{text.strip()}\n\n({said_by}; {thought.id})\n"
    try:
        lab.memory.write(path, content, type="note", message=f"{thought.id}: a thinker on {run.id}",
                         idempotency_key=f"{thought.request_id}:note")  # fmt: skip
    except PerpetualError as problem:  # a gate has rejected it, or the memory cannot be written
        return None, neutralise(problem.message, _LONGEST_LINE)
    return path, None


def _verdict(lab: Lab, thought: Thought, run: Run, answer: Answer) -> str | None:
    """Returns the row of evidence that holds the opinion; None where there is none.

    There is none on a run that did not end by itself, nor on one that was measured: the same data would count twice.
    """
    verdict = answer.get("verdict")
    if not isinstance(verdict, Mapping) or run.status != "done":
        return None
    hypothesis = str(verdict["hypothesis"])
    for row in lab.evidence.all(hypothesis_id=hypothesis):
        if row.run_id == run.id and row.kind == "measured":
            return None
    why = f"{neutralise(verdict['why'], _LONGEST_LINE)} ({thought.thinker}, {thought.id})"
    made = lab.evidence.add(hypothesis, verdict=str(verdict["direction"]), strength=float(verdict["strength"]),
                            why=why, run_id=run.id)  # fmt: skip
    return made.id


# --- proposals --------------------------------------------------------------------------------------------------------


def _proposals(answer: Answer) -> list[Mapping[str, object]]:
    return cast("list[Mapping[str, object]]", answer["proposals"])


def _make(lab: Lab, thought: Thought, answer: Answer) -> dict[str, object]:
    """Makes the proposals for which there is room, and says why others were left out."""
    made: list[str] = []
    left_out: list[str] = []
    for number, proposal in enumerate(_proposals(answer)):
        try:
            if room(lab) <= 0:
                raise Unfit("proposal_batch_size is reached")
            made.append(_propose(lab, proposal, tags=(_TAG, thought.id), dry_run=False))
        except (PerpetualError, Unfit) as problem:
            said = problem.message if isinstance(problem, PerpetualError) else str(problem)
            left_out.append(f"{number}: {neutralise(said, _LONGEST_LINE)}")
    return {"proposals": made, "left_out": left_out}


def _propose(lab: Lab, proposal: Mapping[str, object], *, tags: tuple[str, ...] = (), dry_run: bool = True) -> str:
    """Proposes one experiment, or says whether it could be; returns its id."""
    pattern = _pattern(lab, str(proposal["like"]))
    assert pattern.command is not None
    args = cast("Mapping[str, object]", proposal.get("args") or {})
    changes = cast("Mapping[str, object]", proposal.get("config") or {})
    command = varied_command(pattern.command, args)
    if proposal.get("command") is not None:
        command = _free(lab, str(proposal["command"]))
    elif not args and not changes:
        raise Unfit(f"it changes nothing of {pattern.id}")
    config = varied_config(pattern.config, changes)
    replicates = proposal.get("replicates")
    varied = ", ".join(f"{name}={value}" for name, value in {**args, **changes}.items())
    title = proposal.get("title") or f"{pattern.hypothesis_id}: {varied or 'another command'}"
    made = lab.experiments.propose(
        pattern.hypothesis_id, command=command, config=config, title=neutralise(title, 120),
        notes=neutralise(proposal["why"], 2000), tags=tags, dry_run=dry_run,
        replicates=replicates if isinstance(replicates, int) else pattern.design.replicates,
        **arguments_like(pattern),  # type: ignore[arg-type]  # each has the type of its own parameter
    )  # fmt: skip
    return made.id


def _pattern(lab: Lab, id: str) -> Experiment:
    """Returns the experiment that a proposal is like.

    Raises:
        Unfit: for one that there is not, and for one without a command, a claim or an open hypothesis.
    """
    try:
        found = lab.experiments.get(id)
    except NotFound:
        raise Unfit(f"there is no experiment {id}") from None
    if found.hypothesis_id is None or found.command is None or found.design.claim is None:
        raise Unfit(f"{id} has no command that tests a hypothesis")
    if found.status in ("rejected", "expired"):
        raise Unfit(f"{id} is {found.status}")
    if lab.hypotheses.get(found.hypothesis_id).status != "open":
        raise Unfit(f"{found.hypothesis_id} is not open")
    return found


def _free(lab: Lab, command: str) -> str:
    """Returns a command of a thinker's own, where the project lets it have one and a person approves each proposal."""
    if not lab.options("thinkers")["free_commands"]:
        raise Unfit("a command of its own is refused: vary `args` or `config`")
    if lab.config.methodology["auto_approve"]:
        raise UsageError("a command of a thinker's own needs a person, and auto_approve is on")
    return command
