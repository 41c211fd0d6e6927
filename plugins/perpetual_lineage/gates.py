"""Gates that judge a note beside the record; of a text alone they say nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual.api import Gate, GateFinding, GateVerdict, NotFound, TextProvenance
from perpetual_lineage.derivation import derivation_of, today

if TYPE_CHECKING:
    from perpetual import Lab

__all__ = ["LineageGate", "RatesGate", "TombstonesGate", "lineage", "rates", "tombstones"]


class _RecordGate(Gate):
    def scan(self, text: str, provenance: TextProvenance) -> GateVerdict:
        """Passes: what these gates look at is in the record."""
        return GateVerdict("pass")


class TombstonesGate(_RecordGate):
    """Quarantines a text that makes a claim again that was rejected, under whatever path."""

    def in_record(self, lab: Lab, text: str, provenance: TextProvenance) -> GateVerdict:
        """Compares the text with what was rejected; a version that a person promoted is not asked about again."""
        if not lab.memory.list(limit=1).items:
            return GateVerdict("pass")
        from perpetual_lineage.index import index_of
        from perpetual_lineage.tombs import again

        with index_of(lab).of(lab) as connection:
            found = again(lab, connection, text)
        if found is None:
            return GateVerdict("pass")
        how = (
            f"perpetual memory promote {provenance.path} --why T" if _is_person(provenance.actor) else "by promoting it"
        )
        said = f"it says again what {found.path} said, taken back before ({found.why}); a person may overrule it: {how}"
        return GateVerdict("quarantine", "tombstone", (GateFinding("tombstones", "tombstone", 0, len(text), said),))


class RatesGate(_RecordGate):
    """Quarantines what a source writes beyond its share of an hour; persons have none."""

    def in_record(self, lab: Lab, text: str, provenance: TextProvenance) -> GateVerdict:
        """Counts the notes that the actor wrote in the last hour, and those of them that were rejected."""
        if _is_person(provenance.actor) or not lab.memory.list(limit=1).items:
            return GateVerdict("pass")
        options = lab.options("lineage")
        limits = {name: int(str(options[name])) for name in ("writes_per_hour", "rejected_per_hour")}
        if not any(limits.values()):
            return GateVerdict("pass")
        from perpetual_lineage.index import index_of
        from perpetual_lineage.writes import over

        with index_of(lab).of(lab) as connection:
            said = over(connection, provenance.actor, limits["writes_per_hour"], limits["rejected_per_hour"])
        if said is None:
            return GateVerdict("pass")
        return GateVerdict("quarantine", "rate_limit", (GateFinding("rates", "rate_limit", 0, 0, said),))


def _is_person(actor: str) -> bool:
    return actor.startswith("user:")


class LineageGate(_RecordGate):
    """Refuses front matter whose `expires` or `derived_from` cannot be what it says; quarantines lost ground."""

    def in_record(self, lab: Lab, text: str, provenance: TextProvenance) -> GateVerdict:
        """Judges sources and last day of a note that is written."""
        said = derivation_of(text, lab.part("memory").normalise, path=provenance.path)
        problems = [*said.problems]
        if said.expires is not None and said.expires < today() and _is_new(lab, provenance.path):
            problems.append(("expires", f"{said.expires} is past; a new note needs a day to come"))
        if problems:
            # The category is what the error says, so it names the value too.
            return GateVerdict("reject", ": ".join(problems[0]), tuple(_finding(text, *one) for one in problems))
        if not said.sources and _is_person(provenance.actor):
            return GateVerdict("pass")
        return self._ground(lab, text, provenance, said.sources)

    def _ground(self, lab: Lab, text: str, provenance: TextProvenance, sources: tuple[str, ...]) -> GateVerdict:
        unknown = [source for source in sources if not _exists(lab, source)]
        asked = [source for source in sources if source not in unknown]
        own = None if _is_person(provenance.actor) or not _exists(lab, provenance.path) else provenance.path
        bad = _lost_or_taken(lab, asked, own) if asked or own is not None else []
        if bad:
            return GateVerdict("quarantine", "lineage", tuple(_finding(text, "derived_from", why) for why in bad))
        told = tuple(_finding(text, "derived_from", f"there is no note {source} yet") for source in unknown)
        return GateVerdict("pass", None, told)


def _lost_or_taken(lab: Lab, paths: list[str], own: str | None) -> list[str]:
    """Returns what speaks against these notes as sources; `own` has lost its ground, and drops its source."""
    from perpetual_lineage.ancestry import lost
    from perpetual_lineage.folding import state_of
    from perpetual_lineage.index import index_of
    from perpetual_lineage.stages import reason_of

    with index_of(lab).of(lab) as connection:
        fallen = lost(connection, [*paths, *([own] if own is not None else [])])
        found = [f"{path} is {reason_of(why)}" for path, why in fallen.items()]
        for path in paths:
            known = state_of(connection, path)
            if path not in fallen and known is not None and known.taken:
                found.append(f"{path} is taken back: {known.why}")
    return found


def _exists(lab: Lab, path: str) -> bool:
    try:
        lab.memory.get(path)
    except NotFound:
        return False
    return True


def _is_new(lab: Lab, path: str) -> bool:
    """Returns whether no version of the note was accepted so far."""
    return not _exists(lab, path) or lab.memory.get(path).status == "rejected"


def _finding(text: str, key: str, message: str) -> GateFinding:
    """Returns a finding at the line of a key of the front matter."""
    start = max(0, text.find(f"\n{key}") + 1)
    end = text.find("\n", start)
    return GateFinding(key, key, start, len(text) if end < 0 else end, message[:300])


def tombstones(options: Mapping[str, object]) -> TombstonesGate:
    """Returns the gate on claims that were rejected."""
    return TombstonesGate()


def rates(options: Mapping[str, object]) -> RatesGate:
    """Returns the gate on writes per hour."""
    return RatesGate()


def lineage(options: Mapping[str, object]) -> LineageGate:
    """Returns the gate on sources and last days."""
    return LineageGate()
