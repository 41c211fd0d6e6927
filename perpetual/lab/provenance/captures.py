"""Captures of a run: facts before its process starts, taints after its end, and the code of a command.

`provenance.json` in the run's folder is written here, of what the captures answer; its sha256 is in the run's record,
so that a later change is seen. What no capture said is null. A capture that fails is noted beside the run and stops
nothing; but where no capture has compared the protected paths the run is tainted, and code that was approved and
cannot be read is an error. Used by `start`, `reconcile`, `code_check`, `likeness` and `lab.runs.provenance`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from perpetual import __version__
from perpetual.errors import CorruptData, NotFound, PluginError
from perpetual.lab.context import Context
from perpetual.lab.kinds import RUN, ExperimentRow, RunRow
from perpetual.lab.ledger.runs import RunRecords
from perpetual.lab.provenance.isolation import run_root
from perpetual.records import GitState, to_json
from perpetual.science.versions import ASPECTS
from perpetual.slots.capture import (
    RESERVED,
    Artifact,
    Capture,
    CodeReader,
    CodeState,
    RunChanges,
    RunEnd,
    RunFacts,
    RunStart,
)
from perpetual.slots.scheduler import LaunchError, LaunchSpec
from perpetual.toolkit.atomic import read_file, write_atomic
from perpetual.toolkit.contained import contained
from perpetual.toolkit.deadline import call_bounded
from perpetual.toolkit.foreign import DEEPEST, check_depth, parse_json
from perpetual.toolkit.reserved import is_bundled

if TYPE_CHECKING:
    from perpetual.documents.provenance import Provenance
    from perpetual.lab.bodies import Annotation, ArtifactBody, CapturedBody, RunBody

__all__ = ["FILE", "UNREADABLE", "Codes", "Ended", "Kept", "capture", "kept_of", "provenance", "taint_of"]

FILE = "provenance.json"
SCHEMA = "perpetual.provenance/1"
UNREADABLE = "code_unknown"  # the code of an error: code that was approved cannot be read

T = TypeVar("T")
LIMIT_S = 120.0  # one capture's time for one call
_LARGEST_FACTS = 24_000_000  # bytes of one capture's facts
_LONGEST_WHY = 300  # characters of a capture's own error
_DEEPEST = 2 * DEEPEST  # levels of what is read back: what a specification may hold, and its place in the document
_MOST_ARTIFACTS = 1_000  # of one run that its record lists
_LONGEST_TEXT = 50_000  # characters of one taint or note
_FAILED = "the capture "  # how the problem of a capture that failed begins


class Kept(NamedTuple):
    """What the run's record holds of its provenance."""

    git: GitState
    sha256: str | None  # of provenance.json
    notes: tuple[Annotation, ...] = ()  # annotations of the run
    versions: Mapping[str, object] | None = None  # of code, data and environment

    def noted(self, run: RunBody) -> CapturedBody:
        """Returns the fields that a run's body gets; none where nothing was kept."""
        if self.sha256 is None:
            return {}
        known = [*run.get("annotations", ())]
        return {
            "git": to_json(self.git),
            "provenance_sha256": self.sha256,
            **({"versions": {**self.versions}} if self.versions else {}),
            "annotations": [*known, *(item for item in self.notes if item not in known)],
        }


class Ended(NamedTuple):
    """What has become of what a run was started from."""

    taints: list[str]  # why what it measured weighs nothing
    notes: list[Annotation]  # annotations of the run
    artifacts: Sequence[ArtifactBody] = ()


