"""Writes a project as an RO-Crate: a folder or a zip file that appears whole, or not at all.

Texts are as `perpetual_report.publishing` lets them out: the report, the table of runs and the metrics of each run.
An artifact is copied as it is, where that is asked for, and described by size and hash where it is not.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import stat
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from perpetual.api import Conflict, PerpetualError, UsageError
from perpetual.toolkit.atomic import fsync_dir
from perpetual.toolkit.confined import Confined
from perpetual_export.crate import METADATA, CrateFile, Terms, described, missing_of
from perpetual_export.rows import rows_of_runs
from perpetual_export.tables import Spool, write_csv, write_file
from perpetual_report.content import facts_of
from perpetual_report.document import html_of, markdown_of, pictures_of
from perpetual_report.numbers import Book
from perpetual_report.pictures import drawn_by
from perpetual_report.publishing import place_to_publish, publisher_of
from perpetual_report.snapshot import ADOPTED, ENDED, take

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Run
    from perpetual_export.documents import Crate
    from perpetual_report.publishing import Publisher
    from perpetual_report.snapshot import Snapshot

__all__ = ["artifact_bytes", "write_crate"]

_CHUNK = 1 << 20
_EPOCH = (1980, 1, 1, 0, 0, 0)  # of each file in a zip: the same record gives the same bytes


@dataclass(frozen=True, slots=True)
class _Part:
    """A file of the crate with its content: bytes, or where to read it."""

    file: CrateFile
    content: bytes | _Source


@dataclass(frozen=True, slots=True)
class _Source:
    """An artifact in its run's folder."""

    folder: Path
    path: str

    def chunks(self) -> Iterator[bytes]:
        """Yields the content. Raises OSError, also for a link."""
        with open(Confined(self.folder).open(self.path), "rb") as file:
            while chunk := file.read(_CHUNK):
                yield chunk


def artifact_bytes(lab: Lab) -> tuple[int, int]:
    """Returns how many artifacts the record lists, and their bytes together."""
    sizes = [item["size_bytes"] for run in lab.runs.all() for item in run.artifacts]
    return len(sizes), sum(sizes)


