"""Whose process a GPU serves: a run's of this lab, a run's that has ended, a stranger's, or unknown.

Used by the modules beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from perpetual.api import Gpu, GpuProcess, GpuReading, PlacementView
from perpetual_gpus.claims import Claim

__all__ = ["FOREIGN", "UNKNOWN", "Owner", "owners_of", "processes_of"]


class Owner(NamedTuple):
    """`kind`: run (a live one), ended (a run that has ended), foreign, or unknown (not to be seen from here).

    A run of another project that has claimed its devices is `other`, and `run_id` says of which project it is.
    """

    kind: str
    run_id: str | None = None


FOREIGN, UNKNOWN = Owner("foreign"), Owner("unknown")


def processes_of(gpu: Gpu) -> list[GpuProcess]:
    """Returns every process of a device, those of its MIG instances included, each once."""
    found = {process.pid: process for part in gpu.mig for process in part.processes}
    return [*({process.pid: process for process in gpu.processes} | found).values()]


def owners_of(view: PlacementView, reading: GpuReading, others: Sequence[Claim] = ()) -> dict[int, Owner]:
    """Returns the owner of each process of the reading, by pid; the record is read only if there are processes.

    Outside a project no run is known but those of `others`.

    Args:
        others: the claims of other projects' runs.
    """
    pids = {process.pid for gpu in reading.gpus for process in processes_of(gpu)}
    if not pids:
        return {}
    of_pid = {pid: Owner("other", claim.who) for claim in others for pid in _pid_of(claim)}
    marked = {(claim.project, claim.run_id): Owner("other", claim.who) for claim in others}
    if view.project is not None:
        live = view.live()
        of_pid |= {run.pid: Owner("run", run.run_id) for run in live if run.pid is not None}
        marked |= {(str(view.project.root), run.run_id): Owner("run", run.run_id) for run in live}
    found = {pid: _owner(pid, of_pid, marked) for pid in pids}
    unseen = [pid for pid, owner in found.items() if owner == UNKNOWN]
    if unseen:
        ended = view.ended()
        found |= {pid: Owner("ended", ended[pid]) for pid in unseen if pid in ended}
    return found


def _pid_of(claim: Claim) -> list[int]:
    """Returns the pid of a claim's command, as far as its run's folder, which another project wrote, says it."""
    from perpetual_supervisor.records import read_started

    try:
        started = read_started(Path(claim.run_dir))
    except (OSError, ValueError):
        return []
    return [] if started is None or started.child is None else [started.child.pid]


def _owner(pid: int, of_pid: Mapping[int, Owner], marked: Mapping[tuple[str, str], Owner]) -> Owner:
    """Finds the owner of a process: by descent first, which no program can change, then by its run's variables.

    A process that has left its tree still has those variables.

    A process that cannot be seen has ended, or lives outside this container: NVML numbers processes as the host does.
    """
    import psutil

    try:
        process = psutil.Process(pid)
        above = [pid, *(parent.pid for parent in process.parents())]
        for each in above:  # the nearest: a run may have been launched by another run
            if each in of_pid:
                return of_pid[each]
        if process.status() == psutil.STATUS_ZOMBIE:
            return UNKNOWN
    except psutil.Error:
        return UNKNOWN
    try:
        variables = process.environ()
    except (psutil.Error, OSError):
        return FOREIGN  # another user's
    return marked.get((variables.get("PERPETUAL_PROJECT", ""), variables.get("PERPETUAL_RUN", "")), FOREIGN)