def capture(ctx: Context, run: RunRow, experiment: ExperimentRow, spec: LaunchSpec) -> Kept:
    """Writes the provenance of a run that is about to start; the folder is the run's, and exists.

    Raises:
        OSError: if the folder cannot be written.
        LaunchError: if an artifact that it needs is not what was left.
    """
    patterns = tuple(ctx.config.methodology["protected_paths"])
    start = RunStart(
        run.id,
        run_root(ctx, run),
        spec.log_dir,
        tuple(spec.argv),
        spec.cwd,
        dict(spec.env),
        ctx.redactor,
        frozenset(experiment.body["env"]),
        patterns,
        tuple(ctx.config.methodology["code_ignore"]),
        tuple(needs := run.body.get("needs", [])),
    )
    facts, versions, problems = _facts_of(ctx, start)
    if needs and facts.get("needs") != needs:
        why = (
            facts.get("needs") or "the plugin artifacts is off, or failed, which hands over what a run needs of others"
        )
        raise LaunchError(f"{run.id}: {why}")
    unwatched = {"patterns": [*patterns], "sha256": None, "files": None, "unmatched": None, "problems": []}
    document = {
        "schema": SCHEMA,
        "run": run.id,
        "experiment": experiment.id,
        "spec_hash": experiment.body["spec_hash"],
        "seed": run.body["seed"],
        "argv": ctx.redactor.words(spec.argv),
        "cwd": str(spec.cwd),
        "git": facts.pop("git", None),
        "versions": versions,
        "environment": facts.pop("environment", None),
        "interpreter": facts.pop("interpreter", None),
        "machine": facts.pop("machine", None),
        "gpus": list(run.body["gpus"]),
        "protected": facts.pop("protected", unwatched),
        "perpetual": __version__,
        "captured_at": ctx.now(),
        "problems": problems,
        **facts,
    }
    # Names of files and variables may be any bytes; escaped, they are JSON that every reader takes. One line for each
    # key helps human readers of the file, and indenting all of it would cost a millisecond.
    lines = [f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in document.items()]
    data = ("{" + ",\n ".join(lines) + "}\n").encode("ascii")
    write_atomic(spec.log_dir / FILE, data)
    return _kept(document, data)


def kept_of(log_dir: Path) -> Kept:
    """Returns what is in the folder of a run whose launcher died before it could note it; empty if nothing is."""
    try:
        data = read_file(log_dir / FILE)
        return _kept(parse_json(data, deepest=_DEEPEST), data)
    except (OSError, ValueError, KeyError, TypeError):
        return Kept(GitState(), None)


def _kept(document: Mapping[str, Any], data: bytes) -> Kept:
    git, guarded = document["git"] or {}, document["protected"]
    notes: list[Annotation] = [
        {"kind": "protected", "text": f"{pattern!r} of protected_paths matches nothing", "source": "methodology.yaml"}
        for pattern in guarded["unmatched"] or ()
    ]
    if guarded["patterns"] and guarded["sha256"] is None:
        text = "no capture looked at the protected paths, so what it measures will weigh nothing"
        notes.append({"kind": "protected", "text": text, "source": FILE})
    failed = [text for text in document["problems"] if text.startswith(_FAILED)]
    notes += [{"kind": "capture", "text": text, "source": FILE} for text in failed]
    state = GitState(git.get("commit"), git.get("dirty"))
    return Kept(state, sha256(data).hexdigest(), tuple(notes), document.get("versions"))


def provenance(ctx: Context, run_id: str) -> Provenance:
    """Returns a run's provenance, as `Runs.provenance` says."""
    run = ctx.need(RUN, run_id)
    path = RunRecords(ctx).log_dir(run.id) / FILE
    noted = run.body.get("provenance_sha256")
    try:
        data = read_file(path)
    except FileNotFoundError:
        if noted is not None:
            why = f"{path} was removed"
        elif run.body["status"] == "queued":
            why = "it has not started yet"
        else:
            why = "it was never started, or by a version that kept none"
        raise NotFound(f"{run.id} has no provenance: {why}", hint=f"perpetual runs {run.id}") from None
    except (OSError, ValueError) as problem:
        raise CorruptData(
            f"{run.id}'s provenance cannot be read: {problem}", hint="something has changed it since the run started"
        ) from problem
    try:
        document = parse_json(data, deepest=_DEEPEST)
    except ValueError as problem:
        raise CorruptData(
            f"{path}: not a JSON document: {problem}", hint="something has changed it since the run started"
        ) from problem
    if not isinstance(document, dict) or not isinstance(document.get("git", ""), (dict, type(None))):
        raise CorruptData(
            f"{path}: it does not hold what is written at a start",
            hint="something has changed it since the run started",
        )
    found: Provenance = _as_text({**document, "intact": None if noted is None else sha256(data).hexdigest() == noted})
    return found