def write_crate(lab: Lab, path: Path, terms: Terms, *, with_artifacts: bool = False, replace: bool = False) -> Crate:
    """Writes the crate: a zip file where the name ends so, else a folder. Returns the document of the command.

    Args:
        lab: whose record it is.
        path: where to.
        terms: what the user says of it.
        with_artifacts: copy what runs left to keep.
        replace: replace a crate that is there.

    Raises:
        UsageError: for a place that may not be written to.
        Conflict: where something is there already, and `replace` is False or it is no crate.
        PerpetualError: where it cannot be written; then nothing is left of it.
    """
    place = place_to_publish(lab, path)
    is_zip = place.suffix.lower() == ".zip"
    _check(place, is_zip=is_zip, replace=replace)
    raw = take(lab)
    events = lab.events(limit=raw.seq) if raw.seq else []
    publisher = publisher_of(lab, (event.actor for event in events), raw.runs)
    shown = publisher.snapshot(raw)
    launched = {event.subject: publisher.actor(event.actor) for event in events if event.kind == "run_created"}
    notes: list[str] = []
    whole = [_part(name, words, kind, text) for name, words, kind, text in _texts(shown)]
    of_runs: dict[str, list[_Part]] = {}
    for before, run in zip(raw.runs, shown.runs, strict=True):
        if run.status in ENDED:
            of_runs[run.id] = [
                _metrics(run),
                *_artifacts(Path(lab.root), before, publisher, notes, is_copied=with_artifacts),
            ]
    files = {id: [part.file for part in parts] for id, parts in of_runs.items()}
    published = datetime.now(UTC).date().isoformat()
    try:
        graph = described(shown, launched, terms, [part.file for part in whole], files, published)
    except ValueError as problem:
        raise UsageError(str(problem)) from problem
    metadata = (json.dumps(graph, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")
    parts = [part for part in (*whole, *(part for found in of_runs.values() for part in found)) if part.file.is_inside]
    content: list[tuple[str, bytes | _Source]] = [(part.file.path, part.content) for part in parts]
    content.append((METADATA, metadata))
    if is_zip:
        write_file(place, lambda file: _zip(file, content), replace=replace)
    else:
        _folder(place, content)
    listed = [file for found in files.values() for file in found if not file.path.startswith("metrics/")]
    return {
        "path": os.fspath(place),
        "format": "zip" if is_zip else "folder",
        "seq": raw.seq,
        "runs": len(of_runs),
        "files": len(content),
        "artifacts": len(listed),
        "artifact_bytes": sum(file.size_bytes for file in listed),
        "copied": sum(file.is_inside for file in listed),
        "missing": missing_of(terms),
        "notes": notes,
    }


def _check(place: Path, *, is_zip: bool, replace: bool) -> None:
    """Raises Conflict where something is in the way that may not be replaced."""
    if not os.path.lexists(place):
        if not place.parent.is_dir():
            raise UsageError(f"there is no folder {place.parent}", hint="make it, or name another place")
        return
    if not replace:
        raise Conflict(f"{place} exists already", hint="--force replaces a crate, or choose another place")
    if not is_zip and not (place.is_dir() and (place / METADATA).is_file()):
        raise Conflict(f"{place} is no crate and is not replaced", hint="choose another place")


def _texts(snapshot: Snapshot) -> Iterator[tuple[str, str, str, bytes]]:
    """Yields what describes the whole record: path, name, media type and content."""
    facts = facts_of(snapshot, Book())
    pictures = pictures_of(snapshot, facts) if drawn_by() is not None else {}
    yield "report.html", "Report", "text/html", html_of(snapshot, facts, pictures).encode()
    yield "report.md", "Report as Markdown", "text/markdown", markdown_of(snapshot, facts).encode()
    text = io.StringIO()
    with Spool(rows_of_runs(snapshot.runs, snapshot.experiments), "runs") as spool:
        write_csv(spool, text)
    yield "runs.csv", "Every run with its parameters and metrics", "text/csv", text.getvalue().encode()


def _part(path: str, name: str, media_type: str, content: bytes) -> _Part:
    return _Part(CrateFile(path, name, media_type, len(content), sha256(content).hexdigest()), content)


def _metrics(run: Run) -> _Part:
    found = {
        name: {"value": value, "source": run.metric_sources.get(name)} for name, value in sorted(run.metrics.items())
    }
    text = json.dumps({"run": run.id, "metrics": found}, indent=1, ensure_ascii=False)
    content = (text + "\n").encode("utf-8", "backslashreplace")
    return _part(f"metrics/{run.id}.json", f"Metrics of {run.id}", "application/json", content)


def _artifacts(root: Path, run: Run, publisher: Publisher, notes: list[str], *, is_copied: bool) -> Iterator[_Part]:
    """Yields the artifacts of a run; in notes, those that cannot be copied as the record knows them."""
    names: set[str] = set()
    for item in run.artifacts:
        path, size, digest = str(item["path"]), int(item["size_bytes"]), item["sha256"]
        source = _Source(root / run.log_dir, path)
        is_inside = is_copied and run.scheduler != ADOPTED and _is_plain(path) and _is_same(source, size, digest)
        if is_copied and not is_inside:
            notes.append(f"{run.id}/{publisher.text(path)} is not copied: it is gone, or not as it was")
        shown = publisher.text(path)
        if shown in names:  # the same but for a name that was taken out
            shown = f"{shown}.{len(names)}"
        names.add(shown)
        yield _Part(
            CrateFile(f"{run.id}/{shown}", f"{shown} of {run.id}", "application/octet-stream", size, digest, is_inside),
            source,
        )


def _is_plain(path: str) -> bool:
    """Returns whether a path leads nowhere but below its folder."""
    parts = PurePosixPath(path).parts
    return path.isprintable() and "\\" not in path and not path.startswith("/") and ".." not in parts


def _is_same(source: _Source, size: int, digest: object) -> bool:
    """Returns whether an artifact is still the one that the record lists."""
    made, count = sha256(), 0
    try:
        for chunk in source.chunks():
            made.update(chunk)
            count += len(chunk)
    except OSError:
        return False
    return (count, made.hexdigest()) == (size, digest)


def _chunks(content: bytes | _Source) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield content
    else:
        yield from content.chunks()


def _zip(out: BinaryIO, content: Sequence[tuple[str, bytes | _Source]]) -> None:
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, found in content:
            entry = zipfile.ZipInfo(path, _EPOCH)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, (stat.S_IFREG | 0o644) << 16
            with archive.open(entry, "w", force_zip64=True) as file:
                for chunk in _chunks(found):
                    file.write(chunk)


def _folder(place: Path, content: Sequence[tuple[str, bytes | _Source]]) -> None:
    """Writes the folder beside its place and gives it its name; one that was there is removed afterwards."""
    beside = place.parent / f".{place.name[:100]}.{os.urandom(6).hex()}"
    made, old = Path(f"{beside}.tmp"), Path(f"{beside}.old")
    try:
        made.mkdir()
        for path, found in content:
            target = made.joinpath(*PurePosixPath(path).parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(target, "xb") as file:
                for chunk in _chunks(found):
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
        if os.path.lexists(place):
            os.rename(place, old)
        try:
            os.rename(made, place)
        except OSError:
            if old.exists():
                os.rename(old, place)
            raise
        fsync_dir(place.parent)
    except OSError as problem:
        raise PerpetualError(
            f"{place} could not be written: {problem.strerror or problem}", hint="choose another place"
        ) from problem
    finally:
        for left in (made, old):
            if left.exists():
                shutil.rmtree(left, ignore_errors=True)
