"""The daemon by its files alone: seen and ended where the configuration or the record cannot be read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from perpetual.api import NoProject, NotPermitted, PerpetualError, line
from perpetual.toolkit import cache_files
from perpetual.toolkit.readers import FOR_A_PERSON
from perpetual.toolkit.service_state import state_of
from perpetual_supervisor.service_end import end_service

if TYPE_CHECKING:
    from perpetual.api import CliContext
    from perpetual.documents.services import ServiceLine

__all__ = ["ByFiles", "Services", "services_of"]


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
            TransientError: if it goes on and its process cannot be identified, or outlives the kill.
        """
        if self._is_agent:
            raise NotPermitted("stopping a service is for a person", hint=FOR_A_PERSON)
        end_service(self._folder, name, grace_s=grace_s)
        return self.status(name)