def _as_text(value: object) -> Any:
    """Returns texts that can be shown and sent: a name of any bytes has its odd ones escaped."""
    if isinstance(value, dict):
        return {_as_text(name): _as_text(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_as_text(item) for item in value]
    return value.encode("utf-8", "backslashreplace").decode("utf-8") if isinstance(value, str) else value


def taint_of(ctx: Context, run: RunRow) -> Ended:
    """Returns why an ended run is tainted, if it is, and what else the captures say of it.

    A run is tainted if a capture says so, if a protected path is not what it was at its start, whatever changed it, or
    if no capture can say that any more.
    """
    noted = run.body.get("provenance_sha256")
    path = RunRecords(ctx).log_dir(run.id) / FILE
    try:
        data = read_file(path)
    except FileNotFoundError:
        # Without a hash it never started, or by a version that kept no provenance.
        return Ended([] if noted is None else [f"{FILE} was removed during the run"], [])
    except OSError as problem:
        return Ended([f"{FILE} cannot be read any more: {problem.strerror}"], [])
    except ValueError:
        return Ended([f"{FILE} was replaced by what is no file"], [])
    if noted is not None and sha256(data).hexdigest() != noted:
        return Ended([f"{FILE} was altered during the run"], [])
    try:
        document = parse_json(data, deepest=_DEEPEST)
        patterns, at_start = [*document["protected"]["patterns"]], document["protected"]["sha256"]
    except (ValueError, KeyError, TypeError):
        return Ended([f"{FILE} was altered during the run"], [])
    return _changes_of(ctx, run, data, _Protected(patterns, at_start is not None))


class _Protected(NamedTuple):
    patterns: list[str]
    is_known: bool  # how they looked at the start


def _changes_of(ctx: Context, run: RunRow, data: bytes, protected: _Protected) -> Ended:
    """Returns what the captures say of an ended run, whose provenance is intact."""
    taints: list[str] = []
    notes: list[Annotation] = []
    failed: list[str] = []
    artifacts: list[ArtifactBody] = []
    has_compared = False
    for name, part in _serving(ctx):
        end = RunEnd(run.id, run_root(ctx, run), RunRecords(ctx).log_dir(run.id), parse_json(data, deepest=_DEEPEST))
        try:
            answer = _checked_changes(_ask(_bound(part.after, end)))
        except Exception as problem:  # noqa: BLE001 - a capture is a foreign part: its failure is noted beside the run
            failed.append(_failure(ctx, name, problem))
            continue
        taints += [_text(text) for text in answer.taints]
        kind = "protected" if answer.compared_protected else "capture"
        notes += [{"kind": kind, "text": _text(text), "source": FILE} for text in answer.notes]
        artifacts += [
            {"path": _text(path), "size_bytes": size_bytes, "sha256": digest}
            for path, size_bytes, digest in answer.artifacts[: _MOST_ARTIFACTS - len(artifacts)]
        ]
        has_compared = has_compared or answer.compared_protected
    notes += [{"kind": "capture", "text": text, "source": FILE} for text in failed]
    named = ", ".join(protected.patterns[:5])
    if protected.patterns and not protected.is_known:
        taints.append(f"no capture looked at the protected paths ({named}) before the start")
    elif protected.patterns and not has_compared:
        why = f": {failed[0]}" if failed else ""
        taints.append(f"no capture compared the protected paths ({named}) after the end{why}")
    return Ended(taints, notes, artifacts)


# --- asking the captures --------------------------------------------------------------------------------------------


def _serving(ctx: Context) -> list[tuple[str, Capture]]:
    """Returns the captures in the order in which they are asked: bundled ones first."""
    return sorted(ctx.parts("capture"), key=lambda pair: not is_bundled(pair[0]))


def _ask(function: Callable[[], T]) -> T:
    """Returns what a capture answers; raises whatever it raises, PartEnded, or OutOfTime."""
    with contained():
        return call_bounded(LIMIT_S, function)


def _bound(method: Callable[..., T], *arguments: object) -> Callable[[], T]:
    return lambda: method(*arguments)


def _failure(ctx: Context, name: str, problem: Exception) -> str:
    words = ctx.redactor.text(f"{type(problem).__name__}: {problem}")[:_LONGEST_WHY]
    return _text(f"{_FAILED}{name} failed: {words}")


def _text(words: str) -> str:
    """Returns words that a record takes."""
    return words[:_LONGEST_TEXT].encode("utf-8", "backslashreplace").decode("utf-8")


def _facts_of(ctx: Context, start: RunStart) -> tuple[dict[str, object], dict[str, object], list[str]]:
    """Returns the facts of all captures, the versions, and the problems; of equal names the first counts."""
    facts: dict[str, object] = {}
    versions: dict[str, object] = dict.fromkeys(ASPECTS)
    problems: list[str] = []
    for name, part in _serving(ctx):
        try:
            answer = _checked_facts(_ask(_bound(part.before, start)))
        except Exception as problem:  # noqa: BLE001 - a capture is a foreign part: its failure is noted beside the run
            problems.append(_failure(ctx, name, problem))
            continue
        taken = sorted({*answer.facts} & (RESERVED | {*facts}))
        if taken:
            problems.append(_text(f"{_FAILED}{name} answered {', '.join(taken)}, which is answered already"))
        facts |= {key: value for key, value in answer.facts.items() if key not in taken}
        for aspect in ASPECTS:
            if versions[aspect] is None:
                versions[aspect] = answer.versions.get(aspect)
        problems += answer.problems
    return facts, versions, problems


def _checked_facts(answer: object) -> RunFacts:
    if not isinstance(answer, RunFacts):
        raise TypeError(f"it answered {type(answer).__name__} instead of RunFacts")
    text = json.dumps({**answer.facts}, allow_nan=False)
    if len(text) > _LARGEST_FACTS:
        raise ValueError(f"its facts have {len(text):,} bytes, and at most {_LARGEST_FACTS:,} are kept")
    check_depth(text, DEEPEST)
    facts = json.loads(text)
    if "git" in facts:
        _check_git(facts["git"])
    if "protected" in facts:
        _check_protected(facts["protected"])
    if not all(isinstance(problem, str) for problem in answer.problems):
        raise TypeError("its problems are no sentences")
    versions = _as_text(json.loads(json.dumps({**answer.versions}, allow_nan=False)))
    _check_versions(versions)
    return RunFacts(facts, versions, tuple(answer.problems))


def _check_git(fact: object) -> None:
    if not isinstance(fact, dict):
        raise TypeError("its fact `git` is no object")
    if not isinstance(fact.get("commit"), (str, type(None))) or not isinstance(fact.get("dirty"), (bool, type(None))):
        raise TypeError("its fact `git` has a commit or dirty of another type")


def _check_protected(fact: object) -> None:
    if not isinstance(fact, dict):
        raise TypeError("its fact `protected` is no object")
    patterns, unmatched = fact.get("patterns"), fact.get("unmatched")
    lists = all(isinstance(each, list) and all(isinstance(one, str) for one in each) for each in (patterns, unmatched))
    if not lists or not isinstance(fact.get("sha256"), str):
        raise TypeError("its fact `protected` lacks patterns, sha256 or unmatched")


def _check_versions(versions: Mapping[str, object]) -> None:
    """Raises TypeError unless the versions can be compared (`perpetual.science.versions`)."""
    code = versions.get("code")
    for aspect in ("data", "environment"):
        if not isinstance(versions.get(aspect), (str, type(None))):
            raise TypeError(f"its version of {aspect} is no text")
    if code is None:
        return
    if not isinstance(code, Mapping) or not isinstance(code.get("programs"), Mapping):
        raise TypeError("its version of code is not {tree, ignored, programs}")
    if not all(isinstance(code.get(name), (str, type(None))) and name in code for name in ("tree", "ignored")):
        raise TypeError("its version of code is not {tree, ignored, programs}")


def _checked_changes(answer: object) -> RunChanges:
    if not isinstance(answer, RunChanges):
        raise TypeError(f"it answered {type(answer).__name__} instead of RunChanges")
    if not all(isinstance(text, str) for text in (*answer.taints, *answer.notes)):
        raise TypeError("its taints and notes are no sentences")
    if not all(isinstance(item, Artifact) for item in answer.artifacts):
        raise TypeError("its artifacts are no Artifacts")
    return answer


# --- the code of a command ------------------------------------------------------------------------------------------


class Codes:
    """The code of commands as the captures read it; each reader looks at the folder once."""

    def __init__(self, ctx: Context, root: Path) -> None:
        self._ctx = ctx
        self._failed: list[str] = []
        self._readers: list[tuple[str, CodeReader]] = []
        ignored = tuple(ctx.config.methodology["code_ignore"])
        for name, part in _serving(ctx):
            try:
                reader = _ask(_bound(part.code_reader, root, ignored))
                if reader is not None and not isinstance(reader, CodeReader):
                    raise TypeError(f"it answered {type(reader).__name__} instead of a CodeReader")
            except Exception as problem:  # noqa: BLE001 - fail closed: without a reader nothing is taken for the same
                self._failed.append(_failure(ctx, name, problem))
                continue
            if reader is not None:
                self._readers.append((name, reader))

    def read(self, argv: Sequence[str], cwd: str | None) -> CodeState | None:
        """Returns the code of a command, by the first capture that knows it; None where no capture reads code.

        Raises:
            PluginError: if none knows it, and one of them failed.
        """
        failed, unknown = [*self._failed], None
        for name, reader in self._readers:
            try:
                state = _read(reader, argv, cwd)
            except Exception as problem:  # noqa: BLE001 - fail closed, after the others were asked
                failed.append(_failure(self._ctx, name, problem))
                continue
            if state.sha256 is not None:
                return state
            unknown = unknown or state
        if failed:
            raise _unreadable(failed[0])
        return unknown

    def now(self, before: CodeState, argv: Sequence[str], cwd: str | None) -> CodeState:
        """Returns the code of a command, by the capture that has read an earlier state of it.

        Raises:
            PluginError: if no capture reads that kind of code any more, or it failed.
        """
        name, reader = self._reader_of(before)
        try:
            return _read(reader, argv, cwd)
        except Exception as problem:
            raise _unreadable(_failure(self._ctx, name, problem)) from problem

    def same(self, before: CodeState, now: CodeState) -> bool | None:
        """Returns whether two states are the same code; None where that is unknown. Raises PluginError as `now`."""
        name, reader = self._reader_of(before)
        try:
            return _ask(_bound(reader.same, before, now))
        except Exception as problem:
            raise _unreadable(_failure(self._ctx, name, problem)) from problem

    def changed_since(self, before: CodeState, now: CodeState) -> list[str] | None:
        """Returns the paths that differ, None where they cannot be named."""
        _, reader = self._reader_of(before)
        try:
            found = _ask(_bound(reader.changed_since, before, now))
            return None if found is None else [str(path) for path in found]
        except Exception:  # noqa: BLE001 - that it differs is known; the names are for people
            return None

    def _reader_of(self, state: CodeState) -> tuple[str, CodeReader]:
        for name, reader in self._readers:
            if state.kind in reader.kinds:
                return name, reader
        raise _unreadable(self._failed[0] if self._failed else f"no capture reads code of the kind {state.kind}")


def _read(reader: CodeReader, argv: Sequence[str], cwd: str | None) -> CodeState:
    state: object = _ask(_bound(reader.read, argv, cwd))
    if not isinstance(state, CodeState) or (state.sha256 is not None and state.kind not in reader.kinds):
        raise TypeError("it answered no state of a kind of its own")
    return state


def _unreadable(why: str) -> PluginError:
    return PluginError(f"the code cannot be read: {why}", hint="perpetual plugins list", code=UNREADABLE)
