"""The part `site`: writes a project's logbook into a folder, and derives its pages again. For `report` and `verify`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from perpetual.api import CorruptData, UsageError
from perpetual.toolkit.lock import FileLock
from perpetual.toolkit.units import counted
from perpetual_report.content import facts_of
from perpetual_report.numbers import Book
from perpetual_report.publishing import place_to_publish, publisher_of
from perpetual_report.site import Derivation, DerivedPage, Site
from perpetual_report.snapshot import Snapshot, take
from perpetual_site.cells import cells_of
from perpetual_site.curves import Curves
from perpetual_site.inputs import Built, Inputs, places_of
from perpetual_site.kept import Kept
from perpetual_site.notes import NoteVersions
from perpetual_site.output import MANIFEST, Folder, Page, Saved
from perpetual_site.pages import LIMITS, Pages, site_form

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_report.documents import SiteReport
    from perpetual_report.steps import Step

__all__ = ["Logbook", "build"]

_HEAD = 2_000  # characters in which a page says its form
_ID = re.compile(r"[her][1-9]\d{0,15}\Z")


class _Undated(Snapshot):
    """A record as it stood, of which no number names the event: the index does, for all pages.

    So a page changes only when something on it does.
    """

    __slots__ = ()

    @property
    def at(self) -> str:
        """Returns nothing."""
        return ""


class Logbook(Site):
    """The static logbook."""

    def write(self, lab: Lab, folder: Path) -> SiteReport:
        """Writes the site; see `perpetual_report.site.Site`."""
        path = place_to_publish(lab, folder)
        with FileLock(os.path.join(lab.root, ".perpetual", "site.lock")):
            place = Folder(path)
            inputs = Inputs(lab, path, place.own())
            built = inputs.built()
            saved = None if built is None else place.unchanged(built.manifest)
            if built is None or saved is None:
                built, saved = _made(lab, place, inputs)
        notes = []
        if built.waiting:
            notes.append(f"{counted(built.waiting, 'note')} not accepted and not shown: perpetual memory queue")
        return {
            "path": os.fspath(path),
            "index": os.fspath(path / "index.html"),
            "seq": built.seq,
            "written": saved.written,
            "unchanged": saved.unchanged,
            "removed": saved.removed,
            "kept": saved.kept,
            "notes": notes,
        }

    def home(self, page: Path) -> Path | None:
        """Returns the folder of the site that a file or a folder belongs to; None where it belongs to none."""
        for place in [page] if page.is_dir() else [page.parent, page.parent.parent]:
            if (place / MANIFEST).is_file():
                return place
        return None

    def derive(self, lab: Lab, folder: Path, names: Sequence[str] | None = None) -> Derivation:
        """Returns the pages as they should be; see `perpetual_report.site.Site`."""
        place = Folder(folder)
        manifest = place.manifest()
        if manifest is None or manifest.project != _of(lab):
            of = "" if manifest is None else " of this project"
            raise UsageError(f"{folder} holds no site{of}", hint="perpetual report --site DIR")
        if manifest.seq > lab.feed.last():
            raise UsageError(f"the site shows state {manifest.seq}, which this record has not reached")
        made = _Record(lab, seq=manifest.seq, debits=manifest.debits)
        pages = made.pages(Curves(lab))
        known = {*pages.names()}
        found = {}
        for name in sorted(known) if names is None else names:
            text = place.read(name) or ""
            found[name] = DerivedPage(text, pages.text(name) if name in known else None, site_form() in text[:_HEAD])
        cited = Book()
        facts_of(made.raw, cited, LIMITS)
        return Derivation(made.raw, made.book, cited, found, [*manifest.files])


def build(options: Mapping[str, object]) -> Logbook:
    """Builds the part; it has no options."""
    return Logbook()


def _made(lab: Lab, place: Folder, inputs: Inputs) -> tuple[Built, Saved]:
    """Makes all pages, writes those that changed, and remembers what they were made from."""
    rules = inputs.rules()
    kept = Kept(lab, rules)
    record = _Record(lab, known=kept.steps())
    if not kept.is_current():  # what was kept and what was read may be of two states
        kept = Kept(lab, None)
        record = _Record(lab)
    places = places_of(lab, record.raw.runs, record.raw.experiments)
    everywhere = tuple(dict.fromkeys(path for paths in places.values() for path in paths))
    looks = inputs.looks()
    seen = looks.at(everywhere)
    curves = Curves(lab, kept, lambda id: looks.at(places.get(id, ())))
    pages = record.pages(curves)
    made = {name: _page(pages, name, kept) for name in pages.names()}
    saved = place.save(made, _of(lab), record.raw.seq, len(record.raw.debits))
    if inputs.rules() == rules:
        kept.save(record.raw.steps)
    built = Built(place.digest(), everywhere, record.raw.seq, record.notes.waiting())
    if not record.notes.unread and not curves.unread:
        inputs.keep(built, seen, place.own())
    return built, saved


def _page(pages: Pages, name: str, kept: Kept) -> Page:
    """Returns a page; one that would be made from what it was made from is made only if its file is another."""
    laid, text = pages.page(name, kept.page(name))
    kept.keep_page(name, laid)
    return Page(laid.sha256, partial(pages.text, name) if text is None else partial(str, text))


class _Record:
    """The record as it stood, as the pages may show it."""

    def __init__(
        self,
        lab: Lab,
        *,
        seq: int | None = None,
        debits: int | None = None,
        known: Mapping[str, list[Step]] | None = None,
    ) -> None:
        self.raw = take(lab, seq=seq, debits=debits, known=known)
        ids = [
            *(item.id for item in self.raw.hypotheses),
            *(item.id for item in self.raw.experiments),
            *(run.id for run in self.raw.runs),
        ]
        for id in ids:
            if _ID.match(id) is None:  # it would be a file's name
                raise CorruptData(f"the record has an id that is none: {id!r}", hint="perpetual doctor")
        events = lab.events(limit=self.raw.seq) if self.raw.seq else []
        publisher = publisher_of(lab, (event.actor for event in events), self.raw.runs)
        shown = publisher.snapshot(self.raw)
        self.snapshot = _Undated(**{spec.name: getattr(shown, spec.name) for spec in fields(shown)})
        self.book = Book()
        self.facts = facts_of(self.snapshot, self.book, LIMITS)
        self.notes = NoteVersions(lab, events, publisher)
        self.cells = cells_of(events, self.snapshot, self.book, publisher, self.notes)
        self._publisher = publisher

    def pages(self, curves: Curves) -> Pages:
        """Returns the pages."""
        return Pages(self.snapshot, self.facts, self.cells, self._publisher, curves)


def _of(lab: Lab) -> str:
    """Returns what tells this project's sites from others', and not its id."""
    return sha256(f"perpetual site\n{lab.config['project_id']}".encode()).hexdigest()[:16]
