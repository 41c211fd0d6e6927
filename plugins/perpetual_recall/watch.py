"""The promotion stage `watch`: takes a promoted note back where work goes worse with it than without it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from perpetual.api import Conflict, NotFound, PromotionStage, StageVerdict
from perpetual_recall.exposure import is_any
from perpetual_recall.harm import Harm, weigh

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Note

__all__ = ["Watch", "build", "harm_of", "look"]


class Watch(PromotionStage):
    """Judges a version by the calls in which it was drawn whether it is shown."""

    def judge(self, lab: Lab, note: Note, text: str) -> StageVerdict:
        """Returns what the calls say of the version, with their numbers as evidence."""
        found = harm_of(lab, note.path, note.blob)
        if not found.calls:
            return StageVerdict("abstain", "no call in which it was drawn whether it is shown")
        bar = _bar(lab)
        said = sentence(found, bar)
        evidence = {**found._asdict(), "calls": found.calls, "bar": bar, "lines": [f"watch: {said}"]}
        return StageVerdict("quarantine" if found.most >= bar else "abstain", said, evidence)


def harm_of(lab: Lab, path: str, blob: str) -> Harm:
    """Returns what the calls of a version of a note say, since it was last promoted."""
    if not is_any(lab):
        return Harm()
    from perpetual_recall.calls import calls_of
    from perpetual_recall.recall import recall_of

    with recall_of(lab).index.of(lab) as connection:
        return weigh(calls_of(connection, path, blob))


def sentence(found: Harm, bar: float) -> str:
    """Returns the numbers in words."""

    def share(good: int, calls: int) -> str:
        return f"{good} of {calls} calls ended well" if calls else "no call"

    return (
        f"shown: {share(found.shown_good, found.shown)}; withheld: {share(found.withheld_good, found.withheld)}; "
        f"e-value that it harms {found.e_value:.3g}, at most {found.most:.3g} so far, of {bar:.3g}"
    )


def _bar(lab: Lab) -> float:
    return float(str(lab.options("recall")["watch_bar"]))


def look(lab: Lab) -> None:
    """Takes back the promoted notes of which calls have shown harm since they were last looked at."""
    from perpetual_recall.calls import due, settled
    from perpetual_recall.recall import recall_of

    if lab.settings.withholds:
        return
    recall = recall_of(lab)
    with recall.index.of(lab) as connection:
        versions = due(connection)
    for version in versions:
        if _is_promoted(lab, *version) and harm_of(lab, *version).most >= _bar(lab):
            try:
                lab.memory.decide(version[0])
            except Conflict:
                continue  # changed while it was being decided on: the next look sees it as it is then
        with recall.index.of(lab) as connection:
            settled(connection, version)


def _is_promoted(lab: Lab, path: str, blob: str) -> bool:
    try:
        note = lab.memory.get(path)
    except NotFound:
        return False
    return note.status == "promoted" and note.blob == blob


def build(options: Mapping[str, object]) -> Watch:
    """Returns the stage."""
    return Watch()
