"""GPU claims: how the runs of all of a user's projects on this machine announce the devices that they use.

Inside a project the record decides which run has a device; a claim is a second gate, for projects that do not read each
other's record. It is a small file that names a holder and its devices, and lives while its lock is held: by the
launcher first, and from the fork of the run's supervisor on that one too, until its whole process tree is gone. So a
claim needs no clean-up to be over, and no crash leaves one behind. Used by the modules beside it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypedDict

from perpetual.api import PlacementProject
from perpetual.toolkit import atomic, platform
from perpetual.toolkit.lock import FileLock, is_locked, open_locked

__all__ = ["Board", "Claim", "Home", "claims_folder", "deciding", "home_of", "living", "others", "problem"]

_LOCK, _HOST = "lock", "host"
PATIENCE_S = 2.0  # a decision holds the lock for milliseconds; a process stopped meanwhile delays others no longer


def claims_folder() -> str | None:
    """Returns the folder of this user's claims on this machine, until its next boot; creates nothing.

    Of all that one user starts on one machine, `XDG_STATE_HOME` (else `~/.local/state`) is the same whether it comes
    from a terminal, a service or a scheduler; `XDG_RUNTIME_DIR` is not set in some of them, and is emptied at a logout
    that runs outlive. The boot keeps apart machines that share a home.
    None where a boot has no identity.
    """
    try:
        boot = platform.boot_id()
    except OSError:
        return None
    base = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):  # as the specification of these folders has it
        base = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(base, "perpetual", "claims", boot)


class Home(NamedTuple):
    """Which project: the same through a link and a renaming, another for a copy, and for one made anew in its place."""

    device: int
    inode: int
    project_id: str


@dataclass(frozen=True, slots=True)
class Claim:
    """What one run has."""

    project: str  # its folder, for people
    home: Home
    run_id: str
    run_dir: str
    units: Mapping[str, int | None]  # by uuid, the memory that it declared; None: it has the unit alone
    ends_at_s: float | None  # the latest end by its wall limit, in seconds since the epoch; None: it has no limit

    @property
    def who(self) -> str:
        """Returns the run's name for other projects."""
        return f"{self.run_id} of {self.project}"


class Board:
    """The claims of this machine while no other process decides."""

    def __init__(self, folder: Path | None, claims: list[Claim], problem: str | None, is_busy: bool = False) -> None:
        self._folder = folder
        self.claims = claims
        self.problem = problem  # why no claim can be made here
        self.is_busy = is_busy  # another process is deciding, and does not come to an end

    def make(self, claim: Claim) -> int | None:
        """Returns the descriptor that holds the new claim; None if none can be made, and `problem` then says why."""
        if self._folder is None:
            return None
        # Under its final name it is complete and locked, for readers that do not decide.
        path = self._folder / f"{os.urandom(8).hex()}.new"
        descriptor = None
        try:
            descriptor = open_locked(path)
            assert descriptor is not None, path
            with open(descriptor, "w", encoding="ascii", closefd=False) as file:
                json.dump(_document(claim), file)
            os.replace(path, path.with_suffix(".json"))
        except OSError as exc:
            self.problem = str(exc)
            if descriptor is not None:
                os.close(descriptor)
            return None  # the next decision sweeps what is there
        return descriptor


@contextlib.contextmanager
def deciding(*, patience_s: float = PATIENCE_S) -> Iterator[Board]:
    """Yields the live claims, while no other launch of this user chooses devices; removes dead ones.

    Where the folder cannot be written the board has its `problem`, the claims that can be read, and makes none.
    """
    name = claims_folder()
    if name is None:
        yield Board(None, [], "this platform does not tell one boot from another")
        return
    folder = Path(name)
    try:
        _make_folder(folder)
        guard = FileLock(folder / _LOCK)
        is_mine = guard.acquire(timeout_s=patience_s)
    except OSError as exc:
        yield Board(None, living(), str(exc))
        return
    if not is_mine:
        yield Board(None, [], None, is_busy=True)
        return
    try:
        claims = _claims(folder)
        dead = [path for path, claim in claims.items() if claim is None]
        for path in (*dead, *folder.glob("*.new")):  # the latter of a process that died over it
            with contextlib.suppress(OSError):  # it stays, and is as dead as before
                path.unlink(missing_ok=True)
        yield Board(folder, [claim for claim in claims.values() if claim is not None], None)
    finally:
        guard.release()


