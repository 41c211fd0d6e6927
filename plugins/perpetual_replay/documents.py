"""The document of `perpetual memory replay`."""

from __future__ import annotations

from perpetual.documents import TypedDict

__all__ = ["Replay", "Replays", "TaskLine"]


class TaskLine(TypedDict):
    """What the pairs of one task say; scores are means, null before the first pair."""

    task: str
    pairs: int
    score_with: float | None
    score_without: float | None


class Replay(TypedDict):
    """A trial of one version of a note.

    `effect` is the mean difference of the scores over the project's tasks with an interval of 90 % that holds at every
    number of pairs; `curve` is (e_help, e_harm) after each pair; `bar` is the e-value from which the note is promoted;
    `live` are runs that are not over yet; `waits_for` says why no pair starts, null where nothing is in the way.
    """

    id: str
    path: str
    blob: str
    canary: bool
    state: str
    reason: str | None
    approved_by: str | None
    pairs: int
    max_pairs: int
    e_help: float
    e_harm: float
    bar: float
    harm_bar: float
    effect: float | None
    low: float | None
    high: float | None
    tasks: list[TaskLine]
    curve: list[list[float]]
    live: list[str]
    waits_for: str | None
    worst_case_run_hours: float
    sentence: str


class Replays(TypedDict):
    """Trials, those that were asked for first; `note_status` is each note's status by its path."""

    items: list[Replay]
    note_status: dict[str, str]
    tasks: int
