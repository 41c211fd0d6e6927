"""The promotion stage `replay`: what the trials of a note have shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual.api import PromotionStage, StageVerdict

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Note

__all__ = ["ReplayStage", "build"]


class ReplayStage(PromotionStage):
    """Promotes a version that helps on the project's tasks, rejects one that harms."""

    def judge(self, lab: Lab, note: Note, text: str) -> StageVerdict:
        """Returns what the newest trial of this version says, with its table and curve as evidence."""
        from perpetual_replay.show import lines, replay
        from perpetual_replay.trials import Trials

        trials = Trials(lab)
        trial = trials.of(note.path, note.blob)
        if trial is None:
            named = _bisections(lab, note.path)
            return StageVerdict("abstain", "no replay of this version", {"lines": named} if named else {})
        verdict = trials.judge(trial)
        document = replay(trials, lab, trial)
        evidence = {**document, "lines": [*lines(document), *_bisections(lab, note.path)]}
        if verdict.state == "harms":
            return StageVerdict("reject", f"it harms: {verdict.reason}", evidence)
        if trial["state"] == "expired":
            return StageVerdict("expire", f"undecided until {trial['expires_at']}: {verdict.reason}", evidence)
        if verdict.state != "helps":
            return StageVerdict("abstain", verdict.reason, evidence)
        if trials.failed_canary(trial):
            return StageVerdict("wait", "a note of no use seemed to help on these tasks: mend the tasks", evidence)
        if not trials.passed_canary(trial):
            return StageVerdict("wait", "these tasks are not tested by a note of no use yet", evidence)
        return StageVerdict("promote", f"it helps: {verdict.reason}", evidence)


def _bisections(lab: Lab, path: str) -> list[str]:
    """Returns the bisections that ended at a change of a note, a line each."""
    from perpetual_replay.bisections import Bisections
    from perpetual_replay.show_bisection import bisection

    return [f"{record.id}: {bisection(lab, record)['sentence']}" for record in Bisections(lab).of(path)]


def build(options: Mapping[str, object]) -> ReplayStage:
    """Returns the stage."""
    return ReplayStage()
