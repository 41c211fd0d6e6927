"""The documents of `perpetual memory replay` and `perpetual memory bisect`."""

from __future__ import annotations

from perpetual.documents import TypedDict

__all__ = ["Bisection", "Compared", "FoundChange", "MemoryState", "Replay", "Replays", "TaskLine"]


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


class Compared(TypedDict):
    """Pairs of a later state of the memory against an earlier one, on the tasks that are shown something else in them.

    `later` and `earlier` are numbers of states, null for the found change alone in the memory of the bad state.
    `effect` is the mean of the later one's score minus the earlier one's, with an interval of 90 % that holds at every
    number of pairs, null before the first; `e_value` is that of a fall, which is shown from `bar`.
    """

    trial: str
    later: int | None
    earlier: int | None
    pairs: int
    e_value: float
    bar: float
    shown: bool
    effect: float | None
    low: float | None
    high: float | None
    tasks: list[str]


class MemoryState(TypedDict):
    """A state of the memory, by the change that made it; the first is the good state, whose change is null.

    `before` and `after` are the versions of the note that agents were shown, null for none.
    """

    number: int
    seq: int
    time: str
    path: str | None
    deed: str | None
    before: str | None
    after: str | None


class FoundChange(TypedDict):
    """The change at which a search ended.

    `shown`: whether the state after it was compared with the one before it and shown to score less; `by` are these
    pairs. `confirmed`: whether the change was shown to lower scores in the memory of the bad state; `confirmation` are
    those pairs, null where nothing was run: the change then no longer reaches what the tasks are shown.
    """

    state: MemoryState
    shown: bool
    by: Compared | None
    confirmed: bool
    confirmation: Compared | None


class Bisection(TypedDict):
    """A search for the change of a note after which replay scores fell.

    `changes` counts those of the memory between the two states; `states` has those that reach a task. `comparisons` is
    how many there are at most; each shows a fall from `bar`, so that any fall that is called shown and is none has a
    chance of at most `alpha` in all. `unproven` counts steps that went to a side without a fall shown there. `id` is
    null for one that was not asked for.
    """

    id: str | None
    state: str
    reason: str | None
    approved_by: str | None
    good: int
    bad: int
    changes: int
    states: list[MemoryState]
    left_out: list[str]
    tasks: list[str]
    alpha: float
    bar: float
    comparisons: int
    max_pairs: int
    worst_case_run_hours: float
    compared: list[Compared]
    unproven: int
    found: FoundChange | None
    live: list[str]
    waits_for: str | None
    sentence: str
