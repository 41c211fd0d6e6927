"""The bundled retriever: BM25 from the index, then half similarity and half utility over the best of them.

Phase A takes the versions that a reader is shown by BM25, the best 20. Phase B orders these by
`0.5 z(sim) + 0.5 z(Q)`; see `perpetual_recall.ranking`. A search shows all that match, further pages in the order of
phase A; what agents are offered unasked is also in scope and above a threshold of similarity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from perpetual.api import Listing, Note, NoteHit
from perpetual.toolkit.units import start_of
from perpetual_recall.retriever import Retriever
from perpetual_recall.shown import every_note, has_notes, is_for_agent, text_of
from perpetual_recall.withheld import withheld
from perpetual_recall.words import any_of, excerpt, has_words, words_of

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_recall.documents import Explained
    from perpetual_recall.front import Scope
    from perpetual_recall.index import Connection, Index, Match, Version
    from perpetual_recall.ranking import Utility

__all__ = ["Candidate", "Recall", "build", "offered", "recall_of"]

CANDIDATES = 20  # of phase A
THRESHOLD = 0.2  # of the similarity, as a share of the best one


class Candidate(NamedTuple):
    """A version with the arithmetic of its place; `left_out` says why agents are not offered it, None if they are."""

    version: Version
    sim: float
    utility: Utility
    z_sim: float
    z_q: float
    score: float
    in_scope: bool
    left_out: str | None = None


class Recall(Retriever):
    """Ranks by text and by what came of the notes."""

    def __init__(self) -> None:
        self._opened: Index | None = None

    @property
    def index(self) -> Index:
        """Returns the index; SQLite is imported with it."""
        if self._opened is None:
            from perpetual_recall.index import Index

            self._opened = Index()
        return self._opened

    def search(self, lab: Lab, query: str, *, limit: int = 20, cursor: str | None = None) -> Listing[NoteHit]:
        """Returns the best matches first."""
        words, start = words_of(query), start_of(cursor)
        if self._opened is None and not has_notes(lab):
            return Listing((), None)  # without the import of SQLite
        for_agents = is_for_agent(lab)
        with self.index.of(lab) as connection:
            most = max(start + limit + 1, CANDIDATES)
            found = _ordered(lab, connection, query, _matches(lab, connection, words, for_agents=for_agents, most=most))
        from perpetual_recall.index import notes_of

        word, shown = any_of(words), found[start : start + limit]
        page = [NoteHit(note, excerpt(row[2], word)) for note, row in zip(notes_of(shown), shown, strict=True)]
        return Listing((*page,), str(start + limit) if len(found) > start + limit else None)

    def candidates(
        self,
        lab: Lab,
        connection: Connection,
        query: str,
        present: Scope,
        *,
        for_agents: bool,
        extra: Sequence[Version] = (),
        without: Sequence[str] = (),
    ) -> list[Candidate]:
        """Returns the candidates of phase A in the order of phase B; `extra` ones are always among them."""
        from perpetual_recall.embedder import with_vectors
        from perpetual_recall.index import versions_of

        found = _matches(lab, connection, words_of(query), for_agents=for_agents, most=CANDIDATES + len(without))
        rest = versions_of([row for row in found if row[7] not in without])
        best = max((it.bm25 for it in rest), default=1.0)
        rest = with_vectors(lab, connection, query, rest[:CANDIDATES])
        return ranked([*(it._replace(bm25=best, cosine=None) for it in extra), *rest][:CANDIDATES], present)

    def offer(self, lab: Lab, *, limit: int) -> list[Note]:
        """Returns what fits the open claims and the newest experiments; what is left of the room has the newest."""
        few = lab.memory.list(limit=limit + 1).items
        if not few:
            return []
        from perpetual_recall.present import present_of

        query, scope = present_of(lab)
        if len(few) <= limit:  # all of them are offered, so nothing needs to be ranked
            return [lab.memory.get(note.path, exposed_only=True) for note in self._few(lab, scope)]
        from perpetual_recall.index import newest

        with self.index.of(lab) as connection:
            best = self.best(lab, connection, query, scope, limit)
            fresh = offered(lab, newest(connection, CANDIDATES + limit))
        notes = [item.version.note for item in best] + [it.note for it in fresh if it.front.fits(scope)]
        paths = [*dict.fromkeys(note.path for note in notes)][:limit]
        return [lab.memory.get(path, exposed_only=True) for path in paths]

    @staticmethod
    def _few(lab: Lab, scope: Scope) -> list[Note]:
        from perpetual_recall.front import front_of

        texts = ((note, text_of(lab, note, for_agent=True)) for note in every_note(lab))
        found = [note for note, text in texts if text is not None and front_of(text).fits(scope)][::-1]
        out = withheld(lab, [note.path for note in found])
        return [note for note in found if note.path not in out]

    def best(
        self, lab: Lab, connection: Connection, query: str, present: Scope, limit: int | None,
        *, extra: Sequence[Version] = (), without: Sequence[str] = (), is_past: bool = False,
    ) -> list[Candidate]:  # fmt: skip
        """Returns the candidates that agents are offered for a query, the best first; none without a word.

        `is_past` of an index of another time, all of whose notes are offered, whatever withholds them now.
        """
        if not has_words(query):
            return ranked(extra, present)
        found = self.candidates(lab, connection, query, present, for_agents=not is_past, extra=extra, without=without)
        return [item for item in judged(found, limit) if item.left_out is None]

    def resembling(self, lab: Lab, parts: frozenset[str], *, most_s: float | None = None) -> list[Version]:
        """Returns the versions whose shingles share most with these, as the lab's reader may see them.

        Raises:
            TransientError: where bringing the index up to date takes more than `most_s`.
        """
        if not parts or (self._opened is None and not has_notes(lab)):
            return []
        from perpetual_recall.index import resembling

        with self.index.of(lab, most_s=most_s) as connection:
            return resembling(connection, parts, for_agents=is_for_agent(lab), most=CANDIDATES)

    def explain(self, lab: Lab, query: str, *, limit: int) -> list[Explained]:
        """Returns the arithmetic of the candidates, as the reader finds them."""
        from perpetual_recall.present import present_of

        words_of(query)  # which refuses a query without one
        if not lab.memory.list(limit=1).items:
            return []
        with self.index.of(lab) as connection:
            found = self.candidates(lab, connection, query, present_of(lab)[1], for_agents=is_for_agent(lab))
        return [*map(_explained, judged(found, limit))]


def _matches(lab: Lab, connection: Connection, words: Sequence[str], *, for_agents: bool, most: int) -> list[Match]:
    """Returns at most `most` matches, the best first; to agents without the notes that are withheld."""
    from perpetual_recall.index import rows_of

    asked = most
    while True:
        found = shown = rows_of(connection, words, for_agents=for_agents, most=asked)
        if for_agents:
            out = withheld(lab, [row[7] for row in found])
            shown = [row for row in found if row[7] not in out]
        if len(shown) >= most or len(found) < asked:
            return shown[:most]
        asked *= 4


def _ordered(lab: Lab, connection: Connection, query: str, found: list[Match]) -> list[Match]:
    """Returns the matches with the first ones in the order of phase B; the others stay in that of BM25."""
    first = found[:CANDIDATES]
    if not lab.parts("embedder") and all(row[5] is None for row in first):
        return found  # where BM25 alone tells them apart, phase B leaves them in its order
    from perpetual_recall.embedder import with_vectors
    from perpetual_recall.index import versions_of

    versions = with_vectors(lab, connection, query, versions_of(first))
    rows = {id(version): row for version, row in zip(versions, first, strict=True)}
    return [*(rows[id(item.version)] for item in ranked(versions, {})), *found[CANDIDATES:]]


def offered(lab: Lab, found: Sequence[Version]) -> list[Version]:
    """Returns the versions without the notes that agents are not offered now."""
    out = withheld(lab, [it.note.path for it in found])
    return [it for it in found if it.note.path not in out]


def _explained(item: Candidate) -> Explained:
    note, used = item.version.note, item.utility
    return {
        "path": note.path, "type": note.type, "status": note.status, "title": note.title,
        "bm25": item.version.bm25, "sim": item.sim, "good": used.good, "bad": used.bad, "q": used.mean, "sd": used.sd,
        "z_sim": item.z_sim, "z_q": item.z_q, "score": item.score, "in_scope": item.in_scope,
        "left_out": item.left_out,
    }  # fmt: skip


def ranked(found: Sequence[Version], present: Scope) -> list[Candidate]:
    """Returns the versions with their arithmetic, the highest score first; of equals in the order of phase A."""
    from perpetual_recall.ranking import scores

    sims = similarities(found)
    ranks = scores(sims, [it.utility for it in found], [it.note.type for it in found])
    made = [
        Candidate(it, sim, it.utility, z_sim, z_q, score, it.front.fits(present))
        for it, sim, (z_sim, z_q, score) in zip(found, sims, ranks, strict=True)
    ]
    return sorted(made, key=lambda item: -item.score)


def similarities(found: Sequence[Version]) -> list[float]:
    """Returns BM25 as a share of the best, in the mean with the cosine where there are vectors."""
    best = max((it.bm25 for it in found), default=0.0)
    shares = [it.bm25 / best if best > 0 else 1.0 for it in found]
    return [
        share if it.cosine is None else (share + max(0.0, it.cosine)) / 2
        for share, it in zip(shares, found, strict=True)
    ]


def judged(found: Sequence[Candidate], limit: int | None) -> list[Candidate]:
    """Returns the candidates with the reason for which one is not among the `limit` that are offered."""
    taken, answer = 0, []
    for item in found:
        reason = None
        if not item.in_scope:
            reason = "out of scope"
        elif item.sim < THRESHOLD:
            reason = f"its similarity is below {THRESHOLD:g}"
        elif taken == limit:
            reason = f"{limit} others score higher"
        else:
            taken += 1
        answer.append(item._replace(left_out=reason))
    return answer


def recall_of(lab: Lab) -> Recall:
    """Returns the bundled retriever; one of its own where the configuration chooses another."""
    part: object = lab.part("retriever")
    return part if isinstance(part, Recall) else Recall()


def build(options: Mapping[str, object]) -> Recall:
    """Returns the retriever as its provider names it."""
    return Recall()
