"""Gates that judge a note beside the record; of a text alone they say nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual.api import Gate, GateFinding, GateVerdict, TextProvenance
from perpetual_lineage.derivation import derivation_of, today
from perpetual_recall.shown import has_notes

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_lineage.index import Connection

__all__ = ["LineageGate", "RatesGate", "TombstonesGate", "lineage", "rates", "tombstones"]


class _RecordGate(Gate):
    def scan(self, text: str, provenance: TextProvenance) -> GateVerdict:
        """Passes: what these gates look at is in the record."""
        return GateVerdict("pass")


class TombstonesGate(_RecordGate):
    """Quarantines a text that makes a claim again that was rejected, under whatever path."""

    def in_record(self, lab: Lab, text: str, provenance: TextProvenance) -> GateVerdict:
        """Compares the text with what was rejected; a version that a person promoted is not asked about again."""
        if not has_notes(lab):
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
        if _is_person(provenance.actor) or not has_notes(lab):
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
    return actor.startswith(("user:", "adopt:"))  # an import that a person asked for; an agent's is an agent's


class LineageGate(_RecordGate):
    """Refuses front matter whose `expires` or `derived_from` cannot be what it says; quarantines lost ground."""

    def in_record(self, lab: Lab, text: str, provenance: TextProvenance) -> GateVerdict:
        """Judges sources and last day of a note that is written."""
        said = derivation_of(text, lab.part("memory").normalise, path=provenance.path)
        problems = [*said.problems]
        is_past = said.expires is not None and said.expires < today()
        if not (problems or is_past or said.sources) and _is_person(provenance.actor):
            return GateVerdict("pass")
        # Not `lab.memory.get`, which looks for names like that of a note that there is not.
        from perpetual_lineage.folding import state_of
        from perpetual_lineage.index import index_of

        with index_of(lab).of(lab) as connection:
            own = state_of(connection, provenance.path)
            if is_past and (own is None or own.status == "rejected"):
                problems.append(("expires", f"{said.expires} is past; a new note needs a day to come"))
            if problems:
                # The category is what the error says, so it names the value too.
                return GateVerdict("reject", ": ".join(problems[0]), tuple(_finding(text, *one) for one in problems))
            # A note that lost its ground does not come back by leaving out its source, but for a person.
            asked = [] if own is None or _is_person(provenance.actor) else [own.path]
            return _ground(connection, text, said.sources, asked)


def _ground(connection: Connection, text: str, sources: tuple[str, ...], own: list[str]) -> GateVerdict:
    """Returns what the record says of sources, and of the note itself where it is among them in `own`."""
    from perpetual_lineage.ancestry import lost
    from perpetual_lineage.folding import state_of
    from perpetual_lineage.stages import reason_of

    states = {source: state_of(connection, source) for source in sources}
    fallen = lost(connection, [*sources, *own])
    bad = [f"{path} is {reason_of(why)}" for path, why in fallen.items()]
    bad += [
        f"{path} is taken back: {known.why}"
        for path, known in states.items()
        if known is not None and known.taken and path not in fallen
    ]
    if bad:
        return GateVerdict("quarantine", "lineage", tuple(_finding(text, "derived_from", why) for why in bad))
    unknown = [f"there is no note {path} yet" for path, known in states.items() if known is None]
    return GateVerdict("pass", None, tuple(_finding(text, "derived_from", why) for why in unknown))


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
