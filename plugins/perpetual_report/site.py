"""The slot `site`: what `perpetual report --site` writes with, and `perpetual verify` reads a site's pages by.

The contract
------------
*Pages.* A page is a function of the record as it stood after an event, and of nothing else: no time of the build. Its
numbers are `data` elements, as those of the page that `perpetual report` writes. What is behind the mark `UNVERIFIED`
may come from elsewhere.

*Publishable.* What a page shows has passed `perpetual_report.publishing`.

*Files.* Only files that an earlier call wrote are replaced or removed. A call that ends in the middle leaves each page
as it was or as it is, and the next call completes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perpetual_report.numbers import Book
from perpetual_report.snapshot import Snapshot

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_report.documents import SiteReport

__all__ = ["Derivation", "DerivedPage", "Site"]


@dataclass(frozen=True, slots=True)
class DerivedPage:
    """A page as it is and as it should be: `text` of a file that cannot be read is empty, `fresh` of no page is None.

    `is_ours` is whether this version of the site made it, in this form.
    """

    text: str
    fresh: str | None
    is_ours: bool


@dataclass(frozen=True, slots=True)
class Derivation:
    """A site's pages derived from the record again.

    `snapshot` is the record as it stood, with the names that it has, and `cited` the numbers that are read from it;
    `book` has those of the pages. `listed` are the pages that the site's own list names.
    """

    snapshot: Snapshot
    book: Book
    cited: Book
    pages: Mapping[str, DerivedPage]
    listed: Sequence[str]


class Site(ABC):
    """Base of what writes a site; see the contract at the top of this module."""

    @abstractmethod
    def write(self, lab: Lab, folder: Path) -> SiteReport:
        """Writes the site of the record as it stands, and returns what was written, left and removed.

        Raises:
            UsageError: for a folder that may not be written to.
            Conflict: for a folder with other files.
            PerpetualError: where it cannot be written.
        """

    @abstractmethod
    def home(self, page: Path) -> Path | None:
        """Returns the folder of the site that a file or a folder belongs to; None where it belongs to none."""

    @abstractmethod
    def derive(self, lab: Lab, folder: Path, names: Sequence[str] | None = None) -> Derivation:
        """Returns the pages of the site in a folder as they should be: those of these names, by default all.

        Raises:
            UsageError: for a folder without a site of this project, or one that is ahead of the record.
        """
