"""Holding a site to the record: each page derived again, as a report is. For the command `verify`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from perpetual.api import UsageError
from perpetual_report import verification
from perpetual_report.document import UNVERIFIED
from perpetual_report.findings import Problem, answer, cited, debits_of, logs_of
from perpetual_report.numbers import Book

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual_report.documents import Verification
    from perpetual_report.site import Derivation, Site

__all__ = ["verify"]

_SITE = '<meta name="perpetual-site" '
_HEAD = 2_000  # characters in which a page says that it is one of a site


def verify(lab: Lab, path: Path, *, at: str | None = None, fix: bool = False) -> Verification:
    """Returns the answer of `perpetual verify` for a file, for a site's folder, or for a page of one.

    Args:
        lab: whose record decides.
        path: the file or folder.
        at: as `verification.verify` takes it.
        fix: the same.

    Raises:
        UsageError: for a folder that is no site, for `at` and `fix` of a site, for a pipe or a device, and as
            `verification.verify`.
        Conflict: as it does.
    """
    if not path.is_dir() and not path.is_file():  # a pipe would be waited on for ever
        raise UsageError(f"{path} is no regular file", hint="save it as a file first")
    if not path.is_dir() and not _is_page(path):
        return verification.verify(lab, path, at=at, fix=fix)
    if at is not None or fix:
        raise UsageError(f"{path} is of a site, which says of what state it is, and is not edited",
                         hint="--at and --fix are for Markdown with references; write a site again")  # fmt: skip
    site: Site = lab.part("site")
    folder = site.home(path)
    if folder is None:
        raise UsageError(f"{path} is no site", hint="perpetual report --site DIR")
    names = None if path.is_dir() else [path.relative_to(folder).as_posix()]
    return _verified(lab, site.derive(lab, folder, names), is_whole=names is None)


def _is_page(path: Path) -> bool:
    try:
        with open(path, encoding="utf-8") as file:
            return _SITE in file.read(_HEAD)
    except (OSError, UnicodeDecodeError):
        return False  # the reader of reports says what is wrong


def _verified(lab: Lab, found: Derivation, *, is_whole: bool) -> Verification:
    problems: list[Problem] = [*debits_of(found.snapshot, lab.budget.rows())]
    notes: dict[str, None] = {}
    keys: set[str] = set()
    checked = pictures = 0
    for name, page in found.pages.items():
        if not page.text:
            problems.append(Problem("page", name, "", "a page", "the site"))
            continue
        if page.fresh is None:
            problems.append(Problem("page", name, "a page", "", "the site"))
            continue
        claims = verification.claims_of(page.text, name)
        fresh = verification.claims_of(page.fresh, name)
        drawn = {name: svg for name, (_, svg) in fresh.pictures.items()}
        if not page.is_ours:
            notes["written by another perpetual in another form: only the values of its numbers are looked at"] = None
        checked += len(claims.numbers)
        pictures += len(drawn) * page.is_ours
        keys |= {values.get("data-key", "") for _, values, _ in claims.numbers}
        if page.text.partition(UNVERIFIED)[0] == page.fresh.partition(UNVERIFIED)[0]:
            continue
        derived = verification.derived_of(found.snapshot, found.book, page.fresh, drawn)
        problems += [
            each._replace(where=f"{name}, {each.where}")
            for each in verification.differences(claims, derived, is_ours=page.is_ours)
        ]
    if is_whole:
        more = sorted({*found.listed} - found.pages.keys())
        problems += [Problem("page", name, "listed", "", "the site") for name in more]
    read = Book()
    read.numbers = {key: number for key, number in found.cited.numbers.items() if key in keys}
    problems += logs_of(lab, found.snapshot, read)
    logs = sum(1 for _ in cited(found.snapshot, read))
    return answer("site", found.snapshot.seq, problems, [*notes], checked=checked, pictures=pictures, logs=logs)
