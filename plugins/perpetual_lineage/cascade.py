"""Taking a note back with what derives from it: `reject` at once, `catch_up` at a scan.

The rejection comes first. What follows is decided note by note, and a call that was cut off is finished by the next
scan; until then no search of an agent offers these notes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perpetual.api import Conflict, NotFound, NotPermitted
from perpetual.toolkit.readers import FOR_A_PERSON
from perpetual_lineage.documents import Follower, Lineage, Rejection, Source

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Note

__all__ = ["catch_up", "lineage_of", "reject"]

_MOST_DECIDED = 500  # notes in one scan
_REVIEW = "lineage.review"
_PENDING = ("candidate", "promoted", "expired", "quarantined")


def reject(
    lab: Lab, path: str, why: str, *, blob: str | None = None, dry_run: bool = False, keep_derived: bool = False
) -> Rejection:
    """Rejects the newest version of a note, and takes back the notes that derive from it.

    Args:
        blob: reject this version alone; where the newest is rejected already, the promoted one that agents are shown.
        dry_run: changes nothing, and answers what would follow.
        keep_derived: leaves the derived notes as they are, for a person to decide on; they are named.

    Raises:
        NotPermitted: where an agent would take back what a person promoted, or would keep derived notes. Nothing has
            happened then.
        NotFound, Conflict, UsageError: as `lab.memory.reject`.
    """
    from perpetual_lineage.ancestry import follows
    from perpetual_lineage.index import index_of

    note = lab.memory.get(path)
    with index_of(lab).of(lab) as connection:
        found = follows(connection, note.path, lab.feed.last() + 1)
    plan: list[Follower] = [
        {"path": state.path, "status": state.status, "now": state.status, "through": reason.through}
        for state, reason in found
    ]
    _check_permitted(lab, plan, keep_derived=keep_derived)
    if dry_run:
        return {**_rehearsed(lab, note, why, blob), "derived": plan, "kept": keep_derived}
    if keep_derived and plan:
        with lab.together():  # the mark and the rejection: a scan in between would take the derived notes back
            lab.records("lineage.kept").append(
                source=note.path, blob=note.blob, event=lab.feed.last(), notes=[item["path"] for item in plan]
            )
            made = lab.memory.reject(note.path, why, blob=blob)
            return {**made, "shown": _shown(lab, note.path), "derived": plan, "kept": True}
    answer = lab.memory.reject(note.path, why, blob=blob)
    for item in [] if keep_derived else plan:
        item["now"] = _decided(lab, item["path"]) or item["status"]
    return {**answer, "shown": _shown(lab, note.path), "derived": plan, "kept": keep_derived}


def _rehearsed(lab: Lab, note: Note, why: str, blob: str | None) -> Rejection:
    """Returns what the rejection alone would answer; raises as it would."""
    with lab.together(undo=True):
        answer = lab.memory.reject(note.path, why, blob=blob)
        shown = _shown(lab, note.path)
    return {**answer, "shown": shown, "dry_run": True, "derived": [], "kept": False}


def _shown(lab: Lab, path: str) -> str | None:
    """Returns the version that agents are shown, by its blob."""
    try:
        return str(lab.part("memory").blob_id(lab.memory.read(path, exposed_only=True)))
    except NotFound:
        return None


def _check_permitted(lab: Lab, plan: list[Follower], *, keep_derived: bool) -> None:
    if not (lab.settings.withholds or lab.actor.startswith("git:")):
        return
    if keep_derived and plan:
        raise NotPermitted("keeping notes whose source is rejected is for a person", hint=FOR_A_PERSON)
    vouched = [item["path"] for item in plan if item["status"] == "promoted"]
    if vouched:
        raise NotPermitted(
            f"taking promotions back is for a person; {', '.join(vouched[:3])} derives from it"
            + (f", and {len(vouched) - 3} more" if len(vouched) > 3 else ""),
            hint=FOR_A_PERSON,
        )


def _decided(lab: Lab, path: str) -> str | None:
    """Lets the promotion stages decide on a note; returns its status, None where another process is at it."""
    try:
        return str(lab.memory.decide(path)["status"])
    except Conflict:
        return None


def catch_up(lab: Lab) -> None:
    """Decides on the notes whose source was taken back, or whose last day is past, since the last call.

    Names the notes for a person to review: those whose source came back, and promoted ones whose source an agent's
    process took back. Its cost grows with what has changed.
    """
    if not lab.memory.list(limit=1).items:
        return
    from perpetual_lineage.ancestry import is_over, lost, spared
    from perpetual_lineage.derivation import today
    from perpetual_lineage.folding import state_of
    from perpetual_lineage.index import index_of
    from perpetual_lineage.tombs import keep

    index = index_of(lab)
    with index.of(lab) as connection:
        rows = connection.execute("SELECT path FROM due ORDER BY path LIMIT ?", (_MOST_DECIDED,)).fetchall()
        due = [path for (path,) in rows]
        states = {path: state_of(connection, path) for path in due}
        gone = {path for path, state in states.items() if state is not None and state.status in _PENDING}
        wanted = [path for path in lost(connection, due) if path in gone]
        over = connection.execute(
            "SELECT path FROM notes WHERE expires < ? AND status IN ('candidate', 'promoted', 'quarantined') "
            "AND vouched_day <= expires LIMIT ?", (today().isoformat(), _MOST_DECIDED),
        ).fetchall()  # fmt: skip
        for (path,) in over:
            state = state_of(connection, path)
            if state is not None and is_over(state) and path not in wanted:
                wanted.append(path)
        left = spared(connection, due)
        review: dict[str, list[str]] = {}
        for path, source in connection.execute("SELECT path, source FROM review ORDER BY path").fetchall():
            review.setdefault(source, []).append(path)
    done = {path for path in wanted if _scanned(lab, path)}
    for source, paths in review.items():
        names = [path for path in paths if _status(lab, path) == "quarantined"]
        if names:
            lab.feed.emit(_REVIEW, source, {"derived": names[:100], "count": len(names)})
    for source in dict.fromkeys(why.source for why in left.values()):
        names = [path for path, why in left.items() if why.source == source]
        lab.feed.emit(_REVIEW, source, {"derived": names[:100], "count": len(names)})
    with index.of(lab) as connection:
        connection.executemany(
            "DELETE FROM due WHERE path = ?", ((path,) for path in due if path not in wanted or path in done)
        )
        connection.executemany("DELETE FROM review WHERE source = ?", ((source,) for source in review))
        keep(lab, connection)


def _scanned(lab: Lab, path: str) -> bool:
    try:
        return _decided(lab, path) is not None
    except NotFound:
        return True


def _status(lab: Lab, path: str) -> str | None:
    try:
        return str(lab.memory.get(path).status)
    except NotFound:
        return None


def lineage_of(lab: Lab, path: str) -> Lineage:
    """Returns what a note derives from and what derives from it, each with its status.

    Raises:
        NotFound: for an unknown note.
    """
    from perpetual_lineage.ancestry import below, lost, spared
    from perpetual_lineage.folding import state_of
    from perpetual_lineage.index import index_of
    from perpetual_lineage.stages import left_to_person, reason_of

    note = lab.memory.get(path)
    with index_of(lab).of(lab) as connection:
        rows = connection.execute("SELECT source FROM edges WHERE path = ? ORDER BY source", (note.path,)).fetchall()
        derived = below(connection, note.path)
        why = lost(connection, [note.path]).get(note.path)
        left = spared(connection, [note.path]).get(note.path)

        names = [source for (source,) in rows]
        states = {name: state_of(connection, name) for name in (*names, *derived)}

    def each(paths: list[str]) -> list[Source]:
        found = ((name, states[name]) for name in paths)
        return [{"path": name, "status": None if known is None else known.status} for name, known in found]

    return {
        "path": note.path, "status": note.status, "lost": None if why is None else reason_of(why),
        "review": None if left is None else left_to_person(left),
        "sources": each(names), "derived": each(derived),
    }  # fmt: skip