def living() -> list[Claim]:
    """Returns the claims that live now; writes nothing."""
    folder = claims_folder()
    return [] if folder is None else [claim for claim in _claims(Path(folder)).values() if claim is not None]


def others(claims: Sequence[Claim], home: Home) -> list[Claim]:
    """Returns the claims of other projects."""
    return [claim for claim in claims if claim.home != home]


def problem() -> str | None:
    """Returns why no claim could be made on this machine, as far as that is known without making one."""
    name = claims_folder()
    if name is None:
        return None
    place = Path(name)
    while not os.path.lexists(place):
        place = place.parent
    if not place.is_dir():
        return f"{place} is no folder"
    return None if os.access(place, os.W_OK | os.X_OK) else f"{place} cannot be written"


def home_of(project: PlacementProject) -> Home:
    """Returns what tells this project from every other one."""
    found = os.stat(project.root)
    return Home(found.st_dev, found.st_ino, project.id)


def _make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    host = platform.host_name()
    atomic.write_atomic(folder / _HOST, host, durable=False)
    for other in folder.parent.iterdir():  # what an earlier boot of this very machine has left
        if other != folder and _host_of(other) == host:
            with contextlib.suppress(OSError):  # another process does the same; what is left is of no consequence
                for path in other.iterdir():
                    path.unlink(missing_ok=True)
                other.rmdir()


def _host_of(folder: Path) -> str | None:
    try:
        return (folder / _HOST).read_text("utf-8")
    except (OSError, ValueError):
        return None


def _claims(folder: Path) -> dict[Path, Claim | None]:
    """Returns every claim by its file; None for a dead one. Leaves out unreadable ones: another user's, as by sudo."""
    found: dict[Path, Claim | None] = {}
    for path in sorted(folder.glob("*.json")):
        try:
            holds = is_locked(path)
            claim = _claim(json.loads(path.read_bytes()))
        except OSError:
            continue
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
            claim = None  # no claim of ours
        if claim is None and holds:
            continue
        found[path] = claim if claim is not None and (holds or _goes_on(claim)) else None
    return found


def _goes_on(claim: Claim) -> bool:
    """Returns whether the command lives although its supervisor was killed, and the lock with it."""
    from perpetual_supervisor.processes import is_live

    try:
        return is_live(Path(claim.run_dir))
    except (OSError, ValueError):
        return False  # the folder is gone, or is no run's any more: there is nothing to go by


class _Document(TypedDict):
    """A claim as it is written; another program of this user may have written it."""

    project: str
    home: list[int | str]  # device, inode, project's id
    run_id: str
    run_dir: str
    units: dict[str, int | None]
    ends_at_s: float | None


def _document(claim: Claim) -> _Document:
    return {
        "project": claim.project,
        "home": [*claim.home],
        "run_id": claim.run_id,
        "run_dir": claim.run_dir,
        "units": dict(claim.units),
        "ends_at_s": claim.ends_at_s,
    }


def _claim(found: _Document) -> Claim:
    """Raises KeyError, TypeError, ValueError, AttributeError for what is none."""
    device, inode, project_id = found["home"]
    return Claim(
        project=str(found["project"]),
        home=Home(int(device), int(inode), str(project_id)),
        run_id=str(found["run_id"]),
        run_dir=str(found["run_dir"]),
        units={str(uuid): None if size is None else int(size) for uuid, size in found["units"].items()},
        ends_at_s=None if found["ends_at_s"] is None else float(found["ends_at_s"]),
    )
