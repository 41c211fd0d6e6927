"""RO-Crate of a project: its metadata as JSON-LD, by RO-Crate 1.1 and the profile Process Run Crate 0.5.

Each run that ended is a `CreateAction`: its instrument is the command, its objects are what it was made of, its results
the file of its metrics and its artifacts. A hypothesis is a `Claim`, a row of evidence a `CreativeWork` about it.
What is not known has no key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from perpetual_report.parameters import parameters_of
from perpetual_report.snapshot import ENDED, Snapshot

if TYPE_CHECKING:
    from perpetual.api import Evidence, Experiment, Hypothesis, Run
    from perpetual_report.publishing import Actor

__all__ = ["METADATA", "Author", "CrateFile", "Entity", "Terms", "described", "missing_of", "parse_author"]

METADATA = "ro-crate-metadata.json"
Entity = dict[str, object]

_CRATE = "https://w3id.org/ro/crate/1.1"
_PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
_CONTEXT = [f"{_CRATE}/context", "https://w3id.org/ro/terms/workflow-run/context"]
_STATUS = {"done": "http://schema.org/CompletedActionStatus"}
_ELSEWHERE = "work of another tool"
_FAILED = "http://schema.org/FailedActionStatus"
_LICENSES = "https://spdx.org/licenses/"
_URL = re.compile(r"https?://[^\s<>\"{}|\\^`]+\Z")
_SPDX = re.compile(r"[A-Za-z0-9.+-]{2,60}\Z")


class Author(NamedTuple):
    """A person as the user named them; `url` is an ORCID or another page, if one was given."""

    name: str
    url: str | None


@dataclass(frozen=True, slots=True)
class CrateFile:
    """A file of the crate, or one that is only described (`is_inside` False)."""

    path: str  # with slashes, from the crate's folder
    name: str
    media_type: str
    size_bytes: int
    sha256: str | None
    is_inside: bool = True

    @property
    def id(self) -> str:
        """Returns its identifier: the path, as RO-Crate writes it, or a name inside the document."""
        return quote(self.path) if self.is_inside else f"#{quote(self.path)}"


@dataclass(frozen=True, slots=True)
class Terms:
    """What only the user can say of the crate; nothing is put in its place where it is not given."""

    license: str | None = None
    authors: Sequence[Author] = field(default_factory=tuple)
    description: str | None = None


def missing_of(terms: Terms) -> list[str]:
    """Returns the recommended fields that the crate lacks, by the option that sets each."""
    given = {"license": terms.license, "author": terms.authors}
    return [name for name, value in given.items() if not value]


def parse_author(text: str) -> Author:
    """Returns an author from `NAME` or `NAME=URL`. Raises ValueError for a text that is neither."""
    name, _, url = text.partition("=")
    if not name.strip() or not name.isprintable() or (url and _URL.match(url) is None):
        raise ValueError(f"{text!r} is no author: write 'NAME' or 'NAME=https://orcid.org/...'")
    return Author(name.strip(), url or None)


def described(
    snapshot: Snapshot,
    actors: Mapping[str, Actor],
    terms: Terms,
    files: Sequence[CrateFile],
    of_runs: Mapping[str, Sequence[CrateFile]],
    published: str,
) -> Entity:
    """Returns the JSON-LD document.

    Args:
        snapshot: the record as it may be shown.
        actors: of the runs, by the run's id.
        terms: what the user said of the crate.
        files: of the crate as a whole, such as the report.
        of_runs: results, by the run's id.
        published: the day of the export, ISO 8601.
    """
    made = _Graph(snapshot, actors, of_runs)
    made.add_all()
    entities = [*made.entities.values()]
    inside = [*files, *(file for found in of_runs.values() for file in found if file.is_inside)]
    license, licenses = _license(terms.license)
    people = [_person(author) for author in terms.authors]
    root = _known({
        "@id": "./",
        "@type": "Dataset",
        "name": snapshot.project,
        "description": terms.description or _summary(snapshot),
        "datePublished": published,
        "license": license,
        "author": [_ref(person) for person in people],
        "conformsTo": {"@id": _PROFILE},
        "hasPart": [{"@id": file.id} for file in inside],
        "mentions": [_ref(item) for item in entities if item["@type"] in _MENTIONED],
    })  # fmt: skip
    descriptor = {
        "@id": METADATA, "@type": "CreativeWork", "conformsTo": {"@id": _CRATE}, "about": {"@id": "./"},
    }  # fmt: skip
    profile = {"@id": _PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"}
    described_files = [_file(file) for file in inside]
    described_files += [_file(file) for found in of_runs.values() for file in found if not file.is_inside]
    graph = [descriptor, root, profile, *licenses, *people, *described_files, *entities]
    return {"@context": _CONTEXT, "@graph": graph}


_MENTIONED = ("CreateAction", "Claim", "CreativeWork")


class _Graph:
    """Contextual entities of a record, by their identifier."""

    def __init__(
        self, snapshot: Snapshot, actors: Mapping[str, Actor], of_runs: Mapping[str, Sequence[CrateFile]]
    ) -> None:
        self._snapshot, self._actors, self._of_runs = snapshot, actors, of_runs
        self._experiments = {item.id: item for item in snapshot.experiments}
        self._ended = {run.id for run in snapshot.runs if run.status in ENDED}  # which have an action
        self.entities: dict[str, Entity] = {}

    def add_all(self) -> None:
        """Adds what the record has."""
        for hypothesis in self._snapshot.hypotheses:
            self._add(self._claim(hypothesis))
        for experiment in self._snapshot.experiments:
            self._add(self._experiment(experiment))
        for run in self._snapshot.runs:
            if run.status in ENDED:
                self._add(self._action(run))
        for row in self._snapshot.evidence:
            self._add(self._evidence(row))

    def _add(self, entity: Entity) -> Entity:
        return self.entities.setdefault(str(entity["@id"]), _known(entity))

    def _claim(self, item: Hypothesis) -> Entity:
        rows = [row for row in self._snapshot.evidence if row.hypothesis_id == item.id and row.retracted_by is None]
        confidence = self._value(f"#{item.id}-confidence", "confidence", item.confidence)
        return {
            "@id": f"#{item.id}",
            "@type": "Claim",
            "name": f"{item.id}: {item.statement}",
            "text": item.statement,
            "description": item.sentence,
            "dateCreated": item.created_at,
            "creativeWorkStatus": item.status,
            "keywords": ", ".join(item.tags) or None,
            "additionalProperty": [confidence],
            "citation": [{"@id": f"#{row.id}"} for row in rows],
        }

    def _experiment(self, item: Experiment) -> Entity:
        design = item.design
        way = {"max": "higher", "min": "lower"}.get(design.direction or "")
        said = [design.metric, f"{way} is better" if way else None, f"claim: {design.claim}" if design.claim else None]
        return {
            "@id": f"#{item.id}",
            "@type": "CreativeWork",
            "name": f"{item.id}: {item.title}",
            "description": "; ".join(words for words in said if words) or None,
            "dateCreated": item.created_at,
            "about": {"@id": f"#{item.hypothesis_id}"} if item.hypothesis_id else None,
            "isBasedOn": {"@id": f"#{design.baseline}"} if isinstance(design.baseline, str) else None,
            "keywords": ", ".join(item.tags) or None,
        }

    def _evidence(self, row: Evidence) -> Entity:
        what = f"{row.metric} {row.value:.12g}" if row.value is not None else row.verdict
        return {
            "@id": f"#{row.id}",
            "@type": "CreativeWork",
            "name": f"{row.id}: {row.kind}" + (f", {what}" if what else ""),
            "text": row.reason,
            "dateCreated": row.created_at,
            "about": {"@id": f"#{row.hypothesis_id}"},
            "isBasedOn": {"@id": f"#{row.run_id}"} if row.run_id in self._ended else None,
            "creativeWorkStatus": "taken back" if row.retracted_by else None,
        }

    def _action(self, run: Run) -> Entity:
        experiment = self._experiments.get(run.experiment_id)
        actor = self._actors.get(run.id)
        is_done = run.status in _STATUS
        words = (experiment.command if experiment is not None else None) or _ELSEWHERE
        return {
            "@id": f"#{run.id}",
            "@type": "CreateAction",
            "name": f"{run.id} of {run.experiment_id}, replicate {run.replicate}, attempt {run.attempt}",
            "instrument": _ref(self._instrument(run, experiment)),
            "agent": None if actor is None else _ref(self._agent(actor)),
            "object": [*self._objects(run, experiment), {"@id": f"#{run.experiment_id}"}],
            "result": [{"@id": file.id} for file in self._of_runs.get(run.id, ())],
            "startTime": _time(run.started_at),
            "endTime": _time(run.ended_at),
            "actionStatus": _STATUS.get(run.status, _FAILED),
            "error": None if is_done else (run.reason or run.status),
            "description": words + ("; tainted: weighs nothing as evidence" if run.tainted else ""),
        }

    def _instrument(self, run: Run, experiment: Experiment | None) -> Entity:
        command = experiment.command if experiment is not None else None
        words = command or _ELSEWHERE
        # A command is another program at another commit.
        version = run.git.commit
        key = sha256(f"{words}\n{version}".encode("utf-8", "replace")).hexdigest()[:12]
        return self._add({
            "@id": f"#command-{key}", "@type": "SoftwareApplication", "name": words,
            "softwareVersion": version, "isBasedOn": None if version is None else _ref(self._code(version)),
        })  # fmt: skip

    def _code(self, commit: str) -> Entity:
        return self._add({
            "@id": f"#code-{quote(commit)}", "@type": "SoftwareSourceCode", "name": f"code at commit {commit[:10]}",
            "version": commit,
        })  # fmt: skip

    def _agent(self, actor: Actor) -> Entity:
        kind = "Person" if actor.kind == "person" else "SoftwareApplication"
        return self._add({"@id": f"#{actor.kind}-{quote(actor.name)}", "@type": kind, "name": actor.name})

    def _objects(self, run: Run, experiment: Experiment | None) -> Iterator[Entity]:
        if run.git.commit is not None:
            yield _ref(self._code(run.git.commit))
        for kind, words in (("data", "data that the run declared"), ("environment", "software environment")):
            version = run.versions.get(kind)
            if isinstance(version, str):
                id = f"#{kind}-{quote(version)}"
                yield _ref(self._add({"@id": id, "@type": "CreativeWork", "name": words, "version": version}))
        for name, value in ({} if experiment is None else parameters_of(experiment)).items():
            yield self._value(f"#{run.experiment_id}/{quote(name)}", name, value)
        if run.seed is not None:
            yield self._value(f"#{run.id}/seed", "seed", run.seed)

    def _value(self, id: str, name: str, value: object) -> Entity:
        kept = value if isinstance(value, (bool, int, float)) else str(value)
        return _ref(self._add({"@id": id, "@type": "PropertyValue", "name": name, "value": kept}))


def _summary(snapshot: Snapshot) -> str:
    return (
        f"Research record of {snapshot.project}: {len(snapshot.hypotheses)} hypotheses, "
        f"{len(snapshot.experiments)} experiments, {len(snapshot.runs)} runs and {len(snapshot.evidence)} rows of "
        f"evidence, as of event {snapshot.seq}."
    )


def _license(text: str | None) -> tuple[Entity | None, list[Entity]]:
    """Returns the reference of a licence, and its entity."""
    if text is None:
        return None, []
    if _URL.match(text):
        return {"@id": text}, [{"@id": text, "@type": "CreativeWork", "name": text, "url": text}]
    if _SPDX.match(text) is None:
        raise ValueError(f"{text!r} is no licence: give an identifier of SPDX, such as CC-BY-4.0, or a URL")
    id = _LICENSES + text
    return {"@id": id}, [{"@id": id, "@type": "CreativeWork", "name": text, "identifier": text, "url": id}]


def _person(author: Author) -> Entity:
    return {"@id": author.url or f"#author-{quote(author.name)}", "@type": "Person", "name": author.name}


def _file(file: CrateFile) -> Entity:
    kind = "File" if file.is_inside else "CreativeWork"
    return _known({
        "@id": file.id, "@type": kind, "name": file.name, "encodingFormat": file.media_type,
        "contentSize": str(file.size_bytes), "sha256": file.sha256,
        "description": None if file.is_inside else "not part of this crate: known by its size and hash",
    })  # fmt: skip


def _time(time: str | None) -> str | None:
    """Returns a time with its offset, as the profile wants it."""
    return None if time is None else time.removesuffix("Z") + "+00:00" * time.endswith("Z")


def _known(entity: Entity) -> Entity:
    """Returns the keys that are known; a list of one is that one, as RO-Crate wants it."""
    found = {key: value for key, value in entity.items() if value is not None and value != [] and value != ""}
    return {key: value[0] if isinstance(value, list) and len(value) == 1 else value for key, value in found.items()}


def _ref(entity: Entity) -> Entity:
    return {"@id": entity["@id"]}
