"""A run's output as its supervisor keeps it: read, its end, or followed. Nothing here reconciles a run."""

from __future__ import annotations

import codecs
import io
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from perpetual.errors import NotFound, NotPermitted, PluginError, TransientError, UsageError
from perpetual.lab.context import Context
from perpetual.lab.engines.sight import scheduler_for, sight
from perpetual.lab.kinds import RUN, RunRow
from perpetual.lab.ledger.runs import RunRecords
from perpetual.lab.permissions import for_agent
from perpetual.lab.runs.reconcile import look
from perpetual.records import LIVE
from perpetual.slots.redactor import Redactor
from perpetual.slots.scheduler import LIVING, Scheduler
from perpetual.toolkit.confined import check_file, explain, open_file
from perpetual.toolkit.redact_stream import RedactedStream

if TYPE_CHECKING:
    from perpetual.documents.runs import Logs

__all__ = ["logs", "stream"]

_LIMIT_BYTES = 1024 * 1024  # of a log that is answered as one text, from its end
_CHUNK_BYTES = 64 * 1024
_CONTEXT_BYTES = 20_000  # before the start of a tail
_TURN_S = 0.1  # how often a followed log is looked at
_FETCH_S = 1.0  # how often one that is written elsewhere is fetched
CUT = "\n[the middle of this log was dropped meanwhile: it has reached its limit]\n"


def logs(ctx: Context, run_id: str, *, stderr: bool = False, tail: int | None = None, raw: bool = False) -> Logs:
    """Returns the end of a run's output, as `Runs.logs` says."""
    _check_raw(ctx, raw)
    run = ctx.need(RUN, run_id)
    path = _path(ctx, run, stderr)
    with _opened(path) as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(max(0, size - _LIMIT_BYTES))
        text = _decoder().decode(file.read(_LIMIT_BYTES), final=True)
    text = text if raw else ctx.redactor.text(text)
    shown = _last_lines(text, tail)
    return {
        "run_id": run.id,
        "stream": "stderr" if stderr else "stdout",
        "text": shown,
        "truncated": size > _LIMIT_BYTES or len(shown) < len(text),
    }


def stream(
    ctx: Context, run_id: str, *, stderr: bool = False, tail: int | None = None, follow: bool = False, raw: bool = False
) -> Iterator[str]:
    """Returns a run's output piece by piece, as `Runs.stream` says."""
    _check_raw(ctx, raw)
    run = ctx.need(RUN, run_id)
    path = _path(ctx, run, stderr)
    start = 0 if tail is None else _start_of_tail(path, tail)
    pieces = _pieces(ctx, run, path, start, follow)
    return pieces if raw else _redacted(ctx.redactor, path, start, pieces)


def _check_raw(ctx: Context, raw: bool) -> None:
    if raw and for_agent(ctx):
        raise NotPermitted("an agent reads logs without their secrets", hint="leave out --raw")


def _redacted(redactor: Redactor, path: Path, start: int, pieces: Iterator[str]) -> Iterator[str]:
    """Yields the pieces without secrets; the text before them is read too, as a key may begin there."""
    redacted = RedactedStream(redactor.text)
    if start:
        with path.open("rb") as file:
            file.seek(max(0, start - _CONTEXT_BYTES))
            redacted.feed(_decoder().decode(file.read(min(start, _CONTEXT_BYTES))))
    for piece in pieces:
        shown = redacted.feed(piece)
        if shown:
            yield shown
    rest = redacted.end()
    if rest:
        yield rest


def _keeper(ctx: Context, run: RunRow) -> Scheduler:
    """Returns the scheduler that knows where a run's logs are.

    That of today for one that was adopted, or whose own is gone.
    """
    try:
        return scheduler_for(ctx, run)
    except PluginError:
        found: Scheduler = ctx.part("scheduler")
        return found


