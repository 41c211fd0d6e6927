"""The daemon by its files alone: seen and ended where the configuration or the record cannot be read."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from perpetual.api import NoProject, NotPermitted, PerpetualError, TransientError, line
from perpetual.toolkit import cache_files
from perpetual.toolkit.atomic import write_atomic
from perpetual.toolkit.lock import is_locked
from perpetual.toolkit.readers import FOR_A_PERSON
from perpetual.toolkit.service_state import path_of, state_of

if TYPE_CHECKING:
    from perpetual.api import CliContext
    from perpetual.documents.services import ServiceLine

__all__ = ["ByFiles", "Services", "services_of"]

_LOOK_S = 0.05
_KILLED_S = 10.0  # until a killed process is gone


class Services(Protocol):
    """What is asked of the services of a project: `lab.services` answers it, too."""

    def status(self, name: str) -> ServiceLine:
        """Returns the state of one service."""

    def stop(self, name: str, *, grace_s: float) -> ServiceLine:
        """Ends a service and returns its state."""


def services_of(cli: CliContext) -> tuple[Services, str]:
    """Returns the services of the project and its `.perpetual`; by its files, which it says, where no lab opens.

    Raises:
        NoProject: if there is none.
    """
    try:
        lab = cli.lab
        lab.config.methodology  # noqa: B018 - read now: what is asked next would need it
        return lab.services, os.path.join(lab.root, ".perpetual")
    except NoProject:
        raise
    except PerpetualError as problem:
        folder = cache_files.folder(cli.project)
        if folder is None:  # another tool's, or a link: no place to look for files of ours
            raise
        cli.close()  # which would ask the same file again
        cli.progress(f"only the daemon's own files are looked at: {line(problem.message)}")
        return ByFiles(folder, is_agent=cli.withholds), os.path.abspath(folder)


class ByFiles:
    """The services of the folder `.perpetual`, as their files tell."""

    def __init__(self, folder: str, *, is_agent: bool) -> None:
        self._folder, self._is_agent = folder, is_agent

    def status(self, name: str) -> ServiceLine:
        """Returns the state of a service, whose plugin is not asked."""
        return {**state_of(self._folder, name), "qualified_name": None, "summary": ""}

    def stop(self, name: str, *, grace_s: float) -> ServiceLine:
        """Asks a service to end, waits, and kills its process after `grace_s`; returns its state.

        Raises:
            NotPermitted: where an agent asks: no methodology can be read that lets it.
            TransientError: if it goes on and its process cannot be identified.
        """
        if self._is_agent:
            raise NotPermitted("stopping a service is for a person", hint=FOR_A_PERSON)
        if self._is_over(name, 0.0):
            return self.status(name)
        request = path_of(self._folder, name, "stop")
        write_atomic(request, "", durable=False)
        if not self._is_over(name, grace_s):
            self._kill(name)
        with suppress(FileNotFoundError):
            os.unlink(request)
        return self.status(name)

    def _is_over(self, name: str, timeout_s: float) -> bool:
        """Returns whether no process holds the service's lock, or none within the time."""
        deadline = time.monotonic() + timeout_s
        while is_locked(path_of(self._folder, name, "lock")):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_LOOK_S)
        return True

    def _kill(self, name: str) -> None:
        """Kills the process that holds the lock; what a file says of it is not believed."""
        import psutil

        lock, pid = path_of(self._folder, name, "lock"), self.status(name)["pid"]
        try:
            process = psutil.Process(pid) if type(pid) is int else None
            opened = [found.path for found in process.open_files()] if process is not None else []
            is_holder = any(os.path.samefile(path, lock) for path in opened if os.path.exists(path))
        except (psutil.Error, OSError):
            process, is_holder = None, False
        if process is not None and is_holder:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        if not self._is_over(name, _KILLED_S if is_holder else _LOOK_S):
            raise TransientError(f"the service {name} goes on, and its process is not known",
                                 hint=f"find out which process holds {lock}, and end it")  # fmt: skip
