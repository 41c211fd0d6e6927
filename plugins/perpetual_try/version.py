"""Whether runs that start now are comparable with those of a baseline, before any of them is paid for."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from perpetual.science.versions import Sample, declared, nearest, samples_of, unlike

if TYPE_CHECKING:
    from perpetual import Lab
    from perpetual.api import Experiment, Run

__all__ = ["Compared", "compared", "version_now"]


class Compared(NamedTuple):
    """How a version compares with the runs of a baseline."""

    stale: tuple[str, ...]  # aspects in which it differs from all of them, beyond what is declared
    differs: tuple[str, ...]  # all aspects in which it differs from those that it would be compared with
    names: tuple[str, ...]  # programs that are not what they were, and the commit of the runs
    runs: tuple[Run, ...]  # of the baseline, that count


def version_now(
    lab: Lab, command: str, *, cwd: str | None, env: Mapping[str, str], scheduler: str | None
) -> Mapping[str, object]:
    """Returns the version that a run would be of, as provenance records it: {code, data, environment}."""
    from perpetual_provenance.code_version import Reader
    from perpetual_provenance.protected_paths import look_at
    from perpetual_provenance.python_env import interpreter_of
    from perpetual_provenance.versions import version_of

    root, methodology = lab.config.root, lab.config.methodology
    argv, folder = shlex.split(command), root / (cwd or ".")
    code = Reader(root, methodology["code_ignore"]).read(argv, str(folder))
    guarded = look_at(root, tuple(methodology["protected_paths"]))
    found = {**version_of(code, guarded, interpreter_of(argv, folder, {**os.environ, **env}))}
    if (scheduler or lab.config["scheduler"]) != "local":
        found["environment"] = None  # of another machine
    return found


def compared(
    lab: Lab, baseline: Experiment, metric: str, version: Mapping[str, object], changes: str | None
) -> Compared:
    """Returns how runs of this version would compare with the baseline's runs, those that renew it among them."""
    meant = declared(changes)
    runs = [run for run in _runs(lab, baseline) if _counts(run, metric)]
    found = _nearest(runs, version, meant)
    if found is None or set(unlike(version, found.version)) - {*meant}:
        runs += [run for other in _others(lab, baseline) for run in _runs(lab, other) if _counts(run, metric)]
        found = _nearest(runs, version, meant)
    if found is None:
        return Compared((), (), (), ())
    differs = tuple(unlike(version, found.version))
    stale = tuple(name for name in differs if name not in meant)
    return Compared(stale, differs, tuple(_names(version, found)), tuple(runs))


def _nearest(runs: Sequence[Run], version: Mapping[str, object], meant: list[str]) -> Sample[Run] | None:
    samples = samples_of((run.versions, run) for run in runs)
    return nearest(samples, version, meant) if samples else None


def _names(version: Mapping[str, object], sample: Sample[Run]) -> Iterator[str]:
    now, then = version.get("code"), sample.version.get("code")
    if isinstance(now, Mapping) and isinstance(then, Mapping):
        programs = then["programs"]
        yield from (path for path, digest in now["programs"].items() if programs.get(path, digest) != digest)
    commit = sample.items[-1].git.commit
    if commit:
        yield f"commit {commit[:7]}"


def _runs(lab: Lab, experiment: Experiment) -> list[Run]:
    return [*lab.runs.list(experiment_id=experiment.id, limit=1000).items]


def _others(lab: Lab, baseline: Experiment) -> list[Experiment]:
    """Returns what renews a baseline, and what extends any of them."""
    found: list[Experiment] = []
    cursor: str | None = None
    while True:
        page = lab.experiments.list(limit=1000, cursor=cursor)
        found += [item for item in page.items if item.extends or item.renews]
        cursor = page.next_cursor
        if cursor is None:
            break
    roots = {baseline.id, *(item.id for item in found if item.renews == baseline.id)}
    return [item for item in found if item.renews == baseline.id or item.extends in roots]


def _counts(run: Run, metric: str) -> bool:
    return run.status == "done" and run.metrics.get(metric) is not None and not (run.tainted or run.chosen_seed)
