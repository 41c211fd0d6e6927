"""TensorBoard: one event file for each run, written by tensorboardX, which needs no TensorFlow.

A file is written beside its place and then renamed: TensorBoard sees it whole or not at all.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from perpetual.toolkit.atomic import fsync_dir
from perpetual_mirrors.base import Mirror, MirroredRun
from perpetual_mirrors.library import loaded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tensorboardX.proto.summary_pb2 import Summary

__all__ = ["TensorBoard", "build"]

_NEW = ".new"  # beside a folder of a run; TensorBoard looks for names with `tfevents` alone
_KEY = "key"
_VERSION = "brain.Event:2"


class TensorBoard(Mirror):
    """Event files in `FOLDER/RUN`, for `tensorboard --logdir FOLDER`."""

    def open(self, folder: Path) -> None:
        """Imports tensorboardX."""
        loaded("tensorboardX", "tensorboardX")
        self._folder = folder

    def push(self, run: MirroredRun) -> None:
        """Writes the run's folder anew: scalars, parameters for the tab HParams, and texts."""
        from tensorboardX.record_writer import RecordWriter

        new = self._folder / f"{_NEW}-{run.run}"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        writer = RecordWriter(str(new / f"events.out.tfevents.{int(run.started_s)}.perpetual"))
        try:
            for record in _events(run):
                writer.write(record)
            writer.flush()
        finally:
            writer.close()
        (new / _KEY).write_text(run.key, encoding="utf-8")
        fsync_dir(new)
        place = self._folder / run.run
        if place.exists():
            os.replace(place, self._folder / f"{_NEW}-old-{run.run}")
        os.replace(new, place)
        fsync_dir(self._folder)
        shutil.rmtree(self._folder / f"{_NEW}-old-{run.run}", ignore_errors=True)

    def keys(self) -> Sequence[str]:
        """Returns the keys in the folders of runs."""
        return [path.read_text(encoding="utf-8") for path in sorted(self._folder.glob(f"[!.]*/{_KEY}"))]


def _events(run: MirroredRun) -> Iterator[bytes]:
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.proto.summary_pb2 import Summary
    from tensorboardX.summary import text

    def event(time_s: float, step: int, summary: Summary) -> bytes:
        found: bytes = Event(wall_time=time_s, step=step, summary=summary).SerializeToString()
        return found

    yield Event(wall_time=run.started_s, file_version=_VERSION).SerializeToString()
    for summary in _parameters(run):
        yield event(run.started_s, 0, summary)
    for name, curve in run.curves.items():
        for step, value, time_s in zip(curve.steps, curve.values, curve.times_s, strict=True):
            yield event(time_s, step, Summary(value=[Summary.Value(tag=name, simple_value=value)]))
    for name, value in run.finals().items():
        yield event(run.ended_s, 0, Summary(value=[Summary.Value(tag=name, simple_value=value)]))
    facts = "\n".join(f"    {name}: {value}" for name, value in run.facts.items())
    for name, words in (("perpetual/run", facts), ("perpetual/claim", run.text)):
        if words:
            yield event(run.ended_s, 0, text(name, words))


def _parameters(run: MirroredRun) -> Iterator[Summary]:
    """Yields what the tab HParams reads; the run's status is in it."""
    from tensorboardX.proto.api_pb2 import Status
    from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData, SessionEndInfo
    from tensorboardX.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboardX.summary import hparams

    seed = {"seed": run.facts["seed"]} if "seed" in run.facts else {}
    names = dict.fromkeys([*run.curves, *run.finals()], 0.0)
    described, begun, _ = hparams({**seed, **run.parameters}, names)
    yield described
    yield begun
    status = "STATUS_SUCCESS" if run.status == "done" else "STATUS_FAILURE"
    ended = HParamsPluginData(session_end_info=SessionEndInfo(status=Status.Value(status), end_time_secs=run.ended_s))
    plugin = SummaryMetadata.PluginData(plugin_name="hparams", content=ended.SerializeToString())
    metadata = SummaryMetadata(plugin_data=plugin)
    yield Summary(value=[Summary.Value(tag="_hparams_/session_end_info", metadata=metadata)])


def build(options: Mapping[str, object]) -> TensorBoard:
    """Builds the mirror; it has no options."""
    return TensorBoard()
