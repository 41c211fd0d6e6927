"""What the pages of a site were made from, remembered in the user's cache folder, and whether it is still the same.

A build that was made from the same things is left as it is. They are the record and the configuration (`feed.state`),
the program and all that it loaded, the names that are taken out, and the files that curves are read from. What
is not known to be the same counts as another thing. Nothing of it is published.
"""

from __future__ import annotations

import getpass
import json
import os
import sys
import time
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from perpetual import __version__
from perpetual.toolkit import caches
from perpetual.toolkit.hosts import this_host
from perpetual.toolkit.reserved import is_bundled
from perpetual_site.pages import site_form

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Experiment, Run

__all__ = ["Built", "Inputs", "Looks", "loaded_files", "look", "places_of"]

_KIND = "site"
_MOST_ENTRIES = 50_000  # of all folders that are looked at; beyond that no one knows
_TICK_NS = 100_000_000  # a change within it may leave a file's times as they are
_COARSE_NS = 2_500_000_000  # the same where times are whole seconds
_LOADED_NS = time.time_ns()


@dataclass(frozen=True, slots=True)
class Built:
    """A finished build.

    `manifest` is the SHA-256 of the site's list, `places` the folders that curves were looked for in, `waiting` counts
    the notes that are not shown.
    """

    manifest: str
    places: tuple[str, ...]
    seq: int
    waiting: int


class Inputs:
    """What the pages in a folder are made from now."""

    def __init__(self, lab: Lab, folder: Path, own: Collection[str]) -> None:
        """Takes the state before anything is read.

        Args:
            lab: whose record is shown.
            folder: of the site.
            own: the site's files by their path: they are made, and no page is made from them.
        """
        self._lab, self._folder, self._own = lab, folder, own
        self._key = f"{lab.config.project_id}\n{os.fspath(lab.root)}\n{folder}"
        self._before = self._said()

    def built(self) -> Built | None:
        """Returns the last build, if all that it was made from is the same now."""
        kept = caches.load(_KIND, self._key)
        if self._before is None or not isinstance(kept, dict) or kept.get("said") != self._before:
            return None
        try:
            found = Built(**{**kept["built"], "places": tuple(kept["built"]["places"])})
        except (KeyError, TypeError):
            return None  # written by another version
        seen = look(found.places, self._skipped(self._own))
        return found if seen is not None and seen == kept.get("seen") else None

    def looks(self) -> Looks:
        """Returns a look at the files that curves are read from, as they are now."""
        return Looks(self._skipped(self._own))

    def keep(self, built: Built, seen: str | None, own: Collection[str]) -> None:
        """Remembers a build, unless something has changed since this object was made.

        Args:
            built: what was made.
            seen: what the folders held before curves were read.
            own: the site's files now.
        """
        files = loaded_files()
        is_same = self._before is not None and self._said() == self._before and files is not None
        if not is_same or seen is None or look(built.places, self._skipped(own)) != seen:
            return
        caches.save(_KIND, self._key, {"said": self._before, "seen": seen, "built": asdict(built)}, files or ())

    def _skipped(self, own: Collection[str]) -> set[str]:
        return {os.path.join(self._folder, name) for name in own}

    def _said(self) -> str | None:
        """Returns what tells the record, the rules and the surroundings from all others; None if nothing can."""
        lab = self._lab
        state, rules = lab.feed.state(), self.rules()
        if state is None or rules is None:
            return None
        root, home = os.fspath(lab.root), os.path.expanduser("~")
        parts = [state, rules, root, os.path.realpath(root), home, os.path.realpath(home), os.environ.get("HOME")]
        return _digest([*parts, _account(), this_host().name])

    def rules(self) -> str | None:
        """Returns what tells the program and the settings from all others; None if nothing can."""
        lab = self._lab
        readers = [offer.qualified_name for offer in lab.registry.serving("metric_reader")]
        redactor = lab.registry.qualified("redactor", lab.config["redactor"])
        if not all(map(is_bundled, [*readers, redactor])):
            return None  # what another distribution reads, or takes for a secret, may hang on anything
        settings = [(item.key, repr(item.value)) for item in (*lab.settings.config(), *lab.settings.methodology())]
        return _digest([__version__, site_form(), caches.plugins_key(), readers, redactor, settings])


def places_of(lab: Lab, runs: Iterable[Run], experiments: Iterable[Experiment]) -> dict[str, list[str]]:
    """Returns the folders that the curves of an experiment's runs are looked for in, by the experiment."""
    known = {item.id: item for item in experiments}
    found: dict[str, dict[str, None]] = {}
    for run in runs:
        of = known[run.experiment_id]
        cwd = os.path.join(lab.root, run.isolated or of.resources.worktree or "", of.cwd or "")
        found.setdefault(of.id, {}).update(dict.fromkeys([os.fspath(lab.runs.log_dir(run.id)), cwd]))
    return {id: [*places] for id, places in found.items()}


class Looks:
    """States of all files below folders, each folder looked at once. Hidden folders are passed over."""

    def __init__(self, skipped: Collection[str] = ()) -> None:
        """Looks at nothing yet; `skipped` are paths of files that do not count."""
        self._skipped, self._left = skipped, _MOST_ENTRIES
        self._known: dict[str, str | None] = {}

    def at(self, places: Iterable[str]) -> str | None:
        """Returns a digest of the names and states of all files below some folders.

        None where it is not known: for too many files, and for one that was written just now, whose next change may not
        show.
        """
        found = []
        for place in places:
            if place not in self._known:
                self._known[place] = self._look(place)
            found.append(self._known[place])
        return None if None in found else _digest(found)

    def _look(self, place: str) -> str | None:
        digest, now, waiting = sha256(), time.time_ns(), [place]
        while waiting:
            folder = waiting.pop()
            try:
                with os.scandir(folder) as entries:
                    listed = sorted(entries, key=lambda entry: entry.name)
            except OSError as problem:
                digest.update(f"{folder}\0{problem.errno}\n".encode("utf-8", "surrogateescape"))
                continue
            self._left -= len(listed) + 1
            if self._left < 0:
                return None
            for entry in listed:
                if entry.is_dir(follow_symlinks=False):
                    if not entry.name.startswith("."):
                        waiting.append(entry.path)
                elif entry.path not in self._skipped:
                    state = _state_of(entry, now)
                    if state is None:
                        return None
                    digest.update(f"{entry.path}\0{state}\n".encode("utf-8", "surrogateescape"))
        return digest.hexdigest()


def look(places: Iterable[str], skipped: Collection[str] = ()) -> str | None:
    """Returns what `Looks.at` does, of now."""
    return Looks(skipped).at(places)


def _state_of(entry: os.DirEntry[str], now: int) -> str | None:
    """Returns what tells a file from what it was or will be; None for one that was written just now."""
    try:
        found = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return "-"
    newest = max(found.st_mtime_ns, found.st_ctime_ns)
    if now - newest < (_TICK_NS if newest % 1_000_000_000 else _COARSE_NS):
        return None
    return f"{found.st_mode} {found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


def _digest(parts: Iterable[object]) -> str:
    return sha256(json.dumps([*parts]).encode("utf-8", "surrogateescape")).hexdigest()


def loaded_files() -> list[str] | None:
    """Returns the files of all code that is loaded; None if one was changed since."""
    found = {path for module in [*sys.modules.values()] if (path := getattr(module, "__file__", None))}
    for path in found:
        try:
            if os.stat(path).st_mtime_ns > _LOADED_NS:
                return None
        except OSError:
            continue  # in an archive, whose folder is in the key
    return sorted(found)


def _account() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