def _fetch(ctx: Context, run: RunRow) -> None:
    """Has what the run has written brought here, where it may still grow.

    Raises:
        TransientError: if its machine is out of reach, and nothing was brought before.
    """
    if run.body["status"] not in ("launching", "running") or _is_foreign(ctx, run):
        return
    log_dir = RunRecords(ctx).log_dir(run.id)
    try:
        scheduler_for(ctx, run).fetch_logs(run.body["native_id"], log_dir)
    except TransientError:
        if not scheduler_for(ctx, run).logs(log_dir).exists():
            raise


def _is_foreign(ctx: Context, run: RunRow) -> bool:
    try:
        scheduler_for(ctx, run)
    except PluginError:
        return True
    return run.body["native_id"] is None


def _path(ctx: Context, run: RunRow, stderr: bool) -> Path:
    _fetch(ctx, run)
    path = _keeper(ctx, run).logs(RunRecords(ctx).log_dir(run.id), stderr=stderr)
    try:
        if check_file(path) is not None:
            return path
    except OSError as problem:
        raise explain(problem) or problem from problem
    status = run.body["status"]
    why = f"it is {status}" + (f" ({run.body['reason']})" if run.body["reason"] else "")
    if status in LIVE:
        scheduler_for(ctx, run)  # raises where it is not installed: its output may be where only it can reach
        hint = f"perpetual wait {run.id}"
    elif path.parent.is_dir() and run.body["started_at"]:
        hint = f"{path} was removed, or is no file any more"
    else:
        hint = f"it never started, or {path.parent} was removed"
    raise NotFound(f"{run.id} has no output: {why}", hint=hint, code="no_output")


def _opened(path: Path) -> BinaryIO:
    try:
        return open(open_file(path), "rb")
    except OSError as problem:
        raise explain(problem) or problem from problem


def _decoder() -> io.IncrementalNewlineDecoder:
    """Bytes to text: what is no UTF-8 is replaced, and a progress bar's carriage returns are line ends."""
    return io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)


def _last_lines(text: str, count: int | None) -> str:
    if count is None:
        return text
    if count < 0:
        raise UsageError(f"the number of lines must be at least 0, not {count}")
    lines = text.split("\n")
    whole = lines[:-1] if lines[-1] == "" else lines  # a last line without its end counts as one
    if count >= len(whole):
        return text
    kept = whole[len(whole) - count :] if count else []
    return "\n".join([*kept, ""] if lines[-1] == "" and kept else kept)


def _start_of_tail(path: Path, count: int) -> int:
    """Returns the byte at which the last `count` lines begin, found by reading backwards from the end."""
    with _opened(path) as file:
        end = file.seek(0, io.SEEK_END)
        window = _CHUNK_BYTES
        while True:
            start = max(0, end - window)
            file.seek(start)
            data = file.read(end - start)
            # A final line end closes the last line, and begins none.
            ends = [n for n, byte in enumerate(data[:-1]) if byte in b"\r\n" and data[n : n + 2] != b"\r\n"]
            if count == 0:
                return end
            if len(ends) >= count:
                return start + ends[-count] + 1
            if start == 0:
                return 0
            window *= 4


def _pieces(ctx: Context, run: RunRow, path: Path, position: int, follow: bool) -> Iterator[str]:
    decoder = _decoder()
    fetched = time.monotonic()
    while True:
        # Asked before the log is read: what was written until the end is then read after it.
        ended = not follow or look(ctx, run.id)[0] not in LIVE
        if follow and (ended or time.monotonic() > fetched + _FETCH_S):
            _fetch(ctx, run)
            fetched = time.monotonic()
        with _opened(path) as file:
            if file.seek(0, io.SEEK_END) < position:
                position = file.tell()  # cut to its limit meanwhile; what is left was shown already
                yield CUT
            file.seek(position)
            while data := file.read(_CHUNK_BYTES):
                position += len(data)
                piece = decoder.decode(data)
                if piece:
                    yield piece
        if ended:
            rest = decoder.decode(b"", final=True)
            if rest:
                yield rest
            return
        turn = time.monotonic() + _TURN_S
        run = ctx.need(RUN, run.id)
        if sight(ctx, run, wait_s=_TURN_S).state in LIVING:
            time.sleep(max(0.0, turn - time.monotonic()))  # a run that is about to start is not waited for
